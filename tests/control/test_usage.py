"""What a sandbox uses, watched."""

import json
import pathlib

import pytest

from control import EXITED, eventually, pb, refused
from test_exec import up

MIB = 1 << 20
TOUCH = "dd bs=64M count=1 if=/dev/zero of=/dev/null 2>&1"   # its buffer is written to


def samples(client, box, **fields):
    return client.stream("WatchUsage", sandbox_id=box, **fields)


def test_usage_is_measured_until_the_sandbox_stops(client, box):
    """covers: RPC-17"""
    client.sh(box, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; sleep 1000")
    seen, ended = [], None
    for message in samples(client, box, interval_ms=100):
        assert message.sequence == len(seen) + 1
        if message.HasField("end"):
            ended = message.end.reason
            break
        seen.append(message.sample)
        if len(seen) == 5:
            client.stop(box, grace_ms=-1)
    assert ended == pb.STREAM_END_REASON_SANDBOX_GONE
    cpu = [s.cpu_us for s in seen]
    assert cpu == sorted(cpu) and cpu[-1] > 0
    assert len(seen) >= 5 and all(s.running_execs <= 1 for s in seen)
    assert all(s.pids >= 1 and s.memory_bytes > 0 for s in seen[:5])       # later ones may be of its very end
    assert seen[0].limits.memory_bytes == client.get(box).spec.limits.memory_bytes
    with refused("SANDBOX_STOPPED", sandbox_id=box):
        next(iter(samples(client, box)))


@pytest.mark.parametrize("interval_ms", [-1, 99, 60001])
def test_an_interval_out_of_range(client, box, interval_ms):
    """covers: SIZE-2"""
    with refused("INVALID_ARGUMENT", field="interval_ms"):
        next(iter(samples(client, box, interval_ms=interval_ms)))


def test_usage_of_nothing(client, box):
    """covers: OWN-2, IDS-6"""
    with refused("SANDBOX_NOT_FOUND"):
        next(iter(samples(client, "nobody")))
    with refused("SANDBOX_STALE"):
        next(iter(samples(client, box, incarnation=7)))


def test_memory_of_a_program(client, box):
    """covers: EXEC-12"""
    large = client.run(box, "sh", "-c", TOUCH).exec
    assert 64 * MIB <= large.usage.memory_peak_bytes < 128 * MIB
    small = client.run(box, "true").exec
    assert 0 < small.usage.memory_peak_bytes < 32 * MIB
    assert client.get_exec(large.exec_id).usage == large.usage
    with refused("PROGRAM_NOT_FOUND") as none:
        client.run(box, "no-such-program")
    assert client.get_exec(none.metadata["exec_id"]).usage.memory_peak_bytes == 0


def end_without_a_daemon(daemon, client, box, script):
    """A program that ended while no daemon looked; its id, and the file with its status."""
    held = client.sh(box, f"echo up; until [ -e go ]; do sleep 0.02; done; {script}; exit 9").exec_id
    up(client, held)
    guest = daemon.guest_pid(box)
    daemon.kill()
    pathlib.Path(f"/proc/{guest}/root/workspace/go").touch()
    found = eventually(lambda: [p for p in (daemon.state / "sandboxes" / box).rglob("*")
                                if p.is_file() and b'"exited"' in p.read_bytes()], "its status on disk")
    return held, found[0]


@pytest.mark.parametrize("guest", ["lives", "is gone"])
def test_memory_of_a_program_outlives_the_daemon(daemon, client, box, guest):
    """covers: EXEC-12, STORE-4"""
    held, status = end_without_a_daemon(daemon, client, box, TOUCH)
    if guest == "is gone":
        daemon.kill_guest(box)
        eventually(lambda: not daemon.pids(box), "the sandbox's end")
    daemon.start()
    eventually(lambda: client.get_exec(held).state == EXITED, "its exit")
    assert 64 * MIB <= client.get_exec(held).usage.memory_peak_bytes < 128 * MIB


@pytest.mark.parametrize("claim, shown", [(7 * MIB, 7 * MIB), (None, 0), (-1, 0), (1 << 53, 0), (1 << 62, 0), ("much", 0)])
def test_what_a_guest_claims_of_memory(daemon, client, box, claim, shown):
    """covers: EXEC-12"""
    held, status = end_without_a_daemon(daemon, client, box, "true")
    daemon.kill_guest(box)
    eventually(lambda: not daemon.pids(box), "the sandbox's end")
    state = json.loads(status.read_text())
    assert state.pop("max_rss_bytes") > 0
    status.write_text(json.dumps(state | ({} if claim is None else {"max_rss_bytes": claim})) + "\n")
    daemon.start()
    after = client.get_exec(held)
    assert after.exit.code == 9 and after.usage.memory_peak_bytes == shown
