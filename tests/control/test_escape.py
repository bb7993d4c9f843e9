"""The probes of tests/escape where berm-guest is PID 1: in sandboxes of a real daemon, put there by WriteFile and run
as its programs. What each must come to is the suite's own list; that it gets through where its wall is absent is
shown by tests/escape/run, which also has the groups that need images, directories of the host or a sandbox each."""

import importlib.machinery
import importlib.util
import os

import pytest

from control import TIMEOUT_S, READY, ROOT, RUNNING, Daemon, pb

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for berm-spawn")

PROFILES = {"user": pb.SANDBOX_PROFILE_USER, "root": pb.SANDBOX_PROFILE_ROOT}
ON_DISK = pb.RootFilesystem(layer=pb.WRITABLE_LAYER_DISK)
IN_MEMORY = pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)
# As groups() of tests/escape/run has them.
SPECS = {"plain": {}, "pids": dict(limits=pb.Limits(pids=32)), "cpu": dict(limits=pb.Limits(cpu_millis=100)),
         "disk": dict(limits=pb.Limits(disk_bytes=16 << 20), root=ON_DISK),
         "disk in memory": dict(limits=pb.Limits(disk_bytes=16 << 20), root=IN_MEMORY), "cross": {}}
PLACE = "/workspace/probes"


@pytest.fixture(scope="module")
def escape():
    """tests/escape/run, as a module."""
    loader = importlib.machinery.SourceFileLoader("escape_run", str(ROOT / "tests/escape/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stage(escape):
    """What lies on the host for the probes to want, and the program that they are."""
    here = os.getcwd()
    made = escape.Stage()
    os.chdir(here)
    yield made
    made.close()


@pytest.fixture(scope="module")
def daemon():
    made = Daemon(env={"ESCAPE_SECRET": "x"}).start()
    yield made
    made.close()


@pytest.fixture
def make_box(daemon, stage):
    client = daemon.client()

    def make_one(profile, **spec):
        env = {**stage.environment(), "ESCAPE_STATE_WORD": daemon.directory.name, "ESCAPE_EXEC_CGROUP": "/../x-"}
        box = client.create(profile=PROFILES[profile], env=env, **spec)
        assert box.state == READY
        client.write(box.sandbox_id, PLACE, stage.probes.read_bytes(), mode=pb.FileMode(bits=0o755))
        return client, box.sandbox_id

    yield make_one
    daemon.empty()


def hold(client, box):
    """A neighbour with something of every kind."""
    held = client.exec(box, PLACE, "act", "hold", stdin_mode=pb.STDIN_MODE_PIPE).exec_id
    assert any(m.HasField("output") for m in client.attach(held))     # it is ready, and waits
    assert client.get_exec(held).state == RUNNING


def is_right(escape, name, got, want):
    since, absent = escape.NEWER.get(name, (escape.KERNEL, None))
    return got in want.split("|") or (escape.KERNEL < since and got == absent)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", SPECS)
def test_probes_among_programs_of_the_guest(daemon, escape, stage, make_box, variant, profile):
    group = variant.split()[0]
    wanted = {name: root if profile == "root" else user
              for name, of, user, root, _ in escape.list_probes(stage, []) if of == group}
    assert wanted
    client, box = make_box(profile, **SPECS[variant])
    if group == "cross":
        hold(*make_box(profile))
    guest = daemon.guest_pid(box)
    done = client.run(box, PLACE, "run", group, timeout=5 * TIMEOUT_S)
    assert done.exec.exit.WhichOneof("how") == "code" and done.exec.exit.code == 0, done
    got = escape.outcomes(done.stdout_data.decode())
    wrong = {name: (got.get(name, "no answer"), want) for name, want in wanted.items()
             if want != "-" and not is_right(escape, name, got.get(name), want)}
    assert not wrong
    assert client.get(box).state == READY and daemon.guest_pid(box) == guest
    assert client.output_of(box, "echo next") == "next\n"
