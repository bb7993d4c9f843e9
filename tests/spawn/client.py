"""A client of a private berm-spawn, with the protocol of src/spawn/request.h. test_requests compares the sizes with
the C header."""
import os
import select
import signal
import socket
import struct
import subprocess

from tap import program

VERSION = 1
HELLO, CREATE, DESTROY, FREEZE, THAW, LIMITS, USAGE, EXEC_CGROUP, KILL_CGROUP, SWEEP, CLAIM = range(1, 12)
PROFILE_USER, PROFILE_ROOT = 1, 2
ROOT_HOST, ROOT_IMAGE = 1, 2
LAYER_DISK, LAYER_MEMORY = 1, 2
F_STDIO, F_CONTROL, F_STRICT_PROC, F_NO_PTRACE, F_PARKED = 1, 2, 4, 8, 16
MOUNT_WRITABLE, MOUNT_PUBLIC, MOUNT_LAYERED = 1, 2, 4
DESTROY_FILES = 1
STEP_REQUEST, STEP_EXISTS, STEP_FEATURE = 1, 2, 3

# BERM_WITHOUT="cgroup-v2 overlay-fd" runs every test as on a kernel that lacks these features.
WITHOUT = [word for name in os.environ.get("BERM_WITHOUT", "").split() for word in ("--without", name)]

HEAD = struct.Struct("=4I")
CREATE_BODY = struct.Struct("=64s10I6Q64s512s16896s16384s")
CLAIM_BODY = struct.Struct("=64s64s6QII2112s")
REPLY = struct.Struct("=4Ii6IiiI5Q")
SIZES = {HELLO: 16, CREATE: HEAD.size + CREATE_BODY.size, DESTROY: 88, FREEZE: 80, THAW: 80,
         LIMITS: 128, USAGE: 80, EXEC_CGROUP: 88, KILL_CGROUP: 88, SWEEP: 24 + 256 * 64, CLAIM: HEAD.size + CLAIM_BODY.size}


class Reply:
    def __init__(self, data, fds):
        (self.version, self.kind, self.size, self.seq, self.error, self.step, self.n_fds,
         self.fds_per_cgroup, self.features, self.landlock_abi, self.missing, self.pid,
         self.wait_status, self.swept, *usage) = REPLY.unpack(data)
        self.usage = dict(zip(("memory", "peak", "cpu_us", "pids", "oom_kills"), usage))
        self.fds = fds


def message(kind, seq, body=b"", version=VERSION, size=None):
    return HEAD.pack(version, kind, size or HEAD.size + len(body), seq) + body


def create_body(id="a", slot=1, profile=PROFILE_USER, root=ROOT_HOST, layer=LAYER_DISK, network=1,
                flags=0, mounts=(), layers=(), argv=("berm-init", "1000", "/", "true"), env=(),
                memory=0, cpu=0, pids=0, disk=0, inodes=0, file=0, hostname="", **override):
    text = b"".join(os.fsencode(s) + b"\0" for s in (*argv, *env))
    names = b"".join(struct.pack("=64s", s.encode()) for s in layers)
    fields = dict(n_mounts=len(mounts), n_layers=len(layers), n_argv=len(argv), n_env=len(env))
    fields.update(override)
    return CREATE_BODY.pack(id.encode() if isinstance(id, str) else id, slot, profile, root, layer,
                            network, flags, fields["n_mounts"], fields["n_layers"], fields["n_argv"],
                            fields["n_env"], memory, cpu, pids, disk, inodes, file, hostname.encode(),
                            names, mount_table(mounts), text)


def mount_table(mounts):
    return b"".join(struct.pack("=256sII", os.fsencode(t), f, 0) for t, f in mounts)


def claim_body(id, hostname="", mounts=(), memory=0, cpu=0, pids=0, disk=0, inodes=0, file=0, reserved=0,
               n_mounts=None):
    return CLAIM_BODY.pack(id.encode(), hostname.encode(), memory, cpu, pids, disk, inodes, file,
                           len(mounts) if n_mounts is None else n_mounts, reserved, mount_table(mounts))


def id_body(id, tail=b""):
    return struct.pack("=64s", id.encode()) + tail


class Spawn:
    """A berm-spawn process and the socket to it."""

    def __init__(self, state, *options, guest=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(60)
        self.sock, self.seq = ours, 0
        self.process = subprocess.Popen(
            [program("berm-spawn"), "--state", state, "--guest", guest or program("berm-init"),
             "--socket-fd", str(theirs.fileno()), *options, *WITHOUT], pass_fds=[theirs.fileno()])
        theirs.close()

    def send(self, data, fds=()):
        socket.send_fds(self.sock, [data], list(fds)) if fds else self.sock.send(data)

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.sock, 4096, 32)
        if not data:
            raise EOFError("berm-spawn is gone")
        return Reply(data, fds)

    def ask(self, kind, body=b"", fds=()):
        self.seq += 1
        self.send(message(kind, self.seq, body), fds)
        reply = self.receive()
        assert reply.seq == self.seq, (reply.seq, self.seq)
        return reply

    def create(self, fds=(), **fields):
        return self.ask(CREATE, create_body(**fields), fds)

    def destroy(self, id, files=True):
        return self.ask(DESTROY, id_body(id, struct.pack("=II", int(files), 0)))

    def wait(self, reply, seconds=30):
        """Waits until PID 1 ends. Returns False if it keeps running."""
        ready, _, _ = select.select([reply.fds[0]], [], [], seconds)
        os.close(reply.fds[0])
        return bool(ready)

    def run(self, id, argv, slot=1, profile=PROFILE_USER, destroy=True, seconds=60, **fields):
        """Runs a command through berm-init. Returns the wait status and the output."""
        read, write = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        uid = "0" if profile == PROFILE_ROOT else "1000"
        reply = self.create(fds=[null, write, write, *fields.pop("fds", ())], id=id, slot=slot,
                            profile=profile, flags=F_STDIO | fields.pop("flags", 0),
                            argv=("berm-init", uid, fields.pop("cwd", "/workspace"), *argv),
                            env=("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/user",
                                 "LANG=C.UTF-8"), **fields)
        os.close(write)
        os.close(null)
        if reply.error:
            os.close(read)
            raise OSError(reply.error, f"step {reply.step}: {os.strerror(reply.error)}")
        with os.fdopen(read, "rb") as pipe:
            output = pipe.read()
        alive = not self.wait(reply, seconds)
        end = self.destroy(id) if destroy else None
        assert not alive, "PID 1 lives on"
        return (end.wait_status if end else None), output.decode(errors="replace")

    def close(self):
        self.sock.close()
        return self.process.wait(30)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.close()
