"""What of the host goes into a sandbox: mounts and copies, opened with the caller's own rights."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from control import BERMD, FAILED, OTHER_UIDS, READY, STOPPED, Client, Refused, refused

ONE, TWO = OTHER_UIDS


@pytest.fixture
def host():
    """A folder of the host beneath which things may go in."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="berm-imports-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def daemon(make, host):
    return make("--set", "socket_mode=0666", "--set", f"allow_uids={ONE},{TWO}",
                "--set", f"mount_roots={host}").start()


@pytest.fixture
def one(daemon):
    return daemon.other_user(ONE)


def folder(parent, name, uid=ONE, mode=0o755):
    path = parent / name
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, uid if uid == 0 else 65534)
    return path


def file(path, text, uid=ONE, mode=0o644):
    path.write_text(text)
    path.chmod(mode)
    os.chown(path, uid, 65534)
    return path


def mount(source, target="/mnt/in", writable=False):
    return pb.Mount(source=str(source), target=target, writable=writable)


def copy(source, target="/workspace/in", excludes=()):
    return pb.Copy(source=str(source), target=target, excludes=excludes)


# ---- mounts

def test_a_mount_is_read_only_unless_asked(host, one):
    """covers: SBX-21, OWN-4"""
    source = folder(host, "data")
    file(source / "hello", "from outside")
    file(source / "private", "the owner's", mode=0o600)
    box = one.create(mounts=[mount(source)]).sandbox_id
    assert one.output_of(box, "cat /mnt/in/hello /mnt/in/private") == "from outsidethe owner's"
    done = one.run(box, "sh", "-c", "echo x > /mnt/in/new")
    assert done.exec.exit.code != 0 and b"Read-only file system" in done.stderr_data
    file(source / "later", "a mount, not a copy")
    assert one.output_of(box, "cat /mnt/in/later") == "a mount, not a copy"
    assert not (source / "new").exists()


def test_a_writable_mount_writes_as_the_owner(host, one):
    """covers: OWN-4"""
    source = folder(host, "data")
    box = one.create(mounts=[mount(source, "/workspace", writable=True)]).sandbox_id
    one.output_of(box, "echo inside > made; mkdir dir; id -u > dir/who")
    assert (source / "made").read_text() == "inside\n" and (source / "dir/who").read_text() == "1000\n"
    assert (source / "made").stat().st_uid == ONE and (source / "dir/who").stat().st_uid == ONE


def test_many_mounts(host, one):
    """covers: OWN-4"""
    sources = [folder(host, f"d{i}") for i in range(64)]
    for i, source in enumerate(sources):
        file(source / "n", f"{i}\n")
    box = one.create(mounts=[mount(s, f"/mnt/m{i}") for i, s in enumerate(sources)]).sandbox_id
    assert one.output_of(box, "cat /mnt/m*/n | sort -n").split() == [str(i) for i in range(64)]
    with refused("INVALID_ARGUMENT", "spec.mounts", limit="mounts.count"):
        one.create(mounts=[mount(sources[0], f"/mnt/m{i}") for i in range(65)])


def test_what_is_refused_is_named(host, daemon, one, client):
    """covers: OWN-4"""
    own = folder(host, "own")
    file(own / "file", "x")
    (own / "loop").symlink_to("loop")
    (own / "to-etc").symlink_to("/etc")
    (own / "to-root").symlink_to("/proc/self/root")
    cases = [("/", "HOST_PATH_REFUSED"), ("/proc", "HOST_PATH_REFUSED"), ("/proc/self/cwd", None),
             ("/sys", "HOST_PATH_REFUSED"), ("/dev", "HOST_PATH_REFUSED"), ("/dev/shm", "HOST_PATH_REFUSED"),
             ("/etc", "HOST_PATH_REFUSED"), (str(own / "to-etc"), "HOST_PATH_REFUSED"),
             (str(own / "to-root"), "SYMLINK_LOOP"), (str(own / "loop"), "SYMLINK_LOOP"),
             (str(own / "file"), "NOT_A_DIRECTORY"), (str(own / "nothing"), "FILE_NOT_FOUND"),
             (str(daemon.state), "HOST_PATH_REFUSED"), ("relative", "INVALID_ARGUMENT"),
             (f"{host}/own/../own", "INVALID_ARGUMENT"), ("", "INVALID_ARGUMENT")]
    for who in (one, client):
        for source, reason in cases:
            if reason is None:
                reason = "SYMLINK_LOOP"
            with refused(reason, "spec.mounts[1].source") as error:
                who.create(mounts=[mount(own, "/mnt/fine"), mount(source)])
            assert "spec.mounts[1].source" in error.text
    assert one.list() == []


def test_a_root_above_everything_opens_neither_it_nor_the_daemons_own(make, one, host):
    """covers: OWN-4"""
    daemon = make("--set", "mount_roots=/").start()
    client = daemon.client()
    above = [daemon.state, daemon.state / "spawn", daemon.state.parent, "/tmp", "/", "/proc", "/dev", "/sys"]
    for source in above:
        with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
            client.create(mounts=[mount(source)])
        with refused("HOST_PATH_REFUSED", "spec.copies[0].source"):
            client.create(copies=[copy(source)])
    with refused("HOST_PATH_REFUSED", "spec.copies[0].source"):
        client.create(copies=[copy(daemon.state / "lock")])
    box = client.create(mounts=[mount(host)]).sandbox_id
    client.output_of(box, "ls /mnt/in")


def test_targets_are_checked(host, one):
    """covers: OWN-4"""
    own = folder(host, "own")
    for target in ("/", "/proc", "/proc/x", "/dev/shm", "/sys", "rel", "/a/../b", "/" + "x" * 260, "/mnt/" + "y/" * 130 + "z"):
        with refused("INVALID_ARGUMENT", "spec.mounts[0].target"):
            one.create(mounts=[mount(own, target)])
    with refused("INVALID_ARGUMENT", "spec.mounts[1].target"):
        one.create(mounts=[mount(own), mount(own)])
    with refused("INVALID_ARGUMENT", "spec.copies[0].target"):
        one.create(mounts=[mount(own)], copies=[copy(own, "/mnt/in")])


def test_the_rights_are_the_callers_own(host, daemon, one, client):
    """covers: OWN-4"""
    private = folder(host, "private", TWO, 0o700)
    folder(private, "open", ONE)
    public = folder(host, "public", TWO)
    file(public / "secret", "two's", TWO, 0o600)
    file(public / "open", "for all", TWO)
    roots = folder(host, "roots", 0)
    file(roots / "secret", "root's", 0, 0o600)
    for source in (private, private / "open"):
        with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
            one.create(mounts=[mount(source)])
    for source in (private, private / "open", public, roots):
        with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
            one.create(mounts=[mount(source, writable=True)])
    # What another owns shows what everybody may read, and nobody inside is its owner: not even root.
    for profile in (pb.SANDBOX_PROFILE_USER, pb.SANDBOX_PROFILE_ROOT):
        box = one.create(mounts=[mount(public), mount(roots, "/mnt/roots")], profile=profile).sandbox_id
        assert one.output_of(box, "cat /mnt/in/open; stat -c %u /mnt/in/secret /mnt/roots/secret") == (
            "for all65534\n65534\n")
        for path in ("/mnt/in/secret", "/mnt/roots/secret"):
            done = one.run(box, "cat", path)
            assert done.exec.exit.code != 0 and b"Permission denied" in done.stderr_data
    for source in (private, private / "open", public / "secret"):
        with refused("HOST_PATH_REFUSED", "spec.copies[0].source"):
            one.create(copies=[copy(source)])
    two = daemon.other_user(TWO)
    box = two.create(mounts=[mount(public)]).sandbox_id
    assert two.output_of(box, "cat /mnt/in/secret") == "two's"
    box = client.create(mounts=[mount(public, writable=True), mount(roots, "/mnt/roots")]).sandbox_id
    assert client.output_of(box, "cat /mnt/in/secret; echo y > /mnt/in/by-root") == "two's"
    assert (public / "by-root").stat().st_uid == TWO
    with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
        client.create(mounts=[mount(roots, writable=True)])


def test_a_folder_of_anothers_group_gives_no_rights_of_that_group(host, one):
    """covers: OWN-4"""
    mixed = folder(host, "mixed")
    file(mixed / "of-group", "the group's", 0, 0o640)
    os.chown(mixed / "of-group", 0, TWO)
    os.chown(mixed, ONE, TWO)
    with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
        one.create(mounts=[mount(mixed, writable=True)])
    box = one.create(mounts=[mount(mixed)]).sandbox_id
    assert one.run(box, "cat", "/mnt/in/of-group").exec.exit.code != 0


def test_without_roots_no_host_path_goes_in(make, host):
    """covers: OWN-4"""
    client = make().start().client()
    for spec in ({"mounts": [mount(host)]}, {"copies": [copy(host)]}):
        with refused("HOST_PATH_REFUSED") as error:
            client.create(**spec)
        assert "mount_roots" in error.text and error.fields[0].endswith("[0].source")
    assert not {"mounts", "copies"} & set(client.info().drivers[0].capabilities)


def test_a_root_that_is_not_there_stops_the_start(make, host):
    daemon = make("--set", f"mount_roots={host}/nothing").launch()
    assert daemon.process.wait(60) != 0
    assert "mount_roots" in daemon.text() and "nothing" in daemon.text()
    (host / "nothing").mkdir()
    daemon.start()


@pytest.mark.parametrize("token_uid", ["", ONE])
def test_callers_by_token_bring_in_nothing_unless_configured(make, host, token_uid):
    """covers: OWN-4"""
    own = folder(host, "own")
    private = folder(host, "private", TWO, 0o700)
    daemon = make("--set", f"mount_roots={host}", "--set", f"token_uid={token_uid}", "--set", "listen=127.0.0.1:0").start()
    port = daemon.wait_for_log(r"addr=127\.0\.0\.1:(\d+)").group(1)
    client = Bearer(f"127.0.0.1:{port}", (daemon.state / "token").read_text().strip())
    try:
        if not token_uid:
            for spec in ({"mounts": [mount(own)]}, {"copies": [copy(own)]}):
                with refused("HOST_PATH_REFUSED") as error:
                    client.create(**spec)
                assert "token_uid" in error.text
        else:
            box = client.create(mounts=[mount(own, writable=True)], copies=[copy(own)]).sandbox_id
            client.output_of(box, "echo x > /mnt/in/made")
            assert (own / "made").stat().st_uid == ONE
            with refused("HOST_PATH_REFUSED"):
                client.create(mounts=[mount(private)])
    finally:
        client.close()


class Bearer(Client):
    """A client by TCP and token."""

    def __init__(self, target, token):
        super().__init__(target)
        self.token = token

    def method(self, name):
        call = super().method(name)
        return lambda request, **options: call(request, metadata=[("authorization", f"Bearer {self.token}")], **options)


def test_a_restart_keeps_mounts_and_opens_them_anew(host, daemon, one):
    """covers: OWN-4"""
    source = folder(host, "data")
    file(source / "n", "1")
    box = one.create(mounts=[mount(source, writable=True)]).sandbox_id
    daemon.kill()
    daemon.start()
    assert one.output_of(box, "cat /mnt/in/n") == "1"
    one.stop(box)
    source.rename(host / "moved")
    with refused("FILE_NOT_FOUND", "spec.mounts[0].source"):
        one.start(box)
    assert one.get(box).state == STOPPED
    folder(host, "data", TWO, 0o700)
    with refused("HOST_PATH_REFUSED", "spec.mounts[0].source"):
        one.start(box)
    shutil.rmtree(source)
    folder(host, "data")
    file(source / "n", "2")
    assert one.start(box).state == READY
    assert one.output_of(box, "cat /mnt/in/n") == "2"


def test_a_source_that_is_swapped_all_the_time_never_leads_elsewhere(host, daemon, one):
    """covers: OWN-4"""
    good, bad = folder(host, "good"), folder(host, "bad", TWO, 0o700)
    file(good / "which", "good")
    file(bad / "which", "bad", TWO)
    link, stop = host / "link", threading.Event()
    link.symlink_to(good)

    def swap():
        turn = 0
        while not stop.is_set():
            turn += 1
            (host / "next").symlink_to(bad if turn % 2 else good)
            (host / "next").rename(link)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(40):
            with contextlib.suppress(Refused):
                made = one.create(mounts=[mount(link)])
                seen.add(made.state)
                assert made.state in (READY, FAILED), made
                if made.state == READY:
                    output = one.run(made.sandbox_id, "cat", "/mnt/in/which").stdout_data
                    seen.add(output)
                else:
                    assert made.reason.code == "HOST_PATH_REFUSED", made
                one.delete(made.sandbox_id)
    finally:
        stop.set()
        thread.join()
    assert b"good" in seen and b"bad" not in seen, seen


# ---- copies

def tree_of(path):
    """{relative path: (type, mode, contents)} of a tree on the host."""
    found = {}
    for entry in sorted(path.rglob("*")):
        mode = entry.lstat().st_mode
        kind = "l" if stat.S_ISLNK(mode) else "d" if stat.S_ISDIR(mode) else "f"
        what = os.readlink(entry) if kind == "l" else hashlib.sha256(entry.read_bytes()).hexdigest() if kind == "f" else ""
        found[str(entry.relative_to(path))] = (kind, "" if kind == "l" else f"{stat.S_IMODE(mode):o}", what)
    return found


INSIDE = """
import hashlib, os, stat, sys
for at, dirs, files in os.walk("."):
    for name in dirs + files:
        path = os.path.join(at, name)
        mode = os.lstat(path).st_mode
        kind = "l" if stat.S_ISLNK(mode) else "d" if stat.S_ISDIR(mode) else "f"
        what = os.readlink(path) if kind == "l" else hashlib.sha256(open(path, "rb").read()).hexdigest() if kind == "f" else ""
        print(repr((path[2:], (kind, "" if kind == "l" else f"{stat.S_IMODE(mode):o}", what))))
"""


def tree_inside(client, box, path):
    done = client.run(box, "/usr/bin/python3", "-c", INSIDE, cwd=path)
    assert done.exec.exit.code == 0, done.stderr_data
    return dict(eval(line) for line in done.stdout_data.decode().splitlines())


def give(path, uid):
    for entry in [path, *path.rglob("*")]:
        os.lchown(entry, uid, 65534)


def make_tree(host):
    source = host / "src"
    (source / "deep/er").mkdir(parents=True)
    (source / "empty").mkdir(mode=0o700)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o750)
    (source / "deep/er/large").write_bytes(os.urandom(3 << 20))
    (source / "deep/secret").write_text("s")
    (source / "deep/secret").chmod(0o600)
    (source / ("n" * 120)).write_text("long")
    (source / "ümläut ").write_text("x")
    (source / "nothing").write_text("")
    (source / "deep/up").symlink_to("../run.sh")
    (source / "dangling").symlink_to("deep/none")
    give(source, ONE)
    return source


def test_a_copy_is_exact(host, daemon, one):
    """covers: SBX-21, OWN-4"""
    source = make_tree(host)
    made = one.create(copies=[copy(source, "/workspace/a/b"), copy(source / "run.sh", "/workspace/one.sh")])
    assert made.state == READY, made
    box = made.sandbox_id
    assert tree_inside(one, box, "/workspace/a/b") == tree_of(source)
    assert one.output_of(box, "stat -c '%a %u %n' one.sh") == "750 1000 one.sh\n"
    one.output_of(box, "echo changed > a/b/run.sh")
    assert (source / "run.sh").read_text() == "#!/bin/sh\n"


def test_a_copy_is_made_once(host, daemon, one):
    source = make_tree(host)
    box = one.create(copies=[copy(source)]).sandbox_id
    one.output_of(box, "rm in/run.sh; echo mine > in/nothing")
    one.stop(box)
    shutil.rmtree(source)
    assert one.start(box).state == READY
    assert one.output_of(box, "test ! -e in/run.sh && cat in/nothing") == "mine\n"


def test_a_layer_in_memory_gets_its_copies_at_each_start(host, daemon, one):
    source = make_tree(host)
    box = one.create(copies=[copy(source)], root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)).sandbox_id
    one.output_of(box, "rm in/run.sh")
    one.stop(box)
    assert one.start(box).state == READY
    assert one.output_of(box, "cat in/run.sh") == "#!/bin/sh\n"


def test_what_is_excluded_is_not_looked_at(host, one):
    """covers: SBX-22"""
    source = make_tree(host)
    expected = tree_of(source)
    for name in ("deep/er", "deep/er/large"):
        expected.pop(name)
    (source / "deep/leaves").symlink_to("/etc/passwd")
    os.mkfifo(source / "deep/fifo")
    file(source / "unreadable", "x", TWO, 0o600)
    excludes = ["deep/leaves", "fifo", "unread*", "/deep/er"]
    box = one.create(copies=[copy(source, excludes=excludes)]).sandbox_id
    assert tree_inside(one, box, "/workspace/in") == expected


@pytest.mark.parametrize("make_bad, code, named", [
    (lambda s: (s / "deep/out").symlink_to("../../x"), "TREE_INVALID", "deep/out"),
    (lambda s: (s / "abs").symlink_to(s / "run.sh"), "TREE_INVALID", "abs"),
    (lambda s: os.mkfifo(s / "fifo"), "TREE_INVALID", "fifo"),
    (lambda s: file(s / "theirs", "x", TWO, 0o600), "FILE_DENIED", "theirs"),
    (lambda s: folder(s, "locked", TWO, 0o700), "FILE_DENIED", "directory"),
])
def test_a_copy_that_cannot_be_exact_fails_the_create(host, daemon, one, make_bad, code, named):
    """covers: SBX-22, OWN-4"""
    source = make_tree(host)
    make_bad(source)
    made = one.create(copies=[copy(host / "src/deep/er", "/workspace/fine"), copy(source)])
    assert made.state == FAILED and made.reason.code == code, made
    assert "spec.copies[1]" in made.reason.message and named in made.reason.message
    assert daemon.cgroups() == {}


def test_a_copy_into_a_place_the_user_may_not_write_fails_the_create(host, one):
    made = one.create(copies=[copy(make_tree(host), "/etc/in")])
    assert made.state == FAILED and made.reason.code == "FILE_DENIED", made
    made = one.create(copies=[copy(host / "src", "/etc/in")], profile=pb.SANDBOX_PROFILE_ROOT)
    assert made.state == READY, made


def test_a_copy_is_bounded_by_the_disk_limit(host, one):
    source = folder(host, "data")
    (source / "large").write_bytes(os.urandom(16 << 20))
    os.chown(source / "large", ONE, 65534)
    made = one.create(copies=[copy(source)], limits=pb.Limits(disk_bytes=8 << 20))
    assert made.state == FAILED and made.reason.code == "DISK_FULL", made


def test_excludes_are_checked(host, one):
    own = folder(host, "own")
    for excludes, field in (([""], "spec.copies[0].excludes[0]"), (["x"] * 257, "spec.copies[0].excludes"),
                            (["y" * 4097], "spec.copies[0].excludes[0]"), (["z" * 4000] * 9, "spec.copies[0].excludes")):
        with refused("INVALID_ARGUMENT", field):
            one.create(copies=[copy(own, excludes=excludes)])


def test_a_daemon_that_dies_while_it_copies_copies_again(host, daemon, one):
    source = make_tree(host)
    (source / "huge").write_bytes(os.urandom(48 << 20))
    os.chown(source / "huge", ONE, 65534)
    one.create("half", wait_ms=0, copies=[copy(source)])
    daemon.kill()
    daemon.start()
    assert one.ask("StartSandbox", sandbox_id="half", wait_ms=60000).sandbox.state == READY
    assert tree_inside(one, "half", "/workspace/in") == tree_of(source)


def test_a_delete_while_it_copies_leaves_nothing(host, daemon, one):
    source = folder(host, "data")
    (source / "huge").write_bytes(os.urandom(64 << 20))
    os.chown(source / "huge", ONE, 65534)
    one.create("gone", wait_ms=0, copies=[copy(source)], mounts=[mount(source)])
    one.delete("gone")
    assert daemon.cgroups() == {} and (source / "huge").stat().st_size == 64 << 20


def test_what_can_go_in_is_reported(daemon, client):
    assert {"mounts", "copies"} <= set(client.info().drivers[0].capabilities)


def test_nothing_of_a_mount_is_removed_with_the_sandbox(host, daemon, one):
    """covers: SBX-5"""
    source = folder(host, "data")
    file(source / "stays", "x")
    box = one.create(mounts=[mount(source, "/workspace", writable=True)]).sandbox_id
    one.output_of(box, "echo y > also")
    one.delete(box)
    assert sorted(os.listdir(source)) == ["also", "stays"]
    with open("/proc/self/mountinfo") as mounts:
        assert str(host) not in mounts.read()


# ---- berm-open itself

def test_without_berm_open_the_rest_goes_on(host, daemon, one):
    """covers: OWN-4"""
    own = folder(host, "own")
    for pid in daemon.processes():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").endswith("/berm-open"):
                os.kill(pid, 9)
    with refused("DRIVER_UNAVAILABLE", "spec.mounts[0].source"):
        one.create(mounts=[mount(own)])
    assert one.create().state == READY


@pytest.fixture
def opener(host):
    """A berm-open of our own: asks it, whatever the bytes are."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    state = folder(host, "state", 0, 0o700)
    state_fd = os.open(state, os.O_RDONLY)
    process = subprocess.Popen([BERMD.parent / "berm-open", "--socket-fd", str(theirs.fileno()), "--state-fd",
                                str(state_fd), "--root", host], pass_fds=[theirs.fileno(), state_fd])
    theirs.close()
    os.close(state_fd)
    ours.settimeout(30)

    def ask(message, fds=()):
        socket.send_fds(ours, [message], fds)
        reply, got, _, _ = socket.recv_fds(ours, 4096, 4)
        version, seq, code, is_file, is_foreign, reserved, text, _, _ = struct.unpack("=6I240s256s256s", reply)
        for fd in got:
            os.close(fd)
        assert version == 2 and (code == 0 or not got)
        return code, len(got), text.rstrip(b"\0").decode()

    yield ask
    ours.close()
    assert process.wait(30) == 0


def request(path, kind=1, uid=ONE, flags=0, version=2, size=None, tail=b"", seq=7):
    body = struct.pack("=6I4096s", version, kind, size or 4120 + len(tail), seq, uid, flags, os.fsencode(path))
    return body + tail


PACK = struct.Struct("=256sII32768s")
REFUSED = 39


def test_every_field_is_checked_as_if_bermd_were_taken_over(host, opener):
    """covers: OWN-4"""
    own = folder(host, "own")
    assert opener(request(own))[:2] == (0, 1)
    assert opener(request(own, flags=1))[:2] == (0, 1)
    assert opener(request(own, kind=2))[:2] == (0, 0)
    read_end, write_end = os.pipe()
    good = PACK.pack(b"name", 0, 0, b"")
    assert opener(request(own, kind=3, tail=good), [write_end])[:2] == (0, 0)
    assert len(os.read(read_end, 4096)) == 1024
    with open(own / "regular", "wb") as regular:
        bad = [b"x", request(own)[:-1], request(own) + b"y", request(own, version=1), request(own, size=9),
               request(own, kind=0), request(own, kind=5), request(own, kind=4, flags=1), request(own, kind=99), request(own, uid=0xFFFFFFFF),
               request(own, flags=2), request(own, flags=4), request(own, kind=2, flags=1), request(""), request("own"),
               request("~x"), request("/" + "a" * 4095), request(bytes(own) + b"\0junk"), request(own, kind=2, tail=good)]
        for message in bad:
            code, n, text = opener(message)
            assert (code, n, text) == (REFUSED, 0, "the request is invalid"), message[:40]
        packs = [(PACK.pack(b"", 0, 0, b""), [write_end]), (PACK.pack(b"a/b", 0, 0, b""), [write_end]),
                 (PACK.pack(b"..", 0, 0, b""), [write_end]), (PACK.pack(b"n", 257, 0, b""), [write_end]),
                 (PACK.pack(b"n", 2, 0, b"x" * 32768), [write_end]), (PACK.pack(b"n", 0, 1, b""), [write_end]),
                 (good, []), (good, [read_end]), (good, [regular.fileno()])]
        for tail, fds in packs:
            assert opener(request(own, kind=3, tail=tail), fds)[0] == REFUSED
        assert opener(request(own), [write_end])[0] == REFUSED
    # It lives on, and whatever is claimed stays beneath the roots.
    for uid in (0, ONE):
        for path in ("/", "/etc", "/root", "/proc/1/root", host / "state", host):
            assert opener(request(path, uid=uid))[0] != 0, path
    assert opener(request(own))[:2] == (0, 1)
    os.close(read_end)
    os.close(write_end)


def test_a_sandbox_that_does_not_read_or_goes_holds_nobody_up(host, opener):
    """covers: OWN-4"""
    own = folder(host, "own")
    (own / "large").write_bytes(bytes(1 << 20))
    os.chown(own / "large", ONE, 65534)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)   # as a guest may do with its end
    message = request(own, kind=3, tail=PACK.pack(b"name", 0, 0, b""), seq=8)
    started = threading.Thread(target=lambda: (time.sleep(0.2), os.close(read_end)))
    started.start()
    dup = os.dup(write_end)
    os.close(write_end)
    code, _, _ = opener(message, [dup])
    started.join()
    os.close(dup)
    assert code == 6   # GUEST_LOST
    assert opener(request(own))[:2] == (0, 1)


# ---- tools

@pytest.fixture
def at_home(make, host):
    """A daemon for which user ONE has a home, and that home."""
    home = folder(host, "home", mode=0o700)
    passwd = host / "passwd"
    passwd.write_text(pathlib.Path("/etc/passwd").read_text() + f"one:x:{ONE}:65534::{home}:/bin/sh\n")
    inside = ("unshare", "--mount", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh")
    daemon = make("--set", "socket_mode=0666", "--set", f"allow_uids={ONE},{TWO}", "--set", f"mount_roots={home}")
    return daemon.start(prefix=inside), home


def everything_said(daemon, client, box):
    """All that the daemon shows or keeps of a sandbox, outside its files."""
    texts = [daemon.text(), str(client.get(box)), str(client.list())]
    texts += [str(e) for e in client.events()] if isinstance(client, Client) else []
    texts += [data.decode(errors="replace") for data in daemon.kept().values()]
    return "\n".join(texts)


def test_credentials_go_in_only_when_asked_and_show_nowhere(at_home):
    """covers: SBX-23, SBX-21"""
    daemon, home = at_home
    one = daemon.other_user(ONE)
    secret = "https://one:hunter2-secret@example.org"
    file(home / ".git-credentials", secret, mode=0o644)
    file(home / ".npmrc", "other-tools-secret", mode=0o600)
    plain = one.create(tools=[pb.Tool(name="git")]).sandbox_id
    assert one.output_of(plain, "git --version").startswith("git version")
    assert one.output_of(plain, "ls -A ~") == ""
    box = one.create(tools=[pb.Tool(name="git", credentials=True)])
    assert box.state == READY, box
    box = box.sandbox_id
    assert one.output_of(box, "cd; stat -c '%a %U %n' .git-credentials; ls -A") == (
        "600 user .git-credentials\n.git-credentials\n")
    # Not by a program's output, which the daemon keeps: compared inside.
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert one.output_of(box, "sha256sum < ~/.git-credentials").split()[0] == digest
    said = everything_said(daemon, daemon.client(), box)
    assert box in said and "hunter2" not in said and "other-tools" not in said


def test_credentials_that_are_not_there_fail_the_create(at_home):
    """covers: SBX-23"""
    daemon, home = at_home
    made = daemon.other_user(ONE).create(tools=[pb.Tool(name="git", credentials=True)])
    assert made.state == FAILED and made.reason.code == "FILE_NOT_FOUND", made
    assert "spec.tools[0].credentials" in made.reason.message
    # TWO has no home, and nothing of ONE's is looked at for it.
    file(home / ".git-credentials", "x")
    made = daemon.other_user(TWO).create(tools=[pb.Tool(name="git", credentials=True)])
    assert made.state == FAILED and made.reason.code == "FILE_NOT_FOUND", made


def test_credentials_need_roots(make):
    """covers: SBX-23, OWN-4"""
    client = make().start().client()
    with refused("HOST_PATH_REFUSED", "spec.tools[1].credentials"):
        client.create(tools=[pb.Tool(name="npm"), pb.Tool(name="git", credentials=True)])


def test_tools_are_told_and_refused_by_name(daemon, client):
    """covers: SBX-18"""
    told = {c for c in client.info().drivers[0].capabilities if c.startswith("tool.")}
    assert "tool.git" in told
    names = {"git", "uv", "npm", "apt", "claude", "codex", "opencode"}
    assert told <= {f"tool.{name}" for name in names}
    for name in names | {"gcc", "", "../git"}:
        if f"tool.{name}" not in told:
            with refused("UNSUPPORTED", "spec.tools[0].name"):
                client.create(tools=[pb.Tool(name=name)])
    with refused("INVALID_ARGUMENT", "spec.tools[1].name"):
        client.create(tools=[pb.Tool(name="git"), pb.Tool(name="git")])
    with refused("INVALID_ARGUMENT", "spec.tools", limit="tools.count"):
        client.create(tools=[pb.Tool(name="git")] * 17)
    if "tool.apt" in told:
        with refused("INVALID_ARGUMENT", "spec.tools[0].name"):
            client.create(tools=[pb.Tool(name="apt")])
        with refused("INVALID_ARGUMENT", "spec.tools[0].credentials"):
            client.create(tools=[pb.Tool(name="apt", credentials=True)], profile=pb.SANDBOX_PROFILE_ROOT)
        box = client.create(tools=[pb.Tool(name="apt")], profile=pb.SANDBOX_PROFILE_ROOT).sandbox_id
        assert client.output_of(box, "apt --version").startswith("apt ")
