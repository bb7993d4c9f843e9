"""bermd under attack. Whatever a test did, afterwards the daemon serves an honest client, has printed
no sanitizer report, and ends cleanly when asked to."""

import pytest

from victim import Daemon


@pytest.fixture
def start(tmp_path):
    """Starts daemons. At the end each that still runs must serve and then end cleanly."""
    started = []

    def start_one(*arguments, name="one", **options):
        started.append(Daemon(tmp_path / name, *arguments, **options))
        return started[-1]

    yield start_one
    try:
        for daemon in started:
            if not daemon.stopping:
                daemon.serves()
    finally:
        for daemon in started:
            if not daemon.stopping:
                daemon.stop()


@pytest.fixture
def bermd(start):
    """A daemon with both addresses and nothing special about it."""
    return start("--listen", "127.0.0.1:0")


@pytest.fixture(params=["unix", "tcp"])
def target(request, bermd):
    """Where to connect to, once for each address."""
    return bermd.socket if request.param == "unix" else bermd.address
