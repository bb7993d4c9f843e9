"""The driver contract, proved with the plain driver: what tests/control cannot say of it, or says of /workspace."""

import os
import random

import pytest

from control import EXITED, LOST, READY, STOPPED, Reader, eventually, pb, refused
from files import read
from test_exec import PIPE, up
from test_output import DROP, KIB, numbers, print_numbers

PASSES_FDS = os.environ.get("BERM_PLAIN_LINK") != "bytes"


def again(daemon):
    daemon.kill()
    return daemon.start()


def test_a_driver_without_capabilities_lists_none(client):
    (plain,) = client.info().drivers
    assert plain.name == "plain" and plain.available
    assert set(plain.capabilities) == {"root.host", "layer.disk", "profile.user", "network.none"}


@pytest.mark.parametrize("field, spec", [
    ("spec.profile", {"profile": pb.SANDBOX_PROFILE_ROOT}),
    ("spec.root.layer", {"root": pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)}),
    ("spec.limits.memory_bytes", {"limits": pb.Limits(memory_bytes=64 << 20)}),
    ("spec.lifetime.idle_action", {"lifetime": pb.Lifetime(idle_action=pb.LIFETIME_ACTION_PAUSE)}),
    ("spec.mounts", {"mounts": [pb.Mount(source="/usr", target="/mnt/usr")]}),
    ("spec.tools", {"tools": [pb.Tool(name="git")]}),
    ("spec.network.mode", {"network": pb.Network(mode=pb.NETWORK_MODE_OPEN)}),
    ("spec.driver", {"driver": "native"}),
])
def test_a_spec_that_needs_a_capability_is_refused_by_name(client, field, spec):
    with refused("UNSUPPORTED", field):
        client.create(**spec)


def test_calls_that_need_a_capability_are_refused(client, box):
    with refused("UNSUPPORTED"):
        client.pause(box)
    with refused("UNSUPPORTED"):
        list(client.stream("WatchUsage", sandbox_id=box))
    assert client.get(box).state == READY and client.output_of(box, "echo on") == "on\n"


def test_files_survive_a_stop(client, box):
    client.output_of(box, "echo kept >file")
    assert client.stop(box).state == STOPPED
    assert client.start(box).incarnation == 2
    assert client.output_of(box, "cat file") == "kept\n"


def test_stop_ends_every_process_of_the_instance(daemon, client, box):
    client.sh(box, "setsid sh -c 'sleep 1000 & sleep 1000' & echo up; wait")
    eventually(lambda: len(daemon.pids(box, "x-*")) >= 4, "its programs")
    pids = daemon.pids(box)
    client.stop(box, grace_ms=-1)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize("size", [0, 1, 49151, 49152, 49153, 1 << 20])
def test_a_file_of_any_size_comes_back(client, box, size):
    data = random.Random(size).randbytes(size)
    client.write(box, "data", data)
    assert read(client, box, "data") == data
    assert client.output_of(box, "wc -c <data").strip() == str(size)


def test_output_dropped_while_no_daemon_runs_is_a_gap(daemon, client, box):
    cap, n = 64 * KIB, 1 << 16
    held = client.sh(box, f"echo up >&2; read line; {print_numbers(n)[0]} '{print_numbers(n)[1]}'; echo done >&2",
                     stdin_mode=PIPE, output_limit_bytes=cap, output_policy=DROP).exec_id
    reader, watch = Reader(), client.attach(held)
    while not reader.stderr:
        reader.take(next(watch))
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    daemon.kill()
    eventually(lambda: not daemon.pids(box, "x-*"), "the program's end")
    daemon.start()
    got, data = Reader(), numbers(n)
    for message in client.attach(held):
        got.take(message)
        if message.HasField("output") and message.output.stream == 1:
            chunk = message.output
            assert chunk.data == data[chunk.offset:chunk.offset + len(chunk.data)]
    assert got.ended.exit.code == 0 and got.next[1] == len(data) and sum(
        gap.next_offset - gap.offset for gap in got.gaps if gap.stream == 1) >= len(data) - cap


def test_output_that_the_guest_takes_with_it_is_lost_and_not_invented(daemon, client, box):
    held = client.sh(box, "echo up; read line; echo more; sleep 1000", stdin_mode=PIPE).exec_id
    up(client, held)
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    if PASSES_FDS:
        up(client, held, b"more\n")     # bermd copies the output before it reports growth
    daemon.kill()
    daemon.kill_guest(box)
    daemon.start()
    lost = client.get_exec(held)
    assert lost.state == LOST and lost.exit.lost.code == "GUEST_LOST"
    assert client.read(held).stdout in ({b"up\nmore\n"} if PASSES_FDS else {b"up\n", b"up\nmore\n"})
    assert client.get(box).state == STOPPED


def test_output_is_readable_when_the_sandbox_is_stopped(client, box):
    data = random.Random(5).randbytes(300_000)
    done = client.run(box, "cat", stdin=data).exec.exec_id
    client.stop(box)
    assert client.read(done).stdout == data and client.get_exec(done).state == EXITED


def test_a_killed_daemon_loses_no_output(daemon, client, box):
    """A daemon that is killed while it copies output goes on where its own file ends."""
    n = 1 << 17
    held = client.exec(box, *print_numbers(n), output_limit_bytes=64 << 20).exec_id
    reader, watch = Reader(), client.attach(held)
    while not reader.stdout:
        reader.take(next(watch))
    again(daemon)
    again(daemon)
    got = client.read(held)
    assert got.stdout == numbers(n) and got.gaps == [] and got.ended.exit.code == 0
