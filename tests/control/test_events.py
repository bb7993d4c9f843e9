"""Events: one order, nothing missing, to any number of watchers."""

import asyncio
import collections
import time

import grpc
import pytest

from berm._gen.berm.v1 import berm_pb2_grpc
from control import (CHANNEL, DELETED, OTHER_UIDS, TIMEOUT_S, PENDING, READY, STOPPED, STOPPING, Refused, pairs, pb,
                     refused)
from model import replay

WATCHERS = 1000
PER_CHANNEL = 125     # connection.streams is 256


def take(stream, wanted):
    """Messages up to and with the first that is wanted."""
    got = []
    for message in stream:
        got.append(message)
        if wanted(message):
            return got
    raise AssertionError(f"the stream ended: {got}")


def is_caught_up(message):
    return message.HasField("caught_up")


def test_one_sequence_from_one_without_gaps(daemon, client):
    """covers: EVT-1, EVT-14, AUDIT-1, AUDIT-2, SBX-1"""
    box = client.create().sandbox_id
    client.run(box, "true")
    client.pause(box)
    client.resume(box)
    client.stop(box)
    daemon.kill()
    daemon.start()
    client.start(box)
    client.delete(box)
    events = client.events()
    replay(events)
    assert [e.sequence for e in events] == list(range(1, len(events) + 1))
    states = [e.sandbox_state.state for e in events if e.HasField("sandbox_state")]
    assert states == [1, 2, 3, 2, 4, 5, 1, 2, 7, 8]
    kinds = collections.Counter(e.kind for e in events)
    assert kinds[pb.EVENT_KIND_EXEC_START] == kinds[pb.EVENT_KIND_EXEC_EXIT] == 1
    assert kinds[pb.EVENT_KIND_DAEMON] == 2


def test_a_refused_call_leaves_no_event(client, box):
    """covers: AUDIT-2, IDEMP-5"""
    head = client.info().head_sequence
    for call in (lambda: client.create("Bad Id"), lambda: client.stop("nobody"), lambda: client.resume(box, incarnation=7),
                 lambda: client.exec(box), lambda: client.update(box, limits=pb.Limits(pids=1))):
        with pytest.raises(Refused):
            call()
    assert client.info().head_sequence == head


def test_a_watch_shows_the_past_then_the_present(client, box):
    """covers: EVT-3, EVT-7"""
    watch = client.watch(after_sequence=0)
    past = take(watch, is_caught_up)
    assert all(m.event.replayed for m in past[:-1]) and len(past) > 2
    assert past[-1].sequence == past[-2].sequence
    client.stop(box)
    live = take(watch, lambda m: m.event.sandbox_state.state == STOPPED)
    assert not any(m.event.replayed or is_caught_up(m) for m in live)
    assert [m.sequence for m in live] == list(range(past[-1].sequence + 1, live[-1].sequence + 1))
    assert all(m.sequence == m.event.sequence for m in past[:-1] + live)


def test_a_watch_from_now_shows_nothing_older(client, box):
    """covers: EVT-3, EVT-7"""
    head = client.info().head_sequence
    for start in ({}, {"now": pb.StartNow()}):
        watch = client.watch(**start)
        first = next(watch)
        assert is_caught_up(first) and first.sequence >= head
        watch.close()
    oldest = next(client.watch(oldest=pb.StartOldest()))
    assert oldest.event.sequence == 1 and oldest.event.replayed


def test_a_watch_until_now_ends(client, box):
    """covers: EVT-3, RPC-26"""
    messages = list(client.watch(after_sequence=0, until_now=True))
    assert messages[-1].end.reason == pb.STREAM_END_REASON_COMPLETE
    assert messages[-1].sequence == client.info().head_sequence
    assert not [m for m in messages[:-1] if m.HasField("end")]


def test_an_answers_sequence_is_a_cursor(client):
    """covers: EVT-4"""
    answer = client.ask("CreateSandbox")
    box = answer.sandbox.sandbox_id
    after = take(client.watch(after_sequence=answer.sequence), lambda m: m.event.sandbox_state.state == READY)
    assert all(m.sequence > answer.sequence for m in after if m.HasField("event"))
    assert not [m for m in after if m.event.sandbox_state.state == PENDING]
    got = client.ask("GetSandbox", sandbox_id=box)
    assert client.events(after=got.sequence) == []
    assert client.ask("ListSandboxes").sequence >= got.sequence
    started = client.ask("StartExec", sandbox_id=box, spec=pb.ExecSpec(argv=["sleep", "1000"]))
    assert not [e for e in client.events(after=started.sequence) if e.HasField("exec_start")]


def test_a_cursor_ahead_is_refused(client, box):
    """covers: EVT-6"""
    head = client.info().head_sequence
    with refused("EVENT_CURSOR_AHEAD", head_sequence=head):
        client.events(after=head + 1)
    with refused("EVENT_CURSOR_AHEAD"):
        client.events(after=2**64 - 1)
    assert client.events(after=head) == []


def test_a_cursor_that_is_no_longer_kept_is_refused(make):
    """covers: EVT-5, EVT-11"""
    daemon = make("--set", "limits.events.keep=1000", "--set", "limits.events.least=5").start()
    client = daemon.client()
    for _ in range(3):
        client.delete(client.create().sandbox_id)
    daemon.stop()
    time.sleep(1.1)       # they have to grow older than is kept
    daemon.start()        # a start prunes
    info = client.info()
    assert info.oldest_sequence > 1 and info.head_sequence - info.oldest_sequence >= 4
    with refused("EVENT_CURSOR_EXPIRED", oldest_sequence=info.oldest_sequence):
        client.events(after=0)
    with refused("EVENT_CURSOR_EXPIRED"):
        client.events(after=info.oldest_sequence - 2)
    kept = client.events(after=info.oldest_sequence - 1)
    assert [e.sequence for e in kept][:1] == [info.oldest_sequence]
    assert next(client.watch(oldest=pb.StartOldest())).event.sequence == info.oldest_sequence


def test_a_snapshot_then_what_follows(client):
    """covers: EVT-8, EVT-13"""
    gone = client.create().sandbox_id
    client.delete(gone)
    one, two = client.create(labels={"a": "1"}).sandbox_id, client.create(labels={"a": "2"}).sandbox_id
    client.run(one, "true")
    held = client.exec(one, "sleep", "1000").exec_id
    client.stop(two)
    watch = client.watch(now=pb.StartNow(), include_snapshot=True)
    past = take(watch, is_caught_up)
    assert sorted(m.sandbox.sandbox_id for m in past if m.HasField("sandbox")) == sorted([one, two])
    assert [m.exec.exec_id for m in past if m.HasField("exec")] == [held]
    assert not [m for m in past if m.HasField("event")]
    client.start(two)
    live = take(watch, lambda m: m.event.sandbox_state.state == READY)
    assert [m.sequence for m in live] == list(range(past[-1].sequence + 1, live[-1].sequence + 1))
    only = take(client.watch(include_snapshot=True, label_selector=pairs({"a": "2"})), is_caught_up)
    assert [m.WhichOneof("item") for m in only] == ["sandbox", "caught_up"] and only[0].sandbox.sandbox_id == two
    for start in ({"after_sequence": 1}, {"oldest": pb.StartOldest()}):
        with refused("INVALID_ARGUMENT", field="include_snapshot"):
            list(client.watch(include_snapshot=True, **start))


def test_filters_hold_together(daemon, client):
    """covers: EVT-12"""
    other = daemon.other_user()
    a = client.create(labels={"team": "a"}).sandbox_id
    b = client.create(labels={"team": "b"}).sandbox_id
    other.create("others", labels={"team": "a"})
    client.run(a, "true")
    client.run(b, "true")
    client.pause(a)
    client.pause(b)
    everything = client.events()

    def kept(wanted):
        return [e.sequence for e in everything if wanted(e)]

    def shown(**filters):
        return [e.sequence for e in client.events(**filters) if e.sequence <= everything[-1].sequence]

    assert shown(sandbox_ids=[a, "nobody"]) == kept(lambda e: e.sandbox_id == a)
    assert shown(kinds=[pb.EVENT_KIND_EXEC_EXIT]) == kept(lambda e: e.HasField("exec_exit"))
    assert shown(owner=f"uid:{other.uid}") == kept(lambda e: e.owner == f"uid:{other.uid}")
    assert shown(label_selector=pairs({"team": "a"})) == kept(lambda e: e.sandbox_id in (a, "others"))
    assert shown(label_selector=pairs({"team": "a"}), owner="uid:0", kinds=[3, 4]) == kept(
        lambda e: e.sandbox_id == a and e.kind in (3, 4))
    for bad in ({"kinds": [0]}, {"kinds": [99]}, {"sandbox_ids": ["x"] * 101}):
        with refused("INVALID_ARGUMENT"):
            client.events(**bad)


def test_labels_are_those_of_the_moment(client):
    """covers: EVT-12"""
    box = client.create(labels={"phase": "old"}).sandbox_id
    client.update(box, labels=pb.LabelsUpdate(set=pairs({"phase": "new"})))
    client.run(box, "true")
    client.stop(box)      # an exit may be told before it is recorded, a stop comes after it
    old = client.events(label_selector=pairs({"phase": "old"}))
    new = client.events(label_selector=pairs({"phase": "new"}))
    assert {e.kind for e in old} == {pb.EVENT_KIND_SANDBOX_STATE}
    assert [e.kind for e in new][:3] == [pb.EVENT_KIND_SANDBOX_UPDATE, pb.EVENT_KIND_EXEC_START, pb.EVENT_KIND_EXEC_EXIT]


def test_a_quiet_filter_still_moves_its_cursor(client, box):
    """covers: EVT-13, BEAT-1"""
    call = client.method("WatchEvents")(pb.WatchEventsRequest(sandbox_ids=["nobody"]), timeout=TIMEOUT_S)
    first = next(iter(call))
    assert is_caught_up(first)
    client.run(box, "true")
    head = client.info().head_sequence
    for beat in call:
        assert beat.HasField("heartbeat") and beat.sequence == beat.heartbeat.head_sequence
        if beat.sequence >= head:
            break
    assert beat.sequence >= head
    call.cancel()


def test_a_thousand_watchers_see_the_same(daemon, client):
    """covers: EVT-3, EVT-9"""
    box = client.create().sandbox_id
    head = client.info().head_sequence

    async def one(stub, after):
        got, call = [], stub.WatchEvents(pb.WatchEventsRequest(after_sequence=after), timeout=TIMEOUT_S * 3)
        async for message in call:
            if message.HasField("event"):
                got.append(message.event.SerializeToString(deterministic=True))
                if message.event.sandbox_state.state == STOPPED:
                    call.cancel()
                    return got
            elif message.HasField("caught_up"):
                ready.append(None)
                if len(ready) == WATCHERS:
                    everyone.set()

    async def drive():
        await asyncio.wait_for(everyone.wait(), TIMEOUT_S * 3)
        loop = asyncio.get_running_loop()
        for _ in range(5):
            await loop.run_in_executor(None, lambda: client.run(box, "true"))
        await loop.run_in_executor(None, lambda: client.stop(box))

    async def all_of_them():
        channels = [grpc.aio.insecure_channel(daemon.target, options=CHANNEL) for _ in range(WATCHERS // PER_CHANNEL)]
        stubs = [berm_pb2_grpc.SandboxServiceStub(c) for c in channels]
        watchers = [one(stubs[i // PER_CHANNEL], head) for i in range(WATCHERS)]
        got = await asyncio.gather(drive(), *watchers)
        for channel in channels:
            await channel.close()
        return got[1:]

    ready, everyone = [], asyncio.Event()
    streams = asyncio.run(all_of_them())
    assert len(streams) == WATCHERS and len(streams[0]) == 12, len(streams[0])
    assert all(stream == streams[0] for stream in streams)


def test_a_watch_that_does_not_read_slows_nobody(daemon, client):
    """covers: EVT-9, RPC-16"""
    box = client.create().sandbox_id
    lazy = client.method("WatchEvents")(pb.WatchEventsRequest(after_sequence=0), timeout=TIMEOUT_S * 5)
    next(iter(lazy))
    busy = daemon.client()
    watch = busy.watch()
    next(watch)
    for i in range(200):
        busy.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(i), "fill": "x" * 1000})))
    seen = take(watch, lambda m: m.event.HasField("sandbox_update") and labels(m)["n"] == "199")
    assert len(seen) == 200
    late = take(iter(lazy), lambda m: m.event.HasField("sandbox_update") and labels(m)["n"] == "199")
    assert [m.sequence for m in late if m.HasField("event")][-200:] == [m.sequence for m in seen]
    lazy.cancel()


def labels(message):
    return {entry.key: entry.value for entry in message.event.sandbox_update.labels}


def test_a_watch_across_thousands_of_events(client, box):
    """covers: EVT-3, EVT-13"""
    for i in range(1500):
        client.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(i)})))
    events = client.events()
    replay(events)
    assert len(events) > 1500
    middle = len(events) // 2
    assert client.events(after=middle) == events[middle:]


def test_an_event_is_bounded_and_says_what_was_cut(client, box):
    """covers: EVT-15, AUDIT-3"""
    long = ["true", *["x" * 1000] * 100]
    client.run(box, *long, env={"SECRET": "not-for-events"})
    done = client.list_execs(sandbox_id=box)[0]
    assert list(done.spec.argv) == long
    event = next(e for e in client.events() if e.HasField("exec_start"))
    assert event.exec_start.argv_truncated and sum(map(len, event.exec_start.argv)) <= 4096
    assert event.ByteSize() <= 16384
    assert b"not-for-events" not in event.SerializeToString()
    client.run(box, "echo", "short")
    short = [e for e in client.events() if e.HasField("exec_start")][-1]
    assert list(short.exec_start.argv) == ["echo", "short"] and not short.exec_start.argv_truncated


def test_events_say_who_did_it(client, daemon, box):
    """covers: AUDIT-1, AUDIT-2"""
    held = client.exec(box, "sleep", "1000", request_id="mine")
    client.signal(held.exec_id, 15)
    client.wait(held.exec_id)
    daemon.kill_guest(box)
    client.wait_state(box, STOPPED)
    who = {(e.WhichOneof("body"), e.sandbox_state.state): e.actor for e in client.events()}
    assert who["sandbox_state", PENDING].identity == "uid:0"
    assert who["exec_start", 0].identity == "uid:0" and who["exec_signal", 0].identity == "uid:0"
    assert who["exec_exit", 0].kind == pb.ACTOR_KIND_SANDBOX
    assert who["sandbox_state", STOPPED].kind == pb.ACTOR_KIND_SANDBOX
    assert who["sandbox_state", READY].kind == pb.ACTOR_KIND_DAEMON
    assert who["daemon", 0].kind == pb.ACTOR_KIND_DAEMON
    assert [e.request_id for e in client.events() if e.HasField("exec_start")] == ["mine"]


def test_a_drain_ends_a_watch_with_its_cursor(daemon, client, box):
    """covers: RPC-25, EVT-13"""
    watch = client.watch(after_sequence=0)
    take(watch, is_caught_up)
    daemon.stop()
    last = take(watch, lambda m: m.HasField("end"))[-1]
    assert last.end.reason == pb.STREAM_END_REASON_DRAINING
    daemon.start()
    seen = client.events(after=last.sequence)
    assert [e.sequence for e in seen] == list(range(last.sequence + 1, last.sequence + 1 + len(seen)))


def test_a_watch_that_stays_behind_is_ended_with_its_cursor(make):
    """covers: EVT-10, RPC-16"""
    daemon = make("--set", "limits.events.behind=100").start()
    client = daemon.client()
    box = client.create().sandbox_id
    narrow = daemon.client(("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536))
    messages = iter(narrow.method("WatchEvents")(pb.WatchEventsRequest(after_sequence=0), timeout=TIMEOUT_S * 5))
    next(messages)
    for number in range(1500):      # more than the window, what may stay unread, and 100
        client.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(number), "fill": "x" * 1000})))
    daemon.wait_for_log("WatchEvents.*code=OK", timeout_s=120)        # 60 s later
    seen = [m for m in messages]
    assert seen[-1].end.reason == pb.STREAM_END_REASON_SLOW_READER
    rest = client.events(after=seen[-1].sequence)
    assert len(rest) > 100 and rest[0].sequence == seen[-1].sequence + 1     # it is a valid cursor
