"""berm in a real terminal: raw mode, resize, keys, leaving and coming back, and a daemon that is killed meanwhile."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import BERM, SECONDS, until

LEAVE = b"\x10\x11"


class Terminal:
    """A terminal of 80 by 24 with berm in it."""

    def __init__(self, berm, *arguments, size=(24, 80)):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.resize(*size)
        self.seen = b""
        self.process = subprocess.Popen([BERM, *map(str, arguments)], env={**berm.environment, "TERM": "vt100"}, stdin=slave,
                                        stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, keys):
        os.write(self.master, keys)

    def expect(self, pattern):
        """Reads until it is there; what comes after it is left for the next one."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, (pattern, self.seen)
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            assert data, (pattern, self.seen)
            self.seen += data
        self.seen = self.seen[found.end():]
        return found

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def wait(self):
        """The exit status; the terminal must be as it was."""
        drain = time.monotonic() + SECONDS
        while self.process.poll() is None and time.monotonic() < drain:
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
        status = self.process.wait(1)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal was left in another state"
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    opened = []

    def open_one(*arguments, **options):
        opened.append(Terminal(*arguments, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def shell(terminal, berm, *arguments):
    """A plain shell whose prompt is known."""
    t = terminal(berm, "exec", "-it", "-e", "PS1=ready> ", *arguments, "--", "sh")
    t.expect(rb"ready> ")
    return t


def test_a_terminal_is_one(berm, sandbox, terminal):
    t = shell(terminal, berm, sandbox)
    assert t.is_raw()
    t.send(b"test -t 0 && test -t 1 && test -t 2 && echo is-a-tt''y; echo term=$TERM; stty size\r")
    t.expect(rb"is-a-tty")
    t.expect(rb"term=vt100")
    t.expect(rb"24 80")
    t.send(b"exit 7\r")
    assert t.wait() == 7


def test_resize(berm, sandbox, terminal):
    script = "trap 'echo winch; stty size; exit' WINCH; echo set; while :; do sleep 0.02; done"
    t = terminal(berm, "exec", "-it", sandbox, "--", "sh", "-c", script)     # one group, whoever of it is asleep
    t.expect(rb"set")
    t.resize(50, 132)
    t.expect(rb"winch")
    t.expect(rb"50 132")
    assert t.wait() == 0


def test_ctrl_c_goes_to_the_program_alone(berm, sandbox, terminal):
    t = shell(terminal, berm, sandbox)
    t.send(b"sh -c 'echo u\"\"p; exec sleep 1000'\r")
    t.expect(rb"up\r\n")
    t.send(b"\x03")
    t.expect(rb"\^C")
    t.expect(rb"ready> ")
    t.send(b"echo still-he''re; exit 3\r")
    t.expect(rb"still-here")
    assert t.wait() == 3


def test_a_program_that_ctrl_c_ends(berm, sandbox, terminal):
    t = terminal(berm, "exec", "-it", sandbox, "--", "sh", "-c", "echo up; exec sleep 1000")
    t.expect(rb"up")
    t.send(b"\x03")
    assert t.wait() == 128 + signal.SIGINT


def test_leave_and_come_back(berm, sandbox, terminal):
    name = f"shell-{time.monotonic_ns()}"
    t = terminal(berm, "shell", "--exec-id", name, sandbox)
    t.expect(rb"[$#>] ")
    t.send(b"PS1='rea''dy> '; x=remembered\r")
    t.expect(rb"ready> ")
    t.send(LEAVE)
    t.expect(rb"left " + name.encode() + rb" running; come back with `berm attach " + name.encode())
    assert t.wait() == 0
    assert name in berm("ps", "-q", sandbox).stdout.decode()
    t = terminal(berm, "attach", name, size=(30, 100))
    t.expect(rb"ready> ")
    t.send(b"echo $x; stty size\r")
    t.expect(rb"remembered")
    t.expect(rb"30 100")
    t.send(b"exit 5\r")
    assert t.wait() == 5


def test_ctrl_p_alone_is_the_programs(berm, sandbox, terminal):
    t = terminal(berm, "exec", "-it", sandbox, "--", "sh", "-c", "stty raw -echo; echo up; dd bs=1 count=3 2>/dev/null | od -An -tx1")
    t.expect(rb"up")
    t.send(b"\x10a\x10")
    t.send(b"b")
    t.expect(rb"10 61 10")
    assert t.wait() == 0


def test_keys_of_every_kind_arrive(berm, sandbox, terminal):
    """Bytes that a terminal of ours would take for itself."""
    keys = bytes(b for b in range(256) if b != 0x10)
    t = terminal(berm, "exec", "-it", sandbox, "--", "sh", "-c",
                 f"stty raw -echo; echo up; dd bs=1 count={len(keys)} 2>/dev/null | sha256sum")
    t.expect(rb"up")
    t.send(keys)
    import hashlib
    t.expect(hashlib.sha256(keys).hexdigest().encode())
    assert t.wait() == 0


def test_run_and_left_is_kept(berm, sandbox, terminal):
    t = terminal(berm, "run", "-it", "--", "sh", "-c", "echo up; exec sleep 1000")
    t.expect(rb"up")
    t.send(LEAVE)
    kept = t.expect(rb"kept (sb-\w+)")[1].decode()
    assert t.wait() == 0
    berm("rm", kept)


def test_a_signal_leaves_and_restores(berm, sandbox, terminal):
    t = terminal(berm, "exec", "-it", sandbox, "--", "sh", "-c", "echo up; exec sleep 1000")
    t.expect(rb"up")
    t.process.send_signal(signal.SIGTERM)
    assert t.wait() == 128 + signal.SIGTERM
    assert b"sleep" in berm("ps", sandbox).stdout


def test_a_terminal_without_ours(berm, sandbox):
    """-t alone, and -i -t from a pipe, for scripts."""
    assert berm("exec", "-t", sandbox, "--", "sh", "-c", "test -t 1 && echo yes").stdout == b"yes\r\n"
    done = berm("exec", "-it", sandbox, "--", "sh", "-c", "read line; echo got $line; exit 4", stdin=b"word\n", status=4)
    assert b"got word" in done.stdout


def test_what_does_not_start(berm, sandbox, terminal):
    t = terminal(berm, "exec", "-it", sandbox, "--", "no-such-program")
    t.expect(rb"PROGRAM_NOT_FOUND")
    assert t.wait() == 127
    t = terminal(berm, "attach", "ex-none")
    t.expect(rb"EXEC_NOT_FOUND")
    assert t.wait() == 125
    assert b"no terminal" in berm("exec", "-t", "--json", sandbox, "--", "true", status=125).stderr


def test_a_progress_bar_on_a_terminal_alone(berm, sandbox, terminal, tmp_path):
    (tmp_path / "large").write_bytes(bytes(200 << 20))
    t = terminal(berm, "cp", tmp_path / "large", f"{sandbox}:large")
    t.expect(rb"\[#* *\] +\d+% +[\d.]+ MiB")
    assert t.wait() == 0
    assert berm("cp", tmp_path / "large", f"{sandbox}:again").stderr == b""


# --- a daemon that is killed ---

def test_a_shell_survives_kills_of_the_daemon(mortal, terminal):
    """covers: RETRY-4; nothing typed is lost or doubled, and what was typed while it was away arrives."""
    made = mortal.berm("create", "-q").stdout.decode().strip()
    t = shell(terminal, mortal.berm, made)
    t.send(b"n=0\r")
    t.expect(rb"ready> ")
    for i in range(3):
        t.send(b"n=$((n+1)); echo be''fore=$n\r")
        t.expect(rb"before=%d\r" % (2 * i + 1))
        mortal.kill()
        t.send(b"n=$((n+1)); echo af''ter=$n\r")
        t.resize(40 + i, 90)
        mortal.start()
        t.expect(rb"after=%d\r" % (2 * i + 2))
        until(lambda: size_inside(t) == (40 + i, 90))
    t.send(b"exit $n\r")
    assert t.wait() == 6


def size_inside(t):
    t.send(b"stty size\r")
    found = t.expect(rb"\n(\d+) (\d+)\r")
    return int(found[1]), int(found[2])
