"""A real bermd for the official clients: on a Unix socket and on TCP with its token."""

import os
import pathlib
import re
import signal
import subprocess
import time

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERMD = ROOT / os.environ.get("BERMD", "build/bin/bermd")
SECONDS = int(os.environ.get("BERM_TEST_TIMEOUT", "60"))  # for whatever must come; only ever waited for in a failure


class Daemon:
    """bermd in its own directory. Ended by stop(), which demands a clean end."""

    def __init__(self, directory, *arguments):
        self.state = directory / "state"
        self.socket = directory / "bermd.sock"
        self.log = directory / "bermd.log"
        self.command = [BERMD, "--state", self.state, "--socket", self.socket, *arguments]
        self.stopping = False
        self.addresses = 2 if "--listen" in arguments else 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_for_log(r"msg=listening", self.addresses)

    def wait_for_log(self, pattern, times=1):
        """The matches of a pattern in the log, once there are as many as asked for."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = re.findall(pattern, self.log.read_text(errors="replace"))
            if len(found) >= times:
                return found
            assert self.process.poll() is None, f"bermd ended: {self.log.read_text(errors='replace')}"
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in the log: {self.log.read_text(errors='replace')}")

    @property
    def unix(self):
        return f"unix:{self.socket}"

    @property
    def tcp(self):
        return self.wait_for_log(r"msg=listening addr=(127\.0\.0\.1:\d+)")[0]

    @property
    def token(self):
        return (self.state / "token").read_text().strip()

    def stop(self):
        """Asks it to end, once."""
        if not self.stopping and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self):
        """Its end, which must be a clean one."""
        self.stopping = True
        try:
            status = self.process.wait(SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        text = self.log.read_text(errors="replace")
        assert status == 0, f"bermd ended with status {status}: {text}"
        assert "Sanitizer" not in text and "runtime error:" not in text, text


class WithToken(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
                grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds the bearer token to every call; call credentials would demand TLS."""

    def __init__(self, token):
        self.header = ("authorization", f"Bearer {token}")

    def _intercept(self, proceed, details, request):
        metadata = [*(details.metadata or []), self.header]
        return proceed(details._replace(metadata=metadata), request)

    intercept_unary_unary = intercept_unary_stream = _intercept
    intercept_stream_unary = intercept_stream_stream = _intercept


def open_channel(target, token=None, **options):
    """A channel; options are grpc's, with _ for its dots."""
    options = [("grpc." + name, value) for name, value in options.items()]
    channel = grpc.insecure_channel(target, options=options)
    return grpc.intercept_channel(channel, WithToken(token)) if token else channel


@pytest.fixture
def start(tmp_path):
    """Starts daemons of a test's own; each must end cleanly."""
    started = []

    def start_one(*arguments, name="own"):
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        started.append(Daemon(directory, *arguments))
        return started[-1]

    yield start_one
    for daemon in started:
        daemon.stop()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("bermd"), "--listen", "127.0.0.1:0")
    yield daemon
    daemon.stop()


@pytest.fixture(params=["unix", "tcp"])
def channel(request, daemon):
    channel = open_channel(daemon.unix) if request.param == "unix" else open_channel(daemon.tcp, daemon.token)
    with channel:
        yield channel
