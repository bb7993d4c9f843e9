#!/usr/bin/env python3
"""berm-spawn validates every request as if the client were hostile."""
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from client import (CREATE, CREATE_BODY, F_CONTROL, F_STDIO, HEAD, HELLO, MOUNT_LAYERED, REPLY, ROOT_IMAGE, SIZES,  # noqa: E402
                    STEP_EXISTS, STEP_REQUEST, Spawn, create_body, id_body, message)
from tap import ROOT, Skip, check, main, same, state_dir, test  # noqa: E402

STATE = state_dir()
EINVAL, EEXIST, EACCES = 22, 17, 13


@test
def message_layout_matches_the_header():
    names = {HELLO: "hello", CREATE: "create", client.DESTROY: "destroy", client.FREEZE: "by_id",
             client.LIMITS: "set_limits", client.EXEC_CGROUP: "exec_cgroup",
             client.KILL_CGROUP: "kill_cgroup", client.SWEEP: "sweep", client.CLAIM: "claim"}
    if not shutil.which("gcc"):
        raise Skip("the host has no gcc")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "a.c")
        lines = [f'printf("%zu\\n", sizeof(struct spawn_{n}));' for n in [*names.values(), "reply"]]
        source.write_text('#include <stdio.h>\n#include "spawn/request.h"\nint main(void){%s}'
                          % "".join(lines))
        subprocess.run(["gcc", f"-I{ROOT}/src", "-o", f"{folder}/a", source], check=True)
        sizes = [int(n) for n in subprocess.check_output([f"{folder}/a"]).split()]
    same(sizes, [*(SIZES[k] for k in names), REPLY.size], "sizes")


def refused(spawn, data, fds=(), error=EINVAL, step=STEP_REQUEST, text=""):
    spawn.send(data, fds)
    reply = spawn.receive()
    for fd in reply.fds:
        os.close(fd)
    same((reply.error, reply.step), (error, step), text or repr(data[:40]))


@test
def envelopes_are_exact():
    with Spawn(STATE) as spawn:
        refused(spawn, b"x")
        refused(spawn, b"\0" * 15)
        refused(spawn, message(HELLO, 1, version=2), text="version")
        refused(spawn, message(0, 1), text="kind 0")
        refused(spawn, message(12, 1), text="kind past the table")
        refused(spawn, message(0xFFFFFFFF, 1), text="kind -1")
        refused(spawn, message(HELLO, 1, b"x"), text="a byte too many")
        refused(spawn, message(HELLO, 1, size=17), text="a lie about the size")
        refused(spawn, message(CREATE, 1, create_body()[:-1]), text="a byte short")
        null = os.open("/dev/null", os.O_RDONLY)
        refused(spawn, message(HELLO, 1), fds=[null], text="a descriptor nobody asked for")
        refused(spawn, message(CREATE, 1, create_body()), fds=[null] * 70, text="seventy descriptors")
        os.close(null)
        refused(spawn, os.urandom(100000), text="longer than any request")
        same(spawn.ask(HELLO).error, 0, "alive")


@test
def fields_of_create_are_checked():
    bad = [dict(id=""), dict(id="-a"), dict(id="A"), dict(id="a/b"), dict(id=".."), dict(id="a\0b" * 30),
           dict(id="x" * 64), dict(id="ä"), dict(id="a b"), dict(slot=65000), dict(slot=0xFFFFFFFF),
           dict(profile=0), dict(profile=3), dict(root=0), dict(root=3), dict(layer=0), dict(layer=9),
           dict(network=0), dict(network=2), dict(flags=32), dict(flags=0x80000000),
           dict(n_mounts=65), dict(n_mounts=0xFFFFFFFF), dict(n_layers=9), dict(n_argv=0),
           dict(n_argv=513), dict(n_argv=0xFFFFFFFF), dict(n_env=0xFFFFFFFF), dict(n_env=513),
           dict(argv=("a", "b" * 16382)), dict(memory=1), dict(memory=1 << 63), dict(cpu=1),
           dict(cpu=1 << 40), dict(pids=1), dict(pids=1 << 60), dict(disk=1), dict(disk=1 << 60),
           dict(inodes=1000), dict(disk=64 << 20, inodes=1), dict(hostname="a.b"), dict(hostname="x" * 64),
           dict(layers=["a"]), dict(layers=["../x"]), dict(layers=[""])]
    with Spawn(STATE) as spawn:
        for fields in bad:
            refused(spawn, message(CREATE, 1, create_body(**fields)), text=str(fields)[:80])
        # The same request without the fault is accepted, so the fault is the reason.
        same(spawn.create(id="good").error, 0, "good")
        same(spawn.destroy("good").error, 0, "DESTROY")
    same(os.listdir(f"{STATE}/layers"), [], "a refused request leaves nothing")


@test
def mount_targets_are_checked():
    with Spawn(STATE, "--mount-root", "/usr") as spawn:
        directory = os.open("/usr", os.O_PATH)
        for target in ("", "/", "x", "//x", "/x/", "/x//y", "/./x", "/x/.", "/../x", "/x/..", "/proc",
                       "/proc/self", "/dev", "/dev/shm", "/sys/fs", "/" + "x" * 255):
            refused(spawn, message(CREATE, 1, create_body(mounts=[(target, 0)])), fds=[directory],
                    text=target)
        refused(spawn, message(CREATE, 1, create_body(mounts=[("/x", 8)])), fds=[directory], text="flag")
        for both in (3, 5, 6, 7):
            refused(spawn, message(CREATE, 1, create_body(mounts=[("/x", both)])), fds=[directory], text=f"kinds {both}")
        nine = [(f"/x/{n}", MOUNT_LAYERED) for n in range(9)]
        refused(spawn, message(CREATE, 1, create_body(mounts=nine)), fds=[directory] * 9, text="too many layers")
        twice = [("/x", MOUNT_LAYERED), ("/y", 0), ("/x", MOUNT_LAYERED)]
        refused(spawn, message(CREATE, 1, create_body(mounts=twice)), fds=[directory] * 3, text="one layer twice")
        refused(spawn, message(CREATE, 1, create_body(mounts=[("/x", 0)])), fds=[], text="no descriptor")
        for target in ("/procs", "/x/..y", "/a/b/c"):
            reply = spawn.create(id="target", mounts=[(target, 0)], fds=[directory])
            same(reply.error, 0, target)
            same(spawn.destroy("target").error, 0, "DESTROY")
        os.close(directory)


@test
def descriptors_are_checked():
    with Spawn(STATE, "--mount-root", "/usr") as spawn, tempfile.TemporaryFile() as file:
        directory, etc = os.open("/usr", os.O_PATH), os.open("/etc", os.O_PATH)
        null = os.open("/dev/null", os.O_RDWR)
        tcp, listening = socket.socket(), socket.socket(socket.AF_UNIX)
        listening.bind(f"{STATE}/listening")
        listening.listen()
        unix = socket.socket(socket.AF_UNIX)
        cases = [
            (dict(flags=F_CONTROL), [], "no control socket"),
            (dict(flags=F_CONTROL), [file.fileno()], "a file as control socket"),
            (dict(flags=F_CONTROL), [tcp.fileno()], "an internet socket as control socket"),
            (dict(flags=F_CONTROL), [listening.fileno()], "a control socket that listens already"),
            (dict(flags=F_STDIO), [null, null], "two of three"),
            (dict(flags=F_STDIO), [directory, null, null], "a directory as standard input"),
            (dict(root=ROOT_IMAGE), [null], "a device as image"),
            (dict(root=ROOT_IMAGE), [], "no image"),
            (dict(mounts=[("/x", 0)]), [file.fileno()], "a file as directory"),
        ]
        for fields, fds, text in cases:
            refused(spawn, message(CREATE, 1, create_body(**fields)), fds=fds, text=text)
        for fields in (dict(root=ROOT_IMAGE), dict(mounts=[("/x", 0)])):
            reply = spawn.create(id="outside", fds=[etc], **fields)
            same(reply.error, EACCES, "a directory outside the allowed ones")
            check(not os.path.exists(f"{STATE}/layers/outside"), "a failure leaves no layer behind")
        same(spawn.create(id="stays").error, 0, "CREATE")
        same(spawn.destroy("stays", files=False).error, 0, "DESTROY but its files")
        same(spawn.create(id="stays", fds=[etc], mounts=[("/x", 0)]).error, EACCES, "and a failure on top")
        check(os.path.exists(f"{STATE}/layers/stays/upper"), "a layer of before stays")
        same(spawn.destroy("stays").error, 0, "DESTROY")
        same(spawn.create(id="inside", flags=F_CONTROL, fds=[unix.fileno()]).error, 0, "control socket")
        same(spawn.destroy("inside").error, 0, "DESTROY")
        for fd in (directory, etc, null):
            os.close(fd)


@test
def ids_and_slots_are_unique():
    with Spawn(STATE) as spawn:
        sleep = ("i", "1000", "/", "/usr/bin/sleep", "60")
        first = spawn.create(id="own-a", slot=5, argv=sleep)
        same(first.error, 0, "CREATE")
        for fields in (dict(id="own-a", slot=6), dict(id="own-b", slot=5)):
            reply = spawn.create(argv=sleep, **fields)
            same((reply.error, reply.step), (EEXIST, STEP_EXISTS), str(fields))
        same(spawn.destroy("own-a", files=False).error, 0, "stop")
        reply = spawn.create(id="own-a", slot=6, argv=sleep)
        check(reply.error != 0, "a layer of another range is refused")
        same(spawn.destroy("own-a").error, 0, "DESTROY")


@test
def random_bytes_never_crash():
    seed = int(os.environ.get("BERM_SEED", random.randrange(1 << 32)))
    count = int(os.environ.get("BERM_FUZZ", 3000))
    print(f"# seed {seed}")
    rng = random.Random(seed)
    kinds = [k for k in SIZES if k not in (client.SWEEP, client.DESTROY)]
    with Spawn(STATE) as spawn:
        accepted = 0
        for _ in range(count):
            kind = rng.choice(kinds)
            if rng.random() < 0.5:  # a valid CREATE with a few changed bytes
                body = bytearray(create_body(id="fuzz", argv=("i", "1000", "/", "/usr/bin/true")))
                kind = CREATE
                for _ in range(rng.randrange(1, 6)):
                    body[rng.randrange(rng.choice((240, 800, len(body))))] = rng.randrange(256)
            else:
                body = rng.randbytes(SIZES[kind] - HEAD.size)
            data = bytearray(message(kind, 1, bytes(body)))
            if rng.random() < 0.1:
                data[rng.randrange(16)] = rng.randrange(256)
            spawn.send(bytes(data))
            reply = spawn.receive()
            if reply.error == 0 and reply.kind == CREATE:
                accepted += 1
                spawn.wait(reply)
                name = bytes(data[16:80]).split(b"\0")[0].decode()
                same(spawn.destroy(name).error, 0, "DESTROY")
        same(spawn.ask(HELLO).error, 0, "alive")
        same(spawn.process.poll(), None, "the same process")
        check(accepted < count, "not everything was accepted")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
