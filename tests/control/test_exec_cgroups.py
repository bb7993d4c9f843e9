"""The cgroup that a sandbox's next program will have: made when one has ended, given back, never mistaken for another."""

import contextlib

import pytest

from control import READY, STOPPED, children, eventually, pb
from test_exec import up

HOLD = "echo up; sleep 1000"


def exec_cgroups(daemon, box):
    """Cgroups for programs, as {name: whether somebody is in it}."""
    found = {}
    for instance in daemon.cgroups().get(box, []):
        for cgroup in children(instance, "x-*/"):
            with contextlib.suppress(OSError):     # it may go meanwhile
                found[cgroup.name] = bool((cgroup / "cgroup.procs").read_text()) or found.get(cgroup.name, False)
    return found


def ahead(daemon, box, but=()):
    """The one that waits for its program, once all others are gone. Those made ahead have odd numbers."""
    def only_one():
        found = exec_cgroups(daemon, box)
        return len(found) == 1 and not any(found.values()) and next(
            (name for name in found if name not in but and int(name[2:]) % 2 == 1), None)
    return eventually(only_one, lambda: f"one that is empty: {exec_cgroups(daemon, box)}")


def held(client, box):
    """A program that runs until it is told otherwise."""
    started = client.sh(box, HOLD).exec_id
    up(client, started)
    return started


def taken(daemon, box):
    return {name for name, is_used in exec_cgroups(daemon, box).items() if is_used}


def test_who_never_ran_anything_has_none(daemon, client, box):
    client.write(box, "file", b"data")
    assert exec_cgroups(daemon, box) == {}


def test_the_next_program_takes_it(daemon, client, box):
    seen = []
    for _ in range(3):
        client.run(box, "true")
        seen.append(ahead(daemon, box, but=seen))
        program = held(client, box)
        assert taken(daemon, box) == {seen[-1]}
        client.signal(program, 9)
        client.read(program)
        seen.append(ahead(daemon, box, but=seen))
    assert len(set(seen)) == len(seen), "one was used twice"


def test_a_program_begins_with_nothing_used(daemon, client, box):
    client.run(box, "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    spare = ahead(daemon, box)
    stats = [cgroup / "cpu.stat" for instance in daemon.cgroups()[box] for cgroup in instance.glob(spare)]
    assert [s.read_text().splitlines()[0] for s in stats if s.exists()] == ["usage_usec 0"] * len(stats)
    usage = client.run(box, "true").exec.usage
    assert 0 < usage.cpu_user_us + usage.cpu_system_us < 1_000_000


def test_programs_at_once_each_have_their_own(daemon, client, box):
    client.run(box, "true")
    ahead(daemon, box)
    programs = [held(client, box) for _ in range(4)]
    assert len(taken(daemon, box)) == 4
    client.signal(programs[0], 9)
    client.read(programs[0])
    assert all(client.get_exec(p).state != pb.EXEC_STATE_EXITED for p in programs[1:])
    eventually(lambda: sorted(exec_cgroups(daemon, box).values()) == [False, True, True, True], "one made ahead")


def test_it_is_given_back_when_nobody_comes(daemon, client, box):
    client.run(box, "true")
    ahead(daemon, box)
    eventually(lambda: exec_cgroups(daemon, box) == {}, lambda: f"given back: {exec_cgroups(daemon, box)}")
    client.run(box, "true")
    ahead(daemon, box)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_the_next_daemon_removes_it(daemon, client, box, end):
    """A running program's is another, and stays."""
    client.run(box, "true")
    running = held(client, box)
    client.run(box, "true")
    client.run(box, "true")
    def one_ahead():       # after the fourth program, so that it is not the third's or the fourth's own
        found = exec_cgroups(daemon, box)
        return len(found) == 2 and found.get("x-9") is False and found
    before = eventually(one_ahead, lambda: f"one made ahead: {exec_cgroups(daemon, box)}")
    getattr(daemon, end)()
    daemon.start()
    eventually(lambda: exec_cgroups(daemon, box) == {name: True for name, is_used in before.items() if is_used},
               lambda: f"of {before} the one in use: {exec_cgroups(daemon, box)}")
    client.run(box, "true")
    eventually(lambda: len(exec_cgroups(daemon, box)) == 2, "another made ahead")
    assert not set(exec_cgroups(daemon, box)) & {name for name, is_used in before.items() if not is_used}
    client.signal(running, 9)
    assert client.read(running).ended.exit.signal.signal_number == 9


@pytest.mark.parametrize("before", [1, 12])
def test_what_has_ended_goes_without_the_daemon_that_asked_for_it(daemon, client, box, before):
    """What was asked of berm-spawn before takes a while. After one question the daemon's wish lies in the socket when it
    is killed, after twelve, which fill that, it has not been sent."""
    program = held(client, box)
    with daemon.driver_held():
        for _ in range(before):
            client.create(wait_ms=0)
        client.signal(program, 15)
        client.wait(program)
        eventually(lambda: [e for e in client.events() if e.HasField("exec_exit")], "the record of its exit")
        daemon.kill()
    daemon.start()
    eventually(lambda: exec_cgroups(daemon, box) == {}, lambda: f"none, but there are {exec_cgroups(daemon, box)}")


def test_descendants_that_are_kept_keep_their_own(daemon, client, box):
    """Also when daemons come and go: what a program left is nobody's to remove."""
    client.run(box, "true")
    spare = ahead(daemon, box)
    client.run(box, "sh", "-c", "sleep 1000 >/dev/null 2>&1 &", keep_descendants=True)
    for _ in range(2):
        assert taken(daemon, box) == {spare}
        daemon.kill()
        daemon.start()
        client.run(box, "true")
    assert taken(daemon, box) == {spare}


def test_pause_limits_stop_and_start(daemon, client, box):
    client.run(box, "true")
    spare = ahead(daemon, box)
    client.change("Pause", box)
    client.change("Resume", box)
    client.update(box, limits=pb.Limits(pids=64))
    program = held(client, box)
    assert client.get(box).state == READY and taken(daemon, box) == {spare}
    deep = client.run(box, "sh", "-c", "for i in $(seq 100); do sleep 5 & done; wait").exec
    assert deep.exit.code != 0, "the limit that came later holds for one that was made before"
    client.signal(program, 9)
    client.read(program)
    client.change("Stop", box)
    assert client.get(box).state == STOPPED and exec_cgroups(daemon, box) == {}
    client.change("Start", box)
    assert exec_cgroups(daemon, box) == {}
    client.run(box, "true")
    ahead(daemon, box)
