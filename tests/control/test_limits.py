"""Limits of sandboxes: they hold, they are told, and they never take the guest or the daemon."""

import contextlib
import os
import pathlib
import signal
import socket
import time

import pytest

from control import READY, Lost, Refused, at_once, eventually, pb, refused

MIB = 1 << 20
EAT = ["tail", "/dev/zero"]   # it looks for the end of a line, and keeps what it has read


@pytest.fixture
def daemon(shared):
    """One for all tests of this file, without a sandbox between them."""
    yield shared
    shared.empty()


def test_out_of_memory_is_reported_and_the_guest_lives(client):
    """covers: EXEC-11, SBX-12"""
    box = client.create(limits=pb.Limits(memory_bytes=64 * MIB)).sandbox_id
    bystander = client.sh(box, "read line; echo $line", stdin_mode=pb.STDIN_MODE_PIPE)
    done = client.run(box, *EAT)
    assert done.exec.exit.WhichOneof("how") == "out_of_memory", done
    assert done.exec.exit.out_of_memory.limit_bytes == 64 * MIB
    assert client.get(box).state == READY
    client.ask("WriteStdin", exec_id=bystander.exec_id, data=b"alive\n")
    assert client.read(bystander.exec_id).stdout == b"alive\n"
    assert client.run(box, "true").exec.exit.code == 0


def test_out_of_memory_takes_programs_first(daemon, client, box):
    """covers: EXEC-11"""
    assert client.output_of(box, "cat /proc/self/oom_score_adj") == "500\n"
    assert int(pathlib.Path(f"/proc/{daemon.guest_pid(box)}/oom_score_adj").read_text()) < 500


def test_a_kill_from_inside_is_not_out_of_memory(client, box):
    """covers: EXEC-6, EXEC-11"""
    done = client.run(box, "sh", "-c", "kill -9 $$").exec
    assert done.exit.signal.signal_number == 9 and done.exit.signal.source == pb.SIGNAL_SOURCE_SANDBOX


def test_out_of_memory_of_a_child_is_not_told_of_another_program(client):
    """covers: EXEC-6, EXEC-11"""
    box = client.create(limits=pb.Limits(memory_bytes=64 * MIB)).sandbox_id
    parent = client.run(box, "sh", "-c", " ".join(EAT) + "; exit 5").exec
    assert parent.exit.code == 5, parent.exit           # the parent saw its child die and went on
    assert client.run(box, "sh", "-c", "kill -9 $$").exec.exit.WhichOneof("how") == "signal"


def test_processes_are_bounded(client):
    """covers: SBX-12"""
    box = client.create(limits=pb.Limits(pids=32)).sandbox_id
    done = client.run(box, "sh", "-c", "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done", timeout_ms=30000,
                      grace_ms=-1)
    assert b"fork" in done.stderr_data.lower() or done.exec.exit.code != 0
    assert done.exec.usage.pids_peak <= 32
    assert client.run(box, "true").exec.exit.code == 0       # and what was taken is given back


def test_processor_time_is_bounded(daemon, client):
    """covers: SBX-12"""
    box = client.create(limits=pb.Limits(cpu_millis=100)).sandbox_id
    # Until it has used 15 hundredths of a second, however fast the processor is.
    loop = "until read -r stat </proc/$$/stat; set -- $stat; [ $((${14} + ${15})) -ge 15 ]; do :; done"
    done = client.run(box, "sh", "-c", loop).exec
    used = done.usage.cpu_user_us + done.usage.cpu_system_us
    # A tenth of a processor: the time that passes is at least several times what was used.
    assert done.exit.code == 0 and used > 100_000 and done.usage.wall_us >= 4 * used, done


def test_an_update_holds_for_running_programs(daemon, client, box):
    """covers: SBX-12, SBX-16"""
    held = client.sh(box, "echo up; read line; i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; echo all",
                     stdin_mode=pb.STDIN_MODE_PIPE)
    next(m for m in client.attach(held.exec_id) if m.HasField("output"))
    client.update(box, limits=pb.Limits(pids=20, memory_bytes=100 * MIB, cpu_millis=500))
    values = {}
    for path in daemon.cgroups()[box]:
        for name in ("pids.max", "memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us"):
            if (path / name).exists():
                values[name] = (path / name).read_text().strip()
    assert values["pids.max"] == "20"
    assert str(100 * MIB) in (values.get("memory.max"), values.get("memory.limit_in_bytes"))
    client.ask("WriteStdin", exec_id=held.exec_id, data=b"\n")
    got = client.read(held.exec_id)
    assert b"all" not in got.stdout or b"fork" in got.stderr.lower()


def test_the_disk_is_bounded(client):
    """covers: SBX-13"""
    box = client.create(limits=pb.Limits(disk_bytes=8 * MIB)).sandbox_id
    done = client.run(box, "sh", "-c", "head -c 20000000 /dev/zero >big")
    assert done.exec.exit.code != 0 and b"space" in done.stderr_data.lower(), done
    assert client.run(box, "sh", "-c", "rm big; echo small >small; cat small").stdout_data == b"small\n"


def test_the_number_of_files_is_bounded(client):
    """covers: SBX-13"""
    box = client.create(limits=pb.Limits(disk_bytes=8 * MIB, disk_inodes=256)).sandbox_id
    done = client.run(box, "sh", "-c", "i=0; while [ $i -lt 600 ]; do : >f$i || exit 7; i=$((i+1)); done")
    assert done.exec.exit.code != 0 and b"space" in done.stderr_data.lower(), done


@pytest.mark.parametrize("field, value", [
    ("memory_bytes", 16 * MIB - 1), ("memory_bytes", -2), ("cpu_millis", 9), ("pids", 7), ("disk_bytes", MIB - 1),
    ("disk_inodes", 127), ("output_bytes", -2), ("exec_wall_ms", -2), ("execs", -2), ("memory_bytes", 1 << 62)])
def test_limits_out_of_range_are_refused_by_name(client, field, value):
    """covers: SBX-14"""
    with refused("INVALID_ARGUMENT", field=f"spec.limits.{field}"):
        client.create(limits=pb.Limits(**{field: value}))


def test_a_flood_of_output_does_not_harm_the_daemon(client):
    """covers: OUT-6, ERR-7"""
    box = client.create(limits=pb.Limits(output_bytes=MIB)).sandbox_id
    held = [client.exec(box, "yes").exec_id for _ in range(4)]
    for _ in range(20):
        assert client.info().state == pb.DAEMON_STATE_SERVING
    for exec_id in held:
        client.signal(exec_id, 9)
        client.wait(exec_id)


def test_the_largest_environment_of_a_sandbox_arrives(client):
    """covers: SIZE-2"""
    box = client.create(env={"ONE": "x" * 30000, "TWO": "y" * (65536 - 30000 - 6)}).sandbox_id
    assert client.output_of(box, "echo ${#ONE} ${#TWO}; pwd") == "30000 35530\n/workspace\n"
    with refused("INVALID_ARGUMENT", "spec.env"):
        client.create(env={"ONE": "x" * 30000, "TWO": "y" * (65536 - 30000 - 5)})


DESCRIPTORS = 128


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


@contextlib.contextmanager
def crowd(daemon, room):
    """Connections that leave the daemon so many descriptors."""
    there = []
    while descriptors(daemon) < DESCRIPTORS - room and len(there) < 2 * DESCRIPTORS:
        there.append(socket.socket(socket.AF_UNIX))
        there[-1].connect(str(daemon.socket))
        time.sleep(0.002)       # it may be accepted
    yield
    for one in there:
        one.close()
    eventually(lambda: not daemon.is_alive() or descriptors(daemon) < DESCRIPTORS // 2, lambda: f"{descriptors(daemon)} descriptors")


def at_last(call):
    """What it comes to when nothing is short any more: a caller who is to try again later does so."""
    def answer():
        try:
            return call()
        except Refused as error:
            assert error.metadata["retry"] == "later", error
    return eventually(answer, "an answer")


def test_a_daemon_without_descriptors_loses_nobody(make):
    """It refuses what needs one. Programs, sandboxes and berm-spawn outlive it."""
    daemon = make("--set", "limits.sandboxes.parked=2").start(prefix=("prlimit", f"--nofile={DESCRIPTORS}"))
    client = daemon.client()
    box = client.create().sandbox_id
    held = client.sh(box, "read line; echo $line", stdin_mode=pb.STDIN_MODE_PIPE).exec_id
    client.write(box, "file", b"x")
    calls = [client.create, lambda: client.run(box, "true"), lambda: client.write(box, "file", b"y"),
             lambda: list(client.stream("ReadFile", sandbox_id=box, path="file"))]
    for room in (0, 0, 1, 2, 3, 4, 6, 8):
        with crowd(daemon, room):
            for call in calls:
                with contextlib.suppress(Refused, Lost):
                    call()
        assert daemon.is_alive(), daemon.text()
    assert client.create().state == READY and client.run(box, "true").exec.exit.code == 0
    client.ask("WriteStdin", exec_id=held, data=b"alive\n")
    assert client.read(held).stdout == b"alive\n" and client.get(box).incarnation == 1


def test_a_daemon_without_descriptors_takes_no_sandbox(make):
    """It says so, and at once; a sandbox less, and there is room again. covers: SBX-27"""
    daemon = make("--set", "limits.sandboxes.parked=2").start(prefix=("prlimit", f"--nofile={DESCRIPTORS}"))
    client = daemon.client()
    stopped = client.create("own").sandbox_id
    client.stop(stopped)
    boxes = []
    with refused("LIMIT_REACHED", retry="later"):
        while len(boxes) < DESCRIPTORS:
            boxes.append(client.create())
    assert len(boxes) > 5 and {box.state for box in boxes} == {READY}
    with refused("LIMIT_REACHED", retry="later"):
        client.start(stopped)
    with refused("SANDBOX_EXISTS"):
        client.create(stopped)
    for box in boxes[-4:]:
        assert client.run(box.sandbox_id, "true").exec.exit.code == 0
    for box in boxes[:6]:
        client.delete(box.sandbox_id)
    assert at_last(lambda: client.start(stopped)).state == READY
    assert at_last(client.create).state == READY


def test_a_guest_that_does_not_read_takes_no_other_along(make):
    """What is passed to it and not taken counts as ours, and one day the kernel lets us pass no more."""
    daemon = make("--set", "limits.sandboxes.parked=0").start(prefix=("prlimit", f"--nofile={DESCRIPTORS}"))
    client = daemon.client()
    box, other = client.create().sandbox_id, client.create().sandbox_id
    guest = daemon.guest_pid(box)
    os.kill(guest, signal.SIGSTOP)
    started = at_once([lambda: client.run(box, "true", timeout=3)] * 60)
    made = at_once([lambda: client.create(wait_ms=5000)] * 4)
    assert daemon.is_alive(), daemon.text()
    os.kill(guest, signal.SIGCONT)
    assert at_last(lambda: client.run(other, "true")).exec.exit.code == 0
    assert at_last(client.create).state == READY, (started, made)
