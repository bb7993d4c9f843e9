"""Output: kept byte for byte, read by offset, bounded, the same to everyone."""

import hashlib
import os
import random
import threading

import pytest

from control import EXITED, TIMEOUT_S, RUNNING, STDERR, STDOUT, Reader, at_once, eventually, pb, refused
from test_exec import PIPE, up

KIB, MIB = 1 << 10, 1 << 20
DROP, BLOCK, KILL = pb.OUTPUT_POLICY_DROP_OLDEST, pb.OUTPUT_POLICY_BLOCK, pb.OUTPUT_POLICY_KILL


@pytest.fixture
def daemon(shared):
    """One for all tests of this file, without a sandbox between them."""
    yield shared
    shared.empty()


def numbers(count, width=8):
    """`count` lines, each with its number: a byte that is missing or doubled shows."""
    return b"".join(b"%0*d\n" % (width - 1, i) for i in range(count))


def print_numbers(count, width=8):
    """A program that prints them, quickly."""
    return ["awk", f"BEGIN {{ for (i = 0; i < {count}; i++) printf \"%0{width - 1}d\\n\", i }}"]


def test_every_byte_is_kept(client, box):
    """covers: OUT-1, OUT-3"""
    data = random.Random(1).randbytes(MIB)
    done = client.run(box, "sh", "-c", "cat; printf '\\0\\377\\r\\n' >&2", stdin=data)
    assert done.stdout_data == data and done.stderr_data == b"\0\xff\r\n"
    got = client.read(done.exec.exec_id)
    assert got.stdout == data and got.stderr == b"\0\xff\r\n" and got.gaps == []
    assert got.ended.exit.code == 0 and got.attached.exec_id == done.exec.exec_id
    extent = {o.stream: (o.first_offset, o.end_offset) for o in got.ended.output}
    assert extent == {STDOUT: (0, MIB), STDERR: (0, 4)}


def test_readers_begin_where_they_like(client, box):
    """covers: OUT-3, OUT-4"""
    data = numbers(20000)
    done = client.run(box, *print_numbers(20000)).exec.exec_id
    for offset in (0, 1, 65535, 65536, 65537, len(data) - 1, len(data)):
        assert client.read(done, stdout_offset=offset).stdout == data[offset:]
    with refused("OFFSET_BEYOND_END", end_offset=len(data), exec_id=done):
        client.read(done, stdout_offset=len(data) + 1)
    with refused("OFFSET_BEYOND_END", end_offset=0):
        client.read(done, stderr_offset=1)


def test_the_tail(client, box):
    """covers: OUT-3"""
    done = client.run(box, "printf", "0123456789").exec.exec_id
    messages = list(client.attach(done, tail_bytes=4))
    assert b"".join(m.output.data for m in messages) == b"6789" and messages[1].output.offset == 6
    assert b"".join(m.output.data for m in client.attach(done, tail_bytes=400)) == b"0123456789"


def test_one_stream_alone(client, box):
    """covers: OUT-3, RPC-28"""
    done = client.run(box, "sh", "-c", "echo out; echo err >&2").exec.exec_id
    assert client.read(done, streams=[STDERR]).data == {STDOUT: b"", STDERR: b"err\n"}
    assert client.read(done, streams=[STDOUT]).data == {STDOUT: b"out\n", STDERR: b""}
    for bad in (0, 3):
        with refused("INVALID_ARGUMENT", field="streams[0]"):
            client.read(done, streams=[bad])


def test_until_now_does_not_follow(client, box):
    """covers: OUT-3"""
    held = client.sh(box, "echo up; sleep 1000").exec_id
    up(client, held)
    messages = list(client.attach(held, until_now=True))
    assert [m.WhichOneof("event") for m in messages] == ["attached", "output", "end"]
    assert messages[-1].end.reason == pb.STREAM_END_REASON_COMPLETE
    assert messages[1].output.replayed


def test_output_is_followed_live(client, box):
    """covers: OUT-2, OUT-3"""
    held = client.exec(box, "cat", stdin_mode=PIPE).exec_id
    watch, reader, sent = client.attach(held), Reader(), b""
    reader.take(next(watch))
    for i in range(20):
        line = b"line %d\n" % i
        client.ask("WriteStdin", exec_id=held, data=line, offset=len(sent))
        sent += line
        while reader.stdout != sent:
            reader.take(next(watch))
    client.ask("CloseStdin", exec_id=held, offset=len(sent))
    for message in watch:
        reader.take(message)
    assert reader.ended.exit.code == 0


def test_many_readers_see_the_same(daemon, client, box):
    """covers: OUT-1, OUT-10"""
    held = client.sh(box, "read go; " + " ".join(print_numbers(100000)[:1]) + " '" + print_numbers(100000)[1] + "'",
                     stdin_mode=PIPE).exec_id
    clients = [daemon.client() for _ in range(8)]
    gate = threading.Barrier(65)

    def reader(number):
        def read():
            watch, got = clients[number % 8].attach(held), Reader()
            got.take(next(watch))
            gate.wait(TIMEOUT_S)
            for message in watch:
                got.take(message)
            return hashlib.sha256(got.stdout).hexdigest(), got.ended.exit.code
        return read

    def go():
        gate.wait(TIMEOUT_S)
        client.ask("WriteStdin", exec_id=held, data=b"\n")

    results = at_once([go, *map(reader, range(64))])[1:]
    assert set(results) == {(hashlib.sha256(numbers(100000)).hexdigest(), 0)}, results[:3]


def test_a_reader_that_does_not_read_slows_nobody(daemon, client, box):
    """covers: OUT-2, RPC-16"""
    lazy = daemon.client()
    held = client.sh(box, "read go; " + print_numbers(2_000_000)[0] + " '" + print_numbers(2_000_000)[1] + "'",
                     stdin_mode=PIPE).exec_id
    call = lazy.method("AttachExec")(pb.AttachExecRequest(exec_id=held), timeout=TIMEOUT_S * 3)
    assert next(iter(call)).HasField("attached")
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    ended = client.wait(held)
    assert ended.exit.code == 0 and ended.usage.stdout_bytes == 16_000_000
    reader = Reader()
    reader.number = 1
    for message in call:
        if not message.HasField("heartbeat"):
            reader.take(message)
    assert reader.stdout == numbers(2_000_000)


def test_drop_oldest(client, box):
    """covers: OUT-5, OUT-6, OUT-7"""
    cap = 256 * KIB
    data = numbers(MIB // 8)
    done = client.run(box, *print_numbers(MIB // 8), output_limit_bytes=cap, output_policy=DROP).exec
    assert done.exit.code == 0 and done.usage.stdout_bytes == MIB
    extent = {o.stream: (o.first_offset, o.end_offset) for o in done.output}[STDOUT]
    kept = extent[1] - extent[0]
    assert extent[1] == MIB and cap - cap // 16 - 4096 <= kept <= cap, kept
    got = client.read(done.exec_id)
    assert got.stdout == data[extent[0]:] and [(g.offset, g.next_offset) for g in got.gaps] == [(0, extent[0])]
    assert client.read(done.exec_id, stdout_offset=extent[0]).gaps == []
    with refused("OUTPUT_TRIMMED", exec_id=done.exec_id):
        client.read(done.exec_id, fail_on_gap=True)
    # An exit may be told before what led to it is recorded.
    caps = eventually(lambda: [e.output_cap for e in client.events() if e.output_cap.exec_id == done.exec_id], "its event")
    assert [(c.exec_id, c.policy, c.limit_bytes) for c in caps] == [(done.exec_id, DROP, cap)]


def test_drop_oldest_takes_from_the_stream_that_holds_more(client, box):
    """covers: OUT-7"""
    script = "echo first >&2; " + print_numbers(1)[0] + " '" + print_numbers(MIB // 8)[1] + "'"
    done = client.run(box, "sh", "-c", script, output_limit_bytes=128 * KIB).exec
    got = client.read(done.exec_id)
    assert got.stderr == b"first\n" and got.gaps and {g.stream for g in got.gaps} == {STDOUT}


def test_kill_at_the_cap(client, box):
    """covers: OUT-9, EXEC-6"""
    cap = 128 * KIB
    done = client.run(box, "sh", "-c", "yes & yes", output_limit_bytes=cap, output_policy=KILL).exec
    assert done.exit.output_limit.limit_bytes == cap
    got = client.read(done.exec_id)
    assert len(got.stdout) == cap and set(got.stdout.split()) == {b"y"} and got.gaps == []


def test_block_loses_nothing(client, box):
    """covers: OUT-8"""
    data = numbers(MIB // 8)
    held = client.exec(box, *print_numbers(MIB // 8), output_limit_bytes=64 * KIB, output_policy=BLOCK).exec_id
    got = client.read(held)                 # a reader without a name acknowledges by being sent
    assert got.stdout == data and got.gaps == [] and got.ended.exit.code == 0


def test_block_makes_the_program_wait_for_a_named_reader(client, box):
    """covers: OUT-8"""
    data = numbers(MIB // 8)
    cap = 64 * KIB
    held = client.exec(box, *print_numbers(MIB // 8), output_limit_bytes=cap, output_policy=BLOCK).exec_id
    watch, reader = client.attach(held, reader_id="named"), Reader()
    acknowledged = 0
    while reader.ended is None:
        message = next(watch)
        reader.take(message)
        assert reader.next[STDOUT] <= acknowledged + cap + 65536 * 2, "more was let through than was acknowledged"
        if reader.next[STDOUT] - acknowledged >= cap // 4 or message.HasField("exited"):
            acknowledged = reader.next[STDOUT]
            client.ask("AckOutput", exec_id=held, reader_id="named", stdout_offset=acknowledged)
    assert reader.stdout == data and reader.gaps == []


def test_a_blocked_program_is_let_go_by_release(client, box):
    """covers: OUT-8"""
    held = client.exec(box, *print_numbers(MIB // 8), output_limit_bytes=64 * KIB, output_policy=BLOCK).exec_id
    named = client.attach(held, reader_id="slow")
    next(named)
    other = client.attach(held)
    got, reader = [], Reader()
    reader.take(next(other))
    while reader.next[STDOUT] < 64 * KIB:
        reader.take(next(other))
    assert client.get_exec(held).state == RUNNING
    named.close()
    client.ask("AckOutput", exec_id=held, reader_id="slow", release=True)
    for message in other:
        reader.take(message)
    assert reader.stdout == numbers(MIB // 8)


def test_acknowledgements_are_checked(client, box):
    """covers: OUT-8, IDEMP-8"""
    held = client.exec(box, "sleep", "1000", output_policy=BLOCK).exec_id
    reader = client.attach(held, reader_id="r")
    next(reader)
    for bad in ("", "A", "-a", "x" * 65):
        with refused("INVALID_ARGUMENT", field="reader_id"):
            client.ask("AckOutput", exec_id=held, reader_id=bad)
    with refused("OFFSET_BEYOND_END"):
        client.ask("AckOutput", exec_id=held, reader_id="r", stdout_offset=1)
    client.ask("AckOutput", exec_id=held, reader_id="r")
    client.ask("AckOutput", exec_id=held, reader_id="r")


def test_a_sandbox_at_its_limit_applies_each_programs_policy(client):
    """covers: OUT-6"""
    box = client.create(limits=pb.Limits(output_bytes=256 * KIB)).sandbox_id
    one = client.run(box, *print_numbers(MIB // 16)).exec
    two = client.run(box, *print_numbers(MIB // 16)).exec
    kept = sum(o.end_offset - o.first_offset for x in (one.exec_id, two.exec_id) for o in client.get_exec(x).output)
    assert kept <= 256 * KIB, kept
    killed = client.run(box, *print_numbers(MIB // 16), output_policy=KILL).exec
    assert killed.exit.WhichOneof("how") == "output_limit"


def test_output_outlives_every_kill(daemon, client, box):
    """covers: OUT-10, EXEC-14"""
    done = client.run(box, *print_numbers(50000)).exec.exec_id
    daemon.kill()
    daemon.start()
    assert client.read(done).stdout == numbers(50000)
    daemon.kill_guest(box)
    client.wait_state(box, 5)
    assert client.read(done).stdout == numbers(50000)


def test_a_log_that_shrank_is_reported(daemon, client, box):
    """covers: OUT-11"""
    data = b"x" * 100_000
    done = client.run(box, "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x").exec.exec_id
    other = client.run(box, "echo", "other").exec.exec_id
    logs = [name for name, kept in daemon.kept().items() if kept == data]
    assert len(logs) == 1, logs
    os.truncate(daemon.state / logs[0], 50_000)
    with refused("OUTPUT_TAMPERED", exec_id=done):
        client.read(done)
    assert client.read(other).stdout == b"other\n"
    assert client.run(box, "echo", "on").stdout_data == b"on\n"


def test_a_deleted_sandbox_ends_its_readers(client, box):
    """covers: OUT-10, SBX-5"""
    held = client.sh(box, "echo up; sleep 1000").exec_id
    watch, reader = client.attach(held), Reader()
    reader.take(next(watch))
    client.delete(box, wait_ms=0)
    for message in watch:
        reader.take(message)
    assert reader.ended or reader.end.reason == pb.STREAM_END_REASON_SANDBOX_GONE
