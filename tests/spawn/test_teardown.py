#!/usr/bin/env python3
"""Whatever ran inside and whoever was killed outside, the host is afterwards as before.

BERM_CYCLES (200) create/destroy cycles; BERM_FILES (50000) small files in one sandbox.
"""
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import client  # noqa: E402
from client import PROFILE_ROOT, Spawn, id_body  # noqa: E402
from tap import check, main, program, same, state_dir, test  # noqa: E402

STATE = state_dir()
CYCLES = int(os.environ.get("BERM_CYCLES", 200))
FILES = int(os.environ.get("BERM_FILES", 50000))


# Others may have sandboxes on this machine; ours are below the name of our state directory.
OURS = "/berm/s-{0.st_dev:x}-{0.st_ino:x}".format(os.stat(STATE))


def cgroups():
    """Lists the cgroups of our sandboxes in all hierarchies."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            top = point + OURS  # walked, because directories may vanish meanwhile
            found += [place for place, _, _ in os.walk(top) if place != top and "/.spare-" not in place]
    return sorted(found)


def processes():
    """Lists the processes in our sandboxes, and those started for our state: berm-spawn and its helpers."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            place = pathlib.Path("/proc", entry)
            if OURS in (place / "cgroup").read_text() or STATE.encode() in (place / "cmdline").read_bytes():
                found.append(entry)
        except OSError:
            pass
    return found


def children(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def loops():
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found += [path.parts[3]] if STATE in path.read_text() else []
        except OSError:
            pass        # it ended meanwhile
    return sorted(found)


def host():
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line for line in mounts if STATE in line or " overlay berm " in line]
    return {"mounts": mounts, "cgroups": cgroups(), "loops": loops()}


def settled(what, want, seconds=60 + FILES / 5000):
    """Waits, because deletion and the end of namespaces happen in the background."""
    end = time.monotonic() + seconds
    while (found := what()) != want and time.monotonic() < end:
        time.sleep(0.05)
    return found


def as_before(before, state=True):
    for name, value in before.items():
        same(settled(lambda: host()[name], value), value, name)
    same(settled(processes, []), [], "processes")
    if state:
        for folder in ("layers", "trash"):
            path = f"{STATE}/{folder}"
            same(settled(lambda: os.listdir(path) if os.path.isdir(path) else [], []), [], folder)


SLEEP = ("i", "1000", "/", "/usr/bin/sleep", "600")


@test
def create_and_destroy_cycles_leak_nothing():
    before = host()
    with Spawn(STATE) as spawn:
        same(spawn.ask(client.HELLO).error, 0, "ready")
        open_before = None
        for i in range(CYCLES):
            kind = dict(layer=1 + i % 2, profile=1 + i // 2 % 2, memory=(64 << 20) * (i % 3 == 0))
            if i % 20 == 7:
                kind.update(layer=client.LAYER_DISK, disk=8 << 20)
            status, out = spawn.run(f"cycle-{i}", ["sh", "-c", "echo hi | tee f"], slot=i % 60000, **kind)
            if not (out == "hi\n" and status == 0):
                check(False, f"cycle {i}: {status} {out}")
            if i == min(20, CYCLES // 2):
                open_before = len(os.listdir(f"/proc/{spawn.process.pid}/fd"))
        same(len(os.listdir(f"/proc/{spawn.process.pid}/fd")), open_before, "descriptors of berm-spawn")
        same(settled(lambda: len(children(spawn.process.pid)), 2), 2, "children: network pool, deletion")
    as_before(before)


def dies(name, script, profile=client.PROFILE_USER, prepare=None, **fields):
    """Checks that a sandbox is destroyed whatever it does."""
    before = host()
    with Spawn(STATE) as spawn:
        uid = "0" if profile == PROFILE_ROOT else "1000"
        reply = spawn.create(id=name, profile=profile, **fields,
                             argv=("i", uid, "/workspace", "/usr/bin/python3", "-c", script))
        same(reply.error, 0, "CREATE")
        marker = f"{STATE}/layers/{name}/upper/workspace/ready"
        check(settled(lambda: os.path.exists(marker), True, 60 + FILES / 2000), "it got to its worst")
        if prepare:
            prepare(spawn, name)
        same(spawn.destroy(name).error, 0, "DESTROY")
        check(spawn.wait(reply, 0), "PID 1 is gone when DESTROY answers")
    as_before(before)


@test
def fork_bomb_is_killed():
    dies("bomb", "import os\nopen('ready', 'w')\nwhile True:\n  try: os.fork()\n  except OSError: pass",
         pids=200)


@test
def detached_grandchildren_are_killed():
    dies("double", "import os, time\nfor i in range(50):\n  if os.fork() == 0:\n    os.setsid()\n"
         "    if os.fork(): os._exit(0)\n    time.sleep(600)\nopen('ready', 'w')\ntime.sleep(600)")


@test
def process_that_ignores_signals_is_killed():
    dies("deaf", "import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
         "  except OSError: pass\nopen('ready', 'w')\ntime.sleep(600)")


@test
def stopped_process_is_killed():
    dies("stopped", "import os, signal\nopen('ready', 'w')\nos.kill(os.getpid(), signal.SIGSTOP)")


@test
def frozen_process_is_killed():
    def freeze(spawn, name):
        same(spawn.ask(client.FREEZE, id_body(name)).error, 0, "FREEZE")
    dies("frozen", "import time\nopen('ready', 'w')\nwhile True: time.sleep(0.01)", prepare=freeze)


@test
def frozen_sandbox_stays_frozen_until_thawed():
    with Spawn(STATE) as spawn:
        script = "import time\ni = 0\nwhile True:\n  i += 1; open('n', 'w').write(str(i)); time.sleep(0.005)"
        reply = spawn.create(id="ice", argv=("i", "1000", "/workspace", "/usr/bin/python3", "-c", script))
        same(reply.error, 0, "CREATE")
        path = pathlib.Path(f"{STATE}/layers/ice/upper/workspace/n")
        check(settled(path.exists, True), "runs")
        same(spawn.ask(client.FREEZE, id_body("ice")).error, 0, "FREEZE")

        def stands_still():
            then = path.stat().st_mtime_ns
            time.sleep(0.2)
            return path.stat().st_mtime_ns == then
        check(settled(stands_still, True), "nothing moves")     # the kernel freezes each task at its next opportunity
        then = path.stat().st_mtime_ns
        same(spawn.ask(client.THAW, id_body("ice")).error, 0, "THAW")
        check(settled(lambda: path.stat().st_mtime_ns != then, True), "and moves again")
        same(spawn.destroy("ice").error, 0, "DESTROY")


@test
def small_files_are_deleted_after_the_reply():
    script = (f"import os\nos.mkdir('d')\nfor i in range({FILES}):\n  "
              "if i % 1000 == 0: os.mkdir(f'd/{i}'); at = f'd/{i}'\n  "
              "os.close(os.open(f'{at}/{i}', os.O_CREAT))\n"
              "open('ready', 'w')")
    dies("files", script)


@test
def deep_tree_is_deleted():
    script = ("import os\nfor i in range(3000):\n  os.mkdir('d'); os.chdir('d')\n"
              "os.chdir('/workspace'); open('ready', 'w')")
    dies("deep", script)


@test
def files_of_any_mode_and_owner_are_deleted():
    script = ("import os\nos.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a/b', 0); os.chmod('a', 0)\n"
              "os.mkfifo('p'); os.symlink('/etc/passwd', 'l'); os.link('p', 'q'); open('ready', 'w')")
    dies("modes", script, profile=PROFILE_ROOT)
    check(os.path.exists("/etc/passwd"), "links are not followed")


def deletion(spawn):
    """Returns the process that empties the trash: the child of berm-spawn that has it open."""
    def target(fd):
        try:
            return os.readlink(fd)
        except OSError:     # a new process is closing its descriptors
            return None

    def is_it(pid):
        try:
            return f"{STATE}/trash" in [target(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            return False
    return [int(pid) for pid in children(spawn.process.pid) if is_it(pid)]


@test
def killed_deletion_is_restarted():
    before = host()
    with Spawn(STATE) as spawn:
        same(spawn.run("first", ["true"], slot=1)[0], 0, "a sandbox")
        same(settled(lambda: os.listdir(f"{STATE}/trash"), []), [], "it is at work, and no longer at its start")
        for turn in range(3):
            helpers = deletion(spawn)
            same(len(helpers), 1, "one process deletes")
            os.kill(helpers[0], signal.SIGKILL)
            if turn > 0:    # immediately, and with something to delete; the first time without a request
                status, _ = spawn.run(f"cut-{turn}", ["sh", "-c", "echo hi > f"], slot=turn, layer=client.LAYER_DISK)
                same(status, 0, "berm-spawn goes on")
            check(settled(lambda: len(new := deletion(spawn)) == 1 and new != helpers, True), "another one")
            same(settled(lambda: os.listdir(f"{STATE}/trash"), []), [], "trash")
        check(os.readlink(f"/proc/{deletion(spawn)[0]}/ns/net") != os.readlink(f"/proc/{spawn.process.pid}/ns/net"),
              "it does not keep the network of the last sandbox")
    as_before(before)


@test
def destroy_is_idempotent_and_accepts_unknown_ids():
    with Spawn(STATE) as spawn:
        same(spawn.destroy("never-was").error, 0, "nothing to do is done")
        same(spawn.create(id="twice", argv=SLEEP).error, 0, "CREATE")
        same(spawn.destroy("twice").error, 0, "once")
        same(spawn.destroy("twice").error, 0, "twice")


@test
def new_berm_spawn_restores_sandboxes_of_a_killed_one():
    before = host()
    spawn = Spawn(STATE)
    first = spawn.create(id="orphan-a", slot=11, argv=SLEEP, memory=64 << 20)
    second = spawn.create(id="orphan-b", slot=12, argv=SLEEP)
    same((first.error, second.error), (0, 0), "CREATE")
    spawn.kill()
    time.sleep(0.1)
    check(os.path.exists(f"/proc/{first.pid}"), "sandboxes outlive berm-spawn")
    with Spawn(STATE) as spawn:
        same(spawn.ask(client.USAGE, id_body("orphan-a")).error, 0, "USAGE of an orphan")
        cgroup = spawn.ask(client.EXEC_CGROUP, id_body("orphan-a", struct.pack("=II", 0, 1)))
        same(cgroup.error, 0, "EXEC_CGROUP of an orphan")
        os.close(cgroup.fds[0])
        same(spawn.ask(client.FREEZE, id_body("orphan-a")).error, 0, "FREEZE of an orphan")
        same(spawn.ask(client.THAW, id_body("orphan-a")).error, 0, "THAW of an orphan")
        same(spawn.destroy("orphan-a").error, 0, "DESTROY of an orphan")
        check(spawn.wait(first), "gone")
        reply = spawn.ask(client.SWEEP, struct.pack("=II", 1, 0) + bytes(256 * 64))
        same((reply.error, reply.swept), (0, 1), "SWEEP")
        check(spawn.wait(second), "swept")
        settled(cgroups, before["cgroups"])
    as_before(before)


@test
def slot_in_use_is_refused():
    spawn = Spawn(STATE)
    same(spawn.create(id="old", slot=31, argv=SLEEP).error, 0, "CREATE")
    spawn.kill()
    with Spawn(STATE) as spawn:
        for fields in (dict(id="new", slot=31), dict(id="old", slot=32)):
            reply = spawn.create(argv=SLEEP, **fields)
            same((reply.error, reply.step), (17, client.STEP_EXISTS), f"{fields}")
        same(spawn.create(id="new", slot=32, argv=SLEEP).error, 0, "a free one")
        same(spawn.destroy("old").error, 0, "DESTROY")
        same(spawn.create(id="third", slot=31, argv=SLEEP).error, 0, "free again")
        for name in ("new", "third"):
            same(spawn.destroy(name).error, 0, "DESTROY")


def sweep_all(spawn):
    return spawn.ask(client.SWEEP, struct.pack("=II", 1, 0) + bytes(256 * 64))


@test
def unused_generated_roots_are_removed():
    before = host()
    roots = pathlib.Path(STATE, "roots")
    old = roots / "host-0123456789abcdef"
    spawn = Spawn(STATE)
    same(spawn.create(id="stands", slot=41, argv=SLEEP).error, 0, "CREATE")
    spawn.kill()
    now = sorted(p.name for p in roots.iterdir())
    (old / "etc").mkdir(parents=True)
    with Spawn(STATE) as spawn:
        ids = struct.pack("=64s", b"stands") + bytes(255 * 64)
        same(spawn.ask(client.SWEEP, struct.pack("=II", 1, 1) + ids).swept, 0, "SWEEP that spares it")
        check(old.exists(), "it may stand on the old one")
        same(sweep_all(spawn).swept, 1, "SWEEP")
        same(settled(lambda: sorted(p.name for p in roots.iterdir()), now), now, "only those of today")
        same(spawn.create(id="next", slot=41, argv=SLEEP).error, 0, "CREATE")
        (old / "etc").mkdir(parents=True)
        same(spawn.ask(client.SWEEP, struct.pack("=II", 1, 1) + struct.pack("=64s", b"next") + bytes(255 * 64)).swept,
             0, "SWEEP while one of ours lives")
        same(settled(old.exists, False), False, "which stands on today's")
        same(spawn.destroy("next").error, 0, "DESTROY")
    as_before(before)


@test
def killed_berm_jail_ends_its_sandbox():
    for profile in ([], ["--root"]):
        jail = subprocess.Popen([program("berm-jail"), "--state", STATE, *client.WITHOUT, *profile, "--", "sh", "-c",
                                 "setsid sleep 600 & echo up; sleep 600"], stdout=subprocess.PIPE)
        same(jail.stdout.readline(), b"up\n", "it runs")
        check(len(processes()) > 2, f"PID 1 and programs: {processes()}")
        jail.kill()
        jail.wait()
        jail.stdout.close()
        same(settled(processes, []), [], "nothing of it lives on")
    with Spawn(STATE) as spawn:
        same(sweep_all(spawn).swept, 2, "its cgroups are left for SWEEP")
        same(settled(cgroups, []), [], "and gone")


@test
def failed_start_leaves_no_cgroup():
    """In a foreign user namespace, the start fails after creating its cgroups."""
    def tops():
        points = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        return [point + OURS for point in points if os.path.isdir(point + OURS)]
    same(tops(), [], "before")
    done = subprocess.run(["unshare", "--user", "--map-root-user", program("berm-jail"), "--state", STATE, "--", "true"],
                          capture_output=True, text=True)
    same(done.returncode, 125, done.stderr)
    same(tops(), [], "afterwards")


@test
def sweep_keeps_owned_sandboxes():
    with Spawn(STATE) as spawn:
        mine = spawn.create(id="mine", slot=21, argv=SLEEP)
        lost = spawn.create(id="lost", slot=22, argv=SLEEP)
        ids = struct.pack("=64s64s", b"mine", b"zz") + bytes(254 * 64)
        same(spawn.ask(client.SWEEP, struct.pack("=II", 0, 2) + ids).swept, 0, "a part does nothing yet")
        reply = spawn.ask(client.SWEEP, struct.pack("=II", 1, 0) + bytes(256 * 64))
        same((reply.error, reply.swept), (0, 1), "SWEEP")
        check(spawn.wait(lost), "lost is gone")
        check(not spawn.wait(mine, 0.1), "mine lives")
        same(spawn.destroy("mine").error, 0, "DESTROY")


@test
def berm_spawn_killed_at_random_leaves_only_what_sweep_removes():
    before = host()
    rng = random.Random(int(os.environ.get("BERM_SEED", 1)))
    for turn in range(60):
        spawn = Spawn(STATE)
        same(spawn.ask(client.HELLO).error, 0, "HELLO")
        data = client.message(client.CREATE, 1, client.create_body(
            id=f"cut-{turn}", slot=turn, argv=SLEEP, memory=64 << 20, disk=(8 << 20) * (turn % 5 == 0)))
        spawn.send(data)
        if turn == 0:
            os.close(spawn.receive().fds[0])    # on a slow machine the others may never start
        time.sleep(rng.random() ** 3 * 0.012)   # mostly in the first moments, during the clone
        spawn.kill()
    with Spawn(STATE) as spawn:
        reply = spawn.ask(client.SWEEP, struct.pack("=II", 1, 0) + bytes(256 * 64))
        same(reply.error, 0, "SWEEP")
        check(reply.swept > 0, "there was something to sweep")
        settled(cgroups, before["cgroups"])
    as_before(before)


@test
def killed_pid_1_is_noticed():
    with Spawn(STATE) as spawn:
        reply = spawn.create(id="hit", argv=SLEEP)
        signal.pidfd_send_signal(reply.fds[0], signal.SIGKILL)
        check(spawn.wait(reply), "pidfd tells")
        end = spawn.destroy("hit")
        same((end.error, end.wait_status), (0, 9), "and DESTROY has the status")


def ended_together(spawn, names):
    """Creates them, and lets all end while berm-spawn is stopped, so that one signal reports them all."""
    replies = [spawn.create(id=name, slot=50 + i, argv=SLEEP) for i, name in enumerate(names)]
    spawn.process.send_signal(signal.SIGSTOP)
    for reply in replies:
        signal.pidfd_send_signal(reply.fds[0], signal.SIGKILL)
        check(spawn.wait(reply), "ended")
    spawn.process.send_signal(signal.SIGCONT)
    return [reply.pid for reply in replies]


@test
def exits_that_share_a_signal_are_all_noticed():
    names = [f"both-{i}" for i in range(6)]
    with Spawn(STATE) as spawn:
        ended_together(spawn, names)
        for name in reversed(names):
            end = spawn.destroy(name)
            same((end.error, end.wait_status), (0, 9), f"DESTROY of {name}")
        pids = ended_together(spawn, names)
        same(settled(lambda: [pid for pid in pids if str(pid) in children(spawn.process.pid)], []), [], "none stays")
        for name in names:
            end = spawn.destroy(name)
            same((end.error, end.wait_status), (0, 9), f"DESTROY of {name}, which was waited for")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
