#!/usr/bin/env python3
"""Memory, processes, CPU and disk run out inside, never outside, and never end PID 1."""
import os
import pathlib
import shutil
import socket
import stat
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from client import Spawn, id_body  # noqa: E402
from tap import Skip, check, main, program, same, state_dir, test  # noqa: E402

STATE = state_dir()
OURS = "berm/s-{0.st_dev:x}-{0.st_ino:x}".format(os.stat(STATE))     # the cgroup of our sandboxes in each hierarchy
MIB = 1 << 20
HAS_MEMORY, HAS_CPU, HAS_PIDS, HAS_DISK = 1 << 4, 1 << 5, 1 << 6, 1 << 7


def needs(spawn, bit, name):
    if not spawn.ask(client.HELLO).features & bit:
        raise Skip(f"the kernel offers no {name} limit")


@test
def memory_limit_kills_the_program_and_pid_1_reports_it():
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_MEMORY, "memory")
        status, _ = spawn.run("mem-a", ["python3", "-c", "x = bytearray(300 << 20)"], memory=64 * MIB)
        # PID 1 itself exited normally, with the program's signal as its code.
        check(os.WIFEXITED(status), f"PID 1 was not killed: {status:#x}")
        same(os.waitstatus_to_exitcode(status), 137, "the program was")


@test
def memory_of_files_counts_for_the_limit():
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_MEMORY, "memory")
        status, out = spawn.run("mem-b", ["sh", "-c", "head -c 60M /dev/zero > /dev/shm/x; echo $?"],
                                memory=32 * MIB, layer=client.LAYER_MEMORY)
        check(out.strip() != "0", f"60 MiB in /dev/shm under 32 MiB: {out}")


@test
def usage_reports_consumption():
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_MEMORY, "memory")
        spawn.run("use-a", ["python3", "-c", "x = bytearray(20 << 20)\nfor i in range(3000000): pass"],
                  memory=256 * MIB, pids=64, destroy=False)
        reply = spawn.ask(client.USAGE, id_body("use-a"))
        same(reply.error, 0, "USAGE")
        check(reply.usage["cpu_us"] > 10000, f"cpu: {reply.usage}")
        check(20 * MIB < reply.usage["peak"] < 256 * MIB, f"memory peak: {reply.usage}")
        same(spawn.destroy("use-a").error, 0, "DESTROY")
        check(spawn.ask(client.USAGE, id_body("use-a")).error != 0, "nothing to measure afterwards")


@test
def processes_run_out_with_eagain():
    code = """
import os, time, errno
n = 0
try:
    while n < 100:
        if os.fork() == 0:
            time.sleep(30)
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno], flush=True)
"""
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_PIDS, "process")
        _, out = spawn.run("pids-a", ["python3", "-c", code], pids=20)
        same(out.split(), ["18", "EAGAIN"], "20 with PID 1 and the program itself")


@test
def cpu_limit_bounds_cpu_time():
    # Without its start, which has to be waited for where the machine is slow.
    code = ("import time\nbegin, used = time.monotonic(), time.process_time()\n"
            "while time.monotonic() < begin + 2: pass\n"
            "print((time.process_time() - used) / (time.monotonic() - begin))")
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_CPU, "CPU")
        _, out = spawn.run("cpu-a", ["python3", "-c", code], cpu=200)
        # A fifth and a period more; without the limit it is what the machine gives, up to 1.
        check(float(out) < 0.375, f"of 0.2 CPU it used {out.strip()}")


@test
def limits_change_while_the_sandbox_runs():
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_MEMORY, "memory")
        read, write = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        code = "import sys\nsys.stdin.readline()\nx = bytearray(100 << 20)\nprint('ok')"
        gate_read, gate_write = os.pipe()
        reply = spawn.create(fds=[gate_read, write, null], id="lim-a", flags=client.F_STDIO,
                             memory=512 * MIB, argv=("i", "1000", "/", "/usr/bin/python3", "-c", code))
        for fd in (write, gate_read, null):
            os.close(fd)
        same(reply.error, 0, "CREATE")
        limits = struct.pack("=6Q", 50 * MIB, 0, 0, 0, 0, 0)
        same(spawn.ask(client.LIMITS, id_body("lim-a", limits)).error, 0, "LIMITS")
        same(spawn.ask(client.LIMITS, id_body("lim-a", struct.pack("=6Q", 0, 0, 0, 64 * MIB, 0, 0))).error, 22,
             "a disk limit cannot change")
        os.write(gate_write, b"\n")
        os.close(gate_write)
        with os.fdopen(read, "rb") as pipe:
            same(pipe.read(), b"", "100 MiB do not fit any more")
        check(spawn.wait(reply), "ended")
        same(os.waitstatus_to_exitcode(spawn.destroy("lim-a").wait_status), 137, "killed for memory")


def v1_points():
    """Where v1 hierarchies are, as {controller: path}."""
    rows = (line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines())
    return {name: pathlib.Path(row[1]) for row in rows if row[2] == "cgroup" for name in row[3].split(",")}


def needs_v1(*controllers):
    if missing := [name for name in controllers if name not in v1_points()]:
        raise Skip(f"the host has no v1 hierarchy for {', '.join(missing)}")


def v1_group(controller, id):
    """Returns a sandbox's cgroup of that controller."""
    return v1_points()[controller] / OURS / id


def read(group, file):
    return (group / file).read_text().strip()


def empty(group):
    """Drops the caches. Files that the sandbox was the first to read, and per-CPU reserves, are charged to its cgroup
    in varying amounts."""
    (group / "memory.force_empty").write_text("0")


@test
def spare_v1_cgroup_serves_the_next_sandbox_as_new():
    needs_v1("memory", "pids", "cpu")
    with Spawn(STATE) as spawn:
        spawn.run("reuse-a", ["python3", "-c", "x = bytearray(60 << 20)"], slot=41, memory=256 * MIB, cpu=500, pids=50,
                  destroy=False)
        groups = [v1_group(name, "reuse-a") for name in ("memory", "pids", "cpu")]
        check(spawn.ask(client.USAGE, id_body("reuse-a")).usage["peak"] > 60 * MIB, "its peak")
        inodes = [group.stat().st_ino for group in groups]
        same(spawn.destroy("reuse-a").error, 0, "DESTROY")
        check(not any(group.exists() for group in groups), "gone by that name")
        empty(next(path for path in groups[0].parent.iterdir() if path.stat().st_ino == inodes[0]))
        spawn.run("reuse-b", ["true"], slot=42, memory=64 * MIB, cpu=1500, pids=20, destroy=False)
        groups = [v1_group(name, "reuse-b") for name in ("memory", "pids", "cpu")]
        same([group.stat().st_ino for group in groups], inodes, "the same groups")
        same([read(groups[0], "memory.limit_in_bytes"), read(groups[0], "memory.memsw.limit_in_bytes"),
              read(groups[1], "pids.max"), read(groups[2], "cpu.cfs_quota_us")],
             [str(64 * MIB), str(64 * MIB), "20", "150000"], "with limits of its own")
        same({(group / "cgroup.procs").stat().st_uid for group in groups}, {65536 * (42 + 3)}, "of its own range")
        usage = spawn.ask(client.USAGE, id_body("reuse-b")).usage
        check(usage["peak"] < 40 * MIB, f"a peak of its own: {usage}")
        same(spawn.destroy("reuse-b").error, 0, "DESTROY")


@test
def v1_cgroup_with_leftover_usage_is_not_reused():
    needs_v1("memory")
    with Spawn(STATE) as spawn:
        for script in ("x = bytearray(300 << 20)",             # killed for memory: the kernel counts that forever
                       "open('/workspace/f', 'wb').write(bytes(20 << 20))"):        # in the page cache: kept below
            spawn.run("forget-a", ["python3", "-c", script], slot=43, memory=64 * MIB, destroy=False)
            group = v1_group("memory", "forget-a")
            inode = group.stat().st_ino
            same(spawn.destroy("forget-a", files=False).error, 0, "DESTROY")
            spawn.run("forget-b", ["true"], slot=44, memory=64 * MIB, destroy=False)
            check(v1_group("memory", "forget-b").stat().st_ino != inode, f"another group after {script}")
            usage = spawn.ask(client.USAGE, id_body("forget-b")).usage
            same(usage["oom_kills"], 0, "none of its own")
            check(usage["memory"] < 16 * MIB, f"nor memory of the other's: {usage}")
            same(spawn.destroy("forget-b").error, 0, "DESTROY")
            same(spawn.destroy("forget-a").error, 0, "and the files")


@test
def disk_limit_bounds_blocks_and_inodes():
    script = ("head -c 30M /dev/zero 2>&1 > /workspace/a; rm /workspace/a; "
              "i=0; while [ $i -lt 3000 ] && touch /workspace/f$i; do i=$((i+1)); done 2>/dev/null; "
              "echo files $i")
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_DISK, "disk")
        for layer in (client.LAYER_DISK, client.LAYER_MEMORY):
            _, out = spawn.run("disk-a", ["sh", "-c", script], disk=16 * MIB, inodes=1024, layer=layer)
            check("No space left" in out, f"blocks, layer {layer}: {out}")
            count = int(out.split()[-1])
            check(500 < count < 1100, f"inodes, layer {layer}: {count}")


@test
def file_limit_bounds_the_size_of_a_file():
    with Spawn(STATE) as spawn:
        status, out = spawn.run("file-a", ["head", "-c", "3M", "/dev/zero"], file=1 * MIB,
                                cwd="/workspace")
        same(os.waitstatus_to_exitcode(status), 0, "a pipe is not a file")
        status, _ = spawn.run("file-b", ["sh", "-c", "exec head -c 3M /dev/zero > f"], file=1 * MIB)
        same(os.waitstatus_to_exitcode(status), 128 + 25, "SIGXFSZ")


@test
def disk_image_keeps_its_files_and_its_size():
    with Spawn(STATE) as spawn:
        needs(spawn, HAS_DISK, "disk")
        spawn.run("disk-b", ["sh", "-c", "echo kept > f"], disk=16 * MIB, destroy=False)
        same(spawn.destroy("disk-b", files=False).error, 0, "stop")
        _, out = spawn.run("disk-b", ["sh", "-c", "cat f; df -k / | tail -1 | awk '{print $2}'"])
        same(out.split()[0], "kept", "files")
        check(int(out.split()[1]) < 17 * 1024, f"size without being told again: {out}")


@test
def missing_disk_limit_feature_is_named():
    with Spawn(STATE, "--without", "limit-disk") as spawn:
        reply = spawn.create(id="disk-c", disk=16 * MIB)
        same((reply.error, reply.step, reply.missing), (95, client.STEP_FEATURE, HAS_DISK), "ENOTSUP")


@test
def full_host_disk_refuses_new_sandboxes():
    with Spawn(STATE, "--reserve", str(1 << 60)) as spawn:
        reply = spawn.create(id="full-a")
        same((reply.error, reply.step), (28, 10), "ENOSPC at the reserve")
        same(spawn.create(id="full-b", layer=client.LAYER_MEMORY).error, 0, "memory needs no disk")
        same(spawn.destroy("full-b").error, 0, "DESTROY")


@test
def exec_cgroups_hide_their_parent_and_end_with_the_sandbox():
    with Spawn(STATE) as spawn:
        reply = spawn.create(id="cgroup-a", argv=("i", "1000", "/", "/usr/bin/sleep", "60"))
        same(reply.error, 0, "CREATE")
        cgroups = spawn.ask(client.EXEC_CGROUP, id_body("cgroup-a", struct.pack("=II", 7, 3)))
        same((cgroups.error, len(cgroups.fds), cgroups.fds_per_cgroup), (0, 3, 1), "EXEC_CGROUP")
        for fd in cgroups.fds:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                up, here = os.stat("..", dir_fd=fd), os.fstat(fd)
                same((up.st_dev, up.st_ino), (here.st_dev, here.st_ino), "no way up from a cgroup")
            os.close(fd)
        same(spawn.ask(client.KILL_CGROUP, id_body("cgroup-a", struct.pack("=II", 8, 0))).error, 0, "KILL_CGROUP")
        same(spawn.ask(client.KILL_CGROUP, id_body("cgroup-a", struct.pack("=II", 8, 0))).error, 2, "gone")
        again = spawn.ask(client.EXEC_CGROUP, id_body("cgroup-a", struct.pack("=II", 9, 1)))
        same((again.error, len(again.fds)), (0, 1), "given again to whoever asks after a restart")
        for fd in again.fds:
            os.close(fd)
        same(spawn.ask(client.EXEC_CGROUP, id_body("no-such", struct.pack("=II", 0, 1))).error, 2, "no sandbox")
        for first, count in ((0, 0), (0, 17), (0xFFFFFFFF, 2)):
            same(spawn.ask(client.EXEC_CGROUP, id_body("cgroup-a", struct.pack("=II", first, count))).error, 22,
                 f"{first} {count}")
        same(spawn.destroy("cgroup-a").error, 0, "DESTROY with exec cgroups left")


def members(id):
    """Maps each exec cgroup to its pids, in the v2 tree or the v1 freezer."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2" or "freezer" in options.split(","):
            found = {p.parent.name: p.read_text().split() for p in pathlib.Path(point, OURS).glob(f"{id}/*/cgroup.procs")}
            if found:
                return found
    return {}


def control_socket(name):
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bound.bind(f"{STATE}/{name}")
    return bound


@test
def pid_1_starts_programs_in_exec_cgroups():
    """berm-guest relies on this: clone3 into a cgroup, as root inside, with the filter."""
    with Spawn(STATE, guest=program("test-guest")) as spawn:
        bound = control_socket("ctl")
        reply = spawn.create(id="guest-a", flags=client.F_CONTROL, fds=[bound.fileno()], argv=("guest",))
        bound.close()
        same(reply.error, 0, "CREATE")
        cgroups = spawn.ask(client.EXEC_CGROUP, id_body("guest-a", struct.pack("=II", 0, 2)))
        same(cgroups.error, 0, "EXEC_CGROUP")
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(1500):
            if link.connect_ex(f"{STATE}/ctl") == 0:
                break
            time.sleep(0.02)
        for cgroup in cgroups.fds:
            socket.send_fds(link, [b"x"], [cgroup])
            pid = struct.unpack("=i", link.recv(4))[0]
            check(pid > 1, f"a program in the cgroup: {pid}")
        inside = members("guest-a")
        same([len(inside[name]) for name in ("guest", "x-0", "x-1")], [1, 1, 1], "each sits in its own")
        usage = spawn.ask(client.KILL_CGROUP, id_body("guest-a", struct.pack("=II", 0, 0)))
        same(usage.error, 0, "KILL_CGROUP")
        inside = members("guest-a")
        same(sorted(inside), ["guest", "x-1"], "the cgroup is gone")
        same(len(inside["x-1"]), 1, "the other exec lives")
        check(not spawn.wait(reply, 0.1), "and so does PID 1")
        for fd in cgroups.fds:
            os.close(fd)
        link.close()
        same(spawn.destroy("guest-a").error, 0, "DESTROY")


@test
def kept_layer_can_be_the_lower_layer_of_another_slot():
    """For snapshots and forks: files show the same owners inside, whichever slot wrote them."""
    with Spawn(STATE) as spawn:
        script = "echo one > /workspace/f; chown user /root; mkdir /usr/local/made; echo x > /etc/added"
        spawn.run("snap", ["sh", "-c", script], slot=31, profile=client.PROFILE_ROOT, destroy=False)
        same(spawn.destroy("snap", files=False).error, 0, "stop")
        look = "cat /workspace/f /etc/added; stat -c %U /workspace /workspace/f /root; ls -d /usr/local/made"
        for slot, name in ((32, "fork-a"), (33, "fork-b")):
            _, out = spawn.run(name, ["sh", "-c", look + f"; echo {name} > /workspace/f 2>&1; true"],
                               slot=slot, layers=["snap"], profile=client.PROFILE_ROOT)
            same(out, "one\nx\nuser\nroot\nuser\n/usr/local/made\n", name)
    with Spawn(STATE, "--without", "overlay-fd") as older:
        _, out = older.run("fork-c", ["sh", "-c", look], slot=34, layers=["snap"])
        same(out.split("\n")[0], "one", "by path")
        same(older.destroy("snap").error, 0, "DESTROY")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
