"""Daemons for the tests. Each is deleted empty, audited and looked after on the host when its test ends."""

import pytest

from control import OTHER_UIDS, Daemon, fresh


@pytest.fixture
def make():
    """Daemons of a test's own, not yet started: make("--set", "x=y").start()."""
    made = []

    def make_one(*arguments, **options):
        made.append(Daemon(*arguments, **options))
        return made[-1]

    yield make_one
    errors = []
    for daemon in made:
        try:
            daemon.close()
        except BaseException as error:   # the others must end too
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture
def daemon(make):
    """A daemon of a test's own, listening; two other users may call it."""
    return make("--set", "socket_mode=0666", "--set", f"allow_uids={','.join(map(str, OTHER_UIDS))}").start()


@pytest.fixture
def client(daemon):
    return daemon.client()


@pytest.fixture
def box(client):
    """A sandbox that is READY; its id."""
    return client.create().sandbox_id


@pytest.fixture
def place(client, box):
    """A directory of the test's own, relative to the workspace."""
    name = fresh("dir")
    client.ask("MakeDir", sandbox_id=box, path=name)
    return name


@pytest.fixture(scope="module")
def shared():
    """One daemon for a module that says so: see one_for_all."""
    daemon = Daemon("--set", "socket_mode=0666", "--set", f"allow_uids={','.join(map(str, OTHER_UIDS))}").start()
    yield daemon
    daemon.close()
