"""Programs: how they start, what they get, how they end, and that nothing is invented."""

import os
import signal
import threading

import grpc
import pytest

from control import EXITED, TIMEOUT_S, RUNNING, SLOW, Lost, Refused, eventually, fresh, pairs, pb, refused

PIPE = pb.STDIN_MODE_PIPE
UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"
BEGUN_MS = 4000 * SLOW      # by then a script has come to what it is to do, on a machine that stands still for a while, too


@pytest.fixture
def daemon(shared):
    """One for all tests of this file, without a sandbox between them."""
    yield shared
    shared.empty()


def up(client, exec_id, word=b"up\n"):
    """Returns when the program has said so."""
    seen, watch = b"", client.attach(exec_id)
    for message in watch:
        seen += message.output.data
        if word in seen:
            watch.close()
            return
    raise AssertionError(f"it ended with {seen}")


def how(exec_):
    return exec_.exit.WhichOneof("how")


def test_argv_reaches_the_program_as_it_is(client, box):
    """covers: EXEC-1"""
    odd = ["", " ", "a b", "$HOME", "*", "`id`", "'\"", "\\", "é\n", "-n"]
    done = client.run(box, "printf", "%s\\0", *odd)
    assert done.stdout_data == "".join(f"{word}\0" for word in odd).encode()
    with refused("INVALID_ARGUMENT", field="spec.argv"):
        client.exec(box)


def test_the_environment(client):
    """covers: EXEC-2"""
    box = client.create(env={"A": "sandbox", "B": "sandbox"}).sandbox_id
    assert client.output_of(box, "echo $A $B $C", env={"B": "exec", "C": "exec"}) == "sandbox exec exec\n"
    spec = pb.ExecSpec(argv=["true"], env=[*pairs({"X": "1"}), *pairs({"X": "2"})])
    with refused("INVALID_ARGUMENT"):
        client.ask("StartExec", sandbox_id=box, spec=spec)
    for bad in ("", "1A", "A-B", "A=B", "ä"):
        with refused("INVALID_ARGUMENT"):
            client.exec(box, "true", env={bad: "x"})
        with refused("INVALID_ARGUMENT"):
            client.create(env={bad: "x"})
    with refused("INVALID_ARGUMENT"):
        client.ask("CreateSandbox", spec=pb.SandboxSpec(env=[*pairs({"X": "1"}), *pairs({"X": "2"})]))


def test_bounds_of_what_is_run(client, box):
    """covers: EXEC-3, SIZE-2"""
    with refused("INVALID_ARGUMENT"):
        client.exec(box, "true", *["x"] * 4096)
    with refused("INVALID_ARGUMENT"):
        client.exec(box, "true", "x" * 131072)
    with refused("INVALID_ARGUMENT"):
        client.exec(box, "true", env={f"V{i}": "" for i in range(513)})
    assert client.run(box, "true", *["x"] * 4095).exec.exit.code == 0
    assert client.run(box, "true", "x" * 100000).exec.exit.code == 0
    for field, value in (("timeout_ms", -2), ("grace_ms", -2), ("grace_ms", 60001), ("output_limit_bytes", 65535),
                         ("output_policy", 99), ("stdin_mode", 99)):
        with refused("INVALID_ARGUMENT", field=f"spec.{field}"):
            client.exec(box, "true", **{field: value})
    with refused("INVALID_ARGUMENT"):
        client.exec(box, "true", labels={f"k{i}": "" for i in range(17)})


@pytest.mark.parametrize("reason, argv, spec", [
    ("PROGRAM_NOT_FOUND", ["/no/such"], {}), ("PROGRAM_NOT_FOUND", ["no-such-program"], {}),
    ("PROGRAM_NOT_EXECUTABLE", ["/etc/passwd"], {}),
    ("CWD_NOT_FOUND", ["true"], {"cwd": "/no/such"}), ("CWD_NOT_FOUND", ["true"], {"cwd": "/etc/passwd"}),
    ("USER_NOT_FOUND", ["true"], {"user": "nobody-has-this-name"})])
def test_what_cannot_be_started(client, box, reason, argv, spec):
    """covers: EXEC-4"""
    mine = fresh("mine")
    with refused(reason) as error:
        client.exec(box, *argv, exec_id=mine, **spec)
    assert error.metadata["exec_id"] == mine
    record = client.get_exec(mine)
    assert record.state == EXITED and record.exit.not_started.code == reason and record.started_unix_ms == 0
    with refused(reason):
        client.run(box, *argv, **spec)


def test_the_program_gets_three_descriptors_and_default_signals(client, box):
    """covers: EXEC-5"""
    assert client.output_of(box, "ls /proc/self/fd").split()[:3] == ["0", "1", "2"]
    assert client.run(box, "sh", "-c", "exec ls /proc/$$/fd").stdout_data.split() in (
        [b"0", b"1", b"2"], [b"0", b"1", b"2", b"3"])          # 3 is ls reading the directory
    status = client.output_of(box, "grep -E '^(SigIgn|SigBlk|CapEff|CapPrm|CapAmb|NoNewPrivs):' /proc/self/status")
    values = dict(line.split(":\t") for line in status.splitlines())
    assert {int(v, 16) for k, v in values.items() if k != "NoNewPrivs"} == {0}, values


def test_exits_are_what_was_seen(client, box):
    """covers: EXEC-6"""
    for code in (0, 1, 255):
        done = client.run(box, "sh", "-c", f"exit {code}").exec
        assert how(done) == "code" and done.exit.code == code
    killed = client.run(box, "sh", "-c", "kill -SEGV $$").exec.exit.signal
    assert killed.signal_number == 11 and killed.source == pb.SIGNAL_SOURCE_SANDBOX
    # What a shell would call 137 is no signal.
    assert client.run(box, "sh", "-c", "exit 137").exec.exit.code == 137


def test_the_exit_never_changes(daemon, client, box):
    """covers: EXEC-6, STORE-1"""
    done = client.run(box, "sh", "-c", "exit 7").exec
    assert client.get_exec(done.exec_id) == done
    daemon.kill()
    daemon.start()
    assert client.get_exec(done.exec_id).exit == done.exit
    client.stop(box)
    assert client.get_exec(done.exec_id).exit == done.exit


def test_the_end_of_the_first_process_ends_the_program(daemon, client, box):
    """covers: EXEC-7"""
    done = client.run(box, "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 5").exec
    assert done.exit.code == 5
    assert len(daemon.pids(box, "x-*")) == 0
    eventually(lambda: client.output_of(box, "ps -e -o comm= | grep -c sleep || true") == "0\n", "the end of what was killed")


def test_descendants_that_may_live_on(daemon, client, box):
    """covers: EXEC-7"""
    done = client.run(box, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; exit 5",
                      keep_descendants=True).exec
    assert done.exit.code == 5
    assert client.output_of(box, "ps -e -o comm= | grep -c sleep") == "1\n"
    client.stop(box, grace_ms=-1)
    assert not daemon.pids(box)


@pytest.mark.parametrize("script, number, timeout_ms, grace_ms", [
    ("sleep 1000", 15, 500, 30000), ("trap '' TERM; while :; do sleep 0.1; done", 9, BEGUN_MS, 500),
    ("trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & while :; do sleep 0.1; done", 9, BEGUN_MS, 500)])
def test_a_timeout_ends_the_whole_tree(daemon, client, box, script, number, timeout_ms, grace_ms):
    """covers: EXEC-8, EXEC-6"""
    done = client.run(box, "sh", "-c", script, timeout_ms=timeout_ms, grace_ms=grace_ms).exec
    assert how(done) == "timed_out" and done.exit.timed_out.timeout_ms == timeout_ms
    assert done.exit.timed_out.signal_number == number
    assert not daemon.pids(box, "x-*")


def test_a_timeout_with_the_pipes_held_open(client, box):
    """covers: EXEC-8"""
    done = client.run(box, "sh", "-c", "(setsid sleep 1000 &) ; echo text; sleep 1000",
                      timeout_ms=BEGUN_MS, grace_ms=-1)
    assert how(done.exec) == "timed_out" and done.stdout_data == b"text\n"


def test_the_sandboxs_own_bound_on_time(client):
    """covers: EXEC-8"""
    box = client.create(limits=pb.Limits(exec_wall_ms=500)).sandbox_id
    assert how(client.run(box, "sleep", "1000").exec) == "timed_out"
    with refused("INVALID_ARGUMENT", field="spec.timeout_ms"):
        client.run(box, "true", timeout_ms=501)


def test_a_signal_reaches_the_tree_or_the_leader(client, box):
    """covers: EXEC-9, EXEC-6"""
    tree = client.sh(box, "trap 'echo leader' TERM; "
                          "sh -c 'trap \"echo child; exit\" TERM; echo up; while :; do sleep 0.05; done' & wait; wait; exit 4")
    up(client, tree.exec_id)
    client.signal(tree.exec_id, signal.SIGTERM)
    ended = client.read(tree.exec_id)
    assert sorted(ended.stdout.split()) == [b"child", b"leader", b"up"] and ended.ended.exit.code == 4
    alone = client.sh(box, "sh -c 'trap \"echo child\" USR1; while :; do sleep 0.05; done' & "
                           "trap 'echo leader; exit 3' USR1; echo up; wait")
    up(client, alone.exec_id)
    client.signal(alone.exec_id, signal.SIGUSR1, leader_only=True)
    assert client.read(alone.exec_id).stdout == b"up\nleader\n"
    killed = client.exec(box, "sleep", "1000")
    client.signal(killed.exec_id, signal.SIGKILL)
    end = client.wait(killed.exec_id).exit.signal
    assert end.signal_number == 9 and end.source == pb.SIGNAL_SOURCE_CALLER
    with refused("EXEC_ENDED", exec_id=killed.exec_id):
        client.signal(killed.exec_id, 15)
    for bad in (0, -1, 65):
        with refused("INVALID_ARGUMENT", field="signal_number"):
            client.signal(killed.exec_id, bad)


def test_a_caller_that_goes_away_ends_nothing(daemon, client, box):
    """covers: EXEC-10, RPC-9"""
    brief, mine, head = daemon.client(), fresh("mine"), client.info().head_sequence
    call = brief.method("RunExec").future(pb.RunExecRequest(
        sandbox_id=box, exec_id=mine, spec=pb.ExecSpec(argv=["sh", "-c", f"echo up; {UNTIL_GO}; echo on"])), timeout=TIMEOUT_S)
    started = next(m for m in client.watch(after_sequence=head) if m.event.HasField("exec_start"))
    assert started.event.exec_start.exec_id == mine
    call.cancel()
    brief.close()
    up(client, mine)
    late = next(filter(None, (outrun(client, client.create().sandbox_id, seconds) for seconds in (0.5, 5, TIMEOUT_S))))
    for sandbox_id in (box, client.get_exec(late).sandbox_id):
        client.write(sandbox_id, "go", b"")
    got = client.read(mine)
    assert got.stdout == b"up\non\n" and got.ended.exit.code == 0
    assert client.wait(late).exit.code == 0


def outrun(client, box, seconds):
    """A program that runs when its caller's deadline passes; None when that was too soon for it to begin."""
    late = fresh("late")
    with pytest.raises((Lost, Refused)):
        client.run(box, "sh", "-c", UNTIL_GO, exec_id=late, timeout=seconds)
    return next((x.exec_id for x in client.list_execs(sandbox_id=box)), None)


def test_usage_counts_everything_and_is_final(client, box):
    """covers: EXEC-12"""
    busy = client.run(box, "sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo text; echo err >&2",
                      stdin=b"12345").exec
    usage = busy.usage
    assert usage.cpu_user_us + usage.cpu_system_us > 10000 and usage.wall_us > 0
    assert usage.stdin_bytes in (0, 5) and usage.stdout_bytes == 5 and usage.stderr_bytes == 4
    assert client.get_exec(busy.exec_id).usage == usage
    held = client.sh(box, "echo up; read line", stdin_mode=PIPE)
    up(client, held.exec_id)
    assert client.get_exec(held.exec_id).usage.wall_us > 0
    exits = [e.exec_exit for e in client.events() if e.exec_exit.exec_id == busy.exec_id]
    assert [e.usage for e in exits] == [usage]


def test_programs_at_once(client):
    """covers: EXEC-13, SIZE-2"""
    box, more = client.create(limits=pb.Limits(execs=3)).sandbox_id, fresh("more")
    held = [client.exec(box, "cat", stdin_mode=PIPE).exec_id for _ in range(3)]
    with refused("LIMIT_REACHED", limit_value=3):
        client.exec(box, "true", exec_id=more)
    assert client.get(box).running_execs == 3
    assert [s.running_execs for s in client.list() if s.sandbox_id == box] == [3]
    watched = client.watch(now=pb.StartNow(), include_snapshot=True, sandbox_ids=[box])
    assert next(m.sandbox for m in watched if m.HasField("sandbox")).running_execs == 3
    client.ask("CloseStdin", exec_id=held[0])
    client.wait(held[0])
    assert client.run(box, "true", exec_id=more).exec.exit.code == 0


def test_a_terminal(client, box):
    """covers: EXEC-15, STDIN-4"""
    size = pb.TerminalSize(cols=100, rows=30)
    held = client.sh(box, "tty; stty size; echo $TERM; trap 'stty size; resized=1' WINCH; echo up; "
                          "until [ $resized ]; do sleep 0.02; done; "       # a read may begin just after the signal
                          "while read line; do echo got $line; done; echo eof", terminal=pb.Terminal(size=size))
    assert len(held.output) == 1
    up(client, held.exec_id, b"up\r\n")
    client.ask("ResizeExec", exec_id=held.exec_id, size=pb.TerminalSize(cols=90, rows=20))
    up(client, held.exec_id, b"20 90\r\n")
    client.ask("WriteStdin", exec_id=held.exec_id, data=b"line\n")
    up(client, held.exec_id, b"got line\r\n")
    client.ask("CloseStdin", exec_id=held.exec_id, offset=5)
    text = client.read(held.exec_id).stdout
    assert b"/dev/pts/" in text and b"30 100\r\nxterm-256color\r\n" in text and b"20 90\r\n" in text
    assert text.endswith(b"eof\r\n"), text
    plain = client.exec(box, "cat", stdin_mode=PIPE).exec_id
    with refused("EXEC_NO_TERMINAL", exec_id=plain):
        client.ask("ResizeExec", exec_id=plain, size=size)
    for bad in ({"cols": 0, "rows": 1}, {"cols": 1, "rows": 4097}):
        with refused("INVALID_ARGUMENT"):
            client.exec(box, "true", terminal=pb.Terminal(size=pb.TerminalSize(**bad)))
    with refused("INVALID_ARGUMENT", field="spec.terminal"):
        client.run(box, "true", terminal=pb.Terminal())


def test_merged_output_has_the_programs_own_order(client, box):
    """covers: EXEC-16"""
    done = client.run(box, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done", merge_stderr=True)
    assert done.stdout_data == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 10)) and not done.stderr_data
    assert len(done.exec.output) == 1


def test_records_stay_until_the_sandbox_goes(client, box):
    """covers: EXEC-17"""
    ids = [client.run(box, "echo", str(i)).exec.exec_id for i in range(20)]
    client.stop(box)
    client.start(box)
    for number, exec_id in enumerate(ids):
        assert client.get_exec(exec_id).incarnation == 1
        assert client.read(exec_id).stdout == b"%d\n" % number
    client.delete(box)
    with refused("EXEC_NOT_FOUND"):
        client.get_exec(ids[0])


def test_run_answers_with_the_first_bytes(client, box):
    """covers: EXEC-18"""
    done = client.run(box, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo short >&2")
    assert done.stdout_data == b"x" * (1 << 20) and done.stdout_truncated
    assert done.stderr_data == b"short\n" and not done.stderr_truncated
    assert client.read(done.exec.exec_id, stdout_offset=1 << 20).stdout == b"x" * (3000000 - (1 << 20))
    few = client.run(box, "echo", "0123456789", most=4)
    assert few.stdout_data == b"0123" and few.stdout_truncated
    whole = client.run(box, "echo", "0123456789")
    assert whole.stdout_data == b"0123456789\n" and not whole.stdout_truncated
    for bad in (-1, (1 << 20) + 1):
        with refused("INVALID_ARGUMENT", field="max_output_bytes"):
            client.run(box, "true", most=bad)


def test_run_gives_all_of_its_input(client, box):
    """covers: EXEC-18, STDIN-2"""
    data = bytes(range(256)) * 4096
    assert client.run(box, "cat", stdin=data).stdout_data == data
    assert client.run(box, "head", "-c", "1", stdin=data).stdout_data == data[:1]
    assert client.run(box, "cat").stdout_data == b""
    with refused("INVALID_ARGUMENT", field="stdin_data"):
        client.run(box, "cat", stdin=bytes((1 << 20) + 1))


class Interactive:
    """An Interact call whose requests are given one by one."""

    def __init__(self, client, *first):
        self.parts, self.more, self.over = list(first), threading.Condition(), False
        self.call = client.method("Interact")(self.requests(), timeout=TIMEOUT_S)
        self.messages = client.messages(self.call)

    def requests(self):
        while True:
            with self.more:
                self.more.wait_for(lambda: self.parts or self.over)
                if not self.parts:
                    return
                part = self.parts.pop(0)
            yield pb.InteractRequest(**part)

    def send(self, **part):
        with self.more:
            self.parts.append(part)
            self.more.notify()

    def close(self):
        with self.more:
            self.over = True
            self.more.notify()
        self.messages.close()

    def until(self, wanted):
        seen = []
        for message in self.messages:
            seen.append(message)
            if wanted(message):
                return seen
        return seen


def test_interact(client, box):
    """covers: EXEC-19, STDIN-1"""
    name = fresh("talk")
    start = pb.StartExecRequest(sandbox_id=box, exec_id=name, spec=pb.ExecSpec(argv=["cat"], stdin_mode=PIPE))
    talk = Interactive(client, {"start": start})
    first = next(talk.messages)
    assert first.attached.exec_id == name and first.sequence == 1
    talk.send(input=pb.StdinChunk(offset=0, data=b"hello\n"))
    seen = talk.until(lambda m: m.output.data.endswith(b"\n"))
    assert b"".join(m.output.data for m in seen) == b"hello\n"
    talk.close()
    assert client.get_exec(name).state == RUNNING            # the end of the stream ends no program
    again = Interactive(client, {"attach": pb.AttachExecRequest(exec_id=name)})
    assert next(again.messages).attached.input.next_offset == 6
    again.send(input=pb.StdinChunk(offset=0, data=b"hello\nmore\n"))      # what was taken is skipped
    again.send(input_end=pb.StdinEnd(offset=11))
    last = again.until(lambda m: m.HasField("exited"))
    assert b"".join(m.output.data for m in last) == b"hello\nmore\n" and last[-1].exited.exit.code == 0
    accepted = [m.input_accepted.next_offset for m in last if m.HasField("input_accepted")]
    assert accepted == sorted(accepted) and accepted[-1:] == [11]
    again.close()


def test_interact_with_a_terminal(client, box):
    """covers: EXEC-19, EXEC-15"""
    spec = pb.ExecSpec(argv=["sh"], terminal=pb.Terminal())
    talk = Interactive(client, {"start": pb.StartExecRequest(sandbox_id=box, spec=spec)})
    talk.send(resize=pb.TerminalSize(cols=33, rows=11))
    talk.send(input=pb.StdinChunk(offset=0, data=b"stty size; echo $((40+2))\n"))
    text = b"".join(m.output.data for m in talk.until(lambda m: b"42" in m.output.data))
    assert b"11 33" in text
    talk.send(signal_number=9)
    end = talk.until(lambda m: m.HasField("exited"))[-1].exited
    assert end.exit.signal.signal_number == 9 and end.exit.signal.source == pb.SIGNAL_SOURCE_CALLER
    talk.close()


@pytest.mark.parametrize("first", [
    {"input": pb.StdinChunk(data=b"x")}, {"signal_number": 9}, {"resize": pb.TerminalSize(cols=1, rows=1)}, {}])
def test_interact_begins_with_start_or_attach(client, first):
    """covers: EXEC-19"""
    talk = Interactive(client, first)
    with refused("INVALID_ARGUMENT"):
        next(talk.messages)
    talk.close()


def test_interact_begins_only_once(client, box):
    """covers: EXEC-19"""
    name = fresh("talk")
    start = pb.StartExecRequest(sandbox_id=box, exec_id=name, spec=pb.ExecSpec(argv=["sleep", "1000"]))
    talk = Interactive(client, {"start": start}, {"attach": pb.AttachExecRequest(exec_id=name)})
    with refused("INVALID_ARGUMENT"):
        talk.until(lambda m: False)
    talk.close()
    assert client.get_exec(name).state == RUNNING


def test_many_programs_at_once(client, box):
    """covers: EXEC-6, OUT-1"""
    ids = [client.sh(box, f"echo {i}; exit {i}").exec_id for i in range(50)]
    for number, exec_id in enumerate(ids):
        got = client.read(exec_id)
        assert got.stdout == b"%d\n" % number and got.ended.exit.code == number
    assert client.get(box).running_execs == 0
