"""A real bermd on the native driver that tests may kill and start again."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERMD = ROOT / os.environ.get("BERMD", "build/bin/bermd")
SECONDS = int(os.environ.get("BERM_TEST_TIMEOUT", "60"))  # for whatever must come; only ever waited for in a failure


class Daemon:
    """bermd in a directory of its own."""

    def __init__(self, *arguments):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="berm-sdk-"))
        self.socket = self.directory / "bermd.sock"
        self.command = [BERMD, "--state", self.directory / "state", "--socket", self.socket, *arguments]
        self.runs = 0
        self.process = None

    @property
    def log(self):
        return self.directory / f"bermd.{self.runs}.log"

    def start(self):
        self.runs += 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        self.wait_for_log("msg=listening")
        return self

    def wait_for_log(self, pattern):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            text = self.log.read_text(errors="replace")
            if found := re.search(pattern, text):
                return found
            assert self.process.poll() is None, f"bermd ended: {text}"
            time.sleep(0.01)
        raise AssertionError(f"no {pattern!r} in the log: {self.log.read_text(errors='replace')}")

    def kill(self):
        """As a crash would."""
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self):
        """Asks it to end, which it must do cleanly; sandboxes go on."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(SECONDS) == 0, self.log.read_text(errors="replace")

    @contextlib.contextmanager
    def held(self):
        """It does not answer, nor does it end."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self):
        """Removes what tests left, ends it and its directory."""
        import berm

        try:
            if self.process.poll() is None:
                with berm.Client(socket=self.socket, reconnect=5) as client:
                    for info in berm.Sandbox.list(client=client):
                        berm.Sandbox.connect(info.id, client=client).delete()
                self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
