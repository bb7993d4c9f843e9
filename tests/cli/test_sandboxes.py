"""berm with real sandboxes: every command, every exit status, and a daemon that is killed meanwhile."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

import pytest

from conftest import BERM, SECONDS, until


def listed(berm):
    return set(berm("ls", "--quiet").stdout.split())


# --- run: it does not wait until its sandbox is gone, so that of an earlier one may be there before, and go ---

def test_run_passes_output_and_status_on_and_leaves_nothing(berm, sandbox):
    before = listed(berm)
    done = berm("run", "--label", "suite=cli", "--", "sh", "-c", "echo out; echo err >&2; exit 3", status=3)
    assert done.stdout == b"out\n" and done.stderr == b"err\n"
    until(lambda: listed(berm) <= before)


def test_run_keep(berm, sandbox):
    done = berm("run", "--keep", "--", "touch", "kept")
    kept = re.search(r"kept (sb-\w+)", done.stderr.decode())[1]
    assert berm("exec", kept, "--", "ls").stdout == b"kept\n"
    berm("rm", kept)


def test_run_takes_options_of_both(berm, sandbox):
    done = berm("run", "--env", "A=b", "--cwd", "/tmp", "--merge", "--memory", "64M", "--",
                "sh", "-c", "echo $A; pwd; echo e >&2")
    assert done.stdout == b"b\n/tmp\ne\n" and not done.stderr


def test_run_ended_by_a_signal_removes_its_sandbox(berm, sandbox):
    before = listed(berm)
    process = berm.start("run", "--", "sh", "-c", "echo ready; sleep 100", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 128 + signal.SIGINT
    process.stdout.close()
    until(lambda: listed(berm) <= before)


# --- sandboxes ---

def test_create_get_ls_rm(berm, sandbox):
    shown = json.loads(berm("get", sandbox, "--json").stdout)
    assert shown["sandboxId"] == sandbox and shown["state"] == "SANDBOX_STATE_READY"
    assert shown["spec"]["labels"] == [{"key": "suite", "value": "cli"}]
    listed = json.loads(berm("ls", "--json", "--label", "suite=cli").stdout)
    assert sandbox in [s["sandboxId"] for s in listed["sandboxes"]]
    assert sandbox in berm("ls", "--quiet").stdout.decode().split()
    assert re.search(rf"{sandbox} +ready", berm("ls").stdout.decode())
    assert b"ready" in berm("get", sandbox).stdout


def test_a_name_is_taken_for_ever(berm, sandbox):
    name = f"cli-{os.getpid()}-{time.monotonic_ns() % 1000000}"
    assert berm("create", "--id", name).stdout.decode() == f"{name} ready\n"
    berm("rm", name)
    done = berm("create", "--id", name, status=125)
    assert b"SANDBOX_EXISTS" in done.stderr
    assert json.loads(berm("get", name, "--json").stdout)["state"] == "SANDBOX_STATE_DELETED"


def test_limits_reach_the_daemon(berm, sandbox):
    made = json.loads(berm("create", "--json", "--memory", "96M", "--cpus", "0.5", "--pids", "77").stdout)
    berm("rm", made["sandboxId"])
    limits = made["spec"]["limits"]
    assert (limits["memoryBytes"], limits["cpuMillis"], limits["pids"]) == (str(96 << 20), "500", "77")


def test_update(berm, sandbox):
    berm("update", sandbox, "--label", "color=red", "--unlabel", "suite", "--memory", "128M")
    shown = json.loads(berm("get", sandbox, "--json").stdout)
    assert shown["spec"]["labels"] == [{"key": "color", "value": "red"}]
    assert shown["spec"]["limits"]["memoryBytes"] == str(128 << 20)


def test_stop_start_keep_the_files(berm, sandbox):
    berm("exec", sandbox, "--", "sh", "-c", "echo here > file")
    assert berm("stop", sandbox).stdout.decode().split() == [sandbox]
    done = berm("exec", sandbox, "--", "true", status=125)
    assert b"SANDBOX_STOPPED" in done.stderr and b"berm start" in done.stderr
    berm("start", sandbox)
    assert berm("exec", sandbox, "--", "cat", "file").stdout == b"here\n"
    assert json.loads(berm("get", sandbox, "--json").stdout)["incarnation"] == "2"


def test_pause_resume(berm, sandbox):
    berm("pause", sandbox)
    done = berm("exec", sandbox, "--", "true", status=125)
    assert b"SANDBOX_PAUSED" in done.stderr and b"berm resume" in done.stderr
    berm("resume", sandbox)
    berm("exec", sandbox, "--", "true")


def test_rm_by_label(berm, sandbox):
    label = f"group={time.monotonic_ns()}"
    made = sorted(berm("create", "-q", "-l", label).stdout.decode().strip() for _ in range(3))
    assert berm("rm", "--label", label).stdout.decode().split() == made
    assert berm("ls", "-q", "-l", label).stdout == b""


def test_what_is_not_there(berm, sandbox):
    for arguments, code in ((("get", "sb-none"), b"SANDBOX_NOT_FOUND"), (("stop", "none"), b"SANDBOX_NOT_FOUND"),
                            (("exec", "none", "--", "true"), b"SANDBOX_NOT_FOUND"), (("logs", "none"), b"EXEC_NOT_FOUND"),
                            (("kill", "none"), b"EXEC_NOT_FOUND"), (("get", "ex-none"), b"EXEC_NOT_FOUND")):
        done = berm(*arguments, status=125)
        assert code in done.stderr, (arguments, done)


def test_one_that_fails_does_not_stop_the_others(berm, sandbox):
    other = berm("create", "-q").stdout.decode().strip()
    done = berm("rm", "none", other, status=125)
    assert done.stdout.decode().split() == [other] and b"SANDBOX_NOT_FOUND" in done.stderr


# --- exec: exit statuses ---

@pytest.mark.parametrize("arguments, status, said", [
    (["--", "true"], 0, b""), (["--", "sh", "-c", "exit 77"], 77, b""), (["false"], 1, b""),
    (["--", "sh", "-c", "kill -9 $$"], 137, b""), (["--", "sh", "-c", "kill -15 $$"], 143, b""),
    (["--timeout", "200ms", "--grace", "100ms", "--", "sleep", "50"], 124, b"exceeded its timeout of 200 ms"),
    (["--", "no-such-program"], 127, b"PROGRAM_NOT_FOUND"), (["--", "/etc/passwd"], 126, b"PROGRAM_NOT_EXECUTABLE"),
    (["--cwd", "/no/such", "--", "true"], 125, b"CWD_NOT_FOUND"), (["--user", "nobody-here", "--", "true"], 125, b"USER_NOT_FOUND"),
    (["--output-limit", "64K", "--output-policy", "kill", "--", "yes"], 125, b"output limit")])
def test_exit_statuses(berm, sandbox, arguments, status, said):
    assert said in berm("exec", sandbox, *arguments, status=status).stderr


def test_out_of_memory_is_reported(berm, sandbox):
    berm("update", sandbox, "--memory", "48M")
    done = berm("exec", sandbox, "--", "python3", "-c", "x = bytearray(400 << 20)", status=137)
    assert b"memory limit" in done.stderr and b"--memory" in done.stderr


# --- exec: bytes ---

def test_environment_and_arguments_are_exact(berm, sandbox):
    argument = "a 'b\" $c\n\\ é"
    done = berm("exec", "--env", "X=1=2 3", sandbox, "--", "sh", "-c", 'printf "%s|%s" "$X" "$1"', "sh", argument)
    assert done.stdout.decode() == f"1=2 3|{argument}"


def test_input_goes_in_and_comes_out(berm, sandbox):
    data = os.urandom(3_000_000)
    assert berm("exec", "-i", sandbox, "--", "cat", stdin=data).stdout == data
    assert berm("exec", "-i", sandbox, "--", "head", "-c", "10", stdin=data).stdout == data[:10]
    assert berm("exec", sandbox, "--", "cat", stdin=data).stdout == b"", "without -i there is no input"


BULK = int(os.environ.get("BERM_BULK_MIB", 192)) << 20      # more than the 64 MiB that are kept; make soak has 6 GiB


def test_bulk_output_arrives_whole(berm, sandbox):
    """However slow the reader: the program waits."""
    # covers: OUT-8
    process = berm.start("exec", sandbox, "--", "head", "-c", str(BULK), "/dev/zero", stdout=subprocess.PIPE)
    size, zeros = 0, bytes(1 << 20)
    while data := process.stdout.read(1 << 20):
        if size == 0:
            time.sleep(2)  # more than is kept is written meanwhile, unless it waits
        size += len(data)
        assert data == zeros[:len(data)]
    assert process.wait(SECONDS) == 0 and size == BULK
    process.stdout.close()


@pytest.mark.parametrize("way, size", [("out", BULK), ("in", BULK // 6)])    # input has a window of 64 KiB
def test_bulk_bytes_arrive_unchanged(berm, sandbox, way, size):
    """Bytes that are all different, so that one lost, doubled or moved shows."""
    keystream = f"openssl enc -aes-128-ctr -nosalt -K 00 -iv 00 < /dev/zero 2> /dev/null | head -c {size}"
    command = f"{shlex.quote(str(BERM))} exec {sandbox} -- sh -c {shlex.quote(keystream)} | sha256sum"
    if way == "in":
        command = f"{keystream} | {shlex.quote(str(BERM))} exec -i {sandbox} -- sha256sum"
    expected, done = (subprocess.run(["bash", "-c", script], env=berm.environment, capture_output=True, text=True,
                                     timeout=8 * SECONDS) for script in (f"{keystream} | sha256sum", command))
    assert len(expected.stdout.split()[0]) == 64 and done.stdout == expected.stdout, done


@pytest.mark.parametrize("options", [["--output-limit", "64K"], []])
def test_a_program_that_may_keep_little_waits_and_goes_on(berm, sandbox, options):
    """However little is kept, and whoever else has filled the sandbox's share of it."""
    berm("update", sandbox, "--output", "128K")
    berm("exec", sandbox, "--", "head", "-c", "120000", "/dev/zero")
    done = berm("exec", *options, sandbox, "--", "head", "-c", "3000000", "/dev/zero")
    assert done.stdout == bytes(3000000)


def test_a_reader_that_leaves_ends_a_pipeline(berm, sandbox):
    process = berm.start("exec", sandbox, "--", "yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE and process.stderr.read() == b""
    process.stderr.close()
    until(lambda: b"yes" not in berm("ps", sandbox).stdout)


def test_output_that_cannot_be_written_is_said(berm, sandbox):
    with open("/dev/full", "wb") as full:
        for arguments in (["exec", sandbox, "--", "echo", "x"], ["get", sandbox]):
            process = berm.start(*arguments, stdout=full, stderr=subprocess.PIPE)
            assert process.wait(SECONDS) == 125 and b"No space left" in process.stderr.read()
            process.stderr.close()


def test_signals_go_to_the_program(berm, sandbox):
    script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = berm.start("exec", sandbox, "--", "sh", "-c", script, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.read() == b"got it\n" and process.wait(SECONDS) == 5
    process.stdout.close()


def test_a_second_signal_leaves_the_program_alone(berm, sandbox):
    script = "trap '' INT; echo ready; sleep 100"
    process = berm.start("exec", sandbox, "--", "sh", "-c", script, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    events = lambda: berm("events", sandbox).stdout  # noqa: E731
    until(lambda: b"exec signal" in events())
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    process.stdout.close()
    assert b"running" in berm("ps", sandbox).stdout


# --- programs that run by themselves ---

def test_detached_logs_attach_kill_ps(berm, sandbox):
    script = "for i in 1 2 3; do echo $i; done; echo e >&2; while [ ! -e go ]; do sleep 0.02; done; echo 4; exit 9"
    started = berm("exec", "-d", "--quiet", sandbox, "--", "sh", "-c", script).stdout.decode().strip()
    assert re.fullmatch(r"ex-[a-z2-7]{20}", started)
    until(lambda: (logs := berm("logs", started)).stdout == b"1\n2\n3\n" and logs.stderr == b"e\n")
    assert started in berm("ps", "-q").stdout.decode().split() and b"running" in berm("ps", sandbox).stdout
    follower = berm.start("logs", "-f", started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    berm("exec", sandbox, "--", "touch", "go")
    assert follower.stdout.read() == b"1\n2\n3\n4\n" and follower.wait(SECONDS) == 0
    follower.stdout.close()
    assert berm("attach", started, status=9).stdout == b"1\n2\n3\n4\n"
    assert berm("logs", "--since-offset", 4, started).stdout == b"3\n4\n"
    assert berm("logs", "--tail", 2, "--stream", "stdout", started).stdout == b"4\n"
    assert berm("logs", "--stream", "stderr", started).stderr == b"e\n"
    done = berm("logs", "--since-offset", 99, started, status=125)
    assert b"OFFSET_BEYOND_END" in done.stderr
    shown = json.loads(berm("get", started, "--json").stdout)
    assert shown["execId"] == started and shown["exit"] == {"code": 9}
    assert int(shown["usage"]["memoryPeakBytes"]) > 0
    used = next(l for l in berm("get", started).stdout.decode().splitlines() if l.startswith("used"))
    assert re.search(r"memory [1-9]", used)
    assert started not in berm("ps", "-q").stdout.decode() and b"exited 9" in berm("ps", "-a").stdout
    done = berm("kill", started, status=125)
    assert b"EXEC_ENDED" in done.stderr


def test_kill(berm, sandbox):
    started = berm("exec", "-dq", sandbox, "--", "sleep", "100").stdout.decode().strip()
    berm("kill", "-s", "USR1", started)
    assert berm("attach", started, status=128 + signal.SIGUSR1).stdout == b""
    assert "signal 10" in berm("get", started).stdout.decode()


def test_attach_gives_input(berm, sandbox):
    started = berm("exec", "-d", "-i", "-q", sandbox, "--", "cat").stdout.decode().strip()
    assert berm("attach", "-i", started, stdin=b"late input").stdout == b"late input"


# --- events ---

def test_events(berm, sandbox):
    berm("exec", sandbox, "--", "true")
    until(lambda: b"exec exit" in berm("events", sandbox).stdout)  # the exit is told before it is committed
    kinds = [json.loads(line)["kind"] for line in berm("events", "--json", sandbox).stdout.splitlines()]
    assert kinds == ["EVENT_KIND_SANDBOX_STATE", "EVENT_KIND_SANDBOX_STATE", "EVENT_KIND_EXEC_START", "EVENT_KIND_EXEC_EXIT"]
    lines = [json.loads(line) for line in berm("events", "--json", sandbox).stdout.splitlines()]
    after = berm("events", "--json", "--since", lines[1]["sequence"], sandbox).stdout.splitlines()
    assert [json.loads(line)["sequence"] for line in after] == [line["sequence"] for line in lines[2:]]
    head = int(json.loads(berm("info", "--json").stdout)["headSequence"])
    done = berm("events", "--since", head + 1000, status=125)
    assert b"EVENT_CURSOR_AHEAD" in done.stderr


def test_events_are_followed(berm, sandbox):
    since = json.loads(berm("info", "--json").stdout)["headSequence"]
    process = berm.start("events", "-f", "--since", since, "--json", sandbox, stdout=subprocess.PIPE)
    berm("pause", sandbox)
    berm("resume", sandbox)
    states = [json.loads(process.stdout.readline())["sandboxState"]["state"] for _ in range(2)]
    assert states == ["SANDBOX_STATE_PAUSED", "SANDBOX_STATE_READY"]
    process.terminate()
    process.wait(SECONDS)
    process.stdout.close()


def test_the_guests_log(berm, sandbox, daemon):
    berm("exec", sandbox, "--env", "KEY=secret-value", "--", "true")
    until(lambda: b"hello" in berm("debug", "guest-log", "--state", daemon.state, sandbox, status=None).stdout)
    text = berm("debug", "guest-log", "--state", daemon.state, sandbox).stdout.decode()
    assert '"method":"hello"' in text and "secret-value" not in text
    done = berm("debug", "guest-log", "--state", daemon.state, "sb-none", status=125)
    assert b"No such file" in done.stderr


# --- a daemon that is killed ---

def read_across_kills(mortal, process):
    """All it writes, with three daemons gone meanwhile."""
    got = b""
    for _ in range(3):
        got += process.stdout.readline()
        mortal.kill()
        mortal.start()
    got += process.stdout.read()
    process.stdout.close()
    return got


def test_output_survives_three_kills_of_the_daemon(mortal):
    """covers: RETRY-4, EXEC-14"""
    berm = mortal.berm
    made = berm("create", "-q").stdout.decode().strip()
    script = "i=0; while [ $i -lt 600 ]; do echo $i; i=$((i+1)); sleep 0.005; done; exit 4"
    process = berm.start("exec", made, "--", "sh", "-c", script, stdout=subprocess.PIPE)
    got = read_across_kills(mortal, process)
    assert process.wait(SECONDS) == 4
    assert got == b"".join(b"%d\n" % i for i in range(600))


def test_run_survives_kills_of_the_daemon(mortal):
    """covers: RETRY-3, RETRY-4; one sandbox, one program, each of its lines once, its status, and nothing left."""
    berm = mortal.berm
    script = "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.005; done; exit 6"
    process = berm.start("run", "--", "sh", "-c", script, stdout=subprocess.PIPE)
    got = read_across_kills(mortal, process)
    assert process.wait(SECONDS) == 6
    assert got == b"".join(b"%d\n" % i for i in range(400))
    until(lambda: berm("ls", "-q").stdout == b"")
    kinds = [json.loads(line)["kind"] for line in berm("events", "--json").stdout.splitlines()]
    assert kinds.count("EVENT_KIND_EXEC_START") == 1
    assert len(json.loads(berm("ls", "--all", "--json").stdout)["sandboxes"]) == 1


def has_client(socket):
    """Whether somebody is connected to it; one that finds no daemon at all says so at once."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    return any(line.split()[5] == "03" and line.endswith(f" {socket}") for line in lines)


def test_run_begins_once_whenever_the_daemon_is_killed(mortal):
    """covers: RETRY-3; the kill comes at any moment of create, start or remove."""
    berm = mortal.berm
    for n in range(6):
        until(lambda: not has_client(mortal.daemon.socket))     # the daemon has seen that the last one left
        process = berm.start("run", "--", "sh", "-c", f"echo {n}", stdout=subprocess.PIPE)
        until(lambda: has_client(mortal.daemon.socket) or process.poll() is not None)
        time.sleep(0.004 * n)
        mortal.kill()
        mortal.start()
        assert process.stdout.read() == b"%d\n" % n and process.wait(SECONDS) == 0
        process.stdout.close()
    until(lambda: berm("ls", "-q").stdout == b"")
    starts = [line for line in berm("events", "--json").stdout.splitlines() if b"EXEC_START" in line]
    assert len(starts) == 6


def test_input_survives_a_kill_of_the_daemon(mortal):
    """covers: RETRY-4"""
    berm = mortal.berm
    made = berm("create", "-q").stdout.decode().strip()
    process = berm.start("exec", "-i", made, "--", "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pieces = [os.urandom(150_000) for _ in range(4)]
    got = b""
    for piece in pieces[:3]:
        process.stdin.write(piece)
        process.stdin.flush()
        got += process.stdout.read(1)
        mortal.kill()
        mortal.start()
    process.stdin.write(pieces[3])
    process.stdin.close()
    got += process.stdout.read()
    process.stdout.close()
    assert process.wait(SECONDS) == 0 and got == b"".join(pieces)


def test_a_watch_survives_a_kill_of_the_daemon(mortal):
    """covers: RETRY-4"""
    berm = mortal.berm
    process = berm.start("events", "-f", "--since", "oldest", "--json", stdout=subprocess.PIPE)
    sequences = [int(json.loads(process.stdout.readline())["sequence"])]
    for _ in range(2):
        made = berm("create", "-q").stdout.decode().strip()
        mortal.kill()
        mortal.start()
        berm("rm", made)
    head = int(json.loads(berm("info", "--json").stdout)["headSequence"])
    while sequences[-1] < head:
        sequences.append(int(json.loads(process.stdout.readline())["sequence"]))
    process.terminate()
    process.wait(SECONDS)
    process.stdout.close()
    assert sequences == list(range(1, head + 1))
