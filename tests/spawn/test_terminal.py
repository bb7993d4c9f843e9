#!/usr/bin/env python3
"""berm-jail on a terminal: the command gets its own, with job control, keys and sizes."""
import contextlib
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tap import check, main, program, same, state_dir, test  # noqa: E402

STATE = state_dir()


class Jail:
    """berm-jail as the session leader on our terminal."""

    def __init__(self, *arguments, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [program("berm-jail"), "--state", STATE, "--env", "PS1=ready> ", *arguments], start_new_session=True,
            stdin=self.slave, stdout=self.slave, stderr=self.slave,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, text, seconds=30):
        """Returns the output up to and including this text; b"" if it does not come."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen and time.monotonic() < end:
            has_ended = self.process.poll() is not None     # checked first, so that the last output is available
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.master, 65536)
            elif has_ended:
                break
        head, found, rest = self.seen.partition(text.encode())
        if not found:
            check(False, f"{text!r} did not come: {self.seen!r}")
            return ""
        self.seen = rest
        return (head + found).decode(errors="replace")

    def end(self):
        code = self.process.wait(30)
        same(termios.tcgetattr(self.slave), self.before, "the caller's terminal is as it was")
        os.close(self.master)
        os.close(self.slave)
        return code


@test
def the_command_has_a_terminal_of_the_sandbox():
    jail = Jail("--", "sh", "-c", "tty; ls -l $(tty); echo to-tty > /dev/tty; ps -o tty= -p $$; test -t 0 && echo is-one")
    check("/dev/pts/0" in jail.until("is-one"), "in its own devpts")
    same(jail.end(), 0, "exit")
    jail = Jail("--", "sh", "-c", "ls -l /proc/self/fd; echo done")
    check(os.readlink(f"/proc/self/fd/{jail.slave}") + "\r" not in jail.until("done").replace("/dev/pts/0\r", ""),
          "and the caller's is not inside")
    same(jail.end(), 0, "exit")


@test
def a_shell_has_job_control():
    jail = Jail("--", "bash", "--norc", "--noprofile", "-i")
    first = jail.until("ready> ")
    check("no job control" not in first and "cannot set terminal" not in first, first)
    # It prints when it has the terminal: an earlier key would go to the shell. It starts no child: one that is stopped
    # between vfork and exec blocks its parent, which then never stops.
    jail.type("""perl -e '$| = 1; $SIG{CONT} = sub { print "is-ba"."ck\\n" }; print "is-u"."p\\n"; sleep 9 while 1'\n""")
    jail.until("is-up")
    jail.type("\x1a")
    jail.until("Stopped")
    jail.type("jobs -l; echo lis''ted\n")
    check("sleep 9" in jail.until("listed"), "it is listed")
    jail.type("fg\n")
    jail.until("is-back")
    jail.type("\x03")
    jail.until("ready> ")
    jail.type("echo after-$?\n")
    jail.until("after-130")
    jail.type("exit 5\n")
    same(jail.end(), 5, "exit code")


@test
def interrupt_key_ends_the_command_but_not_berm_jail():
    jail = Jail("--", "python3", "-c",
                "import time\ntry: print('up', flush=True); time.sleep(600)\nexcept KeyboardInterrupt: print('caught')")
    jail.until("up")
    jail.type("\x03")
    jail.until("caught")
    same(jail.end(), 0, "it went on to its own end")


@test
def terminal_size_changes_are_forwarded():
    jail = Jail("--", "bash", "--norc", "--noprofile", "-i", rows=31, columns=97)
    jail.until("ready> ")
    jail.type("stty size\n")
    jail.until("31 97")
    jail.resize(45, 120)
    jail.type("until stty size | grep '45 1''20'; do sleep 0.05; done\n")
    jail.until("45 120")
    jail.type("exit\n")
    same(jail.end(), 0, "exit")


@test
def large_output_is_complete_while_keys_are_not_read():
    jail = Jail("--", "sh", "-c", "stty -echo -icanon; echo go; seq 1 20000; echo e''nd")
    jail.until("go")
    jail.type("x" * 3000)
    lines = jail.until("end").split()
    same([line for line in lines if line.isdigit()], [str(i) for i in range(1, 20001)], "all of it")
    same(jail.end(), 0, "exit")


@test
def signal_ends_berm_jail_and_restores_the_terminal():
    jail = Jail("--", "sh", "-c", "echo up; sleep 600")
    jail.until("up")
    jail.process.send_signal(signal.SIGTERM)
    same(jail.end(), 143, "exit code")


@test
def errors_before_the_command_are_printed():
    jail = Jail("--", "no-such-program")
    jail.until("not found")
    same(jail.end(), 127, "not found")
    jail = Jail("--cwd", "/no/such", "--", "true")
    jail.until("cannot enter")
    same(jail.end(), 125, "no such folder")


@test
def no_terminal_is_created_without_one():
    jail = Jail("--", "true")
    same(jail.end(), 0, "exit")
    reader, writer = os.pipe()
    master, slave = pty.openpty()
    done = subprocess.run([program("berm-jail"), "--state", STATE, "--", "sh", "-c", "test -t 1 || echo piped"],
                          stdin=slave, stdout=writer, stderr=slave, timeout=60)
    os.close(writer)
    same((done.returncode, os.read(reader, 100)), (0, b"piped\n"), "output to a pipe stays a pipe")
    for fd in (reader, master, slave):
        os.close(fd)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
