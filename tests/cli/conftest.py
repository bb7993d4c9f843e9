"""A real bermd for berm, and a fake one for what no daemon does on purpose."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/clients"), str(ROOT / "tests")]
import importlib.util  # noqa: E402

_spec = importlib.util.spec_from_file_location("clients_conftest", ROOT / "tests/clients/conftest.py")
clients_conftest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(clients_conftest)
Daemon = clients_conftest.Daemon

BERM = ROOT / os.environ.get("BERM", "build/bin/berm")
SECONDS = clients_conftest.SECONDS


def until(what, *arguments):
    """Waits for something to become true, which it does soon unless the test fails."""
    deadline = time.monotonic() + SECONDS
    while not what(*arguments):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


class Berm:
    """berm against one socket: call it with its arguments."""

    def __init__(self, socket):
        self.environment = {**os.environ, "BERM_SOCKET": str(socket), "NO_COLOR": "1"}
        for name in ("BERM_ADDRESS", "BERM_TOKEN_FILE"):
            self.environment.pop(name, None)

    def __call__(self, *arguments, status=0, stdin=None, **options):
        """What it printed, as bytes in `.stdout`; its exit status must be the given one."""
        options.setdefault("input", stdin if stdin is not None else b"")
        done = subprocess.run([BERM, *map(str, arguments)], env=self.environment, capture_output=True,
                              timeout=SECONDS, **options)
        assert status is None or done.returncode == status, done
        assert b"Sanitizer" not in done.stderr and b"runtime error:" not in done.stderr, done
        return done

    def start(self, *arguments, **options):
        return subprocess.Popen([BERM, *map(str, arguments)], env=self.environment, **options)


def can_sandbox(daemon):
    """Whether this machine lets the daemon make sandboxes."""
    drivers = json.loads(Berm(daemon.socket)("info", "--json").stdout).get("drivers", [])
    return any(driver.get("available") for driver in drivers)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("bermd"), "--listen", "127.0.0.1:0")
    yield daemon
    daemon.stop()


@pytest.fixture
def berm(daemon):
    return Berm(daemon.socket)


@pytest.fixture
def sandbox(berm, daemon):
    """The id of a sandbox of the test's own."""
    if not can_sandbox(daemon):
        pytest.skip("this machine lets no driver make sandboxes")
    made = berm("create", "--quiet", "--label", "suite=cli").stdout.decode().strip()
    yield made
    berm("rm", made)


@pytest.fixture
def fake(tmp_path):
    from fake import Fake
    fake = Fake(tmp_path / "fake.sock")
    fake.start()
    yield fake
    fake.quiet.clear()
    fake.stop()


@pytest.fixture
def mortal(tmp_path):
    """A daemon to kill, started again by its own name."""
    class Mortal:
        def __init__(self):
            self.start()

        def start(self):
            self.daemon = Daemon(tmp_path)
            self.berm = Berm(self.daemon.socket)

        def kill(self):
            self.daemon.process.kill()
            self.daemon.process.wait()

    mortal = Mortal()
    if not can_sandbox(mortal.daemon):
        mortal.daemon.stop()
        pytest.skip("this machine lets no driver make sandboxes")
    yield mortal
    for made in mortal.berm("ls", "-q").stdout.decode().split():
        mortal.berm("rm", made)
    mortal.daemon.stop()
