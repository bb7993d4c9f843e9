#!/usr/bin/env python3
"""The protections from inside, as user and as root: each probe prints what it tried and the errno."""
import ctypes
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from tap import Skip, check, main, program, same, state_dir, test  # noqa: E402

STATE = state_dir()
PROBE = r'''
import ctypes, errno, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
arm = os.uname().machine == "aarch64"
NR = dict(mount=(165, 40), umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51), unshare=(272, 97),
          setns=(308, 268), bpf=(321, 280), perf_event_open=(298, 241), userfaultfd=(323, 282),
          keyctl=(250, 219), add_key=(248, 217), ptrace=(101, 117), init_module=(175, 105),
          kexec_load=(246, 104), reboot=(169, 142), swapon=(167, 224), settimeofday=(164, 170),
          sethostname=(170, 161), syslog=(103, 116), quotactl=(179, 60), acct=(163, 89),
          name_to_handle_at=(303, 264), open_by_handle_at=(304, 265), fanotify_init=(300, 262),
          open_tree=(428, 428), move_mount=(429, 429), fsopen=(430, 430), fsmount=(432, 432),
          fspick=(433, 433), mount_setattr=(442, 442), io_uring_setup=(425, 425), clone3=(435, 435),
          pidfd_getfd=(438, 438), kcmp=(312, 272), memfd_secret=(447, 447), mbind=(237, 235),
          process_vm_readv=(310, 270), clone=(56, 220), prctl=(157, 167), personality=(135, 92))
def call(name, *args):
    number = NR[name][arm] if isinstance(name, str) else name
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return "ok" if r >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(f):
    try:
        f()
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
    except ValueError:  # how Python reports it for setrlimit
        return "EPERM"
def write(path, text="0"):
    return attempt(lambda: os.write(os.open(path, os.O_WRONLY), text.encode()))
def read(path):
    return attempt(lambda: os.read(os.open(path, os.O_RDONLY), 64))
fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
out = {}
for name in NR:
    if name not in ("clone", "clone3", "prctl", "personality", "ptrace", "process_vm_readv"):
        out[name] = call(name, 0, 0, 0, 0, 0)
out["mount tmpfs"] = call("mount", b"x", b"/tmp", b"tmpfs", 0, 0)
out["umount /proc"] = call("umount2", b"/proc", 2)
out["unshare user"] = call("unshare", 0x10000000)
for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    out[f"clone {bit:#x}"] = call("clone", bit | 17, 0, 0, 0, 0)
out["clone3"] = call("clone3", 0, 0)
for nr in (471, 500, 1023):
    out[f"number {nr}"] = call(nr)
out["ptrace pid 1"] = call("ptrace", 16, 1, 0, 0)
out["kill pid 1"] = attempt(lambda: os.kill(1, 9))
out["personality"] = call("personality", 0x400000)
for name, family in dict(alg=38, vsock=40, packet=17, xdp=44, key=15, rxrpc=33, bluetooth=31).items():
    out[f"socket {name}"] = attempt(lambda: socket.socket(family, 2 if name != "alg" else 5, 0))
for name, protocol in dict(netfilter=12, xfrm=6, uevent=15, audit=9).items():
    out[f"netlink {name}"] = attempt(lambda: socket.socket(16, 3, protocol))
out["netlink route"] = attempt(lambda: socket.socket(16, 3, 0))
out["raw"] = attempt(lambda: socket.socket(2, 3, 1))
out["connect"] = attempt(lambda: socket.create_connection(("198.51.100.1", 80), 2))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/swappiness",
             "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/shmmax",
             "/proc/sys/fs/mqueue/msg_max", "/proc/sysrq-trigger", "/dev/kmsg",
             "/sys/kernel/uevent_helper", "/proc/1/mem", "/proc/self/uid_map",
             "/sys/fs/cgroup/release_agent"):
    out[f"write {path}"] = write(path)
for path in ("/proc/kcore", "/proc/1/environ", "/proc/1/maps", "/dev/mem", "/dev/kvm", "/dev/vda",
             "/dev/fuse", "/proc/timer_list", "/sys/firmware", "/sys/fs/cgroup", "/sys/kernel"):
    out[f"read {path}"] = read(path)
out["list /proc/1/fd"] = attempt(lambda: os.listdir("/proc/1/fd"))
out["mknod"] = attempt(lambda: os.mknod("/tmp/n", 0o20666, os.makedev(1, 1)))
out["write /dev"] = attempt(lambda: os.mkdir("/dev/x"))
out["chmod /dev/null"] = attempt(lambda: os.chmod("/dev/null", 0))
out["rlimit nofile"] = attempt(lambda: __import__("resource").setrlimit(7, (1 << 20, 1 << 20)))
out["setuid"] = attempt(lambda: os.setresuid(5000, 5000, 5000))
out["unmapped"] = attempt(lambda: os.setresuid(70000, 70000, 70000))
out["oom"] = write("/proc/self/oom_score_adj", "-999")
out["tiocsti"] = attempt(lambda: __import__("fcntl").ioctl(os.open("/dev/ptmx", 2), 0x5412, b"x"))
out["dotdot"] = "ok" if os.stat("/../..").st_ino == os.stat("/").st_ino else "differs"
dev = sorted(os.listdir("/dev"))
nodev = [p for p in ("/", "/workspace", "/tmp", "/usr", "/dev/shm") if not os.statvfs(p).f_flag & 4]
writable = [p for p in ("/dev", "/sys", "/proc/sys") if not os.statvfs(p).f_flag & 1]
nosuid = [p for p in ("/", "/usr", "/dev", "/proc", "/dev/shm") if not os.statvfs(p).f_flag & 2]
json.dump(dict(probes=out, fds=fds, dev=dev, nodev=nodev, nosuid=nosuid, writable=writable,
               maps=open("/proc/self/uid_map").read().split()), sys.stdout)
'''

# The allowed results of each probe; all others must be EPERM.
CLOSED = {"ENOENT", "EACCES", "EROFS", "EPERM"}
EXPECT = {
    "io_uring_setup": {"ENOSYS"}, "clone3": {"ENOSYS"}, "memfd_secret": {"ENOSYS"},
    "number 471": {"ENOSYS"}, "number 500": {"ENOSYS"}, "number 1023": {"ENOSYS"},
    "netlink route": {"ok"}, "connect": {"ENETUNREACH"}, "dotdot": {"ok"},
    "ptrace pid 1": {"EPERM", "ESRCH"}, "unmapped": {"EINVAL", "EPERM"}, "oom": {"EACCES"},
    "rlimit nofile": {"EPERM"}, "write /dev": {"EROFS", "EACCES"},
    "chmod /dev/null": {"EROFS", "EPERM"}, "list /proc/1/fd": CLOSED,
}
# As root: PID 1 ignores unhandled signals, and root owns some sysctls, which are mounted read-only.
BY_ROOT = {"setuid": {"ok"}, "kill pid 1": {"ok"}, "write /proc/sys/kernel/shmmax": {"EROFS"},
           "write /proc/sys/fs/mqueue/msg_max": {"EROFS"}}


def jail(*arguments):
    return subprocess.run([program("berm-jail"), "--state", STATE, *arguments], capture_output=True,
                          text=True, timeout=120)


def probe(*options):
    done = jail(*options, "--", "/usr/bin/python3", "-c", PROBE)
    same(done.returncode, 0, done.stderr[-2000:])
    return json.loads(done.stdout)


def judge(result, root):
    for name, got in result["probes"].items():
        want = EXPECT.get(name)
        if root and name in BY_ROOT:
            want = BY_ROOT[name]
        elif want is None and name.startswith(("write ", "read ")):
            want = CLOSED
        elif want is None and name.startswith(("socket ", "netlink ")):
            want = {"EAFNOSUPPORT"}
        check(got in (want or {"EPERM"}), f"{name}: {got}, wanted {sorted(want or {'EPERM'})}")
    same(result["fds"], ["0", "1", "2"], "open descriptors")
    same(result["dev"], ["fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
                         "stdout", "tty", "urandom", "zero"], "/dev")
    same((result["nodev"], result["nosuid"]), ([], []), "mounts without nodev, nosuid")
    same(result["writable"], [], "writable mounts that should not be")
    same(result["maps"][0], "0", "uid_map")
    same(result["maps"][2], "65536", "uid_map")
    check(int(result["maps"][1]) >= 3 * 65536, f"a range of its own: {result['maps']}")


@test
def user_cannot_cross_any_protection():
    judge(probe(), root=False)


@test
def root_inside_cannot_cross_any_protection():
    judge(probe("--root"), root=True)


@test
def strict_refuses_debuggers_too():
    code = ("import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
            "print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno(), os.path.exists('/proc/meminfo'))")
    same(jail("--", "/usr/bin/python3", "-c", code).stdout, "0 0 True\n", "debuggers work")
    same(jail("--strict", "--", "/usr/bin/python3", "-c", code).stdout, "-1 1 False\n", "strict")


@test
def call_of_a_32_bit_architecture_kills():
    if os.uname().machine != "x86_64" or not shutil.which("gcc"):
        raise Skip("needs x86-64 and gcc")
    source = 'int main(void){int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r != 0;}'
    done = jail("--", "sh", "-c", f"echo '{source}' > a.c && gcc -o a a.c && ./a")
    same(done.returncode, 128 + 31, f"SIGSYS {done.stderr}")


@test
def descriptors_of_the_caller_are_not_inherited():
    directory = os.open("/", os.O_PATH)
    for fd in (50, 51):
        os.dup2(directory, fd)
    done = subprocess.run([program("berm-jail"), "--state", STATE, "--", "/usr/bin/python3", "-c",
                           "import os; print([f for f in range(3, 256) if os.path.lexists(f'/proc/1/fd/{f}') "
                           "or os.path.exists(f'/proc/self/fd/{f}') and not os.readlink("
                           "f'/proc/self/fd/{f}').startswith('/proc')])"],
                          capture_output=True, text=True, pass_fds=[directory, 50, 51])
    for fd in (directory, 50, 51):
        os.close(fd)
    same(done.stdout, "[]\n", done.stderr)


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@test
def capabilities_are_exactly_the_documented_ones():
    pid_1 = {client.PROFILE_USER: 0x1E0, client.PROFILE_ROOT: 0x5FB}
    code = "import time; time.sleep(60)"
    with client.Spawn(STATE) as spawn:
        for profile, uid, inside in ((client.PROFILE_USER, "1000", 0), (client.PROFILE_ROOT, "0", 0x4FB)):
            reply = spawn.create(id="caps", profile=profile,
                                 argv=("i", uid, "/", "/usr/bin/python3", "-c", code))
            same(reply.error, 0, "CREATE")
            first = status_of(reply.pid)
            for name in ("CapPrm", "CapEff", "CapBnd"):
                same(int(first[name], 16), pid_1[profile], f"{name} of PID 1, profile {profile}")
            same((first["NoNewPrivs"], first["Seccomp"]), ("1", "2"), "PID 1")
            children = pathlib.Path(f"/proc/{reply.pid}/task/{reply.pid}/children")
            for _ in range(3000):
                if children.read_text() and "python3" in status_of(children.read_text().split()[0])["Name"]:
                    break
                time.sleep(0.01)
            child = children.read_text().split()[0]
            for name in ("CapPrm", "CapEff", "CapBnd"):
                same(int(status_of(child)[name], 16), inside, f"{name} inside, profile {profile}")
            same(pathlib.Path(f"/proc/{child}/oom_score_adj").read_text(), "500\n", "first to go")
            check(int(status_of(child)["Uid"].split()[0]) >= 3 * 65536, "an id of its range outside")
            same(spawn.destroy("caps").error, 0, "DESTROY")


@test
def sandbox_uses_only_ids_of_its_slot_and_no_keys():
    """The creator is root only by its effective uid; its keyring, which the sandbox inherits, grants nothing."""
    base = str(65536 * (4711 + 3))
    with client.Spawn(STATE) as spawn:
        reply = spawn.create(id="ids", slot=4711, argv=("i", "1000", "/", "/usr/bin/sleep", "60"))
        same(reply.error, 0, "CREATE")
        same(status_of(reply.pid)["Uid"].split(), [base] * 4, "PID 1")
        real, effective, *_ = map(int, status_of(spawn.process.pid)["Uid"].split())
        check(effective == 0 and real >= 65536 * (65000 + 3), f"of no range: {real}, {effective}")
        users = pathlib.Path("/proc/key-users")
        owners = [line.split(":")[0].strip() for line in users.read_text().splitlines()] if users.exists() else []
        check(base not in owners, f"keys of {base}")
        same(spawn.destroy("ids").error, 0, "DESTROY")


def called_by(pid, number, *args):
    """Makes a traced process perform a system call and returns the result; x86-64."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    attach, detach, step, get, put = 16, 17, 9, 12, 13
    regs = (ctypes.c_ulonglong * 27)()      # struct user_regs_struct: rax is 10, orig_rax 15, rip 16

    def trace(request, address=None):
        check(libc.ptrace(request, pid, None, address) >= 0, f"ptrace {request}: {os.strerror(ctypes.get_errno())}")

    trace(attach)
    os.waitpid(pid, 0x40000000)     # __WALL
    trace(get, regs)
    before = bytes(regs)
    regs[10], regs[15], regs[16] = number, 2 ** 64 - 1, regs[16] - 2       # repeat the instruction before rip
    for register, value in zip((14, 13, 12, 7, 9), args):
        regs[register] = value % 2 ** 64
    trace(put, regs)
    trace(step)
    os.waitpid(pid, 0x40000000)
    trace(get, regs)
    answer = ctypes.c_longlong(regs[10]).value
    regs[:] = type(regs).from_buffer_copy(before)
    trace(put, regs)
    trace(detach)
    return answer


@test
def inherited_keyring_grants_nothing():
    """Tested in berm-spawn, which has no filter: what it cannot do, no program inside can."""
    if os.uname().machine != "x86_64":
        raise Skip("registers are those of x86-64")
    keyctl, session, ses_user = 250, -3, -5
    describe, read, clear, link, chown, setperm, set_timeout = 6, 11, 7, 8, 4, 5, 15
    with client.Spawn(STATE) as spawn:
        same(spawn.ask(client.HELLO).error, 0, "HELLO")
        pid = spawn.process.pid
        same(called_by(pid, 39), pid, "a call that works")
        for name, args in {"describe": (describe, session), "clear": (clear, session),
                           "link to it": (link, ses_user, session), "own": (chown, session, 0, 0),
                           "open up": (setperm, session, 0x3F3F3F3F),
                           "time": (set_timeout, session, 1)}.items():
            same(called_by(pid, keyctl, *args), -errno.EACCES, name)
        same(called_by(pid, keyctl, read, session), 0, "empty, as who has it may see")
        same(spawn.ask(client.HELLO).error, 0, "it goes on")


@test
def nested_namespaces_are_refused_even_without_the_filter():
    """Reads the limits of the user namespace as its root."""
    names = ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time")
    code = f"[print(open('/proc/sys/user/max_%s_namespaces' % n).read().strip()) for n in {names}]"
    same(jail("--", "/usr/bin/python3", "-c", code).stdout.split(), ["0"] * len(names), "limits")


@test
def two_sandboxes_share_no_ids():
    first, second = (jail("--", "cat", "/proc/self/uid_map").stdout.split() for _ in range(2))
    check(first[1] != second[1], f"{first} {second}")


@test
def every_missing_feature_is_reported():
    """If a kernel step fails, the sandbox does not start, instead of lacking a protection."""
    done = subprocess.run(["unshare", "--user", "--map-root-user", program("berm-jail"), "--state", STATE,
                           "--", "true"], capture_output=True, text=True)
    same(done.returncode, 125, done.stderr)
    check("berm-jail:" in done.stderr, done.stderr)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
