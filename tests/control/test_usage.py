"""What a sandbox uses, watched."""

import pytest

from control import pb, refused


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
    assert all(s.pids >= 1 and s.running_execs <= 1 and s.memory_bytes > 0 for s in seen)
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
