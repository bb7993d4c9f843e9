"""The daemon ends at every step of every operation; the next one and a repeated call put it right."""

import subprocess

import pytest

from control import (BERMD, DELETED, DELETING, EXITED, TIMEOUT_S, PAUSED, PENDING, READY, STOPPED, STOPPING, WAIT_MS, Lost,
                     eventually, fresh, pairs, pb)
from model import audit, replay
from test_exec import PIPE, up
from test_exec_cgroups import exec_cgroups

NAMES = subprocess.run([BERMD, "--list-failpoints"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                       timeout=TIMEOUT_S).stdout.split()
RAN = "echo ran >>/workspace/ran; echo out; exit 3"
RAN_WITH_INPUT = "echo ran >>/workspace/ran; cat; exit 3"
INPUT = b"input\n" * 20000
COUNT = "n=0; trap 'n=$((n+1)); echo $n' USR1; trap 'echo sync' USR2; echo up; while :; do sleep 0.05; done"


class Operation:
    """One changing call. prepare() passes no point of its own operation; check() looks at the outcome."""

    def prepare(self, client):
        self.box = client.create("box", request_id="prepare").sandbox_id

    def check(self, client, answer):
        pass


class Lifecycle(Operation):
    def __init__(self, method, before, state, via):
        self.method, self.before, self.state, self.via = method, before, state, via

    def prepare(self, client):
        super().prepare(client)
        client.output_of(self.box, "echo kept >file")
        for step in self.before:
            client.change(step, self.box)
        self.prepared = client.info().head_sequence

    def act(self, client, request_id):
        return client.change(self.method, self.box, request_id=request_id)

    def check(self, client, answer):
        assert answer.state == self.state, answer
        changes = [e for e in client.events(self.prepared, sandbox_ids=[self.box]) if e.HasField("sandbox_state")]
        told = [e for e in changes if e.sandbox_state.state == self.via]
        assert len(told) == 1, changes
        # Freezing is recorded when it is done: who asked for it is known only to the daemon that was asked.
        assert told[0].request_id == "the-one" or (self.method in ("Pause", "Resume") and not told[0].request_id)
        if self.state == READY:
            assert client.output_of(self.box, "cat file") == "kept\n"


class Create(Operation):
    def prepare(self, client):
        pass

    def act(self, client, request_id):
        return client.create(request_id=request_id)

    def check(self, client, answer):
        assert answer.state == READY and [s.sandbox_id for s in client.list()] == [answer.sandbox_id]
        assert len([e for e in client.events() if e.request_id == "the-one"]) == 1
        assert client.run(answer.sandbox_id, "true").exec.exit.code == 0


class Claim(Create):
    """A create that finds a parked sandbox; whatever a daemon had given it is given again, or gone."""

    limits, pids = pb.Limits(pids=64), "64"

    def prepare(self, client):
        self.daemon.wait_parked(4)

    def act(self, client, request_id):
        return client.create(request_id=request_id, env={"NAME": "value"}, limits=self.limits)

    def check(self, client, answer):
        super().check(client, answer)
        assert client.output_of(answer.sandbox_id, "hostname; echo $NAME; pwd; ls -A") == (
            f"{answer.sandbox_id}\nvalue\n/workspace\n")
        limits = [path / "pids.max" for path in self.daemon.cgroups()[answer.sandbox_id]]
        assert {path.read_text().strip() for path in limits if path.exists()} == {self.pids}


class BareClaim(Claim):
    """Of one that is as wanted: nobody but its guest is told."""

    limits, pids = None, "512"


class Update(Operation):
    def act(self, client, request_id):
        return client.update(self.box, labels=pb.LabelsUpdate(set=pairs({"a": "b"})), limits=pb.Limits(pids=64),
                             request_id=request_id)

    def check(self, client, answer):
        assert answer.spec.limits.pids == 64 and answer.spec.labels[0].value == "b"
        assert len([e for e in client.events() if e.HasField("sandbox_update")]) == 1


class Exec(Operation):
    def act(self, client, request_id):
        return client.sh(self.box, RAN, request_id=request_id)

    def check(self, client, answer):
        got = client.read(answer.exec_id)
        assert got.stdout == b"out\n" and got.ended.exit.code == 3
        self.ran_once(client)

    def ran_once(self, client):
        assert len(client.list_execs(sandbox_id=self.box)) == 1
        assert [e.WhichOneof("body") for e in client.events() if "exec" in e.WhichOneof("body")] == [
            "exec_start", "exec_exit"]
        assert client.output_of(self.box, "cat /workspace/ran") == "ran\n"


class Run(Exec):
    def act(self, client, request_id):
        return client.run(self.box, "sh", "-c", RAN_WITH_INPUT, stdin=INPUT, request_id=request_id)

    def check(self, client, answer):
        assert answer.stdout_data == INPUT and answer.exec.exit.code == 3
        self.ran_once(client)


class ExecCgroup(Run):
    """The cgroup for the next program; whoever asked for this one has had his answer."""

    def check(self, client, answer):
        super().check(client, answer)
        eventually(lambda: list(exec_cgroups(self.daemon, self.box).values()) == [False],
                   lambda: f"one made ahead, and no other: {exec_cgroups(self.daemon, self.box)}")


class Signal(Operation):
    def prepare(self, client):
        super().prepare(client)
        self.held = client.sh(self.box, COUNT, request_id="held").exec_id
        up(client, self.held)

    def act(self, client, request_id):
        client.found(self.held)
        return client.signal(self.held, 10, request_id=request_id)

    def check(self, client, answer):
        assert len([e for e in client.events() if e.request_id == "the-one"]) == 1
        client.signal(self.held, 12)
        up(client, self.held, b"sync\n")
        client.signal(self.held, 9)
        assert client.read(self.held).stdout == b"up\n1\nsync\n"    # it was sent, and not twice


class File(Operation):
    def act(self, client, request_id):
        return client.write(self.box, "file", INPUT, request_id=request_id)

    def check(self, client, answer):
        assert answer.info.size_bytes == len(INPUT), answer
        assert client.output_of(self.box, "cat file") == INPUT.decode()
        assert len([e for e in client.events() if e.HasField("file")]) == 1


class Dir(Operation):
    def act(self, client, request_id):
        return client.ask("MakeDir", sandbox_id=self.box, path="dir", request_id=request_id)

    def check(self, client, answer):
        assert client.output_of(self.box, "ls -F") == "dir/\n"
        assert len([e for e in client.events() if e.HasField("file")]) == 1


OPERATIONS = {
    "create": Create, "claim": Claim, "update": Update, "exec": Exec, "run": Run, "exit": Run, "cgroup": ExecCgroup,
    "signal": Signal, "file": File,
    "start": lambda: Lifecycle("Start", ["Stop"], READY, PENDING),
    "stop": lambda: Lifecycle("Stop", [], STOPPED, STOPPING),
    "pause": lambda: Lifecycle("Pause", [], PAUSED, PAUSED),
    "resume": lambda: Lifecycle("Resume", ["Pause"], READY, READY),
    "delete": lambda: Lifecycle("Delete", [], DELETED, DELETING),
}


def test_the_daemon_lists_its_failpoints():
    assert len(NAMES) > 40 and len(set(NAMES)) == len(NAMES), NAMES
    assert {name.partition(".")[0] for name in NAMES} <= set(OPERATIONS)


def test_an_unknown_failpoint_stops_the_start(make):
    daemon = make().launch(BERM_FAILPOINT="no.such")
    assert daemon.process.wait(TIMEOUT_S) not in (0, -9)
    daemon.process = None


def cases():
    for name in NAMES:
        yield name, OPERATIONS[name.partition(".")[0]]
        if name.startswith("exec.") and name != "exec.reply":
            yield name, Run
        if name.startswith("file."):
            yield name, Dir
        if name.startswith("claim."):
            yield name, BareClaim


@pytest.mark.parametrize("name, operation", cases(), ids=lambda v: v if isinstance(v, str) else getattr(v, "__name__", ""))
def test_an_operation_that_was_cut_off(make, name, operation):
    """covers: STORE-1, STORE-2, STORE-3, STORE-4, IDEMP-4, IDEMP-6, IDEMP-7, EVT-1, EVT-2, IDS-3"""
    parked = 4 if operation in (Claim, BareClaim) else 0
    daemon = make("--set", f"limits.sandboxes.parked={parked}", "--set", "log_level=debug").start(BERM_FAILPOINT=name)
    client = daemon.client()
    operation = operation()
    operation.daemon = daemon
    operation.prepare(client)
    told = client.events()
    try:
        operation.act(client, "the-one")
        # An exit may be told before it is recorded, and what is made ahead of the next one comes after.
        assert name == "exit.commit" or name.startswith("cgroup."), "it was answered"
    except Lost:
        pass
    assert daemon.process.wait(TIMEOUT_S) == -9, daemon.text()
    daemon.start()
    answer = operation.act(client, "the-one")
    assert client.events()[:len(told)] == told, "what was told has changed"
    operation.check(client, answer)
    audit(client)
    boxes = {s.sandbox_id for s in client.list() if s.state in (READY, PAUSED)}
    assert set(daemon.cgroups()) == boxes
    again = operation.act(client, "the-one")          # a further repeat changes nothing
    assert same(again) == same(answer)


def same(answer):
    """What a repeat must have in common."""
    return getattr(answer, "exec_id", "") or getattr(answer, "sandbox_id", "") or (
        answer.exec.exec_id if hasattr(answer, "exec") else "")
