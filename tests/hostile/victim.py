"""The daemon under attack, built with sanitizers unless BERMD says otherwise."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import time

os.environ.setdefault("BERMD", "build-asan/bin/bermd")

_spec = importlib.util.spec_from_file_location(
    "berm_clients", pathlib.Path(__file__).parents[1] / "clients/conftest.py")
clients = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(clients)

from berm._gen.berm.v1 import berm_pb2, berm_pb2_grpc  # noqa: E402  after the environment is set

BERMD, SECONDS, open_channel = clients.BERMD, clients.SECONDS, clients.open_channel
# Freed memory is kept a while so that its use shows, but little of it, so that growth shows as well.
SANITIZER = {"ASAN_OPTIONS": "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:abort_on_error=0",
             "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


def until(condition, what):
    """Waits for something to become true, with a generous deadline."""
    deadline = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return value


class Daemon(clients.Daemon):
    """As for the official clients, with more ways to start it badly."""

    def __init__(self, directory, *arguments, listening=True, stderr=None, **popen):
        directory.mkdir(parents=True, exist_ok=True)
        self.state, self.socket = directory / "state", directory / "bermd.sock"
        self.log = directory / "bermd.log"
        # Its descriptors and its memory are counted, and sandboxes made ahead would come and go among them.
        self.command = [BERMD, "--state", self.state, "--socket", self.socket, "--set", "limits.sandboxes.parked=0",
                        *arguments]
        self.stopping, self.addresses = False, 2 if "--listen" in arguments else 1
        environment = {**os.environ, **SANITIZER}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=stderr or log, env=environment, **popen)
        if listening:
            self.wait_for_log("msg=listening", self.addresses)

    def text(self):
        return self.log.read_text(errors="replace")

    @property
    def address(self):
        host, port = self.tcp.rsplit(":", 1)
        return host, int(port)

    def rss(self):
        """Resident memory in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def serves(self):
        """An honest client is served."""
        assert self.process.poll() is None, f"bermd ended: {self.text()}"
        with open_channel(self.unix) as channel:
            stub = berm_pb2_grpc.SystemServiceStub(channel)
            assert stub.Ping(berm_pb2.PingRequest(payload=b"hello"), timeout=SECONDS).payload == b"hello"

    def freeze(self):
        """Until thaw(), everything that happens reaches the daemon at once."""
        self.process.send_signal(signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "stopped")

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
