"""libberm.so itself: retries, streams that resume, silence, deadlines, errors."""

import json
import os
import random
import threading
import time

import grpc
import pytest
from google.protobuf import json_format

from berm._gen.berm.v1 import berm_pb2 as pb
from fake import HARM, Road, harmful
from libberm import Async, BermError, Client, lib, to_json

UNAVAILABLE, NOT_FOUND = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND


def collect(client, request):
    """Every byte by stream, and the last message."""
    got, messages = {1: bytearray(), 2: bytearray()}, []

    def on_message(m):
        messages.append(m.WhichOneof("event"))
        if m.HasField("output"):
            assert m.output.offset == len(got[m.output.stream]), "a hole, or a byte twice"
            got[m.output.stream] += m.output.data
        if m.HasField("exited"):
            messages.append(m.exited.exit.code)

    assert client.attach(request, on_message) == 0
    return got, messages


# --- one answer ---

def test_a_payload_comes_back_whatever_its_size(daemon):
    with Client(daemon.socket) as client:
        for size in (0, 1, 100, 65536, 4 << 20 - 1):
            payload = os.urandom(min(size, (4 << 20) - 100))
            assert client.call("Ping", pb.PingRequest(payload=payload)).payload == payload


def test_tcp_with_a_token_and_without(daemon):
    with Client(address=daemon.tcp, token_file=daemon.state / "token") as client:
        assert client.call("GetInfo", pb.GetInfoRequest()).identity.startswith("token")
    with Client(address=daemon.tcp, token="wrong") as client, pytest.raises(BermError) as caught:
        client.call("Ping", pb.PingRequest())
    assert caught.value.name == "UNAUTHENTICATED" and caught.value.retry == "never"


def test_an_error_has_every_part(daemon):
    with Client(daemon.socket) as client, pytest.raises(BermError) as caught:
        client.call("Ping", pb.PingRequest(payload=bytes(5 << 20)))
    error = caught.value
    assert error.name == "MESSAGE_TOO_LARGE" and error.retry == "never"
    assert error.metadata["limit"] == "message.inbound" and error.metadata["limit_value"] == str(4 << 20)


def test_the_field_at_fault_is_named(daemon):
    with Client(daemon.socket) as client, pytest.raises(BermError) as caught:
        client.call("CreateSandbox", pb.CreateSandboxRequest(spec=pb.SandboxSpec(
            labels=[pb.KeyValue(key="a", value="1"), pb.KeyValue(key="b" * 64, value="2")])))
    assert caught.value.name == "INVALID_ARGUMENT" and caught.value.field.startswith("spec.labels[1]")


def test_what_nothing_happened_is_tried_again(fake):
    """covers: RETRY-1, RETRY-2"""
    fake.fail_next = [(UNAVAILABLE, "SHUTTING_DOWN", "later")] * 4
    with Client(fake.path) as client:
        client.call("Ping", pb.PingRequest())
    assert len(fake.asked) == 5


def test_five_attempts_and_no_more(fake):
    """covers: RETRY-1"""
    fake.fail_next = [(UNAVAILABLE, "SHUTTING_DOWN", "later")] * 9
    with Client(fake.path) as client, pytest.raises(BermError) as caught:
        client.call("Ping", pb.PingRequest())
    assert caught.value.name == "SHUTTING_DOWN" and len(fake.asked) == 5


@pytest.mark.parametrize("method, request_, attempts", [
    ("StartExec", pb.StartExecRequest(sandbox_id="sb-1"), 2), ("Ping", pb.PingRequest(), 1)])
def test_what_may_have_happened_is_repeated_with_a_request_id_only(fake, method, request_, attempts):
    """covers: RETRY-2"""
    fake.fail_next = [(grpc.StatusCode.INTERNAL, "INTERNAL", "check")]
    with Client(fake.path) as client:
        if attempts == 1:
            with pytest.raises(BermError):
                client.call(method, request_)
        else:
            client.call(method, request_)
    assert len(fake.asked) == attempts


def test_never_is_never(fake):
    """covers: RETRY-2"""
    fake.fail_next = [(NOT_FOUND, "EXEC_NOT_FOUND", "never")] * 2
    with Client(fake.path) as client, pytest.raises(BermError) as caught:
        client.call("StartExec", pb.StartExecRequest())
    assert caught.value.name == "EXEC_NOT_FOUND" and caught.value.metadata["exec_id"] == "ex-1"
    assert len(fake.asked) == 1


def test_a_reason_of_a_newer_daemon_is_reported(fake):
    fake.fail_next = [(NOT_FOUND, "MOON_NOT_FOUND", "never")]
    with Client(fake.path) as client, pytest.raises(BermError) as caught:
        client.call("Ping", pb.PingRequest())
    assert caught.value.name == "UNKNOWN" and caught.value.metadata["reason"] == "MOON_NOT_FOUND"
    assert caught.value.retry == "never"


def test_a_lost_answer_never_starts_a_program_twice(fake, tmp_path):
    """covers: RETRY-3; the road breaks at every byte of the answer in turn; one request id, one program."""
    with Client(Road(tmp_path / "road", fake.path).path) as client:
        client.call("StartExec", pb.StartExecRequest())
    fake.asked.clear()
    for budget in range(1, 220, 6):
        road = Road(tmp_path / f"road-{budget}", fake.path, [budget])
        before = len(fake.answers)
        with Client(road.path) as client:
            client.call("StartExec", pb.StartExecRequest(sandbox_id="sb-1"))
        assert len(fake.answers) == before + 1
    ids = [request.request_id for request in fake.asked]
    assert all(ids) and len(set(ids)) == len(range(1, 220, 6)) < len(ids)


def test_a_request_id_of_the_caller_stays(fake):
    """covers: RETRY-3"""
    with Client(fake.path) as client:
        client.call("StartExec", pb.StartExecRequest(request_id="mine"))
    assert fake.asked[0].request_id == "mine"


def test_a_trace_is_passed_on(fake):
    """covers: TEL-1"""
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for given, sent in ((good, good), (None, None), ("nonsense", None)):
        with Client(fake.path, **({"traceparent": given} if given else {})) as client:
            client.call("Ping", pb.PingRequest())
        assert fake.metadata.get("traceparent") == sent


# --- no daemon ---

def test_no_daemon_is_said_at_once(tmp_path):
    began = time.monotonic()
    with Client(tmp_path / "nobody.sock") as client, pytest.raises(BermError) as caught:
        client.call("Ping", pb.PingRequest())
    assert caught.value.name == "UNREACHABLE" and "nobody.sock" in caught.value.message
    assert time.monotonic() - began < 10  # the time for a daemon that went away would be 30 s


def test_a_daemon_that_went_away_is_waited_for(fake, tmp_path):
    road = Road(tmp_path / "road", fake.path)
    with Client(road.path) as client:
        client.call("Ping", pb.PingRequest(payload=b"1"))
        road.close()
        fake.stop()
        back = threading.Timer(1.0, lambda: (fake.start(), road.open()))
        back.start()
        assert client.call("Ping", pb.PingRequest(payload=b"2")).payload == b"2"
        back.join()


def test_and_no_longer_than_asked(fake, tmp_path):
    road = Road(tmp_path / "road", fake.path)
    with Client(road.path, reconnect_ms=300) as client:
        client.call("Ping", pb.PingRequest())
        road.close()
        fake.stop()
        with pytest.raises(BermError) as caught:
            client.call("Ping", pb.PingRequest())
    assert caught.value.name == "UNREACHABLE"
    fake.start()


def test_a_restarted_daemon_is_not_noticed(start_daemon):
    daemon = start_daemon()
    with Client(daemon.socket) as client:
        first = client.call("GetInfo", pb.GetInfoRequest())
        daemon.stop()
        start_daemon()
        second = client.call("GetInfo", pb.GetInfoRequest())
    assert first.run_id != second.run_id and first.instance_id == second.instance_id


@pytest.fixture
def start_daemon(tmp_path):
    from conftest import Daemon
    started = []

    def start():
        started.append(Daemon(tmp_path))
        return started[-1]

    yield start
    started[-1].stop()


# --- deadlines, cancelling ---

def test_a_deadline_ends_the_wait(fake):
    with Client(fake.path, timeout_ms=300) as client, pytest.raises(BermError) as caught:
        client.call("RunExec", pb.RunExecRequest())
    assert caught.value.name == "DEADLINE_EXCEEDED"
    fake.quiet.set()


def test_a_wake_ends_the_wait(fake):
    reader, writer = os.pipe()
    with Client(fake.path) as client:
        seen = []

        def on_wake():
            seen.append(os.read(reader, 1))
            return seen[-1] == b"x"

        client.set_wake(reader, on_wake)
        alarm = threading.Timer(0.2, os.write, (writer, b".x"))     # two, in this order
        alarm.start()
        with pytest.raises(BermError) as caught:
            client.call("RunExec", pb.RunExecRequest())
        alarm.join()
    assert caught.value.name == "CANCELLED" and seen == [b".", b"x"]
    fake.quiet.set()
    os.close(reader)
    os.close(writer)


# --- output ---

@pytest.mark.parametrize("seed", range(6))
def test_every_byte_once_however_the_road_breaks(fake, tmp_path, seed):
    """covers: RETRY-4"""
    dice = random.Random(seed)
    fake.output = {1: dice.randbytes(300_000), 2: dice.randbytes(100_000)}
    fake.chunk = dice.choice([1, 700, 5000]) if seed else 5000
    if fake.chunk == 1:
        fake.output = {1: dice.randbytes(3000), 2: dice.randbytes(1000)}
    road = Road(tmp_path / "road", fake.path, [dice.randrange(300, 40_000) for _ in range(30)])
    with Client(road.path) as client:
        got, messages = collect(client, pb.AttachExecRequest(exec_id="ex-1"))
    assert bytes(got[1]) == fake.output[1] and bytes(got[2]) == fake.output[2]
    assert messages[0] == "attached" and messages.count("attached") == 1
    assert messages[-2:] == ["exited", 7]
    assert road.connections > 1 or fake.chunk == 1


def test_draining_asks_to_come_back(fake):
    """covers: RETRY-4"""
    fake.output[1] = random.Random(1).randbytes(50_000)
    fake.end_after = 6
    with Client(fake.path) as client:
        got, messages = collect(client, pb.AttachExecRequest(exec_id="ex-1"))
    assert bytes(got[1]) == fake.output[1] and "end" not in messages and len(fake.asked) > 5


def test_a_tail_is_resumed_as_offsets(fake, tmp_path):
    fake.output[1] = random.Random(2).randbytes(200_000)
    road = Road(tmp_path / "road", fake.path, [20_000] * 20)
    got = bytearray()
    with Client(road.path) as client:
        client.attach(pb.AttachExecRequest(exec_id="ex-1", tail_bytes=100_000),
                      lambda m: got.extend(m.output.data) if m.HasField("output") else None)
    assert bytes(got) == fake.output[1][-100_000:]
    assert [bool(request.tail_bytes) for request in fake.asked[:2]] == [True, False]


def test_silence_is_a_break(fake, tmp_path):
    """covers: BEAT-3"""
    fake.output[1] = random.Random(3).randbytes(60_000)
    road = Road(tmp_path / "road", fake.path, [15_000], stall=True)
    with Client(road.path, silence_ms=2000) as client:
        got, _ = collect(client, pb.AttachExecRequest(exec_id="ex-1"))
    assert bytes(got[1]) == fake.output[1] and road.connections >= 2     # more where the machine itself is silent


def test_calls_inside_a_callback(fake):
    """Acknowledging while output comes: the inbox of the outer stream waits meanwhile."""
    fake.output[1] = random.Random(4).randbytes(3_000_000)
    fake.chunk = 60_000
    got = bytearray()
    with Client(fake.path) as client:
        def on_message(m):
            if m.HasField("output"):
                got.extend(m.output.data)
                client.call("AckOutput", pb.AckOutputRequest(exec_id="ex-1", stdout_offset=len(got)))

        client.attach(pb.AttachExecRequest(exec_id="ex-1"), on_message)
    assert bytes(got) == fake.output[1] and fake.acks[-1].stdout_offset == len(got)


def test_the_callback_ends_the_stream(fake):
    fake.output[1] = bytes(100_000)
    seen = []
    with Client(fake.path) as client:
        assert client.attach(pb.AttachExecRequest(exec_id="ex-1"), lambda m: seen.append(1) or len(seen) // 5) == 1
        assert client.call("Ping", pb.PingRequest(payload=b"still here")).payload == b"still here"
    assert len(seen) == 5


def test_a_stream_that_is_refused_is_not_asked_for_again(fake):
    fake.fail_next = [(NOT_FOUND, "EXEC_NOT_FOUND", "never")]
    with Client(fake.path) as client, pytest.raises(BermError) as caught:
        collect(client, pb.AttachExecRequest(exec_id="ex-1"))
    assert caught.value.name == "EXEC_NOT_FOUND" and len(fake.asked) == 1


@pytest.mark.parametrize("takes", [1000, 1 << 20])
def test_input_goes_in_once(fake, tmp_path, takes):
    """covers: RETRY-4"""
    data = random.Random(5).randbytes(300_000 if takes > 1000 else 40_000)
    fake.stdin_takes = takes
    fake.fail_next = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "STDIN_FULL", "later")] * 2
    road = Road(tmp_path / "road", fake.path, [dice for dice in random.Random(6).choices(range(100, 600), k=10)])
    with Client(road.path) as client:
        assert client.feed("ex-1", data) == len(data)
    assert fake.stdin == data


# --- events ---

@pytest.mark.parametrize("seed", range(4))
def test_every_event_once_however_the_road_breaks(fake, tmp_path, seed):
    """covers: RETRY-4"""
    dice = random.Random(seed)
    fake.events = 2000
    fake.end_after = dice.choice([None, 90])
    road = Road(tmp_path / "road", fake.path, [dice.randrange(300, 9000) for _ in range(20)])
    sequences, others = [], []
    with Client(road.path) as client:
        client.watch(pb.WatchEventsRequest(after_sequence=10), lambda m: sequences.append(m.event.sequence)
                     if m.HasField("event") else others.append(m.WhichOneof("item")))
    assert sequences == list(range(11, 2001))
    assert others == ["caught_up", "end"] and road.connections > 1


# --- calls that do not wait ---

def test_many_calls_at_once(daemon):
    with Async(daemon.socket) as loop:
        calls = [loop.call("Ping", pb.PingRequest(payload=b"%d" % i)) for i in range(40)]
        assert all(call.r is None for call in calls)            # nothing is told before it is asked for
        loop.run()
        assert [call.answer.payload for call in calls] == [b"%d" % i for i in range(40)]
        wrong = loop.call("GetSandbox", pb.GetSandboxRequest(sandbox_id="none"))
        loop.run()
        assert wrong.r < 0 and wrong.error.name == "SANDBOX_NOT_FOUND" and wrong.answer is None
        assert loop.call("AttachExec", pb.AttachExecRequest()).pointer is None, "a stream wants someone to tell"
        assert loop.call("Ping", pb.PingRequest(), lambda m: 0).pointer is None


@pytest.mark.parametrize("seed", range(2))
def test_streams_beside_each_other_go_on_over_a_road_that_breaks(fake, tmp_path, seed):
    """covers: RETRY-4"""
    dice = random.Random(seed)
    fake.output = {1: dice.randbytes(300_000), 2: b""}
    fake.events = 2000
    road = Road(tmp_path / "road", fake.path, [dice.randrange(300, 40_000) for _ in range(12)])
    outputs, sequences = [bytearray(), bytearray()], []
    with Async(road.path) as loop:
        for got in outputs:
            loop.call("AttachExec", pb.AttachExecRequest(exec_id="ex-1"),
                      lambda m, got=got: got.extend(m.output.data) if m.HasField("output") else None)
        loop.call("WatchEvents", pb.WatchEventsRequest(after_sequence=0),
                  lambda m: sequences.append(m.event.sequence) if m.HasField("event") else None)
        loop.run()
        assert [p.r for p in loop.pending] == [0, 0, 0]
    assert all(bytes(got) == fake.output[1] for got in outputs) and sequences == list(range(1, 2001))
    assert road.connections > 3


def test_a_stream_is_left_in_every_way(fake):
    """By the callback, from within it, from outside, and with the loop itself."""
    fake.output[1] = bytes(1_000_000)
    request = pb.AttachExecRequest(exec_id="ex-1")
    with Async(fake.path) as loop:
        seen = []
        answered = loop.call("AttachExec", request, lambda m: seen.append(1) or len(seen) // 3)
        loop.run()
        assert answered.r == 1 and len(seen) == 3
        inside = loop.call("AttachExec", request, lambda m: inside.cancel())
        loop.run()
        assert inside.error.name == "CANCELLED"
        stuck = loop.call("RunExec", pb.RunExecRequest())        # never answered
        outside = loop.call("AttachExec", request, lambda m: outside.cancel() or stuck.cancel())
        loop.run()
        assert outside.error.name == stuck.error.name == "CANCELLED"
        left = [loop.call("AttachExec", request, lambda m: 0), loop.call("RunExec", pb.RunExecRequest())]
    assert all(one.r is None for one in left)
    fake.quiet.set()


def test_a_turn_tells_what_is_due_and_ends(fake):
    """However fast streams are, whoever dispatches comes back to its own loop."""
    fake.output[1] = bytes(2_000_000)
    told, turns = [], []
    with Async(fake.path) as loop:
        for number in range(4):
            loop.call("AttachExec", pb.AttachExecRequest(exec_id="ex-1"),
                      lambda m, number=number: told.append(number) or time.sleep(0.002))
        while loop.dispatch() > 0:
            turns.append(list(told))
            told.clear()
            time.sleep(0.001)
        assert [p.r for p in loop.pending] == [0] * 4
    assert sum(map(len, turns)) > 40
    assert all(len(turn) == len(set(turn)) for turn in turns), "a stream was told twice in one turn"


def test_a_method_that_is_none(fake):
    with Async(fake.path) as loop:
        assert lib.berm_async_call(loop.pointer, lib.berm_method_find(b"None"), None, None, None, None) is None


# --- the plain stream, and JSON ---

def test_any_stream_by_name(fake):
    fake.events = 5
    seen = []
    with Client(fake.path) as client:
        client.stream("WatchEvents", pb.WatchEventsRequest(), lambda m: seen.append(m.WhichOneof("item")))
    assert seen == ["event", "event", "caught_up", "heartbeat", "event", "event", "event", "end"]


MESSAGES = [
    pb.GetInfoResponse(),
    pb.GetSandboxResponse(sequence=1 << 63, sandbox=pb.Sandbox(
        sandbox_id="sb-1", state=pb.SANDBOX_STATE_READY, created_unix_ms=-5, running_execs=3,
        spec=pb.SandboxSpec(labels=[pb.KeyValue(key="a", value='"\\\n\x01é')], limits=pb.Limits(pids=-1),
                            root=pb.RootFilesystem(host=pb.HostRoot())))),
    pb.GetExecResponse(exec=pb.Exec(exit=pb.ExitStatus(code=0))),
    pb.AttachExecResponse(output=pb.OutputChunk(stream=1, offset=9, data=bytes(range(256)), replayed=True)),
    pb.PingResponse(payload=b"a"), pb.PingResponse(payload=b"ab"), pb.PingResponse(),
    pb.ListSandboxesRequest(states=[pb.SANDBOX_STATE_READY, pb.SANDBOX_STATE_FAILED, 99], page_size=7),
    pb.WatchEventsRequest(after_sequence=0, sandbox_ids=["a", "b"], kinds=[1, 2]),
    pb.CreateSandboxRequest(spec=pb.SandboxSpec(network=pb.Network(
        mode=2, egress=[pb.EgressRule(host="*.x", ports=[1, 2])]))),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_json_is_what_the_official_library_says(message):
    assert json.loads(to_json(message)) == json.loads(json_format.MessageToJson(message))


# --- a daemon that means harm ---

@pytest.mark.parametrize("what", HARM)
def test_a_daemon_that_means_harm(tmp_path, what):
    """Whatever answers, there is a typed error, in time."""
    with harmful(tmp_path / "s", what):
        for call in (lambda c: c.call("Ping", pb.PingRequest()),
                     lambda c: c.attach(pb.AttachExecRequest(exec_id="x"), lambda m: 0)):
            with Client(tmp_path / "s", reconnect_ms=1000) as client, pytest.raises(BermError) as caught:
                call(client)
            assert caught.value.name in ("DISCONNECTED", "MALFORMED", "UNKNOWN", "SHUTTING_DOWN"), caught.value
