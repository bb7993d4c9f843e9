#!/usr/bin/env python3
"""Project quotas of the state's file system enforce disk limits, and a program inside cannot evade them."""
import ctypes
import fcntl
import os
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from client import Spawn  # noqa: E402
from tap import Skip, check, main, same, state_dir, test  # noqa: E402

STATE = state_dir()
MIB = 1 << 20
HAS_DISK, HAS_QUOTA = 1 << 7, 1 << 10
GET_XATTR, SET_XATTR = 0x801C581F, 0x401C5820
INHERIT = 0x200
XATTR = struct.Struct("=5I8x")    # flags, extent size, extents, project, copy-on-write extent size
libc = ctypes.CDLL(None, use_errno=True)


def kind():
    """Returns the type of the state's file system, and its error for a full disk."""
    points = [line.split()[1:3] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    name = max((p for p in points if STATE.startswith(p[0])), key=lambda p: len(p[0]))[1]
    return name, "No space left on device" if name == "xfs" else "Disk quota exceeded"


def by_quota(state=STATE):
    """A berm-spawn that can enforce disk limits only by quota."""
    spawn = Spawn(state, "--without", "disk-image")
    if not spawn.ask(client.HELLO).features & HAS_QUOTA:
        spawn.close()
        raise Skip("the state's file system has no project quota")
    return spawn


def attributes(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return XATTR.unpack(fcntl.ioctl(fd, GET_XATTR, bytes(XATTR.size)))
    finally:
        os.close(fd)


def quota(project):
    """Returns block limit, used space, inode limit, used inodes."""
    fd, block = os.open(STATE, os.O_RDONLY), ctypes.create_string_buffer(72)
    try:
        if libc.syscall(443, fd, 0x80000700 | 2, project, block) < 0:    # Q_GETQUOTA of a project
            return (0, 0, 0, 0)
    finally:
        os.close(fd)
    hard, _, space, inodes_hard, _, inodes = struct.unpack_from("=6Q", block)
    return hard, space, inodes_hard, inodes


@test
def quota_bounds_blocks_and_inodes():
    script = ("head -c 30M /dev/zero 2>&1 > /workspace/a; rm /workspace/a; "
              "i=0; while [ $i -lt 3000 ] && true > /workspace/f$i; do i=$((i+1)); done 2>&1; echo files $i")
    with by_quota() as spawn:
        for profile in (client.PROFILE_USER, client.PROFILE_ROOT):
            _, out = spawn.run("q-full", ["sh", "-c", script], disk=16 * MIB, inodes=1024, profile=profile)
            same(out.count(kind()[1]), 2, f"blocks and inodes, profile {profile}: {out}")
            check(900 < int(out.split()[-1]) < 1025, f"inodes, profile {profile}: {out}")


@test
def quota_counts_every_writable_part_of_the_root():
    script = "head -c 12M /dev/zero > /usr/local/a && head -c 12M /dev/zero 2>&1 > /opt/b"
    with by_quota() as spawn:
        _, out = spawn.run("q-parts", ["sh", "-c", script], disk=16 * MIB, profile=client.PROFILE_ROOT)
        check(kind()[1] in out, f"12 and 12 MiB in 16: {out!r}")


@test
def quota_in_bytes_bounds_inodes_too():
    with by_quota() as spawn:
        _, out = spawn.run("q-bytes", ["df", "--output=itotal", "/"], disk=16 * MIB)
        same(out.split()[-1], "4096", "one for every 4 KiB")


@test
def quota_belongs_to_the_layer():
    with by_quota() as spawn:
        spawn.run("q-kept", ["sh", "-c", "echo kept > f"], disk=16 * MIB, destroy=False)
        same(spawn.destroy("q-kept", files=False).error, 0, "stop")
        flags, _, _, project, _ = attributes(f"{STATE}/layers/q-kept")
        check(project >> 31 and flags & INHERIT, f"a project of ours, inherited: {project:#x} {flags:#x}")
        same(attributes(f"{STATE}/layers/q-kept/upper/workspace/f")[3], project, "a file made inside")
        same(quota(project)[0], 16 * 1024, "blocks")
        _, out = spawn.run("q-kept", ["sh", "-c", "cat f; df -k --output=size / | tail -1"], destroy=False)
        same(out.split(), ["kept", str(16 * 1024)], "files and size without being told again")
        same(spawn.destroy("q-kept").error, 0, "DESTROY")
        same(quota(project)[0::2], (0, 0), "no limits stay behind")


@test
def two_states_share_no_project():
    other = state_dir()
    try:
        with by_quota() as one, by_quota(other) as two:
            fill = ["sh", "-c", "head -c 12M /dev/zero > a && echo ok"]
            _, first = one.run("q-twin", fill, disk=16 * MIB, destroy=False)
            _, second = two.run("q-twin", fill, disk=16 * MIB)
            same((first, second), ("ok\n", "ok\n"), "the same id and range, each with its own 16 MiB")
            same(one.destroy("q-twin").error, 0, "DESTROY")
    finally:
        shutil.rmtree(other, ignore_errors=True)


# As root inside, the most privileged user there.
LEAVE = f"""
import errno, fcntl, os, struct
X = struct.Struct("=5I8x")
def attempt(what, path, request, change):
    fd = os.open(path, os.O_RDONLY)
    try:
        old = fcntl.ioctl(fd, request[0], bytes(request[2]))
        fcntl.ioctl(fd, request[1], change(old))
        print(what, "done")
    except OSError as e:
        print(what, errno.errorcode[e.errno])
    os.close(fd)
xattr, flags = ({GET_XATTR}, {SET_XATTR}, X.size), (0x80086601, 0x40086602, 8)
def other(old):
    f = list(X.unpack(old)); f[3] = 0; return X.pack(*f)
def alone(old):
    f = list(X.unpack(old)); f[0] &= ~{INHERIT}; return X.pack(*f)
def no_flag(old):
    return struct.pack("=Q", struct.unpack("=Q", old)[0] & ~0x20000000)
open("/workspace/f", "w").close()
os.mkdir("/workspace/d")
attempt("project", "/workspace/f", xattr, other)
attempt("inherit", "/workspace/d", xattr, alone)
attempt("flag", "/workspace/d", flags, no_flag)
"""


@test
def program_inside_cannot_leave_the_project():
    with by_quota() as spawn:
        _, out = spawn.run("q-leave", ["python3", "-c", LEAVE], disk=16 * MIB, profile=client.PROFILE_ROOT,
                           destroy=False)
        lines = dict(line.split() for line in out.splitlines())
        same(sorted(lines), ["flag", "inherit", "project"], out)
        check("done" not in lines.values(), f"refused: {out}")
        layer = f"{STATE}/layers/q-leave"
        project = attributes(layer)[3]
        same(attributes(f"{layer}/upper/workspace/f")[3], project, "the file still counts")
        check(attributes(f"{layer}/upper/workspace/d")[0] & INHERIT, "so does what comes into the folder")
        fd = os.open(f"{layer}/upper/workspace/f", os.O_RDONLY)
        old = XATTR.unpack(fcntl.ioctl(fd, GET_XATTR, bytes(XATTR.size)))
        fcntl.ioctl(fd, SET_XATTR, XATTR.pack(*old[:3], 0, old[4]))
        os.close(fd)
        same(attributes(f"{layer}/upper/workspace/f")[3], 0, "the control: outside, root may")
        same(spawn.destroy("q-leave").error, 0, "DESTROY")


@test
def quota_with_enospc_is_preferred():
    with Spawn(STATE) as spawn:
        features = spawn.ask(client.HELLO).features
        if not features & HAS_QUOTA or not os.path.exists("/dev/loop-control"):
            raise Skip("the host has not both ways to hold a disk limit")
        _, out = spawn.run("q-first", ["sh", "-c", "head -c 30M /dev/zero 2>&1 > a"], disk=16 * MIB, destroy=False)
        check("No space left on device" in out, out)
        same(os.path.exists(f"{STATE}/layers/q-first/disk.img"), kind()[0] != "xfs", "by image")
        same(spawn.destroy("q-first").error, 0, "DESTROY")


@test
def missing_quota_and_image_support_is_named():
    with Spawn(STATE, "--without", "disk-image", "--without", "disk-quota") as spawn:
        reply = spawn.create(id="q-none", disk=16 * MIB)
        same((reply.error, reply.step, reply.missing), (95, client.STEP_FEATURE, HAS_DISK), "ENOTSUP")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
