"""Sandboxes from their creation to their removal: ids, states, what a call answers in each of them."""

import os
import pathlib
import re

import pytest

from control import (DELETED, DELETING, FAILED, PAUSED, PENDING, READY, SLOW, STOPPED, STOPPING, WAIT_MS, Refused,
                     at_once, eventually, fresh, labels_of, pairs, pb, refused)

GENERATED = re.compile(r"sb-[a-z2-7]{20}")


def test_an_empty_spec_is_a_good_sandbox(client):
    """covers: IDS-2, SBX-2, RPC-11, RPC-12"""
    answer = client.ask("CreateSandbox", wait_ms=WAIT_MS)
    sandbox = answer.sandbox
    assert sandbox.state == READY and sandbox.incarnation == 1 and GENERATED.fullmatch(sandbox.sandbox_id)
    assert sandbox.owner == "uid:0" and sandbox.reason.cause == pb.STATE_CAUSE_COMPLETED
    assert answer.sequence >= sandbox.changed_sequence > 0
    spec = sandbox.spec
    assert spec.profile == pb.SANDBOX_PROFILE_USER and spec.workspace == "/workspace" and spec.driver == "native"
    assert spec.network.mode == pb.NETWORK_MODE_NONE and spec.root.layer == pb.WRITABLE_LAYER_DISK
    limits = spec.limits
    assert limits.memory_bytes == 2 << 30 and limits.cpu_millis == 2000 and limits.pids == 512
    assert limits.output_bytes == 1 << 30 and limits.execs == 256 and limits.exec_wall_ms == -1
    assert spec.lifetime.idle_ttl_ms == -1 and spec.lifetime.ttl_ms == -1
    assert client.output_of(sandbox.sandbox_id, "id -u; pwd") == "1000\n/workspace\n"
    assert client.get(sandbox.sandbox_id).state == READY


def test_an_answer_without_waiting_comes_at_once_and_the_events_tell_the_rest(client):
    """covers: RPC-11, EVT-4"""
    answer = client.ask("CreateSandbox")
    assert answer.sandbox.state == PENDING
    states = []
    for message in client.watch(after_sequence=answer.sequence, sandbox_ids=[answer.sandbox.sandbox_id]):
        if message.HasField("event"):
            states.append(message.event.sandbox_state.state)
            break
    assert states == [READY]


@pytest.mark.parametrize("wait_ms", [-1, 60001])
def test_a_wait_out_of_range_is_refused(client, wait_ms):
    """covers: RPC-12"""
    with refused("INVALID_ARGUMENT", field="wait_ms"):
        client.ask("CreateSandbox", wait_ms=wait_ms)


@pytest.mark.parametrize("bad", ["A", "-a", "a-", "a_b", "a.b", "a/b", "a" * 49, "sb-mine", "ex-mine", "sn-mine", "ä"])
def test_ids_that_are_refused(client, bad):
    """covers: IDS-1, IDS-2"""
    with refused("INVALID_ARGUMENT", field="sandbox_id"):
        client.create(bad)
    assert client.list() == []


def test_ids_that_are_taken(client):
    """covers: IDS-1"""
    for good in ("a", "0", "a--b", "x" * 48):
        assert client.create(good, wait_ms=0).sandbox_id == good


def test_an_id_is_never_given_twice(daemon, client):
    """covers: IDS-3, IDS-4, SBX-5, SBX-20"""
    with refused("INVALID_ARGUMENT"):
        client.create("once", limits=pb.Limits(memory_bytes=1))
    client.create("once")                    # the refused one left it free
    with refused("SANDBOX_EXISTS", sandbox_id="once"):
        client.create("once")
    assert client.delete("once").state == DELETED
    with refused("SANDBOX_EXISTS"):
        client.create("once")
    daemon.stop()
    daemon.start()
    with refused("SANDBOX_EXISTS"):
        client.create("once")
    assert client.get("once").state == DELETED


def test_an_exec_id_is_never_given_twice(daemon, client, box):
    """covers: IDS-3, IDS-4"""
    with refused("INVALID_ARGUMENT"):
        client.exec(box, exec_id="once")
    client.run(box, "true", exec_id="once")
    other = client.create().sandbox_id
    with refused("EXEC_EXISTS", exec_id="once"):
        client.run(other, "true", exec_id="once")
    client.delete(box)
    daemon.stop()
    daemon.start()
    with refused("EXEC_EXISTS"):
        client.run(other, "true", exec_id="once")
    client.run(other, "true", exec_id=box if not box.startswith("sb-") else "own-space")


def test_of_two_creates_of_one_id_one_is_accepted(client):
    """covers: IDS-5"""
    for number in range(5):
        results = at_once([lambda: client.create(f"race-{number}", wait_ms=0)] * 8)
        accepted = [r for r in results if not isinstance(r, Exception)]
        assert len(accepted) == 1, results
        assert {r.reason for r in results if isinstance(r, Refused)} == {"SANDBOX_EXISTS"}


def test_of_two_programs_of_one_id_one_is_accepted(client, box):
    """covers: IDS-5"""
    results = at_once([lambda: client.exec(box, "true", exec_id="race")] * 8)
    assert len([r for r in results if not isinstance(r, Exception)]) == 1, results
    assert {r.reason for r in results if isinstance(r, Refused)} == {"EXEC_EXISTS"}


def test_incarnations(client, box):
    """covers: IDS-6"""
    client.stop(box, incarnation=1)
    assert client.start(box).incarnation == 2
    for call in (client.stop, client.pause, client.delete, client.update):
        with refused("SANDBOX_STALE", sandbox_id=box) as error:
            call(box, incarnation=1)
        assert {"1", "2"} <= set(error.metadata.values()), error.metadata
    with refused("SANDBOX_STALE"):
        client.exec(box, "true", incarnation=1)
    with refused("SANDBOX_STALE"):
        client.exec(box, "true", incarnation=3)
    assert client.pause(box, incarnation=2).incarnation == 2
    assert client.resume(box, incarnation=2).incarnation == 2


def test_the_instance_is_the_state_directorys(daemon, client):
    """covers: IDS-7"""
    first = client.info()
    daemon.stop()
    daemon.start()
    second = client.info()
    assert first.instance_id and first.instance_id == second.instance_id and first.run_id != second.run_id


def test_stop_ends_programs_and_keeps_files(daemon, client, box):
    """covers: SBX-3"""
    polite = client.sh(box, "trap 'echo bye >/workspace/bye; exit 3' TERM; echo up; while :; do sleep 0.1; done")
    stubborn = client.sh(box, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    for exec_ in (polite, stubborn):
        next(m for m in client.attach(exec_.exec_id) if m.HasField("output"))
    stopped = client.stop(box, grace_ms=4000 * SLOW)       # the polite one needs some of it, the stubborn one takes all
    assert stopped.state == STOPPED and stopped.running_execs == 0
    assert client.get_exec(polite.exec_id).exit.code == 3
    end = client.get_exec(stubborn.exec_id).exit.signal
    assert end.signal_number == 9 and end.source == pb.SIGNAL_SOURCE_STOP
    assert not daemon.pids(box)
    client.start(box)
    assert client.output_of(box, "cat bye") == "bye\n"


def test_stop_at_once(client, box):
    """covers: SBX-3"""
    held = client.sh(box, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    next(m for m in client.attach(held.exec_id) if m.HasField("output"))
    assert client.stop(box, grace_ms=-1).state == STOPPED
    assert client.get_exec(held.exec_id).exit.signal.signal_number == 9
    for bad in (-2, 60001):
        with refused("INVALID_ARGUMENT", field="grace_ms"):
            client.stop(box, grace_ms=bad)


def test_pause_freezes_every_process(daemon, client, box):
    """covers: SBX-4, SBX-8"""
    held = client.sh(box, "echo up; read line; echo $line", stdin_mode=pb.STDIN_MODE_PIPE)
    next(m for m in client.attach(held.exec_id) if m.HasField("output"))
    assert client.pause(box).state == PAUSED
    # The kernel freezes after the write to cgroup.freeze returned, once each process leaves the kernel.
    eventually(lambda: any(is_frozen(path) for paths in daemon.cgroups().values() for path in paths),
               "no cgroup of the sandbox says that it is frozen")
    with refused("SANDBOX_PAUSED", sandbox_id=box):
        client.exec(box, "true")
    assert client.get_exec(held.exec_id).state == 2
    assert client.resume(box).state == READY
    client.ask("WriteStdin", exec_id=held.exec_id, data=b"on\n")
    assert client.read(held.exec_id).stdout == b"up\non\n"


def is_frozen(path):
    events, state = path / "cgroup.events", path / "freezer.state"
    return (events.exists() and "frozen 1" in events.read_text()) or (
        state.exists() and state.read_text().strip() == "FROZEN")


def test_time_frozen_is_no_time_of_the_program(client, box):
    """covers: SBX-4"""
    import time
    held = client.sh(box, "echo up; read line", stdin_mode=pb.STDIN_MODE_PIPE, timeout_ms=4000)
    next(m for m in client.attach(held.exec_id) if m.HasField("output"))
    client.pause(box)
    time.sleep(4.5)     # not to wait for something: this time must not count
    client.resume(box)
    client.ask("WriteStdin", exec_id=held.exec_id, data=b"\n")
    ended = client.wait(held.exec_id)
    assert ended.exit.WhichOneof("how") == "code" and ended.usage.wall_us >= 4_500_000, ended


def stopped(client, box):
    client.stop(box)


def paused(client, box):
    client.pause(box)


def deleted(client, box):
    client.delete(box)


def running(client, box):
    client.exec(box, "sleep", "1000")


@pytest.mark.parametrize("state", [None, running, paused, stopped])
def test_delete_leaves_nothing(daemon, client, box, state):
    """covers: SBX-5"""
    exec_ = client.run(box, "sh", "-c", "echo text; echo file >file").exec
    if state:
        state(client, box)
    assert client.delete(box).state == DELETED
    daemon.expect_nothing_left()
    assert client.get(box).state == DELETED
    assert client.delete(box).state == DELETED     # SBX-6
    for method in ("GetExec", "AttachExec"):
        with refused("EXEC_NOT_FOUND"):
            client.get_exec(exec_.exec_id) if method == "GetExec" else list(client.attach(exec_.exec_id))


def test_delete_of_one_that_is_being_made(daemon, client):
    """covers: SBX-5, SBX-7"""
    ids = [client.create(wait_ms=0).sandbox_id for _ in range(8)]
    for sandbox_id in ids:
        assert client.delete(sandbox_id, wait_ms=0).state in (DELETING, DELETED)
    for sandbox_id in ids:
        assert client.delete(sandbox_id).state == DELETED
    daemon.expect_nothing_left()


def test_asking_for_the_state_it_is_in_changes_nothing(client, box):
    """covers: SBX-6"""
    def steady(call, state):
        head = client.info().head_sequence
        assert call(box).state == state
        assert client.info().head_sequence == head
    steady(client.start, READY)
    steady(client.resume, READY)
    client.pause(box)
    steady(client.pause, PAUSED)
    client.stop(box)
    steady(client.stop, STOPPED)


def test_a_paused_sandbox_can_be_stopped(client, box):
    """covers: SBX-1, SBX-3"""
    held = client.exec(box, "sleep", "1000")
    client.pause(box)
    assert client.stop(box, grace_ms=1000).state == STOPPED
    assert client.get_exec(held.exec_id).exit.WhichOneof("how") == "signal"


def test_what_is_refused_in_which_state(client, box):
    """covers: SBX-8, SBX-9"""
    client.pause(box)
    with refused("SANDBOX_PAUSED"):
        client.start(box)
    client.stop(box)
    with refused("SANDBOX_STOPPED", sandbox_id=box):
        client.resume(box)
    with refused("SANDBOX_STOPPED"):
        client.pause(box)
    with refused("SANDBOX_STOPPED"):
        client.exec(box, "true")
    client.delete(box)
    for call in (client.start, client.stop, client.pause, client.resume, client.update):
        with refused("SANDBOX_DELETED", sandbox_id=box):
            call(box)
    with refused("SANDBOX_DELETED"):
        client.exec(box, "true")


def test_programs_wait_for_no_sandbox_that_is_not_ready(daemon, client):
    """covers: SBX-8"""
    with daemon.driver_held():
        pending = client.create("pending", wait_ms=0).sandbox_id     # its name is the driver's affair
        with refused("SANDBOX_NOT_READY", sandbox_id=pending):
            client.exec(pending, "true")
    client.wait_state(pending, READY)
    held = client.sh(pending, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    next(m for m in client.attach(held.exec_id) if m.HasField("output"))
    with daemon.driver_held():
        assert client.stop(pending, wait_ms=0, grace_ms=-1).state == STOPPING
        with refused("SANDBOX_NOT_READY"):
            client.exec(pending, "true")
    client.wait_state(pending, STOPPED)


def test_output_is_readable_in_every_state_but_deleted(client, box):
    """covers: SBX-8, OUT-10"""
    done = client.run(box, "echo", "kept").exec
    for step in (client.pause, client.stop):
        step(box)
        assert client.read(done.exec_id).stdout == b"kept\n"
        assert client.get_exec(done.exec_id).exit.code == 0
        assert [x.exec_id for x in client.list_execs(sandbox_id=box)] == [done.exec_id]


def test_the_death_of_the_guest_ends_the_incarnation(daemon, client, box):
    """covers: SBX-10, SBX-11"""
    client.output_of(box, "echo kept >file")
    held = client.exec(box, "sleep", "1000")
    daemon.kill_guest(box)
    gone = client.wait_state(box, STOPPED)
    assert gone.reason.cause == pb.STATE_CAUSE_GUEST_LOST and gone.running_execs == 0
    ended = client.wait(held.exec_id)
    assert ended.state == 4 and ended.exit.lost.code == "GUEST_LOST"
    assert client.start(box).incarnation == 2
    assert client.output_of(box, "cat file") == "kept\n"


def test_a_memory_layer_is_gone_after_a_stop(client):
    """covers: SBX-3"""
    box = client.create(root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)).sandbox_id
    client.output_of(box, "echo text >file")
    client.stop(box)
    client.start(box)
    assert client.output_of(box, "ls") == ""


def test_later_calls_see_the_outcome_of_earlier_ones(client):
    """covers: SBX-7"""
    for _ in range(5):
        box = client.create(wait_ms=0).sandbox_id
        at_once([lambda: client.stop(box, wait_ms=0), lambda: client.delete(box, wait_ms=0),
                 lambda: client.start(box, wait_ms=0), lambda: client.pause(box, wait_ms=0)])
        assert client.delete(box).state == DELETED        # delete wins over everything
    box = client.create(wait_ms=0).sandbox_id
    client.stop(box, wait_ms=0)
    assert client.stop(box).state == STOPPED             # stop wins over a start that is not yet READY


def test_update_is_all_or_nothing(client, box):
    """covers: SBX-16, SBX-17"""
    client.update(box, labels=pb.LabelsUpdate(set=pairs({"a": "1", "b": "2"})))
    before = client.get(box)
    bad = [
        dict(labels=pb.LabelsUpdate(set=pairs({"c": "3"})), limits=pb.Limits(memory_bytes=1)),
        dict(labels=pb.LabelsUpdate(set=pairs({"berm/x": "3"}))),
        dict(labels=pb.LabelsUpdate(set=pairs({"c": "3"}), remove=["c"])),
        dict(labels=pb.LabelsUpdate(set=[*pairs({"c": "3"}), *pairs({"c": "4"})])),
        dict(labels=pb.LabelsUpdate(set=pairs({f"k{i}": "" for i in range(63)}))),
        dict(lifetime=pb.Lifetime(ttl_ms=-2)),
    ]
    for fields in bad:
        with refused("INVALID_ARGUMENT"):
            client.update(box, **fields)
    assert client.get(box) == before
    after = client.update(box, labels=pb.LabelsUpdate(set=pairs({"a": "new"}), remove=["b", "not there"]),
                          limits=pb.Limits(pids=64))
    assert labels_of(after.spec.labels) == {"a": "new"} and after.spec.limits.pids == 64
    assert after.spec.limits.memory_bytes == before.spec.limits.memory_bytes
    assert after.changed_sequence > before.changed_sequence


@pytest.mark.parametrize("labels", [
    {"": ""}, {"berm/x": ""}, {"a b": ""}, {"k" * 64: ""}, {"k": "v" * 1025}, {"ä": ""},
    {f"k{i}": "" for i in range(65)}, {f"k{i}": "v" * 1024 for i in range(16)}])
def test_labels_that_are_refused(client, labels):
    """covers: SBX-17"""
    with refused("INVALID_ARGUMENT"):
        client.create(labels=labels)
    assert client.list() == []


def test_a_label_given_twice_is_refused(client):
    """covers: SBX-17"""
    with refused("INVALID_ARGUMENT"):
        client.ask("CreateSandbox", spec=pb.SandboxSpec(labels=[*pairs({"a": "1"}), *pairs({"a": "1"})]))


@pytest.mark.parametrize("name, spec", [
    ("gpu", dict(devices=[pb.DeviceRequest(kind="gpu")])),
    ("OPEN", dict(network=pb.Network(mode=pb.NETWORK_MODE_OPEN))),
    ("no-such-tool", dict(tools=[pb.Tool(name="no-such-tool")])),
    ("no-such-driver", dict(driver="no-such-driver")),
    ("registry", dict(root=pb.RootFilesystem(image=pb.ImageRoot(reference="debian:12")))),
])
def test_what_no_driver_can_give_is_refused_by_name(client, name, spec):
    """covers: SBX-18, RPC-17"""
    with refused("UNSUPPORTED") as error:
        client.create("mine", **spec)
    assert name.lower() in str(error.error).lower()
    client.create("mine", wait_ms=0)     # the id stayed free


def test_delete_by_labels(daemon, client):
    """covers: SBX-19"""
    ids = sorted(client.create(labels={"team": "x", "n": str(i)}, wait_ms=0).sandbox_id for i in range(3))
    other = client.create(labels={"team": "y"}).sandbox_id
    with refused("INVALID_ARGUMENT", field="label_selector"):
        client.ask("DeleteSandboxes")
    answer = client.ask("DeleteSandboxes", label_selector=pairs({"team": "x"}), wait_ms=WAIT_MS)
    assert list(answer.sandbox_ids) == ids and not answer.more
    assert {client.get(i).state for i in ids} == {DELETED}
    assert client.get(other).state == READY
    assert list(client.ask("DeleteSandboxes", label_selector=pairs({"team": "x"})).sandbox_ids) == []


def test_nothing_of_the_hosts_environment_or_data(make):
    """covers: SBX-21"""
    daemon = make(env={"BERM_TEST_SECRET": "from the host"}).start()
    client = daemon.client()
    secret = daemon.directory / "secret"
    secret.write_text("of the host")
    box = client.create(env={"GIVEN": "to the sandbox"}).sandbox_id
    text = client.output_of(box, "env; ls -a /root /home /workspace 2>&1; cat %s 2>&1 || true" % secret)
    assert "from the host" not in text and "of the host" not in text
    assert "GIVEN=to the sandbox" in text


def test_lists_come_in_pages(client):
    """covers: RPC-27"""
    ids = [client.create(labels={"n": str(i % 2)}, wait_ms=0).sandbox_id for i in range(7)]
    first = client.ask("ListSandboxes", page_size=3)
    assert [s.sandbox_id for s in first.sandboxes] == ids[::-1][:3] and first.next_page_token
    extra = client.create(wait_ms=0).sandbox_id      # one that comes in between hides no other
    assert [s.sandbox_id for s in client.list(page_size=2)] == [extra, *ids[::-1]]
    rest = client.ask("ListSandboxes", page_size=3, page_token=first.next_page_token)
    assert [s.sandbox_id for s in rest.sandboxes] == ids[::-1][3:6]
    assert [s.sandbox_id for s in client.list(page_size=1, label_selector=pairs({"n": "0"}))] == ids[::-1][0::2]
    token = first.next_page_token
    middle = len(token) // 2
    for bad in (dict(page_size=3, page_token=token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1:]),
                dict(page_size=3, page_token="nonsense"),
                dict(page_size=3, page_token=token, label_selector=pairs({"n": "0"})),
                dict(page_size=1001)):
        with refused("INVALID_ARGUMENT"):
            client.ask("ListSandboxes", **bad)
    with refused("INVALID_ARGUMENT"):
        client.ask("ListExecs", page_size=3, page_token=token)
    assert len(client.ask("ListSandboxes", page_size=1000).sandboxes) == 8


def test_lists_by_state(client, box):
    """covers: RPC-27, RPC-28"""
    gone = client.create().sandbox_id
    client.delete(gone)
    halted = client.create().sandbox_id
    client.stop(halted)
    assert [s.sandbox_id for s in client.list()] == [halted, box]
    assert [s.sandbox_id for s in client.list(states=[DELETED])] == [gone]
    assert [s.sandbox_id for s in client.list(states=[STOPPED, DELETED])] == [halted, gone]
    for bad in (0, 99):
        with refused("INVALID_ARGUMENT", field="states[0]"):
            client.list(states=[bad])


def test_programs_come_in_pages(client, box):
    """covers: RPC-27"""
    other = client.create().sandbox_id
    ids = [client.run(box, "true", exec_id=f"x-{i}").exec.exec_id for i in range(5)]
    far = client.exec(other, "sleep", "1000", labels={"far": "yes"}).exec_id
    assert [x.exec_id for x in client.list_execs(page_size=2)] == [far, *ids[::-1]]
    assert [x.exec_id for x in client.list_execs(sandbox_id=box, page_size=2)] == ids[::-1]
    assert [x.exec_id for x in client.list_execs(states=[2])] == [far]
    assert [x.exec_id for x in client.list_execs(label_selector=pairs({"far": "yes"}))] == [far]
    for bad in (0, 99):
        with refused("INVALID_ARGUMENT", field="states[0]"):
            client.list_execs(states=[bad])
    with refused("SANDBOX_NOT_FOUND"):
        client.list_execs(sandbox_id="nobody")


def test_what_is_not_there(client):
    """covers: ERR-4"""
    for call in (client.get, client.stop, client.start, client.pause, client.resume, client.delete, client.update):
        with refused("SANDBOX_NOT_FOUND", sandbox_id="nobody"):
            call("nobody")
    with refused("SANDBOX_NOT_FOUND", sandbox_id="nobody"):
        client.exec("nobody", "true")
    with refused("EXEC_NOT_FOUND", exec_id="nobody"):
        client.get_exec("nobody")
    with refused("EXEC_NOT_FOUND", exec_id="nobody"):
        list(client.attach("nobody"))


def causes(client, box):
    """State and cause of each change, in order."""
    return [(e.sandbox_state.state, e.sandbox_state.reason.cause) for e in client.events(sandbox_ids=[box])
            if e.HasField("sandbox_state")]


def test_a_sandbox_ends_with_its_time(client):
    """covers: SBX-15"""
    made = client.create(lifetime=pb.Lifetime(ttl_ms=300 * SLOW))
    assert made.expires_unix_ms > made.created_unix_ms
    client.wait_state(made.sandbox_id, pb.SANDBOX_STATE_DELETED)
    assert (pb.SANDBOX_STATE_DELETING, pb.STATE_CAUSE_TTL) in causes(client, made.sandbox_id)


@pytest.mark.parametrize("action, state", [("STOP", pb.SANDBOX_STATE_STOPPED), ("PAUSE", PAUSED),
                                           ("DELETE", pb.SANDBOX_STATE_DELETED)])
def test_idle_time_counts_from_the_last_program(client, action, state):
    """covers: SBX-15"""
    lifetime = pb.Lifetime(idle_ttl_ms=500, idle_action=getattr(pb, f"LIFETIME_ACTION_{action}"))
    box = client.create().sandbox_id
    held = client.sh(box, "read line; sleep 1", stdin_mode=pb.STDIN_MODE_PIPE).exec_id
    client.update(box, lifetime=lifetime)       # not before something runs: who knows how long that takes to begin
    client.ask("CloseStdin", exec_id=held)
    assert client.wait(held).exit.code == 0     # longer than the idle time, and it ran
    client.wait_state(box, state)
    told = [cause for at, cause in causes(client, box) if at == state]
    assert told == [pb.STATE_CAUSE_IDLE_TTL]
    if action != "DELETE":
        client.delete(box)


def test_a_lifetime_that_cannot_be(client, box):
    """covers: RPC-17, SBX-16"""
    for field, value in (("ttl_ms", -2), ("idle_ttl_ms", -2)):
        with refused("INVALID_ARGUMENT", field=f"spec.lifetime.{field}"):
            client.create(lifetime=pb.Lifetime(**{field: value}))
    with refused("UNSUPPORTED", field="spec.lifetime.wake_on_call"):
        client.create(lifetime=pb.Lifetime(wake_on_call=True))
    with refused("UNSUPPORTED"):
        client.update(box, labels=pb.LabelsUpdate(set=pairs({"a": "b"})), lifetime=pb.Lifetime(wake_on_call=True))
    assert not client.get(box).spec.labels and client.get(box).spec.lifetime.ttl_ms == -1


def test_a_workspace_of_ones_own(client):
    """covers: PATH-1"""
    box = client.create(workspace="/made/deep").sandbox_id
    assert client.output_of(box, "pwd; echo hello > note; cat note") == "/made/deep\nhello\n"
    client.stop(box)
    client.start(box)
    assert client.output_of(box, "cat note") == "hello\n"
    client.delete(box)
