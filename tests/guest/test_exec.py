"""Programs: start, output, input, signals, timeouts, exits. Rules EXEC-*, OUT-*, STDIN-*."""

import ctypes
import errno
import hashlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import Exec, GuestError, b64, descendants, freeze, until


def names_below(pid):
    """Names of all that descend from a process; one may end between the look and the read."""
    found = set()
    for child in descendants(pid):
        try:
            with open(f"/proc/{child}/comm") as file:
                found.add(file.read().strip())
        except OSError:
            pass
    return found


def command(pid):
    """Its argv[0]; empty for a zombie and for one that is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0]
    except OSError:
        return b""


def test_a_program_runs_and_its_end_is_told(run):
    x = run("echo out; echo err >&2; exit 3")
    assert x.state["state"] == "running"
    end = x.wait()
    assert end["exit"] == {"code": 3}
    assert x.output() == b"out\n" and x.output("stderr") == b"err\n"
    assert end["stdout_bytes"] == 4 and end["stderr_bytes"] == 4
    assert x.status()["exit"] == {"code": 3}


def test_every_exit_code(run):
    running = [run(f"exit {code}") for code in range(256)]
    assert [x.wait()["exit"] for x in running] == [{"code": code} for code in range(256)]


@pytest.mark.parametrize("sig", [1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 34, 64])
def test_every_kind_of_signal(run, sig):
    assert run(["sh", "-c", f"ulimit -c 0; kill -{sig} $$"]).wait()["exit"] == {"signal": sig}


def test_arguments_are_given_as_they_are(run):
    argv = ["printf", "%s|", "a b", "$HOME", "", "*", "\n", "ü", "'\"\\"]
    x = run(argv)
    x.wait()
    assert x.output() == "a b|$HOME||*|\n|ü|'\"\\|".encode()


def test_exactly_three_descriptors_and_plain_signals(run):
    x = run(["python3", "-c", "import os;print([fd for fd in range(4096) if os.path.exists(f'/proc/self/fd/{fd}')]);"
             "print(open('/proc/self/status').read())"])
    x.wait()
    lines = x.output().decode().splitlines()
    assert lines[0] == "[0, 1, 2]"
    status = dict(line.split(":\t") for line in lines[1:] if ":\t" in line)
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24) == 0     # python itself ignores PIPE and XFSZ
    assert int(status["Umask"], 8) == 0o022


def test_no_signal_is_ignored_at_the_start(run):
    x = run(["grep", "SigIgn", "/proc/self/status"])
    x.wait()
    assert int(x.output().split()[1], 16) == 0


def test_the_environment_is_its_own(run):
    os.environ["BERM_SECRET_OF_THE_TEST"] = "x"
    x = run(["env"], env=[{"key": "A", "value": "1=2"}, {"key": "PATH", "value": "/bin:/usr/bin"}])
    x.wait()
    env = dict(line.split("=", 1) for line in x.output().decode().splitlines())
    assert env["A"] == "1=2" and env["PATH"] == "/bin:/usr/bin" and "HOME" in env
    assert "BERM_SECRET_OF_THE_TEST" not in env


def test_cwd(run, tmp_path):
    x = run("pwd", cwd=str(tmp_path))
    x.wait()
    assert x.output().decode().strip() == str(tmp_path)
    x = run("pwd")
    x.wait()
    assert x.output() == b"/\n"


@pytest.mark.parametrize("argv, params, code", [
    (["no-such-program"], {}, "PROGRAM_NOT_FOUND"),
    (["/no/such/program"], {}, "PROGRAM_NOT_FOUND"),
    (["/etc/passwd"], {}, "PROGRAM_NOT_EXECUTABLE"),
    (["/etc"], {}, "PROGRAM_NOT_EXECUTABLE"),
    (["true"], {"cwd": "/no/such/directory"}, "CWD_NOT_FOUND"),
    (["true"], {"cwd": "/etc/passwd"}, "CWD_NOT_FOUND"),
    (["true"], {"user": "no-such-user"}, "USER_NOT_FOUND"),
])
def test_what_cannot_start_is_told_as_such(run, argv, params, code):
    x = run(argv, **params)
    assert x.state["state"] == "exited"
    assert x.state["exit"]["not_started"]["data"]["code"] == code
    assert json.loads(x.paths["status"].read_text()) == x.state
    assert x.status() == x.state


def test_unstarted_program_is_reported_once_a_full_disk_has_its_status(link, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        for role in ("stdout", "stderr", "status"):
            (small / f"ex-full.{role}").touch()
        with open(small / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))
        x = Exec(link, small, "ex-full", ["no-such-program"])
        assert x.state["state"] == "running"
        assert x.status()["state"] == "running" and not x.has_ended()
        (small / "filler").unlink()
        assert x.wait()["exit"]["not_started"]["data"]["code"] == "PROGRAM_NOT_FOUND"
        x.link.call("done", exec_id=x.id)
        assert not x.has_ended()
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_a_script_without_its_interpreter_is_not_executable(run, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert run([str(script)]).state["exit"]["not_started"]["data"]["code"] == "PROGRAM_NOT_EXECUTABLE"
    script.write_text("echo no magic\n")
    assert run([str(script)]).state["exit"]["not_started"]["data"]["code"] == "PROGRAM_NOT_EXECUTABLE"


@pytest.mark.parametrize("params, field", [
    ({"argv": []}, "argv"), ({"argv": [""]}, "argv"), ({"argv": ["a\0b"]}, "argv"), ({"argv": "ls"}, "argv"),
    ({"argv": ["true"], "env": [{"key": "A", "value": ""}, {"key": "A", "value": ""}]}, "env"),
    ({"argv": ["true"], "env": [{"key": "1A", "value": ""}]}, "env"),
    ({"argv": ["true"], "cwd": "../.."}, "cwd"),
    ({"argv": ["true", "x" * 131072]}, "argv"),
    ({"argv": ["true"] * 4097}, "argv"),
    ({"argv": ["true"], "output": {"policy": "lose", "limit_bytes": 65536}}, "policy"),
    ({"argv": ["true"], "output": {"policy": "kill", "limit_bytes": 1}}, "limit_bytes"),
    ({"argv": ["true"], "exec_id": "-a"}, "exec_id"),
])
def test_wrong_requests_are_refused_by_field(link, params, field):
    output = {"policy": "kill", "limit_bytes": 65536}
    with pytest.raises(GuestError) as error:
        link.call("exec", **{"exec_id": "ex-a", "output": output, **params})
    assert error.value.code == "INVALID_ARGUMENT"
    assert error.value.error["data"]["field"] == field
    assert link.call("status")["execs"] == []


def test_a_known_id_is_not_started_again(run, tmp_path):
    x = run(f"echo once >> {tmp_path}/count; cat", stdin="pipe")
    again = x.link.answer(x.link.send("exec", {**x.request, "fds": 0, "fd_roles": []}))
    assert again["state"] == "running"
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.wait()
    again = x.link.answer(x.link.send("exec", {**x.request, "fds": 0, "fd_roles": []}))
    assert again["exit"] == {"code": 0}
    assert (tmp_path / "count").read_text() == "once\n"


def test_done_forgets(run):
    x = run("cat", stdin="pipe")
    with pytest.raises(GuestError):
        x.link.call("done", exec_id=x.id)
    x.link.call("signal", exec_id=x.id, signal=9)
    assert x.wait()["exit"] == {"signal": 9}
    x.link.call("done", exec_id=x.id)
    x.link.call("done", exec_id=x.id)
    with pytest.raises(GuestError) as error:
        x.status()
    assert error.value.code == "EXEC_NOT_FOUND"


# Output.

def test_what_is_said_last_is_told_by_the_exit(guest, run, tmp_path):
    """A guest that comes late sees output and end in one turn, and then there is no `grew`."""
    go = tmp_path / "go"
    os.mkfifo(go)
    x = run(f"echo first; read x < {go}; echo last")
    x.wait_output(b"first")
    for _ in range(2):
        x.link.call("ping")         # and the turn that told of the first is over
    x.link.notices.clear()
    leader = next(pid for pid in descendants(guest.pid()) if not command(pid).endswith(b"berm-guest"))
    freeze(guest.pid())
    go.write_text("x\n")
    until(lambda: command(leader) == b"", "it never ended")
    os.kill(guest.pid(), signal.SIGCONT)
    x.wait_output(b"last")
    assert x.wait()["stdout_bytes"] == len("first\nlast\n")


def test_64_mib_arrive_exactly(run):
    size = 64 << 20
    code = ("import hashlib,os,sys;h=hashlib.sha256();b=os.urandom(1<<16)\n"
            f"for i in range({size >> 16}):\n c=i.to_bytes(4,'big')+b[4:];h.update(c);os.write(1,c)\n"
            "sys.stderr.write(h.hexdigest())")
    x = run(["python3", "-c", code], output={"policy": "kill", "limit_bytes": size + 1024})
    end = x.wait()
    assert end["exit"] == {"code": 0} and end["stdout_bytes"] == size and end["stdout_first"] == 0
    assert hashlib.sha256(x.output()).hexdigest() == x.output("stderr").decode()


def count_to(n):
    return ["python3", "-c", f"import os\nfor i in range({n}): os.write(1 + i % 2, b'%015d\\n' % i)"]


def test_drop_oldest_keeps_the_newest_and_says_where_it_begins(run):
    cap, n = 1 << 20, 200_000
    x = run(count_to(n), output={"policy": "drop_oldest", "limit_bytes": cap})
    end = x.wait()
    assert end["exit"] == {"code": 0}
    kept = 0
    for stream, odd in (("stdout", 0), ("stderr", 1)):
        data, first = x.output(stream), end[f"{stream}_first"]
        assert len(data) == end[f"{stream}_bytes"] == n // 2 * 16
        assert first > 0
        want = b"".join(b"%015d\n" % i for i in range(odd, n, 2))
        assert data[first:] == want[first:]
        kept += len(data) - first
        blocks = os.stat(x.paths[stream]).st_blocks * 512
        assert blocks <= len(data) - first + 2 * 4096
    assert cap - cap // 16 - 4096 <= kept <= cap


def test_kill_policy_keeps_up_to_the_cap(run):
    x = run("while :; do echo 0123456789abcde; done", output={"policy": "kill", "limit_bytes": 65536})
    end = x.wait()
    assert end["exit"] == {"output_limit": True}
    assert end["stdout_bytes"] == 65536
    assert x.output() == b"0123456789abcde\n" * 4096


def test_exactly_the_cap_is_not_over_it(run):
    x = run("head -c 65536 /dev/zero", output={"policy": "kill", "limit_bytes": 65536})
    assert x.wait()["exit"] == {"code": 0}


def test_block_policy_waits_for_grants(run):
    total = 1 << 20
    x = run(f"head -c {total} /dev/zero; echo done >&2", output={"policy": "block", "limit_bytes": 65536})
    x.link.notice("grew", lambda p: p["stdout_bytes"] == 65536)
    for granted in range(131072, total + 1, 65536):
        assert x.status()["state"] == "running"
        assert sum(os.path.getsize(x.paths[s]) for s in ("stdout", "stderr")) == granted - 65536
        x.link.call("grant", exec_id=x.id, total_bytes=granted)
        x.link.notice("grew", lambda p: p["stdout_bytes"] + p["stderr_bytes"] == granted)
    x.link.call("grant", exec_id=x.id, total_bytes=total + 5)
    assert x.wait()["exit"] == {"code": 0}
    assert x.output("stderr") == b"done\n"


def test_an_end_under_block_waits_for_its_output(run):
    x = run("head -c 100000 /dev/zero", output={"policy": "block", "limit_bytes": 65536})
    x.link.notice("grew", lambda p: p["stdout_bytes"] == 65536)
    until(lambda: "head" not in names_below(os.getpid()), "head never ended")
    assert x.status()["state"] == "running"
    x.link.call("grant", exec_id=x.id, total_bytes=1 << 20)
    assert x.wait()["stdout_bytes"] == 100000


def test_merged_streams_keep_the_programs_order(run):
    x = run("for i in 1 2 3; do echo o$i; echo e$i >&2; done",
            output={"policy": "kill", "limit_bytes": 65536, "merge_stderr": True})
    x.wait()
    assert x.output() == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_output_goes_on_while_nobody_reads(guest, tmp_path):
    from conftest import Exec
    link = guest.connect()
    x = Exec(link, tmp_path, "ex-loud", ["sh", "-c", "head -c 33554432 /dev/zero"])
    link.close()
    until(lambda: x.paths["status"].read_text().endswith("\n"), "no exit while nobody is there")
    link = guest.connect()
    state = link.welcome["execs"][0]
    assert state == json.loads(x.paths["status"].read_text())
    assert state["stdout_bytes"] == 33554432 == os.path.getsize(x.paths["stdout"])


def test_a_log_that_is_not_empty_or_not_a_file_is_refused(link, tmp_path):
    path = tmp_path / "log"
    path.write_text("x")
    pipe = os.pipe()
    for fd in (os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY), pipe[1]):
        with pytest.raises(GuestError) as error:
            link.answer(link.send("exec", {
                "exec_id": "ex-a", "argv": ["true"], "fds": 1, "fd_roles": ["stdout"],
                "output": {"policy": "kill", "limit_bytes": 65536, "merge_stderr": True}}, [fd]))
        assert error.value.code == "INVALID_ARGUMENT"


# Input.

def test_stdin_by_offset(run):
    x = run("cat", stdin="pipe")
    call = x.link.call
    assert call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"hello "))["next_offset"] == 6
    assert call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"hello "))["next_offset"] == 6
    assert call("stdin", exec_id=x.id, offset=3, data_b64=b64(b"lo world"))["next_offset"] == 11
    with pytest.raises(GuestError) as error:
        call("stdin", exec_id=x.id, offset=12, data_b64=b64(b"x"))
    assert error.value.code == "STDIN_OFFSET" and error.value.error["data"]["next_offset"] == 11
    with pytest.raises(GuestError) as error:
        call("close_stdin", exec_id=x.id, offset=12)
    assert error.value.code == "STDIN_OFFSET"
    call("close_stdin", exec_id=x.id, offset=11)
    assert x.wait()["exit"] == {"code": 0}
    assert x.output() == b"hello world"
    with pytest.raises(GuestError) as error:
        call("stdin", exec_id=x.id, offset=11, data_b64=b64(b"x"))
    assert error.value.code == "EXEC_ENDED"


def test_closing_again_succeeds_and_writing_after_fails(run):
    x = run("cat; sleep 1000", stdin="pipe")
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    with pytest.raises(GuestError) as error:
        x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"x"))
    assert error.value.code == "STDIN_CLOSED"
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()


def test_input_has_a_window_and_room_is_told(run, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    x = run(f"read x < {go}; sha256sum; wc -c >&2", stdin="pipe")
    data = os.urandom(1 << 20)
    at, window = 0, 1
    while window:
        r = x.link.call("stdin", exec_id=x.id, offset=at, data_b64=b64(data[at:at + 49152]))
        at, window = r["next_offset"], r["window_bytes"]
    assert at <= 65536 * 2 + 65536
    assert x.link.call("stdin", exec_id=x.id, offset=at, data_b64=b64(b"more"))["next_offset"] == at
    go.write_text("x\n")
    while at < len(data):
        r = x.link.call("stdin", exec_id=x.id, offset=at, data_b64=b64(data[at:at + 49152]))
        if r["next_offset"] == at and r["window_bytes"] == 0:
            # An earlier notice may still lie there; the one that counts is about this offset.
            x.link.notice("stdin_room", lambda p: p["next_offset"] == at and p["window_bytes"] > 0)
        at = r["next_offset"]
    x.link.call("close_stdin", exec_id=x.id, offset=at)
    x.wait()
    assert x.output().split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_program_that_closed_its_input(run):
    x = run("exec <&-; echo closed; sleep 1000", stdin="pipe")
    x.wait_output(b"closed")

    def refused():
        try:
            at = x.status()["stdin_next"]
            x.link.call("stdin", exec_id=x.id, offset=at, data_b64=b64(b"x"))
        except GuestError as error:
            return error.code == "STDIN_CLOSED"

    until(refused, "writing to nobody never failed")
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()


def test_no_input_is_an_empty_one(run):
    x = run("cat")
    assert x.state["stdin_closed"] is True
    assert x.wait()["exit"] == {"code": 0}


# Signals and ends.

TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == 'ignore' else signal.SIG_DFL)
for level in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)             # its child is an orphan in a session of its own
os.write(1, b'x')
time.sleep(1000)
"""


def alive_below(guest):
    def is_ours(pid):
        try:
            return b"time.sleep" in open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            return False
    return [pid for pid in descendants(guest.pid()) if is_ours(pid)]


def all_gone(guest):
    until(lambda: not alive_below(guest), "some of the tree live on")


def timed_out_tree(run, mode, **params):
    """A tree that stood before its time was over; a busy machine gets more time."""
    for timeout_ms in (700, 5000, 20000):
        x = run(["python3", "-c", TREE, mode], timeout_ms=timeout_ms, **params)
        end = x.wait()
        if x.output() == b"x" * 8:
            return end
    raise AssertionError("the tree never stood")


@pytest.mark.parametrize("mode", ["ignore", "default"])
def test_a_timeout_ends_the_whole_tree(guest, run, mode):
    end = timed_out_tree(run, mode, grace_ms=200 if mode == "ignore" else 60000)
    assert end["exit"] == {"timed_out": {"signal": 9 if mode == "ignore" else 15}}
    all_gone(guest)


def test_a_signal_reaches_the_whole_tree(guest, run):
    x = run(["python3", "-c", TREE, "default"])
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=15)
    assert x.wait()["exit"] == {"signal": 15}
    all_gone(guest)


def test_a_kill_reaches_those_that_ignore(guest, run):
    x = run(["python3", "-c", TREE, "ignore"])
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=9)
    assert x.wait()["exit"] == {"signal": 9}
    all_gone(guest)


def test_a_signal_for_the_leader_alone(guest, run):
    x = run(["python3", "-c", TREE.replace("time.sleep(1000)",
             "time.sleep(1000) if os.getpid() != first else signal.pause()").replace(
             "import os", "import os; first = os.getpid()\nimport os", 1), "default"], keep_descendants=True)
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=15, leader_only=True)
    assert x.wait()["exit"] == {"signal": 15}
    # Those between them and the leader may still be ending.
    rest = until(lambda: len(found := alive_below(guest)) == 7 and found, "not seven of the tree live on")
    for pid in rest:
        os.kill(pid, 9)


def test_a_stopped_program_is_ended_by_its_timeout(run):
    x = run("kill -STOP $$", timeout_ms=300, grace_ms=60000)
    assert x.wait()["exit"] == {"timed_out": {"signal": 15}}


def test_signals_to_what_has_ended(run):
    x = run("true")
    x.wait()
    with pytest.raises(GuestError) as error:
        x.link.call("signal", exec_id=x.id, signal=9)
    assert error.value.code == "EXEC_ENDED"


def test_what_a_program_leaves_is_killed(guest, run):
    x = run("sleep 1000 & setsid sleep 1000 & exit 5")
    assert x.wait()["exit"] == {"code": 5}
    until(lambda: not [p for p in descendants(guest.pid())], "something is left")


def test_what_a_program_leaves_may_live_on(guest, run, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    x = run(f"(read x < {go}; echo late; echo survived > {tmp_path}/late; sleep 1000) & echo early",
            keep_descendants=True)
    end = x.wait()
    assert end["exit"] == {"code": 0} and end["stdout_bytes"] == 6
    x.link.call("done", exec_id=x.id)
    go.write_text("x\n")
    until(lambda: (tmp_path / "late").exists(), "the descendant broke on its output")
    assert x.output() == b"early\n"
    rest = descendants(guest.pid())
    assert rest
    guest.stop()
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in rest), "it outlived the guest")


def test_a_grandchild_that_holds_the_pipes_does_not_hold_the_end(run, tmp_path):
    """One that is no descendant, so no kill reaches it: it gets the pipe by a socket."""
    path = str(tmp_path / "s")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    x = run(["python3", "-c", "import socket,sys\ns=socket.socket(socket.AF_UNIX);"
             f"s.connect({path!r});socket.send_fds(s,[b'x'],[1,2]);s.recv(1)"])
    peer, _ = server.accept()
    _, fds, _, _ = socket.recv_fds(peer, 1, 2)
    os.write(fds[0], b"kept")
    peer.send(b"x")
    assert x.wait()["exit"] == {"code": 0}
    assert x.output() == b"kept"
    for fd in fds:
        os.close(fd)


# Terminals.

def test_a_terminal(run):
    x = run("tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo $TERM; cat",
            terminal={"cols": 101, "rows": 42, "term": "dumb"})
    x.wait_output(b"dumb")
    lines = x.output().decode().split("\r\n")
    assert lines[0].startswith("/dev/pts/") and lines[1] == "42 101" and lines[2] == "dumb"
    x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"typed\n"))
    x.wait_output(b"typed\r\ntyped\r\n")
    x.link.call("stdin", exec_id=x.id, offset=6, data_b64=b64(b"\x03"))
    end = x.wait()
    assert end["exit"] == {"signal": 2}
    assert end["stderr_bytes"] == 0


def test_resize_sends_winch(run):
    # It does not wait for input: a signal just before that would be acted on just after it.
    x = run("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done", terminal={"cols": 80, "rows": 24})
    x.wait_output(b"ready")
    x.link.call("resize", exec_id=x.id, cols=132, rows=50)
    x.wait_output(b"50 132")
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()
    with pytest.raises(GuestError) as error:
        x.link.call("resize", exec_id=x.id, cols=1, rows=1)
    assert error.value.code == "EXEC_ENDED"


def test_resize_without_a_terminal(run):
    x = run("cat", stdin="pipe")
    with pytest.raises(GuestError) as error:
        x.link.call("resize", exec_id=x.id, cols=80, rows=24)
    assert error.value.code == "EXEC_NO_TERMINAL"
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.wait()


@pytest.mark.parametrize("typed", [b"", b"line\n", b"half a line"])
def test_the_end_of_a_terminals_input(run, typed):
    x = run("cat > /dev/null; echo ended", terminal={"cols": 80, "rows": 24})
    x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(typed))
    x.link.call("close_stdin", exec_id=x.id, offset=len(typed))
    assert x.wait()["exit"] == {"code": 0}
    assert b"ended" in x.output()


def test_job_control_works(run):
    x = run(["bash", "-i"], terminal={"cols": 80, "rows": 24}, env=[{"key": "PS1", "value": "> "}])
    x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"sleep 1000\n"))
    x.wait_output(b"sleep 1000")
    until(lambda: "sleep" in names_below(os.getpid()), "no sleep")
    x.link.call("stdin", exec_id=x.id, offset=11, data_b64=b64(b"\x1a"))
    x.wait_output(b"Stopped")
    x.link.call("stdin", exec_id=x.id, offset=12, data_b64=b64(b"kill -9 %1; wait %1; exit 7\nexit 7\n"))
    assert x.wait()["exit"] == {"code": 7}
    assert b"exit" in x.output()


# A cgroup of the program's own.

def removed(group):
    try:
        os.rmdir(group)
        return True
    except OSError as error:        # those that it no longer lists may still be ending
        assert error.errno == errno.EBUSY
        return False


@pytest.fixture
def leaf(tmp_path):
    """A v2 cgroup as berm-spawn would pass it; whatever is in it dies with the test."""
    roots = [p for p in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if os.path.exists(f"{p}/cgroup.procs")]
    if os.geteuid() != 0 or not roots:
        pytest.skip("needs root and a cgroup v2 tree")
    path = f"{roots[0]}/berm-test-{os.getpid()}-{time.monotonic_ns()}"
    os.mkdir(path)
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)
    with open(f"{path}/cgroup.kill", "w") as file:
        file.write("1")
    until(lambda: removed(path), "the leaf never emptied")


def test_a_program_is_born_in_its_leaf(run, leaf):
    x = run("cat /proc/self/cgroup; ls /proc/self/fd | head -c 6; exit 3", leaf=leaf)
    assert x.wait()["exit"] == {"code": 3}
    assert b"/berm-test-" in x.output() and x.output().endswith(b"0\n1\n2\n")


@pytest.mark.parametrize("sig", [15, 9])
def test_a_leaf_is_signalled_whole(guest, run, leaf, sig):
    x = run(["python3", "-c", TREE, "default"], leaf=leaf)
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=sig)
    assert x.wait()["exit"] == {"signal": sig}
    all_gone(guest)


def test_a_leafs_timeout_reaches_those_that_ignore(guest, run, leaf):
    end = timed_out_tree(run, "ignore", leaf=leaf, grace_ms=200)
    assert end["exit"] == {"timed_out": {"signal": 9}}
    all_gone(guest)


def test_what_a_leaf_holds_after_the_leader_is_killed(guest, run, leaf):
    x = run("sleep 1000 & setsid sleep 1000 & exit 5", leaf=leaf)
    assert x.wait()["exit"] == {"code": 5}
    until(lambda: not descendants(guest.pid()), "something is left")


def test_what_cannot_start_in_a_leaf(run, leaf):
    assert run(["no-such-program"], leaf=leaf).state["exit"]["not_started"]["data"]["code"] == "PROGRAM_NOT_FOUND"


MIB = 1 << 20
TOUCH = "b = b'x' * (64 << 20)"
LEFT = (f"import os, time; r, w = os.pipe()\nif os.fork() == 0: {TOUCH}; os.write(w, b'1'); time.sleep(1000)\n"
        "os.read(r, 1); os._exit(0)")      # the one with the memory is never waited for by its parent
WAITED = f"import os\nif os.fork() == 0: {TOUCH}; os._exit(0)\nos.wait()"


@pytest.mark.parametrize("within", ["shepherd", "leaf"])
@pytest.mark.parametrize("code, least, most", [(TOUCH, 64, 128), (LEFT, 64, 128), (WAITED, 64, 128), ("pass", 1, 32)],
                         ids=["itself", "left", "waited", "little"])
def test_the_largest_process_is_told(run, request, within, code, least, most):
    place = {"leaf": request.getfixturevalue("leaf")} if within == "leaf" else {}
    x = run(["python3", "-c", code], **place)
    assert "max_rss_bytes" not in x.state
    end = x.wait()
    assert end["exit"] == {"code": 0}
    assert least * MIB <= end["max_rss_bytes"] < most * MIB
    assert x.status()["max_rss_bytes"] == end["max_rss_bytes"]


HELD = (f"import os, sys, time; r, w = os.pipe(); child = os.fork()\nif child == 0: {TOUCH}; os.write(w, b'1'); time.sleep(1000)\n"
        "os.read(r, 1); print(child, flush=True); open(sys.argv[1]).read(); os._exit(0)")


@pytest.mark.parametrize("within", ["shepherd", "leaf"])
def test_one_whose_end_takes_a_while_counts(run, request, tmp_path, within):
    """As on a busy machine. A traced process that has ended is its tracer's first, and only then its parent's."""
    place = {"leaf": request.getfixturevalue("leaf")} if within == "leaf" else {}
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    seize, any_child, held = 0x4206, 0x40000000, 2
    while held > 1.2:                       # a machine that stood still meanwhile shows nothing
        go = tmp_path / f"go{time.monotonic_ns()}"
        os.mkfifo(go)
        x = run(["python3", "-c", HELD, str(go)], **place)
        x.wait_output(b"\n")
        child = int(x.output())
        assert ptrace(seize, child, None, None) == 0, os.strerror(ctypes.get_errno())
        begin = time.monotonic()
        go.write_text("")
        until(lambda: command(child) == b"", "it was never killed")
        time.sleep(max(0, begin + 0.8 - time.monotonic()))
        assert os.waitpid(child, any_child)[0] == child
        held = time.monotonic() - begin
        end = x.wait()
    assert end["max_rss_bytes"] >= 64 * MIB


def test_each_program_has_its_own_largest(run, leaf):
    large, small = run(["python3", "-c", TOUCH], leaf=leaf), run(["true"])
    assert large.wait()["max_rss_bytes"] >= 64 * MIB > small.wait()["max_rss_bytes"]


def test_what_never_ran_had_no_memory(run):
    assert run(["no-such-program"]).state["max_rss_bytes"] == 0


def test_the_child_joins_cgroups_by_writing(run, leaf):
    procs = os.open("cgroup.procs", os.O_WRONLY, dir_fd=leaf)
    x = run("cat /proc/self/cgroup", cgroups=[procs])
    os.close(procs)
    assert x.wait()["exit"] == {"code": 0}
    assert b"/berm-test-" in x.output()


def test_descriptors_the_guest_was_born_with_go_no_further(make_guest, tmp_path):
    from conftest import Exec
    guest = make_guest(prefix=["bash", "-c", 'exec 50</etc/passwd; exec "$@"', "bash"])
    link = guest.connect()
    assert os.path.exists(f"/proc/{guest.pid()}/fd/50")
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", "ls /proc/$$/fd"])
    x.wait()
    assert x.output() == b"0\n1\n2\n"
