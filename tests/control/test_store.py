"""The state directory: full, failing, damaged, from the future. The answers tell, nothing is lost."""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import sqlite3
import struct
import subprocess

import pytest

from control import (BERMD, DELETED, TIMEOUT_S, PAUSED, READY, RUNNING, STDOUT, Refused, eventually, fresh, pairs, pb,
                     refused)

CLONE_NEWNS = 0x20000
RESERVE = 1 << 30
EXT4_IOC_SHUTDOWN = 0x8004587D


@pytest.fixture(scope="module", autouse=True)
def own_mounts():
    """This process and what it starts see mounts that nobody else does, and that end with them."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@contextlib.contextmanager
def on_a_small_disk(daemon, *options):
    """Its state lies on a filesystem of its own of 3 GiB."""
    image = daemon.directory / "image"
    with image.open("wb") as file:
        file.truncate(3 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", *options, image], check=True)
    daemon.state.mkdir(mode=0o700)
    subprocess.run(["mount", "-o", "loop", image, daemon.state], check=True)
    (daemon.state / "lost+found").rmdir()
    yield daemon
    try:
        if daemon.process:
            daemon.close()
    finally:
        daemon.process = None
        subprocess.run(["umount", "-l", daemon.state], check=True)
        daemon.dispose()


@pytest.fixture
def small(make):
    """A daemon, not yet started, that may fill its disk."""
    with on_a_small_disk(make("--set", "limits.disk.reserve=0")) as daemon:
        yield daemon


@pytest.fixture
def reserving(make):
    """One that keeps its reserve."""
    with on_a_small_disk(make("--set", f"limits.disk.reserve={RESERVE}")) as daemon:
        yield daemon


@pytest.fixture
def few_files(make):
    """One that keeps its reserve on a disk that can have 98,304 files, a third of which belongs to it."""
    with on_a_small_disk(make("--set", f"limits.disk.reserve={RESERVE}"), "-N", "98304") as daemon:
        yield daemon


def room(daemon):
    disk = os.statvfs(daemon.state)
    return disk.f_bavail * disk.f_frsize


def leave(daemon, size):
    """Takes all but so many bytes."""
    path = daemon.state / "taken"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room(daemon) - size)
    return path


def fill(daemon):
    """Takes every block there is."""
    path = daemon.state / "fill"
    with path.open("ab") as file:
        size = 1 << 30
        while size >= 4096:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
            except OSError:
                size //= 2
    return path


def test_a_full_disk_is_reported_and_clears(small):
    """covers: STORE-6, ERR-5"""
    client = small.start().client()
    box = client.create("kept").sandbox_id
    talk = client.exec(box, "cat", stdin_mode=pb.STDIN_MODE_PIPE, exec_id="talk").exec_id
    filled = fill(small)
    done, error = [], None
    for number in range(20000):       # what the store has already taken from the disk is its to use
        try:
            client.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(number), "fill": "x" * 1000})))
            done.append(number)
        except Refused as refusal:
            error = refusal
            break
    assert error and error.reason == "STORE_FULL" and error.metadata["retry"] == "later", error
    head = client.info().head_sequence
    now = client.get(box)                               # reading goes on, and shows what was accepted
    assert now.state == READY and [e.value for e in now.spec.labels if e.key == "n"] == [str(n) for n in done[-1:]]
    assert [s.sandbox_id for s in client.list()] == [box]
    assert len(client.events()) == head == len([e for e in client.events() if e.sequence])
    assert client.get_exec(talk).state == 2              # and so do programs
    assert small.pids(box)
    filled.unlink()
    assert client.create("later").state == READY        # by itself
    client.ask("CloseStdin", exec_id=talk)
    assert client.wait(talk).exit.code == 0
    assert client.stop(box).state == 5


def test_an_end_is_reported_on_a_full_disk(small):
    """covers: STORE-6, OUT-12"""
    client = small.start().client()
    box = client.create("kept").sandbox_id
    scripts = {"quiet": "exit 7", "word": "echo told; exit 8", "loud": "head -c 60000 /dev/zero; exit 9"}     # less than a pipe holds
    for name, script in scripts.items():
        client.sh(box, f"read line; {script}", stdin_mode=pb.STDIN_MODE_PIPE, exec_id=name)
    filled = fill(small)
    for name, code in zip(scripts, (7, 8, 9)):
        client.ask("CloseStdin", exec_id=name)
        reader = client.read(name)                       # the true exit, with all bytes or word of their loss
        assert reader.ended.exit.code == code, reader.ended
        assert reader.stdout == b"told\n" or name != "word"
        assert reader.next[STDOUT] == (60000 if name == "loud" else len(reader.stdout))
        assert bool(reader.gaps) == (name == "loud") and not reader.stdout.strip(b"\0told\n")
        assert client.get_exec(name).exit.code == code
    refusals = set()
    for _ in range(3):                                   # the store may still have room for the intent
        try:
            refusals.add(client.run(box, "echo", "hi").exec.exit.not_started.code)
        except Refused as refusal:
            refusals.add(refusal.reason)
    assert refusals == {"STORE_FULL"}, refusals
    filled.unlink()

    def ids(kind):
        return {getattr(e, kind).exec_id for e in client.events() if e.HasField(kind)}
    eventually(lambda: set(scripts) <= ids("exec_start") == ids("exec_exit"), "the ends in the events")
    assert client.run(box, "echo", "on").stdout_data == b"on\n"


def test_the_reserve_pauses_what_could_fill_the_disk(reserving):
    """covers: STORE-11, STORE-12"""
    client = reserving.start().client()
    hog, asked = client.create("hog").sandbox_id, client.create("asked").sandbox_id
    memory = client.create("memory", root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)).sandbox_id
    bounded = client.create("bounded", limits=pb.Limits(disk_bytes=64 << 20)).sandbox_id
    taken = leave(reserving, RESERVE + (200 << 20))
    writes = client.sh(hog, "head -c 400M /dev/zero >fill; exit 5").exec_id
    held = [client.wait_state(box, PAUSED) for box in (hog, asked)]
    assert {(s.reason.cause, s.reason.code) for s in held} == {(pb.STATE_CAUSE_ERROR, "STORE_FULL")}
    assert 0 < room(reserving) < RESERVE
    told = [e for e in client.events(sandbox_ids=[hog]) if e.HasField("sandbox_state")][-1]
    assert told.actor.kind == pb.ACTOR_KIND_DAEMON and told.sandbox_state.reason.code == "STORE_FULL"
    with refused("STORE_FULL", retry="later"):
        client.resume(hog)
    for box in (memory, bounded):                         # they cannot fill it
        assert client.run(box, "echo", "on").stdout_data == b"on\n"
    assert client.pause(asked).state == PAUSED            # from here on by a caller as well
    reserving.kill()
    reserving.start()
    assert client.get(hog).state == PAUSED and client.get(hog).reason.code == "STORE_FULL"
    taken.unlink()
    assert client.wait_state(hog, READY).reason.code == ""
    assert client.wait(writes).exit.code == 5             # it went on where it was
    assert client.get(asked).state == PAUSED
    assert client.resume(asked).state == READY


def test_the_reserve_is_one_of_files_too(few_files):
    """covers: STORE-11, STORE-12"""
    client = few_files.start().client()
    box, other = client.create("hog").sandbox_id, client.create("other").sandbox_id
    makes = client.sh(box, "mkdir many; cd many; seq 200000 | xargs touch").exec_id
    assert client.wait_state(box, PAUSED).reason.code == client.wait_state(other, PAUSED).reason.code == "STORE_FULL"
    disk = os.statvfs(few_files.state)
    assert 0 < disk.f_favail < 0.35 * disk.f_files and room(few_files) > RESERVE
    assert client.get_exec(makes).state == RUNNING
    with refused("STORE_FULL", retry="later"):
        client.create("late")
    client.delete(box)
    client.wait_state(other, READY)
    assert client.create("late").state == READY


def test_the_reserve_is_kept_at_a_start(reserving):
    """covers: STORE-11"""
    client = reserving.start().client()
    box = client.create("kept").sandbox_id
    reserving.stop()
    taken = leave(reserving, RESERVE // 2)
    reserving.start()
    client.wait_state(box, PAUSED)
    with refused("STORE_FULL"):
        client.resume(box)
    taken.unlink()
    client.wait_state(box, READY)
    assert client.output_of(box, "echo on") == "on\n"


@pytest.mark.parametrize("name", ["pause.intent", "pause.commit", "pause.ack", "pause.outcome", "resume.commit"])
def test_the_reserve_is_kept_by_the_next_daemon(reserving, name):
    """covers: STORE-12"""
    client = reserving.start(BERM_FAILPOINT=name).client()
    box = client.create("kept").sandbox_id
    taken = leave(reserving, RESERVE // 2)
    if name.startswith("resume"):
        client.wait_state(box, PAUSED)
        taken.unlink()
    assert reserving.process.wait(TIMEOUT_S) == -9, reserving.text()
    reserving.start()
    if taken.exists():
        assert client.wait_state(box, PAUSED).reason.code == "STORE_FULL"
        taken.unlink()
    client.wait_state(box, READY)
    assert client.output_of(box, "echo on") == "on\n"


def test_a_start_on_a_full_disk(small):
    """covers: STORE-6, STORE-3"""
    client = small.start().client()
    box = client.create("kept").sandbox_id
    small.kill()
    filled = fill(small)
    small.launch()
    try:
        small.wait_for_log("msg=listening")
    except AssertionError:
        assert small.process.poll() is not None      # it may refuse to start, and then says why
        assert "full" in small.text(), small.text()
        filled.unlink()
        small.start()
    else:
        assert client.get(box).sandbox_id == box
        filled.unlink()
    assert client.run(box, "echo", "on").stdout_data == b"on\n"


def test_a_disk_that_fails(small):
    """covers: STORE-7, ERR-7, ERR-5"""
    client = small.start().client()
    box = client.create("kept").sandbox_id
    head = client.info().head_sequence
    fd = os.open(small.state, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", 1))     # as if its device were gone
    os.close(fd)
    for call in (lambda: client.create("never"), lambda: client.stop(box)):
        with refused("STORE_FAILED", retry="check"):
            call()
    assert client.info().head_sequence == head and client.get(box).state == READY
    small.kill()
    small.sweep()
    small.process = None      # there is no state left to look at


def test_a_state_that_cannot_be_written_stops_the_start(small):
    """covers: STORE-7"""
    small.start().client().create("kept")
    small.stop(status=0)
    small.sweep()
    read_only = ["mount", "-o", "remount,ro", small.state]     # busy as long as what was killed has files open
    eventually(lambda: subprocess.run(read_only, capture_output=True).returncode == 0, "nobody who writes")
    small.launch()
    assert small.process.wait(TIMEOUT_S) not in (0, -6, -11), small.text()
    assert "STORE_FAILED" in small.text() or "Read-only" in small.text(), small.text()
    subprocess.run(["mount", "-o", "remount,rw", small.state], check=True)
    assert small.start().client().get("kept").state == 5       # its guest was ended meanwhile


def database(daemon):
    return daemon.state / "berm.db"


def contents(daemon):
    """The database and its log; the index beside them is made anew by every reader."""
    return {p.name: p.read_bytes() for p in (database(daemon), daemon.state / "berm.db-wal") if p.exists() and p.stat().st_size}


def damage_head(path):
    with path.open("r+b") as file:
        file.write(os.urandom(100))


def damage_middle(path):
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(1, size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(512))


def damage_end(path):
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096 - 100)


@pytest.mark.parametrize("damage", [damage_head, damage_middle, damage_end])
def test_a_damaged_database_stops_the_start_and_is_left_alone(make, damage):
    """covers: STORE-7"""
    daemon = make().start()
    client = daemon.client()
    client.delete(client.create().sandbox_id)
    daemon.stop()
    whole = database(daemon).read_bytes()
    damage(database(daemon))
    before = contents(daemon)
    daemon.launch()
    assert daemon.process.wait(TIMEOUT_S) not in (0, -6, -11), daemon.text()
    assert "STORE_CORRUPT" in daemon.text(), daemon.text()
    assert contents(daemon) == before
    database(daemon).write_bytes(whole)      # a backup brings it back


@pytest.mark.parametrize("change", ["record = x'ff'", "record = x''", "slot = 1 << 40", "slot = -1", "wanted = 0", "wanted = 99",
                                    "record = x'08'", "id = 'another'"])
def test_a_record_that_is_none_stops_the_start_and_nothing_is_swept(make, change):
    """covers: STORE-7"""
    daemon = make().start()
    client = daemon.client()
    box = client.create("kept").sandbox_id
    client.output_of(box, "echo kept >file")
    client.stop(box)
    daemon.stop()
    whole = contents(daemon)
    with contextlib.closing(sqlite3.connect(database(daemon))) as db, db:
        db.execute(f"UPDATE sandboxes SET {change}")
    daemon.launch()
    assert daemon.process.wait(TIMEOUT_S) not in (0, -6, -11), daemon.text()
    assert "STORE_CORRUPT" in daemon.text(), daemon.text()
    for name in ("berm.db-wal", "berm.db-shm"):
        (daemon.state / name).unlink(missing_ok=True)
    for name, data in whole.items():      # a backup brings it back, and what it speaks of is still there
        (daemon.state / name).write_bytes(data)
    daemon.start()
    assert client.start(box).state == 2 and client.output_of(box, "cat file") == "kept\n"


def test_a_program_that_is_forgotten_does_not_stop_the_start(make):
    """Its sandbox was deleted while the store took no end of it."""
    daemon = make().start()
    client = daemon.client()
    box = client.create().sandbox_id
    client.run(box, "true")
    client.delete(box)
    daemon.stop()
    with contextlib.closing(sqlite3.connect(database(daemon))) as db, db:
        assert db.execute("UPDATE execs SET state = 2, record = x''").rowcount == 1
    daemon.start()
    assert client.get(box).state == DELETED


def test_a_state_of_a_newer_version_stops_the_start(make):
    """covers: STORE-8"""
    daemon = make().start()
    client = daemon.client()
    box = client.create("kept").sandbox_id
    client.stop(box)
    daemon.stop()
    with sqlite3.connect(database(daemon)) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.close()
    before = database(daemon).read_bytes()
    daemon.launch()
    assert daemon.process.wait(TIMEOUT_S) not in (0, -6, -11), daemon.text()
    assert "version" in daemon.text(), daemon.text()
    assert database(daemon).read_bytes() == before
    with sqlite3.connect(database(daemon)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    daemon.start()
    assert client.get(box).state == 5


def test_a_second_daemon_is_refused_while_sandboxes_live(daemon, client, box):
    """covers: STORE-5"""
    done = subprocess.run([BERMD, "--state", daemon.state, "--socket", f"{daemon.socket}2"], capture_output=True,
                          text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and str(daemon.process.pid) in done.stderr + done.stdout
    assert client.run(box, "echo", "on").stdout_data == b"on\n"


def test_the_database_is_whole_after_a_kill(daemon, client, box):
    """covers: STORE-1, STORE-2, EVT-2"""
    for number in range(5):
        client.update(box, labels=pb.LabelsUpdate(set=pairs({"n": str(number)})))
        told = client.events()[-1].sequence
        daemon.kill()
        daemon.start()
        events = client.events()
        assert events[told - 1].sandbox_update.labels[0].value == str(number)
    daemon.stop()
    with sqlite3.connect(database(daemon)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()
    daemon.start()
