"""Daemons and clients for the tests. A daemon is shared by all tests that leave it running."""

import os

import berm
import pytest

from both import Both
from daemon import Daemon


def pytest_collection_modifyitems(items):
    if os.geteuid() != 0:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="the native driver's privileged half needs root"))


@pytest.fixture(scope="session")
def daemon():
    daemon = Daemon().start()
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def own():
    """A daemon for the tests of a file that kill it, and leave it running."""
    daemon = Daemon().start()
    yield daemon
    daemon.close()


@pytest.fixture(params=["async", "sync"])
def both(request):
    """Either half of the package; see both.py."""
    return Both(request.param)


@pytest.fixture
async def client(both, daemon):
    async with both.client(socket=daemon.socket) as client:
        yield client


@pytest.fixture
async def box(both, client):
    """A sandbox that is ready."""
    async with both.Sandbox.create(client=client) as sandbox:
        yield sandbox


@pytest.fixture
def sync_client(daemon):
    with berm.Client(socket=daemon.socket) as client:
        yield client
