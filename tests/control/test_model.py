"""Random operations by several clients at once, against the model: each answer must be one it allows,
and the events must lead to exactly the states the daemon shows."""

import os
import random
import threading
import time

import pytest

from control import (DELETED, DELETING, FAILED, PAUSED, PENDING, READY, STOPPED, STOPPING, WAIT_MS, Refused, fresh,
                     pairs, pb)
from model import audit, replay

SEED = int(os.environ.get("BERM_MODEL_SEED", str(random.SystemRandom().randrange(1 << 32))))
ROUNDS = int(os.environ.get("BERM_MODEL_ROUNDS", "6"))
OPERATIONS = int(os.environ.get("BERM_MODEL_OPERATIONS", "200"))   # of each client in each round
CLIENTS, NAMES = 6, 5

# covers: SBX-6, SBX-8, SBX-9
# Which refusal a state allows; 0 = there is no such sandbox.
REFUSALS = {
    "Create": {"SANDBOX_EXISTS": set(range(1, 9))},
    "Stop": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED}},
    "Start": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED},
              "SANDBOX_PAUSED": {PAUSED}, "SANDBOX_NOT_READY": {STOPPING, READY}},    # READY: it is being paused
    "Pause": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED},
              "SANDBOX_STOPPED": {STOPPED}, "SANDBOX_NOT_READY": {PENDING, STOPPING}},
    "Resume": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED},
               "SANDBOX_STOPPED": {STOPPED}, "SANDBOX_NOT_READY": {PENDING, STOPPING}},
    "Delete": {"SANDBOX_NOT_FOUND": {0}},
    "Update": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED}},
    "Get": {"SANDBOX_NOT_FOUND": {0}},
    "Exec": {"SANDBOX_NOT_FOUND": {0}, "SANDBOX_FAILED": {FAILED}, "SANDBOX_DELETED": {DELETING, DELETED},
             "SANDBOX_PAUSED": {PAUSED, READY}, "SANDBOX_STOPPED": {STOPPED},
             "SANDBOX_NOT_READY": {PENDING, STOPPING},
             # Accepted and then overtaken: the program never ran.
             "GUEST_LOST": {STOPPING, STOPPED, DELETING, DELETED, FAILED}},
}
# Where a sandbox that accepted a change may be when the answer is written.
ACCEPTED = {
    "Create": {PENDING, READY, FAILED, STOPPING, STOPPED, PAUSED, DELETING, DELETED},
    "Stop": {STOPPING, STOPPED}, "Start": {PENDING, READY}, "Pause": {READY, PAUSED}, "Resume": {PAUSED, READY},
    "Delete": {DELETING, DELETED},
}
WEIGHTS = {"Create": 3, "Stop": 4, "Start": 4, "Pause": 3, "Resume": 4, "Delete": 1, "Update": 2, "Get": 2, "Exec": 6}


class Actor(threading.Thread):
    """One client with a random will of its own."""

    def __init__(self, client, seed, names):
        super().__init__()
        self.client, self.random, self.names = client, random.Random(seed), names
        self.log, self.error = [], None      # (what, id, request id, low, high, answer or refusal)

    def run(self):
        try:
            for _ in range(OPERATIONS):
                self.step()
        except BaseException as error:
            self.error = error

    def step(self):
        what = self.random.choices(list(WEIGHTS), WEIGHTS.values())[0]
        name, request_id = self.random.choice(self.names), fresh()
        low = self.client.info().head_sequence
        try:
            outcome = self.act(what, name, request_id)
            if self.random.random() < 0.2 and what not in ("Get",):
                self.repeat(what, name, request_id, outcome)
        except Refused as refusal:
            outcome = refusal
        self.log.append((what, name, request_id, low, self.client.info().head_sequence, outcome))

    def act(self, what, name, request_id):
        wait_ms = self.random.choice([0, 0, 0, 300, WAIT_MS])
        if what == "Exec":
            spec = pb.ExecSpec(argv=["sh", "-c", "echo $1; exit 5", "sh", request_id])
            return self.client.ask("StartExec", sandbox_id=name, spec=spec, request_id=request_id)
        if what == "Get":
            return self.client.ask("GetSandbox", sandbox_id=name)
        if what == "Update":
            update = pb.LabelsUpdate(set=pairs({"by": request_id}))
            return self.client.ask("UpdateSandbox", sandbox_id=name, labels=update, request_id=request_id)
        fields = {"grace_ms": self.random.choice([-1, 200])} if what == "Stop" else {}
        if what == "Stop":     # a repeat must be the same request
            fields["grace_ms"] = -1
        return self.client.ask(f"{what}Sandbox", sandbox_id=name, request_id=request_id, wait_ms=wait_ms, **fields)

    def repeat(self, what, name, request_id, first):
        again = self.act(what, name, request_id)
        if what == "Exec":
            assert again.exec.exec_id == first.exec.exec_id
        assert again.sequence >= first.sequence


def judge(model, what, name, request_id, low, high, outcome):
    """Was this answer one that the contract allows?"""
    mine = model.by_request.get(request_id, [])
    if isinstance(outcome, Refused):
        states = model.states_between(name, low, high)
        allowed = REFUSALS[what].get(outcome.reason)
        assert allowed is not None, f"{what} {name}: {outcome}"
        assert states & allowed, f"{what} {name} in {states}: {outcome}"
        assert not mine or (what == "Exec" and outcome.reason == "GUEST_LOST"), f"refused and done: {what} {mine}"
        return
    if what == "Exec":
        assert [e.WhichOneof("body") for e in mine if e.HasField("exec_start")] == ["exec_start"], mine
        start = mine[0].exec_start
        assert start.exec_id == outcome.exec.exec_id and mine[0].sequence <= outcome.sequence
        return
    model.check_answer(outcome.sandbox, outcome.sequence)
    if what in ACCEPTED:
        reached = ACCEPTED[what] | ({s for s in model.states_between(name, outcome.sequence, outcome.sequence)})
        assert outcome.sandbox.state in reached
    if what == "Create":
        assert [e.sandbox_state.state for e in mine] == [PENDING], mine
    elif what == "Update":
        assert [e.WhichOneof("body") for e in mine] == ["sandbox_update"], mine
    elif what == "Delete":
        assert [e.sandbox_state.state for e in mine] in ([DELETING], []), mine
    elif what != "Get":
        assert len(mine) <= 1 and {e.kind for e in mine} <= {pb.EVENT_KIND_SANDBOX_STATE}, mine


def test_random_operations_are_what_the_model_allows(daemon):
    """covers: SBX-1, SBX-6, SBX-7, SBX-8, SBX-9, EVT-1, EVT-4, EVT-14, IDEMP-1, IDEMP-6"""
    print(f"BERM_MODEL_SEED={SEED}")
    clients = [daemon.client() for _ in range(CLIENTS)]
    log = []
    for round in range(ROUNDS):
        names = [f"r{round}-{n}" for n in range(NAMES)]
        actors = [Actor(c, SEED + 1000 * round + i, names) for i, c in enumerate(clients)]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join()
            assert actor.error is None, f"seed {SEED}: {actor.error!r}"
            log += actor.log
    settle(clients[0])
    model = replay(clients[0].events())
    for entry in log:
        try:
            judge(model, *entry)
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}: {error}") from None
    accepted = sum(not isinstance(entry[-1], Refused) for entry in log)
    assert accepted > len(log) // 10, "nearly everything was refused: the test shows nothing"
    audit(clients[0])
    outputs(clients[0], log)


def settle(client):
    """Every sandbox has come to where it was on its way to."""
    for sandbox in client.list():
        if sandbox.state in (PENDING, STOPPING, DELETING):
            client.wait_state(sandbox.sandbox_id, READY, PAUSED, STOPPED, FAILED, DELETED)


def outputs(client, log):
    """Each accepted program ran at most once and, where it ended by itself, printed its own line."""
    for what, name, request_id, _, _, outcome in log:
        if what != "Exec" or isinstance(outcome, Refused) or client.get(name).state in (DELETING, DELETED):
            continue
        record = client.get_exec(outcome.exec.exec_id)
        if record.state == 3 and record.exit.WhichOneof("how") == "code":
            assert record.exit.code == 5
            assert client.read(record.exec_id).stdout == request_id.encode() + b"\n"


def test_the_model_itself_refuses_what_is_illegal():
    """covers: SBX-1"""
    def event(sequence, previous, state, incarnation=1):
        return pb.Event(sequence=sequence, time_unix_ms=1, kind=1, sandbox_id="a", incarnation=incarnation, owner="uid:0",
                        actor=pb.Actor(kind=2),
                        sandbox_state=pb.SandboxStateEvent(previous=previous, state=state,
                                                           reason=pb.StateReason(cause=2)))
    replay([event(1, 0, PENDING), event(2, PENDING, READY), event(3, READY, STOPPING), event(4, STOPPING, STOPPED),
            event(5, STOPPED, PENDING, 2), event(6, PENDING, DELETING, 2), event(7, DELETING, DELETED, 2)])
    wrong = [
        [event(1, 0, READY)], [event(2, 0, PENDING)], [event(1, 0, PENDING), event(3, PENDING, READY)],
        [event(1, 0, PENDING), event(2, READY, STOPPING)], [event(1, 0, PENDING), event(2, PENDING, STOPPED)],
        [event(1, 0, PENDING), event(2, 0, PENDING)], [event(1, 0, PENDING), event(2, PENDING, READY, 2)],
        [event(1, 0, PENDING), event(2, PENDING, READY), event(3, READY, STOPPED)],
    ]
    for events in wrong:
        with pytest.raises(AssertionError):
            replay(events)
