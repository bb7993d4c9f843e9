"""Starts Berm's programs for the benchmarks: bench-stopwatch, and the berm-spawn or bermd that it calls.

close() removes everything they created, also after an interrupted run.
"""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import time

from common import OUT, die

GUEST_LEASE_MS = 120000     # so that nothing outlives a killed benchmark


class Stopwatch:
    """bench-stopwatch: takes a command and returns microseconds."""

    def __init__(self, before=()):
        self.process = subprocess.Popen([*before, OUT / "bench-stopwatch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def __call__(self, *words):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\t".join(map(str, words)) + "\n")
        line = self.process.stdout.readline().split()
        if not line or line[0] != "ok":
            die(f"no answer to {' '.join(map(str, words))}")
        return [float(us) for us in line[1:]]

    def close(self):
        self.process.stdin.close()      # it ends its berm-spawn and then itself
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Spawn(Stopwatch):
    """A stopwatch with its own berm-spawn."""

    def __init__(self, state, guest):
        super().__init__()
        self.state, self.guest = state, guest
        state.mkdir()
        self("spawn", OUT / "berm-spawn", OUT / guest, state, state.parent)

    def close(self):
        """Closes it, and runs it once more to remove what an interrupted run has left."""
        super().close()
        super().__init__()
        self("spawn", OUT / "berm-spawn", OUT / self.guest, self.state, self.state.parent)
        self("sweep")
        super().close()


class Bermd:
    """A bermd with its own state directory, which can be restarted."""

    def __init__(self, folder, parked=0):
        self.parked = parked        # number of instances to park
        self.state, self.socket, self.log = folder / "state", folder / "bermd.sock", folder / "bermd.log"
        self.process = None
        self.serial = 0
        self.start()

    def start(self, *options):
        """Returns the seconds until it accepts a connection."""
        with open(self.log, "ab") as log:
            begin = time.monotonic()
            self.process = subprocess.Popen(
                [OUT / "bermd", "--state", self.state, "--socket", self.socket,
                 "--set", f"limits.guest.lease={GUEST_LEASE_MS}",
                 "--set", f"limits.sandboxes.parked={self.parked}", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while time.monotonic() < begin + 120 and self.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
                s.connect(str(self.socket))
                return time.monotonic() - begin
            time.sleep(0.0002)
        die(f"bermd did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def close(self):
        """Deletes the sandboxes too, because sandboxes outlive a bermd."""
        self.stop()
        self.start("--stop-sandboxes")
        self.stop()

    def new_id(self):
        self.serial += 1
        return f"bench-{self.serial}"

    def processes(self):
        """Returns bermd and its berm-spawn."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {"bermd": self.process.pid, "berm-spawn": int(children[0])} if children else {"bermd": self.process.pid}

    def guests(self):
        """Returns PID 1 of each sandbox, found by the cgroup that berm-spawn names after its state directory."""
        spawn = os.stat(self.state / "spawn")
        mark = f"/s-{spawn.st_dev:x}-{spawn.st_ino:x}/"
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and mark in pathlib.Path(f"/proc/{entry}/cgroup").read_text() and \
                        re.search(r"^NSpid:.*\t1$", pathlib.Path(f"/proc/{entry}/status").read_text(), re.M):
                    yield int(entry)
