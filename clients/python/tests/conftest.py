import pytest

from both import Both
from peer import Peer


@pytest.fixture(params=["async", "sync"])
def both(request):
    return Both(request.param)


@pytest.fixture
def peer():
    """Starts gRPC servers with scripted answers; see peer.py."""
    started = []

    def start(address="127.0.0.1:0", **answers):
        started.append(Peer(**answers).start(address))
        return started[-1]

    yield start
    for one in started:
        one.stop()
