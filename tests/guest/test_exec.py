"""Programs: start, output, input, signals, timeouts and exits. Rules EXEC-*, OUT-*, STDIN-*."""

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
    """Return the names of all descendants. A process may exit before its name is read."""
    found = set()
    for child in descendants(pid):
        try:
            with open(f"/proc/{child}/comm") as file:
                found.add(file.read().strip())
        except OSError:
            pass
    return found


def command(pid):
    """Return argv[0] of a process; empty for a zombie and for a pid without a process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0]
    except OSError:
        return b""


def test_exited_program_is_reported_with_status_on_disk(run):
    x = run("echo out; echo err >&2; exit 3")
    assert x.state["state"] == "running"
    end = x.wait()
    assert end["exit"] == {"code": 3}
    assert x.output() == b"out\n" and x.output("stderr") == b"err\n"
    assert end["stdout_bytes"] == 4 and end["stderr_bytes"] == 4
    assert x.status()["exit"] == {"code": 3}


def test_every_exit_code_is_reported(run):
    running = [run(f"exit {code}") for code in range(256)]
    assert [x.wait()["exit"] for x in running] == [{"code": code} for code in range(256)]


@pytest.mark.parametrize("sig", [1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 34, 64])
def test_signal_that_ended_a_program_is_reported(run, sig):
    assert run(["sh", "-c", f"ulimit -c 0; kill -{sig} $$"]).wait()["exit"] == {"signal": sig}


def test_arguments_reach_the_program_unchanged(run):
    argv = ["printf", "%s|", "a b", "$HOME", "", "*", "\n", "ü", "'\"\\"]
    x = run(argv)
    x.wait()
    assert x.output() == "a b|$HOME||*|\n|ü|'\"\\|".encode()


def test_program_starts_with_three_descriptors_and_default_signals(run):
    x = run(["python3", "-c", "import os;print([fd for fd in range(4096) if os.path.exists(f'/proc/self/fd/{fd}')]);"
             "print(open('/proc/self/status').read())"])
    x.wait()
    lines = x.output().decode().splitlines()
    assert lines[0] == "[0, 1, 2]"
    status = dict(line.split(":\t") for line in lines[1:] if ":\t" in line)
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24) == 0     # python itself ignores PIPE and XFSZ
    assert int(status["Umask"], 8) == 0o022


def test_program_starts_with_no_signal_ignored(run):
    x = run(["grep", "SigIgn", "/proc/self/status"])
    x.wait()
    assert int(x.output().split()[1], 16) == 0


def test_environment_has_the_defaults_and_the_request_only(run):
    os.environ["BERM_SECRET_OF_THE_TEST"] = "x"
    x = run(["env"], env=[{"key": "A", "value": "1=2"}, {"key": "PATH", "value": "/bin:/usr/bin"}])
    x.wait()
    env = dict(line.split("=", 1) for line in x.output().decode().splitlines())
    assert env["A"] == "1=2" and env["PATH"] == "/bin:/usr/bin" and "HOME" in env
    assert "BERM_SECRET_OF_THE_TEST" not in env


def test_cwd_is_the_workspace_or_the_requested_directory(run, tmp_path):
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
def test_program_that_cannot_start_is_reported_as_not_started(run, argv, params, code):
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


def test_script_without_its_interpreter_is_not_executable(run, tmp_path):
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
def test_invalid_exec_request_is_refused_with_its_field(link, params, field):
    output = {"policy": "kill", "limit_bytes": 65536}
    with pytest.raises(GuestError) as error:
        link.call("exec", **{"exec_id": "ex-a", "output": output, **params})
    assert error.value.code == "INVALID_ARGUMENT"
    assert error.value.error["data"]["field"] == field
    assert link.call("status")["execs"] == []


def test_known_exec_id_is_not_started_again(run, tmp_path):
    x = run(f"echo once >> {tmp_path}/count; cat", stdin="pipe")
    again = x.link.answer(x.link.send("exec", {**x.request, "fds": 0, "fd_roles": []}))
    assert again["state"] == "running"
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.wait()
    again = x.link.answer(x.link.send("exec", {**x.request, "fds": 0, "fd_roles": []}))
    assert again["exit"] == {"code": 0}
    assert (tmp_path / "count").read_text() == "once\n"


def test_done_forgets_an_exited_exec(run):
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

def test_exited_includes_the_last_output(guest, run, tmp_path):
    """A guest that sees output and exit in the same turn sends no `grew`."""
    go = tmp_path / "go"
    os.mkfifo(go)
    x = run(f"echo first; read x < {go}; echo last")
    x.wait_output(b"first")
    for _ in range(2):
        x.link.call("ping")         # so that the turn that reported the first output is over
    x.link.notices.clear()
    leader = next(pid for pid in descendants(guest.pid()) if not command(pid).endswith(b"berm-guest"))
    freeze(guest.pid())
    go.write_text("x\n")
    until(lambda: command(leader) == b"", "the program did not end")
    os.kill(guest.pid(), signal.SIGCONT)
    x.wait_output(b"last")
    assert x.wait()["stdout_bytes"] == len("first\nlast\n")


def test_output_of_64_mib_arrives_unchanged(run):
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


def test_drop_oldest_keeps_the_newest_output_and_reports_its_offset(run):
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


def test_kill_policy_allows_exactly_the_cap(run):
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


def test_exit_under_block_policy_waits_for_the_output(run):
    x = run("head -c 100000 /dev/zero", output={"policy": "block", "limit_bytes": 65536})
    x.link.notice("grew", lambda p: p["stdout_bytes"] == 65536)
    until(lambda: "head" not in names_below(os.getpid()), "head did not end")
    assert x.status()["state"] == "running"
    x.link.call("grant", exec_id=x.id, total_bytes=1 << 20)
    assert x.wait()["stdout_bytes"] == 100000


def test_merged_streams_keep_the_programs_order(run):
    x = run("for i in 1 2 3; do echo o$i; echo e$i >&2; done",
            output={"policy": "kill", "limit_bytes": 65536, "merge_stderr": True})
    x.wait()
    assert x.output() == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_output_is_logged_while_no_daemon_reads(guest, tmp_path):
    from conftest import Exec
    link = guest.connect()
    x = Exec(link, tmp_path, "ex-loud", ["sh", "-c", "head -c 33554432 /dev/zero"])
    link.close()
    until(lambda: x.paths["status"].read_text().endswith("\n"), "the exit was not recorded without a daemon")
    link = guest.connect()
    state = link.welcome["execs"][0]
    assert state == json.loads(x.paths["status"].read_text())
    assert state["stdout_bytes"] == 33554432 == os.path.getsize(x.paths["stdout"])


def test_log_must_be_an_empty_regular_file(link, tmp_path):
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

def test_stdin_accepts_each_byte_once_by_offset(run):
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


def test_closed_stdin_accepts_close_and_refuses_bytes(run):
    x = run("cat; sleep 1000", stdin="pipe")
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    with pytest.raises(GuestError) as error:
        x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"x"))
    assert error.value.code == "STDIN_CLOSED"
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()


def test_stdin_is_bounded_by_its_window_and_reports_free_space(run, tmp_path):
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
            # An earlier notification may still be queued; wait for the one with this offset.
            x.link.notice("stdin_room", lambda p: p["next_offset"] == at and p["window_bytes"] > 0)
        at = r["next_offset"]
    x.link.call("close_stdin", exec_id=x.id, offset=at)
    x.wait()
    assert x.output().split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_stdin_that_the_program_closed_refuses_bytes(run):
    x = run("exec <&-; echo closed; sleep 1000", stdin="pipe")
    x.wait_output(b"closed")

    def refused():
        try:
            at = x.status()["stdin_next"]
            x.link.call("stdin", exec_id=x.id, offset=at, data_b64=b64(b"x"))
        except GuestError as error:
            return error.code == "STDIN_CLOSED"

    until(refused, "stdin still accepts bytes that no program reads")
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()


def test_program_without_stdin_reads_end_of_file(run):
    x = run("cat")
    assert x.state["stdin_closed"] is True
    assert x.wait()["exit"] == {"code": 0}


# Signals and exits.

TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == 'ignore' else signal.SIG_DFL)
for level in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)             # its child becomes an orphan in its own session
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
    until(lambda: not alive_below(guest), "processes of the tree are alive")


def timed_out_tree(run, mode, **params):
    """Start a tree that is complete before its timeout. A busy machine gets more time."""
    for timeout_ms in (700, 5000, 20000):
        x = run(["python3", "-c", TREE, mode], timeout_ms=timeout_ms, **params)
        end = x.wait()
        if x.output() == b"x" * 8:
            return end
    raise AssertionError("the tree never stood")


@pytest.mark.parametrize("mode", ["ignore", "default"])
def test_timeout_ends_the_whole_tree(guest, run, mode):
    end = timed_out_tree(run, mode, grace_ms=200 if mode == "ignore" else 60000)
    assert end["exit"] == {"timed_out": {"signal": 9 if mode == "ignore" else 15}}
    all_gone(guest)


def test_signal_reaches_the_whole_tree(guest, run):
    x = run(["python3", "-c", TREE, "default"])
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=15)
    assert x.wait()["exit"] == {"signal": 15}
    all_gone(guest)


def test_sigkill_reaches_processes_that_ignore_signals(guest, run):
    x = run(["python3", "-c", TREE, "ignore"])
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=9)
    assert x.wait()["exit"] == {"signal": 9}
    all_gone(guest)


def test_leader_only_signal_reaches_no_descendant(guest, run):
    x = run(["python3", "-c", TREE.replace("time.sleep(1000)",
             "time.sleep(1000) if os.getpid() != first else signal.pause()").replace(
             "import os", "import os; first = os.getpid()\nimport os", 1), "default"], keep_descendants=True)
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=15, leader_only=True)
    assert x.wait()["exit"] == {"signal": 15}
    # Processes between them and the leader may still be exiting.
    rest = until(lambda: len(found := alive_below(guest)) == 7 and found, "not exactly seven processes of the tree are alive")
    for pid in rest:
        os.kill(pid, 9)


def test_timeout_ends_a_stopped_program(run):
    x = run("kill -STOP $$", timeout_ms=300, grace_ms=60000)
    assert x.wait()["exit"] == {"timed_out": {"signal": 15}}


def test_signal_to_an_exited_program_is_refused(run):
    x = run("true")
    x.wait()
    with pytest.raises(GuestError) as error:
        x.link.call("signal", exec_id=x.id, signal=9)
    assert error.value.code == "EXEC_ENDED"


def test_descendants_of_an_exited_program_are_killed(guest, run):
    x = run("sleep 1000 & setsid sleep 1000 & exit 5")
    assert x.wait()["exit"] == {"code": 5}
    until(lambda: not [p for p in descendants(guest.pid())], "descendants are left")


def test_keep_descendants_lets_them_outlive_the_program(guest, run, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    x = run(f"(read x < {go}; echo late; echo survived > {tmp_path}/late; sleep 1000) & echo early",
            keep_descendants=True)
    end = x.wait()
    assert end["exit"] == {"code": 0} and end["stdout_bytes"] == 6
    x.link.call("done", exec_id=x.id)
    go.write_text("x\n")
    until(lambda: (tmp_path / "late").exists(), "the descendant could not write its output")
    assert x.output() == b"early\n"
    rest = descendants(guest.pid())
    assert rest
    guest.stop()
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in rest), "a process outlived the guest")


def test_grandchild_that_holds_the_pipes_does_not_delay_the_exit(run, tmp_path):
    """The holder is no descendant, so no kill reaches it: it gets the pipe over a socket."""
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

def test_program_with_a_terminal_controls_it(run):
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


def test_resize_sends_sigwinch(run):
    # The program must not block on input: a signal just before the read would be handled only after it.
    x = run("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done", terminal={"cols": 80, "rows": 24})
    x.wait_output(b"ready")
    x.link.call("resize", exec_id=x.id, cols=132, rows=50)
    x.wait_output(b"50 132")
    x.link.call("signal", exec_id=x.id, signal=9)
    x.wait()
    with pytest.raises(GuestError) as error:
        x.link.call("resize", exec_id=x.id, cols=1, rows=1)
    assert error.value.code == "EXEC_ENDED"


def test_resize_without_a_terminal_is_refused(run):
    x = run("cat", stdin="pipe")
    with pytest.raises(GuestError) as error:
        x.link.call("resize", exec_id=x.id, cols=80, rows=24)
    assert error.value.code == "EXEC_NO_TERMINAL"
    x.link.call("close_stdin", exec_id=x.id, offset=0)
    x.wait()


@pytest.mark.parametrize("typed", [b"", b"line\n", b"half a line"])
def test_closing_the_input_of_a_terminal_sends_end_of_file(run, typed):
    x = run("cat > /dev/null; echo ended", terminal={"cols": 80, "rows": 24})
    x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(typed))
    x.link.call("close_stdin", exec_id=x.id, offset=len(typed))
    assert x.wait()["exit"] == {"code": 0}
    assert b"ended" in x.output()


def test_shell_on_a_terminal_has_job_control(run):
    x = run(["bash", "-i"], terminal={"cols": 80, "rows": 24}, env=[{"key": "PS1", "value": "> "}])
    x.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"sleep 1000\n"))
    x.wait_output(b"sleep 1000")
    until(lambda: "sleep" in names_below(os.getpid()), "the program did not start sleep")
    x.link.call("stdin", exec_id=x.id, offset=11, data_b64=b64(b"\x1a"))
    x.wait_output(b"Stopped")
    x.link.call("stdin", exec_id=x.id, offset=12, data_b64=b64(b"kill -9 %1; wait %1; exit 7\nexit 7\n"))
    assert x.wait()["exit"] == {"code": 7}
    assert b"exit" in x.output()


# Exec cgroups.

def removed(group):
    try:
        os.rmdir(group)
        return True
    except OSError as error:        # processes that the cgroup no longer lists may still be exiting
        assert error.errno == errno.EBUSY
        return False


@pytest.fixture
def exec_cgroup(tmp_path):
    """A v2 cgroup as berm-spawn passes it. The end of the test kills what is in it."""
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
    until(lambda: removed(path), "the exec cgroup never emptied")


def test_program_starts_in_its_exec_cgroup(run, exec_cgroup):
    x = run("cat /proc/self/cgroup; ls /proc/self/fd | head -c 6; exit 3", exec_cgroup=exec_cgroup)
    assert x.wait()["exit"] == {"code": 3}
    assert b"/berm-test-" in x.output() and x.output().endswith(b"0\n1\n2\n")


@pytest.mark.parametrize("sig", [15, 9])
def test_signal_reaches_the_whole_exec_cgroup(guest, run, exec_cgroup, sig):
    x = run(["python3", "-c", TREE, "default"], exec_cgroup=exec_cgroup)
    x.wait_output(b"x" * 8)
    x.link.call("signal", exec_id=x.id, signal=sig)
    assert x.wait()["exit"] == {"signal": sig}
    all_gone(guest)


def test_timeout_ends_an_exec_cgroup_that_ignores_signals(guest, run, exec_cgroup):
    end = timed_out_tree(run, "ignore", exec_cgroup=exec_cgroup, grace_ms=200)
    assert end["exit"] == {"timed_out": {"signal": 9}}
    all_gone(guest)


def test_processes_left_in_an_exec_cgroup_are_killed(guest, run, exec_cgroup):
    x = run("sleep 1000 & setsid sleep 1000 & exit 5", exec_cgroup=exec_cgroup)
    assert x.wait()["exit"] == {"code": 5}
    until(lambda: not descendants(guest.pid()), "descendants are left")


def test_program_that_cannot_start_in_an_exec_cgroup_is_reported(run, exec_cgroup):
    assert run(["no-such-program"], exec_cgroup=exec_cgroup).state["exit"]["not_started"]["data"]["code"] == "PROGRAM_NOT_FOUND"


MIB = 1 << 20
TOUCH = "b = b'x' * (64 << 20)"
LEFT = (f"import os, time; r, w = os.pipe()\nif os.fork() == 0: {TOUCH}; os.write(w, b'1'); time.sleep(1000)\n"
        "os.read(r, 1); os._exit(0)")      # its parent never waits for the process with the memory
WAITED = f"import os\nif os.fork() == 0: {TOUCH}; os._exit(0)\nos.wait()"


@pytest.mark.parametrize("within", ["shepherd", "exec_cgroup"])
@pytest.mark.parametrize("code, least, most", [(TOUCH, 64, 128), (LEFT, 64, 128), (WAITED, 64, 128), ("pass", 1, 32)],
                         ids=["itself", "left", "waited", "little"])
def test_memory_of_the_largest_process_is_reported(run, request, within, code, least, most):
    params = {"exec_cgroup": request.getfixturevalue("exec_cgroup")} if within == "exec_cgroup" else {}
    x = run(["python3", "-c", code], **params)
    assert "max_rss_bytes" not in x.state
    end = x.wait()
    assert end["exit"] == {"code": 0}
    assert least * MIB <= end["max_rss_bytes"] < most * MIB
    assert x.status()["max_rss_bytes"] == end["max_rss_bytes"]


HELD = (f"import os, sys, time; r, w = os.pipe(); child = os.fork()\nif child == 0: {TOUCH}; os.write(w, b'1'); time.sleep(1000)\n"
        "os.read(r, 1); print(child, flush=True); open(sys.argv[1]).read(); os._exit(0)")


@pytest.mark.parametrize("within", ["shepherd", "exec_cgroup"])
def test_memory_of_a_process_that_exits_slowly_is_reported(run, request, tmp_path, within):
    """The exit of the process takes long. A tracer delays it: the parent can reap only after the tracer."""
    params = {"exec_cgroup": request.getfixturevalue("exec_cgroup")} if within == "exec_cgroup" else {}
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    seize, any_child, held = 0x4206, 0x40000000, 2
    while held > 1.2:                       # a delay of the whole machine proves nothing
        go = tmp_path / f"go{time.monotonic_ns()}"
        os.mkfifo(go)
        x = run(["python3", "-c", HELD, str(go)], **params)
        x.wait_output(b"\n")
        child = int(x.output())
        assert ptrace(seize, child, None, None) == 0, os.strerror(ctypes.get_errno())
        begin = time.monotonic()
        go.write_text("")
        until(lambda: command(child) == b"", "the process was not killed")
        time.sleep(max(0, begin + 0.8 - time.monotonic()))
        assert os.waitpid(child, any_child)[0] == child
        held = time.monotonic() - begin
        end = x.wait()
    assert end["max_rss_bytes"] >= 64 * MIB


def test_memory_is_reported_per_program(run, exec_cgroup):
    large, small = run(["python3", "-c", TOUCH], exec_cgroup=exec_cgroup), run(["true"])
    assert large.wait()["max_rss_bytes"] >= 64 * MIB > small.wait()["max_rss_bytes"]


def test_program_that_did_not_start_reports_no_memory(run):
    assert run(["no-such-program"]).state["max_rss_bytes"] == 0


def test_program_joins_cgroups_by_their_files(run, exec_cgroup):
    procs = os.open("cgroup.procs", os.O_WRONLY, dir_fd=exec_cgroup)
    x = run("cat /proc/self/cgroup", cgroups=[procs])
    os.close(procs)
    assert x.wait()["exit"] == {"code": 0}
    assert b"/berm-test-" in x.output()


def test_descriptors_inherited_by_the_guest_do_not_reach_programs(make_guest, tmp_path):
    from conftest import Exec
    guest = make_guest(prefix=["bash", "-c", 'exec 50</etc/passwd; exec "$@"', "bash"])
    link = guest.connect()
    assert os.path.exists(f"/proc/{guest.pid()}/fd/50")
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", "ls /proc/$$/fd"])
    x.wait()
    assert x.output() == b"0\n1\n2\n"
