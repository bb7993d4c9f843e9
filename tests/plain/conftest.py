"""bermd-plain for the tests: the plain driver, as an ordinary user. BERM_PLAIN_LINK=bytes: links pass no descriptors."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "control"))
os.environ.setdefault("BERMD", "build-asan/bin/bermd-plain")

from control import BERMD, MARK, Client, Daemon, fresh, parent_of  # noqa: E402

IS_ROOT = os.geteuid() == 0
UID = 61236 if IS_ROOT else os.getuid()     # nobody's: root is given up before bermd starts
GID = UID if IS_ROOT else os.getgid()


class PlainClient(Client):
    """Each sandbox has a workspace of its own on the host."""

    workspaces = None

    def create(self, *arguments, **fields):
        fields.setdefault("workspace", str(self.workspaces / fresh("ws")))
        return super().create(*arguments, **fields)


class PlainDaemon(Daemon):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.chown(self.directory, UID, GID)

    def launch(self, *arguments, prefix=(), **env):
        self.runs += 1
        command = [*prefix, BERMD, "--state", self.state, "--socket", self.socket, *self.arguments, *arguments]
        who = {"user": UID, "group": GID, "extra_groups": []} if IS_ROOT else {}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                            env={**os.environ, **self.env, **env, MARK: str(self.directory)},
                                            start_new_session=True, **who)
        return self

    def client(self, *options):
        client = PlainClient(self.target, *options)
        client.workspaces = self.directory / "workspaces"
        self.clients.append(client)
        return client

    def guests(self):
        """pids of guests, by instance. A shepherd has its guest's name."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name = (path / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
                instance = name.removeprefix("berm-guest@")
                if instance != name and (self.state / "plain" / instance).is_dir():
                    found.setdefault(instance, set()).add(int(path.name))
        return {instance: next(pid for pid in pids if parent_of(pid) not in pids) for instance, pids in found.items()}

    def guest_pid(self, sandbox_id):
        return self.guests()[sandbox_id]

    def pids(self, sandbox_id, cgroup="*"):
        """Processes below a guest ("x-*"), or with it ("*")."""
        guest = self.guests().get(sandbox_id)
        found, more = set(), {guest} if guest else set()
        while more:
            found |= more
            more = {int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")
                    if parent_of(int(path.name)) in found} - found
        return found - ({guest} if cgroup == "x-*" else set())

    def kill_guest(self, sandbox_id):
        """With all below it: nothing else ends what a guest that is killed leaves behind."""
        guest = self.guest_pid(sandbox_id)
        for pid in [guest, *(self.pids(sandbox_id) - {guest})]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cgroups(self):
        return {}

    def instances(self):
        return {}

    def leftovers(self):
        plain = self.state / "plain"
        return {str(path) for path in plain.iterdir()} | set(self.guests()) if plain.exists() else set()

    def processes(self):
        return set()        # of berm-spawn, which there is none

    def dispose(self):
        for pid in self.guests().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().dispose()


@pytest.fixture
def make():
    made = []

    def make_one(*arguments, **options):
        made.append(PlainDaemon(*arguments, **options))
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
    return make().start()


@pytest.fixture(scope="module")
def shared():
    daemon = PlainDaemon().start()
    yield daemon
    daemon.close()


@pytest.fixture
def client(daemon):
    return daemon.client()


@pytest.fixture
def box(client):
    return client.create().sandbox_id


@pytest.fixture
def place(client, box):
    """A directory of the test's own, relative to the workspace."""
    name = fresh("dir")
    client.ask("MakeDir", sandbox_id=box, path=name)
    return name
