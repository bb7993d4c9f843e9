"""The guest as PID 1 of a sandbox that berm-spawn made: behind its filter, with an exec cgroup per program."""

import os
import pathlib
import shutil
import socket
import struct
import sys
import tempfile
import time

import pytest

from conftest import GUEST, ROOT, Exec, GuestError, Link, b64, until
from test_files import read, refused, write

sys.path.insert(0, str(ROOT / "tests/spawn"))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for berm-spawn")


@pytest.fixture(scope="module")
def spawn():
    if "asan" in str(GUEST):
        pytest.skip("the sanitizers' guest needs the host's libraries")
    import client
    state = tempfile.mkdtemp(prefix="berm-guest-test-")
    with client.Spawn(state, "--mount-root", state, guest=str(GUEST)) as process:
        process.state = pathlib.Path(state)
        yield process
    shutil.rmtree(state, ignore_errors=True)


class Sandbox:
    def __init__(self, spawn, name, profile, image=None):
        import client
        self.spawn, self.name, self.client = spawn, name, client
        self.path = f"{spawn.state}/{name}.ctl"
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(self.path)
        self.reply = spawn.create(id=name, profile=profile, flags=client.F_CONTROL,
                                  fds=[bound.fileno()] + ([] if image is None else [image]),
                                  root=client.ROOT_HOST if image is None else client.ROOT_IMAGE,
                                  argv=("berm-guest",), pids=200, memory=1 << 29)
        bound.close()
        assert self.reply.error == 0, (self.reply.error, self.reply.step)
        self.n_execs = 0
        self.link = self.connect()
        self.link.call("configure", sandbox_id=name, incarnation=1, workspace="/workspace",
                       user="root" if profile == client.PROFILE_ROOT else "user")

    def connect(self):
        def attempt():
            sock = socket.socket(socket.AF_UNIX)
            if sock.connect_ex(self.path) == 0:
                return sock
            sock.close()

        link = Link(sock=until(attempt, "the guest did not listen"))
        link.welcome = link.hello()
        return link

    def run(self, argv, **params):
        argv = ["sh", "-c", argv] if isinstance(argv, str) else argv
        reply = self.spawn.ask(self.client.EXEC_CGROUP,
                               self.client.id_body(self.name, struct.pack("=II", self.n_execs, 1)))
        assert reply.error == 0
        directory = self.spawn.state / f"{self.name}-logs"
        directory.mkdir(exist_ok=True)
        exec_cgroup, *tasks = reply.fds
        x = Exec(self.link, directory, f"ex-{self.n_execs}", argv, exec_cgroup=exec_cgroup, cgroups=tasks, **params)
        self.n_execs += 1
        for fd in reply.fds:
            os.close(fd)
        return x

    def close(self):
        self.link.close()
        assert self.spawn.destroy(self.name).error == 0


@pytest.fixture
def sandbox(spawn, request):
    import client
    made = Sandbox(spawn, f"t{time.monotonic_ns()}", getattr(request, "param", client.PROFILE_USER))
    yield made
    made.close()


def test_programs_run_as_the_user_and_see_no_other_process(sandbox):
    x = sandbox.run("id -un; pwd; echo $HOME; cat /proc/1/comm; ls /proc/1/fd; ls /proc/self/fd | head -c 6; "
                    "grep -E '^(Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk)' /proc/self/status")
    end = x.wait()
    out = x.output().decode()
    assert out.startswith("user\n/workspace\n/home/user\n"), out
    assert "0\n1\n2\n" in out and "berm" not in out
    assert all(line.split("\t")[1] == "0000000000000000" for line in out.splitlines() if line.startswith("Cap"))
    assert "NoNewPrivs:\t1" in out and "Seccomp:\t2" in out
    assert "SigIgn:\t0000000000000000" in out and "SigBlk:\t0000000000000000" in out    # not those of the guest
    assert end["exit"] == {"code": 0}


@pytest.mark.parametrize("sandbox", [1, 2], ids=["user", "root"], indirect=True)
def test_audit_login_uid_is_the_user_of_the_program(sandbox):
    login = pathlib.Path("/proc/self/loginuid")
    if not login.exists():
        pytest.skip("this kernel has no audit")
    x = sandbox.run("id -u; cat /proc/self/loginuid; echo; echo 4242 > /proc/self/loginuid || echo refused")
    x.wait()
    uid, known, *refused = x.output().split()
    assert refused == [b"refused"]
    if login.read_text() == str(2**32 - 1):        # else the test was started by a user who had logged in
        assert known == uid


def test_only_the_guest_may_use_calls_that_a_filter_cannot_judge(sandbox):
    x = sandbox.run(["python3", "-c", "import ctypes,errno;l=ctypes.CDLL(None,use_errno=True)\n"
                     "for nr in (435, 437): print(l.syscall(nr, None, 0), errno.errorcode[ctypes.get_errno()])"])
    x.wait()
    assert x.output() == b"-1 ENOSYS\n" * 2


def test_tree_ends_with_its_program(sandbox):
    tree = "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & done; echo ready; wait"
    x = sandbox.run(tree, timeout_ms=1500, grace_ms=200)
    assert x.wait()["exit"] == {"timed_out": {"signal": 15}}
    x = sandbox.run(tree)
    x.wait_output(b"ready")
    sandbox.link.call("signal", exec_id=x.id, signal=9)
    assert x.wait()["exit"] == {"signal": 9}

    def alone():
        x = sandbox.run("ps -eo comm= | grep -c -E 'sleep|sh$' ; true")
        x.wait()
        return int(x.output()) <= 2     # this shell, and grep

    until(alone, "processes of the tree are alive")        # killed processes take time to exit on a slow machine


# Sends each signal to PID 1 in each way: by kill, with siginfo of the sender's choice, as the owner of a
# descriptor, and with a full signal queue, in which case the kernel reports a sender outside the namespace. Prints
# the signals that kill accepted.
SEND_ALL = """
import contextlib, ctypes, fcntl, os, signal
libc, sent = ctypes.CDLL(None, use_errno=True), []
info = (ctypes.c_int * 32)(0, 0, -1)        # SI_QUEUE, of pid 0
pair = os.pipe()
for number in range(1, 65):
    with contextlib.suppress(PermissionError):
        os.kill(1, number)
        sent.append(number)
    libc.syscall(QUEUE, 1, number, info)
    with contextlib.suppress(OSError):
        fcntl.fcntl(pair[0], fcntl.F_SETOWN, 1)
        fcntl.fcntl(pair[0], 10, number)    # F_SETSIG
        fcntl.fcntl(pair[0], fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(pair[1], b"x")
for _ in range(1 << 20):
    if libc.syscall(QUEUE, 1, 64, info) < 0:
        break
for number in range(1, 65):
    libc.syscall(QUEUE, 1, number, info)
print(*sent)
""".replace("QUEUE", "129" if os.uname().machine == "x86_64" else "138")


@pytest.mark.parametrize("sandbox", [1, 2], ids=["user", "root"], indirect=True)
def test_nothing_inside_reaches_the_guest(sandbox, request):
    x = sandbox.run(["python3", "-c", SEND_ALL])
    assert x.wait()["exit"] == {"code": 0}
    is_root = request.node.callspec.id == "root"
    assert x.output().split() == [b"%d" % number for number in range(1, 65) if is_root]
    sandbox.link.call("ping")
    sandbox.run("kill -9 -1; echo spared").wait()
    sandbox.link.call("ping")
    assert sandbox.run("echo next").wait()["exit"] == {"code": 0}


def test_terminal_works_inside_a_sandbox(sandbox):
    x = sandbox.run("tty; stat -c %U $(tty); stty size; cat", terminal={"cols": 90, "rows": 30})
    x.wait_output(b"30 90")
    assert x.output().split()[:2] == [b"/dev/pts/0", b"user"]
    sandbox.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"up\n"))
    x.wait_output(b"up\r\nup")         # the echo of the terminal, then the output of cat
    sandbox.link.call("stdin", exec_id=x.id, offset=3, data_b64=b64(b"\x03"))
    assert x.wait()["exit"] == {"signal": 2}


def test_file_requests_work_inside_a_sandbox(sandbox):
    link = sandbox.link
    done = write(link, "a/b.txt", b"hello", make_parents=True)
    assert done["info"]["path"] == "/workspace/a/b.txt" and done["info"]["user"] == "user"
    assert read(link, "/workspace/a/b.txt")[1] == b"hello"
    x = sandbox.run("cat a/b.txt; ln -s /etc/shadow s; ln -s /proc/1/root r; mkfifo f")
    x.wait()
    assert x.output() == b"hello"
    for name in ("s", "r/etc/passwd"):
        with pytest.raises(GuestError) as error:
            link.call("read", path=name)
        assert error.value.code in ("FILE_NOT_FOUND", "FILE_DENIED", "SYMLINK_LOOP")
    refused("NOT_A_REGULAR_FILE", link.call, "read", path="f")
    refused("FILE_READ_ONLY", link.call, "write", path="/usr/bin/new")
    names = [e["path"] for e in link.call("list", path=".", depth=2)["entries"]]
    assert names == ["/workspace/a", "/workspace/a/b.txt", "/workspace/f", "/workspace/r", "/workspace/s"]
    link.call("remove", path="a", recursive=True)
    refused("FILE_NOT_FOUND", link.call, "stat", path="a")


def test_programs_outlive_their_daemon(sandbox):
    x = sandbox.run("cat", stdin="pipe")
    sandbox.link.close()
    sandbox.link = x.link = sandbox.connect()
    assert sandbox.link.welcome["execs"][0]["state"] == "running"
    sandbox.link.call("stdin", exec_id=x.id, offset=0, data_b64=b64(b"still here"))
    sandbox.link.call("close_stdin", exec_id=x.id, offset=10)
    assert x.wait()["exit"] == {"code": 0} and x.output() == b"still here"


@pytest.mark.parametrize("sandbox", [2], indirect=True)
def test_root_profile_keeps_its_capabilities_except_setpcap(sandbox):
    x = sandbox.run("id -u; grep CapEff /proc/self/status; chown 1000 /root && touch /usr/bin/new && echo may")
    x.wait()
    uid, _, caps, may = x.output().decode().split()
    assert uid == "0" and may == "may"
    assert not int(caps, 16) & 1 << 8           # only the guest has CAP_SETPCAP
    assert write(sandbox.link, "/etc/new", b"x")["info"]["uid"] == 0


@pytest.mark.parametrize("sandbox", [2], indirect=True)
def test_changed_user_is_looked_up_again(sandbox):
    def home(name="root"):
        x = sandbox.run("echo $HOME", user=name)
        x.wait()
        return x.output().decode().strip()

    # The user of the changing program is looked up before the change, and the program ends only when the files are
    # old enough to be cached. So only the size, inode and times of the files can show the change.
    old = "; until [ $(($(date +%s) - $(stat -c %Z /etc/passwd))) -ge 3 ]; do sleep 0.1; done"

    def change(script):
        assert sandbox.run(script + old).wait()["exit"] == {"code": 0}

    change("true")
    assert home() == "/root" == home()
    change("sed -i s,:/root:,:/r00t:, /etc/passwd")                     # another file of the same size
    assert home() == "/r00t" == home()
    change("printf '%s' \"$(sed s,:/r00t:,:/ro0t:, /etc/passwd)\" >new; cat new >/etc/passwd")     # the same file
    assert home() == "/ro0t" and home("user") == "/home/user" and home() == "/ro0t"
    change("sed -i /^user:/d /etc/passwd")
    x = sandbox.run("id -u", user="user")
    assert x.state["exit"]["not_started"]["data"]["code"] == "USER_NOT_FOUND"
