"""kill -9 of the daemon in each state, and what the next one makes of it."""

import concurrent.futures
import contextlib
import os
import signal
import socket

import pytest

from control import (DELETED, EXITED, FAILED, LOST, TIMEOUT_S, PAUSED, READY, RUNNING, STOPPED, Lost, Reader, eventually,
                     pairs, pb, refused)
from files import read
from test_exec import PIPE, up

TICKS = "i=0; while [ $i -lt {n} ]; do echo tick-$i; i=$((i+1)); sleep 0.02; done; exit 6"


def expected(count):
    return b"".join(b"tick-%d\n" % i for i in range(count))


def again(daemon):
    daemon.kill()
    return daemon.start()


def test_a_running_program_is_adopted(daemon, client, box):
    """covers: EXEC-14, OUT-10, STORE-3, STORE-4"""
    held = client.sh(box, "until [ -e go ]; do sleep 0.02; done & " + TICKS.format(n=20).replace("exit", "wait; exit")).exec_id
    up(client, held, b"tick-10\n")
    pids = daemon.pids(box, "x-*")
    again(daemon)
    assert client.get(box).state == READY and client.get(box).incarnation == 1
    assert client.found(held).state == RUNNING and pids & daemon.pids(box, "x-*")
    client.write(box, "go", b"")
    got = client.read(held)
    assert got.stdout == expected(20) and got.ended.exit.code == 6
    start = [e for e in client.events() if e.HasField("daemon")][-1].daemon
    assert start.adopted_sandboxes == 1 and start.adopted_execs == 1 and start.lost_execs == 0


def test_a_reader_resumes_by_offset_across_kills(daemon, client, box):
    """covers: OUT-3, OUT-10, RETRY-4"""
    held = client.sh(box, TICKS.format(n=200)).exec_id
    data = b""
    for stop_after in (5, 50, 120):
        watch, reader = client.attach(held, stdout_offset=len(data)), Reader(stdout=len(data))
        while b"tick-%d\n" % stop_after not in data + reader.stdout:
            reader.take(next(watch))
        data += reader.stdout
        again(daemon)
    data += client.read(held, stdout_offset=len(data)).stdout
    assert data == expected(200)


def test_a_program_that_ends_while_no_daemon_runs(daemon, client, box):
    """covers: EXEC-14, STORE-4, EXEC-6"""
    held = client.sh(box, "echo up; read line; echo $line; exit 9", stdin_mode=PIPE).exec_id
    up(client, held)
    client.ask("WriteStdin", exec_id=held, data=b"last\n")
    daemon.kill()
    eventually(lambda: not daemon.pids(box, "x-*"), "the program's end")
    daemon.start()
    got = client.read(held)
    assert got.stdout == b"up\nlast\n" and got.ended.exit.code == 9


def test_the_guest_goes_while_no_daemon_runs(daemon, client, box):
    """covers: STORE-4, SBX-11, SBX-10"""
    done = client.sh(box, "echo up; exit 4").exec_id
    held = client.sh(box, "echo up; sleep 1000").exec_id
    client.wait(done)
    up(client, held)
    client.output_of(box, "echo kept >file")
    daemon.kill()
    daemon.kill_guest(box)
    eventually(lambda: not daemon.pids(box), "the sandbox's end")
    daemon.start()
    gone = client.get(box)
    assert gone.state == STOPPED and gone.reason.cause == pb.STATE_CAUSE_GUEST_LOST
    assert client.get_exec(done).exit.code == 4
    lost = client.get_exec(held)
    assert lost.state == LOST and lost.exit.lost.code == "GUEST_LOST"
    assert client.read(held).stdout == b"up\n"
    start = [e for e in client.events() if e.HasField("daemon")][-1].daemon
    assert start.adopted_sandboxes == 0 and start.lost_execs == 1
    assert client.start(box).incarnation == 2
    assert client.output_of(box, "cat file") == "kept\n"


def lost(client, box):
    gone = client.wait_state(box, STOPPED)
    assert gone.reason.cause == pb.STATE_CAUSE_GUEST_LOST
    assert client.start(box).incarnation == 2
    assert client.output_of(box, "echo here") == "here\n"


def test_a_guest_in_which_nothing_ran_goes_while_no_daemon_runs(daemon, client, box):
    """covers: STORE-3, SBX-11"""
    other = client.create().sandbox_id
    daemon.kill()
    daemon.kill_guest(box)
    eventually(lambda: not daemon.pids(box), "the sandbox's end")
    daemon.start()
    assert client.get(box).state == STOPPED and client.get(other).state == READY
    start = [e for e in client.events() if e.HasField("daemon")][-1].daemon
    assert start.adopted_sandboxes == 1
    lost(client, box)


@pytest.mark.parametrize("program", ["", "sleep 1000"], ids=["nothing ran", "one runs"])
@pytest.mark.parametrize("state", [READY, PAUSED])
def test_a_guest_that_goes_when_the_daemon_has_just_begun_to_listen(daemon, client, box, state, program):
    """Nobody needed it yet, and its end is seen all the same. covers: STORE-3, SBX-11"""
    if program:
        up(client, client.sh(box, "echo up; " + program).exec_id)
    if state == PAUSED:
        client.pause(box)
    again(daemon)
    daemon.kill_guest(box)
    for path in daemon.cgroups().get(box, []):
        if (path / "freezer.state").exists():       # on v1 what is frozen does not die
            (path / "freezer.state").write_text("THAWED")
    lost(client, box)


def test_the_socket_of_a_guest_is_another(daemon, client, box):
    """Whoever put it there: a guest that cannot be reached is ended. covers: STORE-3, SBX-11"""
    names = {sandbox: instance for instance, sandbox in daemon.instances().items()}
    path = daemon.state / "run" / names.get(box, box)
    daemon.kill()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        daemon.start()
        assert client.get(box).state == STOPPED and not daemon.pids(box)
    lost(client, box)


def test_guests_that_the_kernel_does_not_list_are_found_all_the_same(daemon, client, box):
    """It lists the sockets of one's own network namespace. covers: STORE-3, STORE-4"""
    dead, held = client.create().sandbox_id, client.sh(box, "echo up; read line; exit 3", stdin_mode=PIPE).exec_id
    idle = client.create().sandbox_id
    up(client, held)
    daemon.kill()
    daemon.kill_guest(dead)
    daemon.start(prefix=("unshare", "--net"))
    assert [client.get(b).state for b in (box, idle, dead)] == [READY, READY, STOPPED]
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    assert client.wait(held).exit.code == 3
    assert client.output_of(idle, "echo here") == "here\n"
    lost(client, dead)


def test_an_exit_written_before_the_guest_went(daemon, client, box):
    """covers: STORE-4, EXEC-6"""
    held = client.sh(box, "echo up; read line; exit 9", stdin_mode=PIPE).exec_id
    up(client, held)
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    daemon.kill()
    eventually(lambda: not daemon.pids(box, "x-*"), "the program's end")
    status = eventually(lambda: [p for p in (daemon.state / "sandboxes" / box).rglob("*")
                                 if p.is_file() and b'"exited"' in p.read_bytes()], "its status on disk")
    assert status
    daemon.kill_guest(box)
    eventually(lambda: not daemon.pids(box), "the sandbox's end")
    daemon.start()
    assert client.get_exec(held).state == EXITED and client.get_exec(held).exit.code == 9


@pytest.mark.parametrize("state", [READY, PAUSED, STOPPED, DELETED])
def test_each_steady_state_is_found_again(daemon, client, box, state):
    """covers: STORE-1, STORE-3, SBX-4"""
    client.output_of(box, "echo kept >file")
    held = client.exec(box, "sleep", "1000").exec_id
    if state != READY:
        {PAUSED: client.pause, STOPPED: client.stop, DELETED: client.delete}[state](box)
    before = client.get(box)
    again(daemon)
    after = client.get(box)
    assert (after.state, after.incarnation, after.changed_sequence) == (state, 1, before.changed_sequence)
    assert after.spec == before.spec
    if state == PAUSED:
        with refused("SANDBOX_PAUSED"):
            client.exec(box, "true")
        assert client.resume(box).state == READY
    if state in (READY, PAUSED):
        assert client.found(held).state == RUNNING
        assert client.output_of(box, "cat file") == "kept\n"
    elif state == STOPPED:
        client.start(box)
        assert client.output_of(box, "cat file") == "kept\n"


def test_programs_frozen_across_a_restart(daemon, client, box):
    """A stop ends them truly, a resume lets them go on. covers: SBX-8, STORE-3"""
    other = client.create().sandbox_id
    held = {b: client.sh(b, "echo up; read line; echo got-$line; exit 4", stdin_mode=PIPE).exec_id for b in (box, other)}
    for b, e in held.items():
        up(client, e)
        client.pause(b)
    again(daemon)
    with refused("SANDBOX_PAUSED"):
        client.ask("SignalExec", exec_id=held[box], signal_number=15)
    assert client.stop(box).state == STOPPED
    assert client.get_exec(held[box]).exit.WhichOneof("how") in ("signal", "lost")
    client.resume(other)
    client.ask("WriteStdin", exec_id=held[other], data=b"on\n")
    got = client.read(held[other])
    assert got.stdout == b"up\ngot-on\n" and got.ended.exit.code == 4


def test_states_on_their_way_are_finished(daemon, client):
    """covers: STORE-1, STORE-3, SBX-7"""
    stop, delete = client.create().sandbox_id, client.create().sandbox_id
    for box in (stop, delete):
        held = client.sh(box, "trap '' TERM; echo up; while :; do sleep 0.1; done").exec_id
        up(client, held)
    made = [client.create(wait_ms=0).sandbox_id for _ in range(3)]
    client.stop(stop, wait_ms=0, grace_ms=2000)
    client.delete(delete, wait_ms=0)
    again(daemon)
    assert client.stop(stop).state == STOPPED
    assert client.delete(delete).state == DELETED
    for box in made:
        assert client.wait_state(box, READY, FAILED).state == READY
        assert client.run(box, "true").exec.exit.code == 0


def test_a_start_that_was_on_its_way(daemon, client, box):
    """covers: STORE-3"""
    client.stop(box)
    client.start(box, wait_ms=0)
    again(daemon)
    assert client.wait_state(box, READY).incarnation == 2
    assert client.run(box, "true").exec.exit.code == 0


def test_many_kills_in_a_row(daemon, client, box):
    """covers: STORE-3, EVT-1"""
    held = client.sh(box, TICKS.format(n=400)).exec_id
    for _ in range(6):
        again(daemon)
    assert client.read(held).stdout == expected(400)
    assert [e.HasField("daemon") for e in client.events()].count(True) == 7


def test_a_kill_before_it_listens(daemon, client, box):
    """covers: STORE-3"""
    held = client.sh(box, TICKS.format(n=200)).exec_id
    up(client, held, b"tick-3\n")
    for _ in range(4):
        daemon.kill()
        daemon.launch()
    daemon.kill()
    daemon.start()
    assert client.read(held).stdout == expected(200)


def test_a_clean_stop_leaves_sandboxes_running(daemon, client, box):
    """covers: STORE-9, EXEC-14"""
    held = client.sh(box, TICKS.format(n=100)).exec_id
    up(client, held, b"tick-3\n")
    daemon.stop()
    assert daemon.pids(box)
    daemon.start()
    got = client.read(held)
    assert got.stdout == expected(100) and got.ended.exit.code == 6
    events = [e.daemon.state for e in client.events() if e.HasField("daemon")]
    assert events == [pb.DAEMON_STATE_SERVING, pb.DAEMON_STATE_DRAINING, pb.DAEMON_STATE_SERVING]


def test_stop_sandboxes_ends_them(daemon, client, box):
    """covers: STORE-9"""
    daemon.stop()
    daemon.start("--stop-sandboxes")
    held = client.sh(box, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done").exec_id
    up(client, held)
    daemon.stop()
    assert not daemon.pids(box) and not list(daemon.cgroups())
    daemon.start()
    assert client.get(box).state == STOPPED
    assert client.get_exec(held).exit.code == 3 and client.read(held).stdout == b"up\nbye\n"


def test_what_has_no_record_is_swept(daemon, client, box):
    """covers: STORE-3"""
    held = client.exec(box, "sleep", "1000").exec_id
    backup = daemon.directory / "backup"
    daemon.stop()
    backup.mkdir()
    for path in daemon.state.glob("berm.db*"):
        (backup / path.name).write_bytes(path.read_bytes())
    daemon.start()
    orphan = client.create("orphan").sandbox_id
    client.exec(orphan, "sleep", "1000")
    assert daemon.pids(orphan)
    daemon.stop()
    for path in daemon.state.glob("berm.db*"):      # the daemon of before knows nothing of it
        path.unlink()
    owner = (daemon.state).stat()
    for path in backup.iterdir():
        (daemon.state / path.name).write_bytes(path.read_bytes())
        os.chown(daemon.state / path.name, owner.st_uid, owner.st_gid)
        os.chmod(daemon.state / path.name, 0o600)
    daemon.start()
    eventually(lambda: not daemon.pids(orphan), "the end of what was killed before it listened")
    eventually(lambda: not [s for s in daemon.leftovers() if "orphan" in s], lambda: f"gone: {daemon.leftovers()}")
    assert client.found(held).state == RUNNING          # and nobody else was harmed
    assert client.create("orphan").state == READY       # to this state its id is new


def test_berm_spawn_goes_and_the_sandboxes_live_on(daemon, client, box):
    """covers: STORE-3, ERR-7, SBX-18"""
    held = client.sh(box, TICKS.format(n=100)).exec_id
    up(client, held, b"tick-3\n")
    for pid in daemon.processes() - {daemon.process.pid}:
        with contextlib.suppress(ProcessLookupError):       # a child of berm-spawn may go with it
            os.kill(pid, signal.SIGKILL)
    assert daemon.process.wait(TIMEOUT_S) == 1 and "berm-spawn" in daemon.text()    # it cannot do its work
    assert daemon.pids(box)
    daemon.start()
    got = client.read(held)
    assert got.stdout == expected(100) and got.ended.exit.code == 6
    assert client.run(box, "echo", "on").stdout_data == b"on\n"
    assert client.create("later").state == READY


def test_a_guest_without_a_daemon_ends_itself(make):
    """covers: STORE-10, STORE-4"""
    daemon = make("--set", "limits.guest.lease=1000").start()
    client = daemon.client()
    box = client.create().sandbox_id
    held = client.sh(box, "echo up; sleep 1000").exec_id
    up(client, held)
    daemon.kill()
    eventually(lambda: not daemon.pids(box), "the guest's own end")
    daemon.start()
    assert client.get(box).state == STOPPED and client.get(box).reason.cause == pb.STATE_CAUSE_GUEST_LOST
    assert client.get_exec(held).exit.signal.signal_number in (9, 15)      # and that was written down


def test_a_terminal_is_adopted(daemon, client, box):
    """covers: EXEC-14, EXEC-15"""
    held = client.sh(box, "echo up; while read line; do stty size; done", terminal=pb.Terminal()).exec_id
    up(client, held, b"up\r\n")
    again(daemon)
    client.found(held)
    client.ask("ResizeExec", exec_id=held, size=pb.TerminalSize(cols=50, rows=12))
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    up(client, held, b"12 50\r\n")
    client.signal(held, 9)
    assert client.wait(held).exit.signal.signal_number == 9


def test_a_timeout_holds_across_a_kill(daemon, client, box):
    """covers: EXEC-8, EXEC-14"""
    held = client.exec(box, "sleep", "1000", timeout_ms=2000, grace_ms=-1).exec_id
    again(daemon)
    assert client.wait(held).exit.timed_out.timeout_ms == 2000


def test_caps_hold_while_no_daemon_runs(daemon, client, box):
    """covers: OUT-6, OUT-7, OUT-9"""
    cap = 64 << 10
    drop = client.sh(box, "read go; yes | head -c 1000000; echo end", output_limit_bytes=cap, stdin_mode=PIPE).exec_id
    kill = client.sh(box, "read go; yes", output_limit_bytes=cap, output_policy=pb.OUTPUT_POLICY_KILL,
                     stdin_mode=PIPE).exec_id
    for held in (drop, kill):
        client.ask("WriteStdin", exec_id=held, data=b"\n")
    daemon.kill()
    eventually(lambda: not daemon.pids(box, "x-*"), "the programs' ends")
    daemon.start()
    got = client.read(drop)
    assert got.ended.exit.code == 0 and got.stdout.endswith(b"y\nend\n") and len(got.stdout) <= cap and got.gaps
    assert client.wait(kill).exit.output_limit.limit_bytes == cap


def test_watches_go_on_by_their_cursor(daemon, client, box):
    """covers: EVT-1, EVT-3, RETRY-4"""
    seen, cursor = [], 0
    for number in range(4):
        client.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(number)})))
        for message in client.watch(after_sequence=cursor, until_now=True):
            cursor = message.sequence
            seen += [message.event] if message.HasField("event") else []
        again(daemon)
    assert [e.sequence for e in seen] == list(range(1, len(seen) + 1))


def test_updated_limits_hold_after_a_restart(daemon, client, box):
    """covers: SBX-12, STORE-1"""
    client.update(box, limits=pb.Limits(pids=20))
    again(daemon)
    assert client.get(box).spec.limits.pids == 20
    values = [(p / "pids.max").read_text().strip() for p in daemon.cgroups()[box] if (p / "pids.max").exists()]
    assert values == ["20"]
    client.stop(box)
    client.start(box)
    values = [(p / "pids.max").read_text().strip() for p in daemon.cgroups()[box] if (p / "pids.max").exists()]
    assert values == ["20"]


def test_a_kill_from_inside_is_no_lack_of_memory_after_a_restart(daemon, client):
    """covers: EXEC-6, EXEC-11"""
    box = client.create(limits=pb.Limits(memory_bytes=64 << 20)).sandbox_id
    assert client.run(box, "tail", "/dev/zero").exec.exit.WhichOneof("how") == "out_of_memory"
    again(daemon)
    assert client.run(box, "sh", "-c", "kill -9 $$").exec.exit.WhichOneof("how") == "signal"


# --- guests that are not there yet when the daemon listens ---

BACKLOG = 8     # connections that a guest which accepts none was once able to take


@contextlib.contextmanager
def silent(daemon, *boxes):
    """Their guests take connections, which the kernel does for them, and answer nobody."""
    pids = [daemon.guest_pid(box) for box in boxes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def exits(client, box):
    """Codes of the exits that are on record. A caller may be told ahead of that."""
    return [e.exec_exit.exit.code for e in client.events() if e.HasField("exec_exit") and e.sandbox_id == box]


@contextlib.contextmanager
def meanwhile(*functions):
    """Futures of calls that are under way."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as threads:
        yield [threads.submit(function) for function in functions]


def test_a_silent_guest_holds_up_nobody(daemon, client, box):
    """Neither where programs ran nor where none did. covers: STORE-3, STORE-4"""
    idle, other = client.create().sandbox_id, client.create().sandbox_id
    ended, held = [client.sh(box, f"echo up; read line; exit {code}", stdin_mode=PIPE).exec_id for code in (7, 8)]
    up(client, ended)
    up(client, held)
    client.ask("WriteStdin", exec_id=ended, data=b"\n")
    daemon.kill()
    eventually((daemon.state / "sandboxes" / box / f"{ended}.exit").read_bytes, "the program's end")
    with silent(daemon, box, idle):
        daemon.start()
        assert client.output_of(other, "echo here") == "here\n"
        assert all(client.get(b).state == READY for b in (box, idle, other))
        assert client.get_exec(ended).exit.code == 7        # which a caller may have been told
        assert client.get_exec(held).state not in (EXITED, LOST)
        with refused("GUEST_LOST"):
            client.ask("WriteStdin", exec_id=held, data=b"\n")
        start = [e for e in client.events() if e.HasField("daemon")][-1].daemon
        assert (start.adopted_sandboxes, start.adopted_execs, start.lost_execs) == (3, 1, 0)
    assert [client.output_of(b, "echo here") for b in (box, idle)] == ["here\n"] * 2
    client.ask("WriteStdin", exec_id=held, data=b"\n")
    assert client.wait(held).exit.code == 8
    assert eventually(lambda: exits(client, box)[2:], "the event of its end") == [8]
    assert exits(client, box) == [7, 0, 8]
    again(daemon)
    client.output_of(box, "echo here")
    daemon.stop()       # its part of the transcript is in memory until then
    _, _, after = (daemon.state / "sandboxes" / box / "guest.log").read_text().rpartition('"hello"')
    assert ended not in after, "the guest keeps a program that nobody asks about"
    daemon.start()


def test_calls_wait_for_a_guest_that_is_being_greeted(daemon, client, box):
    """covers: STORE-3, STORE-4"""
    client.output_of(box, "echo kept >file")
    eventually(lambda: exits(client, box), "its exit's record")      # else the next daemon counts it as running
    daemon.kill()
    with silent(daemon, box):
        daemon.start()
        assert client.get(box).running_execs == 0
        with meanwhile(lambda: read(client, box, "/workspace/file"),
                       lambda: client.output_of(box, "cat file"),
                       lambda: client.ask("StatFile", sandbox_id=box, path="/workspace/file").info.size_bytes) as asked:
            eventually(lambda: client.get(box).running_execs == 1, lambda: f"the program's intent: {asked}")
            assert not any(call.done() for call in asked)
            os.kill(daemon.guest_pid(box), signal.SIGCONT)
            assert [call.result() for call in asked] == [b"kept\n", "kept\n", 5]


@pytest.mark.parametrize("is_met", [False, True], ids=["unmet", "met by a call"])
def test_a_guest_is_killed_before_it_is_greeted(daemon, client, box, is_met):
    """covers: STORE-4, SBX-11"""
    other = client.create().sandbox_id
    daemon.kill()
    with silent(daemon, box):
        daemon.start()
        assert client.get(box).state == READY
        with meanwhile(lambda: client.run(box, "true") if is_met else None) as (call,):
            eventually(lambda: client.get(box).running_execs == is_met, "the program's intent")
            daemon.kill_guest(box)
            gone = client.wait_state(box, STOPPED)
            assert not is_met or call.result().exec.exit.lost.code == "GUEST_LOST"
    assert gone.reason.cause == pb.STATE_CAUSE_GUEST_LOST
    told = [e.sandbox_state.state for e in client.events() if e.HasField("sandbox_state") and e.sandbox_id == box]
    assert told.count(STOPPED) == 1
    with refused("SANDBOX_STOPPED"):
        client.exec(box, "true")
    assert client.output_of(other, "echo here") == "here\n"


def test_a_paused_one_is_found_by_many_daemons(daemon, client, box):
    """Each leaves a connection that the frozen guest has not taken. covers: STORE-3, SBX-8"""
    client.pause(box)
    for _ in range(BACKLOG + 3):
        again(daemon)
    assert client.get(box).state == PAUSED
    client.resume(box)
    assert client.output_of(box, "echo here") == "here\n"
