"""The contract's sandboxes and programs as a model that events drive: what may follow what."""

from control import (DELETED, DELETING, EXITED, FAILED, LOST, PAUSED, PENDING, READY, STARTING, STOPPED, STOPPING,
                     labels_of, pb)

# covers: SBX-1
LEGAL = {
    0: {PENDING},
    PENDING: {READY, STOPPING, FAILED, DELETING},
    READY: {PAUSED, STOPPING, FAILED, STOPPED, DELETING},   # STOPPED: the guest is lost
    PAUSED: {READY, STOPPING, FAILED, STOPPED, DELETING},
    STOPPING: {STOPPED, FAILED, DELETING},
    STOPPED: {PENDING, DELETING},
    FAILED: {DELETING},
    DELETING: {DELETED},
    DELETED: set(),
}
UNASKED = {pb.STATE_CAUSE_GUEST_LOST, pb.STATE_CAUSE_HOST_REBOOT}
CAUSES = set(pb.StateCause.values()) - {0}


class Box:
    def __init__(self):
        self.state, self.incarnation, self.owner, self.labels = 0, 1, "", {}
        self.history = []   # (sequence, state, incarnation)
        self.changed = []   # sequences of everything that changed the record


class Model:
    """Takes every event of a daemon in order; what the contract does not allow is an AssertionError."""

    def __init__(self):
        self.head, self.boxes, self.execs, self.ended = 0, {}, {}, {}
        self.by_request = {}

    def take(self, event):
        assert event.sequence == self.head + 1, f"after {self.head} came {event.sequence}"
        self.head = event.sequence
        body = event.WhichOneof("body")
        assert body and pb.EventKind.Name(event.kind) == f"EVENT_KIND_{body.upper()}", event
        assert event.actor.kind != 0, event
        assert bool(event.actor.identity) == (event.actor.kind == pb.ACTOR_KIND_CALLER), event
        assert event.time_unix_ms > 0 and event.ByteSize() <= 16384
        if event.request_id:
            self.by_request.setdefault(event.request_id, []).append(event)
        getattr(self, f"take_{body}")(event, getattr(event, body))

    def box(self, event):
        box = self.boxes[event.sandbox_id]
        assert event.owner == box.owner and event.incarnation == box.incarnation, event
        return box

    def take_sandbox_state(self, event, change):
        if change.previous == 0:
            assert event.sandbox_id not in self.boxes, f"{event.sandbox_id} was made twice"
            box = self.boxes[event.sandbox_id] = Box()
            box.owner = event.owner
        box = self.boxes[event.sandbox_id]
        assert change.previous == box.state, f"{event.sandbox_id} is {box.state}: {event}"
        assert change.state in LEGAL[box.state], event
        assert change.reason.cause in CAUSES, event
        if change.state == STOPPED and box.state in (READY, PAUSED):
            assert change.reason.cause in UNASKED | {pb.STATE_CAUSE_RECOVERY, pb.STATE_CAUSE_ERROR}, event
        if change.state == FAILED:
            assert change.reason.code, event
        if box.state == STOPPED and change.state == PENDING:
            box.incarnation += 1
            assert not self.running_in(event.sandbox_id), event
        if change.state == DELETED:
            assert not self.running_in(event.sandbox_id), event
        box.state = change.state
        box.labels = labels_of(change.labels)
        box.history.append((event.sequence, box.state, box.incarnation))
        box.changed.append(event.sequence)
        self.box(event)

    def take_sandbox_update(self, event, change):
        box = self.box(event)
        assert box.state not in (FAILED, DELETED) and change.parts, event
        box.labels = labels_of(change.labels)
        box.changed.append(event.sequence)

    def take_exec_start(self, event, change):
        self.box(event)
        assert change.exec_id not in self.execs and change.exec_id not in self.ended, f"started twice: {event}"
        assert change.argv and event.actor.kind == pb.ACTOR_KIND_CALLER, event
        self.execs[change.exec_id] = event

    def take_exec_exit(self, event, change):
        start = self.execs.pop(change.exec_id)   # KeyError: it ended twice, or never began
        assert start.sandbox_id == event.sandbox_id and start.incarnation == event.incarnation, event
        assert change.exit.WhichOneof("how"), event
        self.ended[change.exec_id] = event

    def take_exec_signal(self, event, change):
        assert change.exec_id in self.execs or change.exec_id in self.ended, event
        assert 1 <= change.signal_number <= 64

    def take_output_cap(self, event, change):
        assert change.exec_id in self.execs or change.exec_id in self.ended, event

    def take_file(self, event, change):
        self.box(event)

    def take_snapshot(self, event, change):
        self.box(event)

    def take_daemon(self, event, change):
        assert not event.sandbox_id and change.run_id and change.version, event

    def running_in(self, sandbox_id):
        return [x for x, start in self.execs.items() if start.sandbox_id == sandbox_id]

    def states_between(self, sandbox_id, low, high):
        """Every state a sandbox had from the moment `low` to `high`; a few more may have been on their
        way to the disk then, and a refusal may go by them. 0 = there was none."""
        box = self.boxes.get(sandbox_id)
        history = box.history if box else []
        before = [state for sequence, state, _ in history if sequence <= low][-1:] or [0]
        within = [state for sequence, state, _ in history if low < sequence <= high]
        after = [state for sequence, state, _ in history if sequence > high][:3]
        return set(before + within + after)

    def check_answer(self, record, sequence):
        """A record in an answer is exactly what the events up to its sequence say."""
        box = self.boxes[record.sandbox_id]
        changes = [s for s in box.changed if s <= sequence]
        assert changes and record.changed_sequence == changes[-1], (record, sequence, box.changed)
        state, incarnation = [(st, n) for s, st, n in box.history if s <= sequence][-1]
        assert (record.state, record.incarnation) == (state, incarnation), (record, sequence, box.history)


def replay(events):
    model = Model()
    for event in events:
        model.take(event)
    return model


def audit(client):
    """The whole history of a daemon against the model, and the model against what the daemon says now."""
    info = client.info()
    model = replay(client.events(after=max(info.oldest_sequence, 1) - 1) if info.oldest_sequence <= 1 else [])
    if info.oldest_sequence > 1:
        return model   # history was pruned: there is nothing to replay from
    assert model.head >= info.head_sequence
    listed = {sandbox.sandbox_id: sandbox for sandbox in client.list()}
    for sandbox_id, box in model.boxes.items():
        sandbox = listed.pop(sandbox_id, None) or client.get(sandbox_id)
        if sandbox.changed_sequence > model.head:
            continue   # it moved on meanwhile
        assert (sandbox.state, sandbox.incarnation, sandbox.owner) == (box.state, box.incarnation, box.owner), sandbox
        assert sandbox.changed_sequence == box.changed[-1], (sandbox, box.changed)
        assert labels_of(sandbox.spec.labels) == box.labels
    assert not listed, f"without an event: {listed}"
    for sandbox_id, box in model.boxes.items():
        if box.state == DELETED:
            continue
        for record in client.list_execs(sandbox_id=sandbox_id):
            end = model.ended.get(record.exec_id)
            if record.state in (EXITED, LOST) and record.changed_sequence <= model.head:
                assert end and end.exec_exit.exit == record.exit, (record, end)
            elif record.state in (STARTING,):
                assert record.exec_id in model.execs or record.exec_id in model.ended
    return model
