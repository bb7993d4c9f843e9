#!/usr/bin/env python3
"""A parked instance gets its name, limits and directories later, once."""
import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from client import (CLAIM, F_PARKED, MOUNT_LAYERED, MOUNT_PUBLIC, MOUNT_WRITABLE, PROFILE_ROOT, STEP_REQUEST, Spawn,  # noqa: E402
                    claim_body, create_body, message)
from tap import check, main, same, state_dir, test  # noqa: E402

STATE = state_dir()
EINVAL, ENOENT, ESRCH, EACCES = 22, 2, 3, 13
# Waits for a line on standard input, so that the program sees the instance after the CLAIM.
LOOK = "read go; %s"
FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",), "cpu": ("cpu.max", "cpu.cfs_quota_us")}
HELD_MAX = 128


class Parked:
    """A parked instance whose program waits for a line."""

    def __init__(self, spawn, id, script, slot=1, **fields):
        self.spawn, self.id = spawn, id
        (stdin, self.go), (self.out, stdout) = os.pipe(), os.pipe()
        profile = fields.get("profile", client.PROFILE_USER)
        uid = "0" if profile == PROFILE_ROOT else "1000"
        self.reply = spawn.create(fds=[stdin, stdout, stdout], id=id, slot=slot, flags=client.F_STDIO | F_PARKED,
                                  argv=("berm-init", uid, "/", "sh", "-c", LOOK % script),
                                  env=("PATH=/usr/bin:/bin",), **fields)
        os.close(stdin)
        os.close(stdout)
        same(self.reply.error, 0, "CREATE")

    def claim(self, fds=(), **fields):
        return self.spawn.ask(CLAIM, claim_body(self.id, **fields), fds)

    def output(self):
        os.write(self.go, b"go\n")
        os.close(self.go)
        with os.fdopen(self.out) as pipe:
            text = pipe.read()
        check(self.spawn.wait(self.reply), "it ends")
        same(self.spawn.destroy(self.id).error, 0, "DESTROY")
        return text

    def drop(self):
        for fd in (self.go, self.out, self.reply.fds[0]):
            os.close(fd)
        same(self.spawn.destroy(self.id).error, 0, "DESTROY")


def limit_of(id, *names):
    """Returns a limit from the controller, in either version of cgroups."""
    status = os.stat(STATE)
    group = f"berm/s-{status.st_dev:x}-{status.st_ino:x}/{id}"
    top = pathlib.Path("/sys/fs/cgroup")
    found = [path for root in (top, *top.iterdir()) for name in names if (path := root / group / name).exists()]
    return found[0].read_text().split()[0] if found else None


@test
def claim_sets_the_host_name():
    with Spawn(STATE) as spawn:
        for fields, name in ((dict(hostname="box-7"), "box-7"), (dict(), "named")):
            parked = Parked(spawn, "named", "hostname")
            same(parked.claim(**fields).error, 0, "CLAIM")
            same(parked.output(), f"{name}\n", "the host's name inside")
    check(os.uname().nodename not in ("box-7", "named"), "the host keeps its own")


@test
def claim_mounts_directories():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, Spawn(STATE, "--mount-root", folder) as spawn:
        os.chmod(folder, 0o711)
        source = pathlib.Path(folder, "source")
        source.mkdir(mode=0o700)
        source.joinpath("file").write_text("theirs")
        os.chown(source, 61234, 61234)
        os.chown(source / "file", 61234, 61234)
        directory = os.open(source, os.O_PATH)
        see = "stat -c '%u %F' /in/deep/here /in/deep /in; cat /in/deep/here/file; touch /in/deep/here/x || echo no"
        want = "1000 directory\n0 directory\n0 directory\ntheirs"
        parked = Parked(spawn, "mounted", see + " 2>&1", pids=32)
        same(parked.claim(fds=[directory], mounts=[("/in/deep/here", 0)]).error, 0, "CLAIM")
        text = parked.output()
        check(text.startswith(want) and text.endswith("no\n") and "Read-only" in text, text)
        parked = Parked(spawn, "public", "stat -c %u /in; cat /in/file || echo no")
        same(parked.claim(fds=[directory], mounts=[("/in", MOUNT_PUBLIC)]).error, 0, "CLAIM")
        check(parked.output().startswith("65534\n"), "nobody's inside")
        parked = Parked(spawn, "rooted", "stat -c %u /in; cat /in/file", profile=PROFILE_ROOT)
        same(parked.claim(fds=[directory], mounts=[("/in", 0)]).error, 0, "CLAIM")
        same(parked.output(), "0\ntheirs", "root's inside")
        os.close(directory)
        # The prepared mapping is for the last owner; other owners and groups get their own.
        for owner, group in ((61235, 61234), (61235, 61236)):
            os.chown(source, owner, group)
            os.chown(source / "file", owner, group)
            directory = os.open(source, os.O_PATH)
            parked = Parked(spawn, "another", "stat -c '%u %g' /in /in/file; cat /in/file")
            same(parked.claim(fds=[directory], mounts=[("/in", 0)]).error, 0, "CLAIM")
            same(parked.output(), "1000 1000\n1000 1000\ntheirs", f"of {owner}:{group}")
            os.close(directory)
        check(folder not in pathlib.Path("/proc/self/mountinfo").read_text(), "the host has no mount of it")


@test
def claim_sets_limits():
    with Spawn(STATE) as spawn:
        parked = Parked(spawn, "limited", "true", memory=64 << 20, pids=64)
        same(parked.claim(pids=32).error, 0, "CLAIM")
        same(limit_of("limited", "pids.max"), "32", "processes")
        memory = limit_of("limited", "memory.max") or limit_of("limited", "memory.limit_in_bytes")
        same(memory, str(64 << 20), "0 is as it was made")
        parked.drop()
        for memory in (32 << 20, 128 << 20):        # less and more than the instance was created with
            parked = Parked(spawn, "limited", "true", memory=64 << 20, cpu=500, pids=64)
            same(parked.claim(memory=memory, cpu=250, pids=48).error, 0, "CLAIM")
            same([limit_of("limited", *names) for names in FILES.values()],
                 [str(memory), "48", "25000"], "as the claim has them")
            swap = limit_of("limited", "memory.memsw.limit_in_bytes")
            check(swap in (None, str(memory)), f"and with swap no more: {swap}")
            swap = limit_of("limited", "memory.swap.max")
            check(swap in (None, "0"), f"where swap is counted apart, none: {swap}")
            parked.drop()


@test
def claim_refuses_a_limit_that_the_instance_lacks():
    with Spawn(STATE) as spawn:
        parked = Parked(spawn, "limited", "true", memory=64 << 20, pids=64)
        has_cpu = limit_of("limited", *FILES["cpu"]) is not None      # in one tree all files exist
        same(parked.claim(memory=32 << 20, cpu=250).error, 0 if has_cpu else ENOENT, "CLAIM")
        parked.drop()


@test
def descriptors_held_for_claims_are_bounded_and_released():
    with Spawn(STATE) as spawn:
        def held():
            """Returns the ids of sandboxes whose limit files berm-spawn has open."""
            found = set()
            for fd in pathlib.Path(f"/proc/{spawn.process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):        # a chore may have closed it
                    path = pathlib.Path(os.readlink(fd))
                    found |= {path.parent.name} if path.name == "pids.max" else set()
            return found

        ids = [f"held-{i}" for i in range(HELD_MAX + 2)]
        with contextlib.ExitStack() as stack:
            for slot, id in enumerate(ids, 1):
                made = spawn.create(id=id, slot=slot, flags=F_PARKED, argv=("berm-init", "1000", "/", "sleep", "60"), pids=64)
                stack.callback(spawn.destroy, id)
                os.close(made.fds[0])
            same(held(), set(ids[2:]), "the newest")
            same(spawn.ask(CLAIM, claim_body(ids[0], pids=32)).error, 0, "CLAIM of the oldest")
            same(limit_of(ids[0], "pids.max"), "32", "its limit")
            same(spawn.ask(CLAIM, claim_body(ids[2], pids=32)).error, 0, "CLAIM of one that is held")
            cgroup = spawn.ask(client.EXEC_CGROUP, client.id_body(ids[3], struct.pack("=II", 1, 1)))
            os.close(cgroup.fds[0])
            same(spawn.destroy(ids[4]).error, 0, "DESTROY")
            same(spawn.ask(client.HELLO).error, 0, "HELLO")     # releases happen with the next reply
            same(held(), set(ids[5:]), "not those")
        same(held(), set(), "none")


@test
def claim_works_once_and_only_on_a_parked_instance():
    with Spawn(STATE) as spawn:
        parked = Parked(spawn, "once", "hostname")
        same(parked.claim(hostname="first").error, 0, "CLAIM")
        same(parked.claim(hostname="second").error, ENOENT, "again")
        same(parked.output(), "first\n", "the first one holds")
        same(spawn.create(id="plain", argv=("berm-init", "1000", "/", "sleep", "60")).error, 0, "CREATE")
        same(spawn.ask(CLAIM, claim_body("plain")).error, ENOENT, "one that is not parked")
        same(spawn.destroy("plain").error, 0, "DESTROY")
        same(spawn.ask(CLAIM, claim_body("nobody")).error, ENOENT, "none")


@test
def instance_with_an_exec_cgroup_is_not_parked():
    with Spawn(STATE) as spawn:
        parked = Parked(spawn, "used", "hostname")
        cgroup = spawn.ask(client.EXEC_CGROUP, client.id_body("used", struct.pack("=II", 1, 1)))
        same(cgroup.error, 0, "EXEC_CGROUP")
        for fd in cgroup.fds:
            os.close(fd)
        same(parked.claim(hostname="late").error, ENOENT, "CLAIM")
        same(parked.output(), "used\n", "its name is the one it was made with")


@test
def instance_is_not_parked_after_a_failed_claim():
    with Spawn(STATE, "--mount-root", "/usr") as spawn:
        etc = os.open("/etc", os.O_PATH)
        parked = Parked(spawn, "failed", "ls /x")
        same(parked.claim(fds=[etc], mounts=[("/x", 0)]).error, EACCES, "a directory outside the allowed ones")
        same(parked.claim().error, ENOENT, "again")
        parked.drop()
        os.close(etc)


def unlike_the_host(folder, state, told):
    """With shared mounts, as systemd sets them up: lists what failed requests leave on the host."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, recursive, private, shared = 0x20000, 0x4000, 1 << 18, 1 << 20
    assert libc.unshare(new_namespace) == 0
    for kind in (private, shared):      # private first, so that nothing reaches the real mounts
        assert libc.mount(b"none", b"/", None, recursive | kind, None) == 0

    def mounts():
        return sorted(line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())
    good, bad = os.open(folder, os.O_PATH), os.open("/etc", os.O_PATH)
    with Spawn(state, "--mount-root", folder) as spawn:
        spawn.ask(client.HELLO)
        before, errors = mounts(), []
        for layer in (client.LAYER_DISK, client.LAYER_MEMORY):
            sleep = dict(layer=layer, argv=("berm-init", "1000", "/", "sleep", "60"))
            spawn.create(id="half", slot=1, flags=F_PARKED, **sleep)
            two = dict(mounts=[("/in", 0), ("/out", 0)])
            errors.append(spawn.ask(CLAIM, claim_body("half", **two), [good, bad]).error)
            errors.append(spawn.create(id="next", slot=2, **sleep).error)
            errors.append(spawn.create(id="never", slot=3, fds=[good, bad], **sleep, **two).error)
            for id in ("half", "next"):
                spawn.destroy(id)
        told.put((errors, [path for path in mounts() if path not in before]))


@test
def claim_attaches_nothing_to_shared_mounts_of_the_host():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, 61234, 61234)
        told = multiprocessing.SimpleQueue()
        there = multiprocessing.Process(target=unlike_the_host, args=(folder, STATE, told))
        there.start()
        there.join(60)
        same(there.exitcode, 0, "it came to its end")
        same(told.get() if not told.empty() else None, ([EACCES, 0, EACCES] * 2, []), "refused, and no mount stays")


@test
def claim_fields_are_checked():
    with Spawn(STATE, "--mount-root", "/usr") as spawn:
        usr, null = os.open("/usr", os.O_PATH), os.open("/dev/null", os.O_RDONLY)
        bad = [(dict(hostname="a.b"), []), (dict(hostname="x" * 64), []), (dict(reserved=1), []),
               (dict(disk=64 << 20), []), (dict(inodes=4096), []), (dict(file=1 << 20), []), (dict(memory=1), []),
               (dict(pids=1), []), (dict(cpu=1), []), (dict(n_mounts=9), []), (dict(n_mounts=0xFFFFFFFF), []),
               (dict(mounts=[("/x", 0)]), []), (dict(), [usr]), (dict(mounts=[("/x", 0)]), [null]),
               (dict(mounts=[("/x", MOUNT_WRITABLE)]), [usr]), (dict(mounts=[("/x", MOUNT_LAYERED)]), [usr]), (dict(mounts=[("/proc/x", 0)]), [usr]),
               (dict(mounts=[("/../x", 0)]), [usr]), (dict(mounts=[("x", 0)]), [usr]), (dict(mounts=[("/x", 4)]), [usr])]
        parked = Parked(spawn, "hostile", "hostname")
        for fields, fds in bad:
            reply = parked.claim(fds=fds, **fields)
            same((reply.error, reply.step), (EINVAL, STEP_REQUEST), str(fields))
        spawn.send(message(CLAIM, 9, claim_body("-a")))
        same(spawn.receive().error, EINVAL, "an id")
        spawn.send(message(client.CREATE, 9, create_body(flags=F_PARKED, mounts=[("/x", 0)])), [usr])
        same(spawn.receive().error, EINVAL, "parked with mounts")
        # None of them has used up the claim.
        same(parked.claim(fds=[usr], mounts=[("/x", 0)], hostname="good").error, 0, "CLAIM")
        same(parked.output(), "good\n", "its name")
        os.close(usr)
        os.close(null)


@test
def ended_instance_cannot_be_claimed():
    with Spawn(STATE) as spawn:
        reply = spawn.create(id="ended", flags=F_PARKED, argv=("berm-init", "1000", "/", "true"))
        check(spawn.wait(reply), "it ends")
        check(spawn.ask(CLAIM, claim_body("ended", hostname="late")).error in (ENOENT, ESRCH), "CLAIM")     # reaped or not yet
        same(spawn.destroy("ended").error, 0, "DESTROY")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
