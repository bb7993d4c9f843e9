"""Files: contents by descriptor and in chunks, names and trees, with the rights of the user. FILE-*, PATH-*."""

import base64
import os
import pwd
import stat
import subprocess
import tempfile
import threading

import pytest

from conftest import TIMEOUT_S, GuestError, b64, until

from test_link import Stdio


def path_of(name):
    """Return the parameter that can carry the name."""
    name = os.fsencode(name)
    try:
        return {"path": name.decode()}
    except UnicodeDecodeError:
        return {"path_b64": b64(name)}


def path_in(info):
    return base64.b64decode(info["path_b64"]) if "path_b64" in info else os.fsencode(info["path"])


def read(link, path, **params):
    result = link.call("read", **path_of(path), **params)
    assert result["fds"] == 1
    with os.fdopen(link.fds.pop(0), "rb") as file:
        data = file.read()
    link.call("close", handle=result["handle"])
    return result["info"], data


def write(link, path, data, size=None, **params):
    result = link.call("write", **path_of(path), **params)
    with os.fdopen(link.fds.pop(0), "wb") as file:
        file.write(data)
    return link.call("commit", handle=result["handle"], size_bytes=len(data) if size is None else size)


def refused(code, call, *args, **params):
    with pytest.raises(GuestError) as error:
        call(*args, **params)
    assert error.value.code == code, error.value.error


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    return root


NAMES = [b"plain", "ünïcode 💾".encode(), b"sp ace\tand\nnewline", b"\xff\xfe raw", b"-rf", b"x" * 255, b'"\\']


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_and_contents_may_have_any_bytes(link, tree, name):
    path = os.fsencode(tree) + b"/" + name
    data = bytes(range(256)) * 999
    done = write(link, path, data)
    assert done["created"] is True and path_in(done["info"]) == path
    with open(path, "rb") as file:
        assert file.read() == data
    info, got = read(link, path)
    assert got == data and path_in(info) == path and info["size_bytes"] == len(data)
    assert path_in(link.call("stat", **path_of(path))["info"]) == path
    listed = link.call("list", path=str(tree))["entries"]
    assert [path_in(entry) for entry in listed] == [path]
    assert link.call("remove", **path_of(path))["removed"] == 1
    assert os.listdir(tree) == []


def test_files_travel_in_chunks_without_descriptors(tree):
    link = Stdio()
    link.hello()
    data = os.urandom(200_001)
    made = link.call("write", path=str(tree / "a"))
    assert made["fds"] == 0
    for at in range(0, len(data), 49152):
        part = data[at:at + 49152]
        assert link.call("write_chunk", handle=made["handle"], offset=at,
                         data_b64=b64(part))["next_offset"] == at + len(part)
    link.call("commit", handle=made["handle"], size_bytes=len(data))
    assert (tree / "a").read_bytes() == data
    opened, got, end = link.call("read", path=str(tree / "a")), b"", False
    while not end:
        chunk = link.call("read_chunk", handle=opened["handle"], offset=len(got), max_bytes=49152)
        got, end = got + base64.b64decode(chunk["data_b64"]), chunk["end"]
    assert got == data
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0


def test_write_appears_whole_or_not_at_all(link, tree):
    target = tree / "a"
    target.write_text("old")
    made = link.call("write", path=str(target))
    fd = link.fds.pop(0)
    os.write(fd, b"half")
    os.close(fd)
    assert target.read_text() == "old" and os.listdir(tree) == ["a"]
    refused("UPLOAD_INCOMPLETE", link.call, "commit", handle=made["handle"], size_bytes=5)
    link.call("close", handle=made["handle"])
    assert target.read_text() == "old" and os.listdir(tree) == ["a"]
    refused("INVALID_ARGUMENT", link.call, "commit", handle=made["handle"], size_bytes=4)
    assert write(link, target, b"new")["created"] is False
    assert target.read_text() == "new" and os.listdir(tree) == ["a"]


def test_lost_connection_leaves_no_partial_file(guest, tree):
    link = guest.connect()
    link.call("write", path=str(tree / "a"))
    before = len(os.listdir(f"/proc/{guest.pid()}/fd"))
    link.close()
    link = guest.connect()
    assert os.listdir(tree) == []
    until(lambda: len(os.listdir(f"/proc/{guest.pid()}/fd")) < before, "the handle is still open")


def test_write_sets_or_keeps_the_mode(link, tree):
    os.umask(0o077)
    try:
        write(link, tree / "new", b"")
        assert stat.S_IMODE(os.stat(tree / "new").st_mode) == 0o644
        os.chmod(tree / "new", 0o755)
        write(link, tree / "new", b"x")
        assert stat.S_IMODE(os.stat(tree / "new").st_mode) == 0o755
        assert write(link, tree / "new", b"x", mode=0o600)["info"]["mode"] == 0o600
        link.call("mkdir", path=str(tree / "d/e/f"), make_parents=True)
        assert stat.S_IMODE(os.stat(tree / "d/e").st_mode) == 0o755
        link.call("mkdir", path=str(tree / "g"), mode=0o777)
        assert stat.S_IMODE(os.stat(tree / "g").st_mode) == 0o777
    finally:
        os.umask(0o022)


def test_must_not_exist_refuses_an_existing_file(link, tree):
    write(link, tree / "a", b"1", must_not_exist=True)
    refused("FILE_EXISTS", write, link, tree / "a", b"2", must_not_exist=True)
    made = link.call("write", path=str(tree / "b"), must_not_exist=True)
    os.close(link.fds.pop(0))
    (tree / "b").write_text("another was quicker")
    refused("FILE_EXISTS", link.call, "commit", handle=made["handle"], size_bytes=0)
    assert (tree / "b").read_text() == "another was quicker"


def test_write_makes_parents_only_on_request(link, tree):
    refused("FILE_NOT_FOUND", write, link, tree / "x/y/z", b"")
    write(link, tree / "x/y/z", b"deep", make_parents=True)
    assert (tree / "x/y/z").read_text() == "deep"
    refused("NOT_A_DIRECTORY", write, link, tree / "x/y/z/below", b"", make_parents=True)


def test_read_and_write_refuse_anything_but_regular_files(link, tree):
    os.mkfifo(tree / "fifo")
    os.mkdir(tree / "dir")
    import socket
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(tree / "sock"))
    for name in (tree / "fifo", tree / "sock", "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx"):
        refused("NOT_A_REGULAR_FILE", link.call, "read", path=str(name))
        refused("NOT_A_REGULAR_FILE", link.call, "write", path=str(name))
    refused("IS_A_DIRECTORY", link.call, "read", path=str(tree / "dir"))
    refused("IS_A_DIRECTORY", link.call, "write", path=str(tree / "dir"))
    refused("IS_A_DIRECTORY", link.call, "write", path=str(tree / "dir") + "/")
    refused("FILE_NOT_FOUND", link.call, "read", path=str(tree / "none"))
    refused("NOT_A_DIRECTORY", link.call, "list", path=str(tree / "fifo"))
    assert link.call("stat", path=str(tree / "fifo"))["info"]["type"] == "fifo"
    sock.close()


@pytest.mark.parametrize("path", ["", "..", "../x", "a/../../x", "/..", "/a/../..", "a\0b", "x" * 4096,
                                  "y" * 256, "a/" + "y" * 256])
def test_invalid_path_is_refused_with_its_field(link, path):
    for method in ("read", "stat", "list", "remove", "mkdir", "write"):
        refused("INVALID_ARGUMENT", link.call, method, path=path)
    refused("INVALID_ARGUMENT", link.call, "rename", path="a", new_path=path)


def test_path_is_given_in_exactly_one_encoding(link):
    refused("INVALID_ARGUMENT", link.call, "stat")
    refused("INVALID_ARGUMENT", link.call, "stat", path="/etc", path_b64=b64(b"/etc"))
    refused("INVALID_ARGUMENT", link.call, "stat", path_b64="not base64!")
    refused("INVALID_ARGUMENT", link.call, "stat", path_b64=b64(b"/etc\0"))


def test_write_follows_links_and_stat_does_not(link, tree):
    (tree / "a").write_text("content")
    (tree / "link").symlink_to("a")
    (tree / "up").symlink_to("../../../../../../../../../../.." + str(tree / "a"))
    (tree / "loop").symlink_to("loop")
    (tree / "dangling").symlink_to("made")
    assert read(link, tree / "link")[1] == b"content" == read(link, tree / "up")[1]
    refused("SYMLINK_LOOP", link.call, "read", path=str(tree / "loop"))
    refused("SYMLINK_LOOP", link.call, "write", path=str(tree / "loop"))
    info = link.call("stat", path=str(tree / "link"))["info"]
    assert info["type"] == "symlink" and info["target"] == "a"
    assert link.call("stat", path=str(tree / "link"), follow=True)["info"]["type"] == "regular"
    write(link, tree / "link", b"through")
    assert (tree / "link").is_symlink() and (tree / "a").read_text() == "through"
    write(link, tree / "dangling", b"made")
    assert (tree / "made").read_text() == "made"


def test_magic_links_are_refused(link):
    for path in ("/proc/self/root/etc/passwd", "/proc/self/cwd/etc/passwd", "/proc/self/exe", "/proc/self/fd/0"):
        refused("SYMLINK_LOOP", link.call, "read", path=path)
    refused("FILE_DENIED", link.call, "read", path="/proc/1/root/etc/passwd")


def test_mkdir_reports_whether_it_created(link, tree):
    assert link.call("mkdir", path=str(tree / "d"))["created"] is True
    assert link.call("mkdir", path=str(tree / "d"))["created"] is False
    (tree / "f").write_text("")
    refused("FILE_EXISTS", link.call, "mkdir", path=str(tree / "f"))
    refused("FILE_NOT_FOUND", link.call, "mkdir", path=str(tree / "x/y"))
    assert link.call("mkdir", path="/")["created"] is False


def test_rename_replaces_only_on_request(link, tree):
    (tree / "a").write_text("a")
    (tree / "b").write_text("b")
    refused("FILE_EXISTS", link.call, "rename", path=str(tree / "a"), new_path=str(tree / "b"))
    assert link.call("rename", path=str(tree / "a"), new_path=str(tree / "b"), replace=True)["info"]["path"] == str(tree / "b")
    assert (tree / "b").read_text() == "a" and os.listdir(tree) == ["b"]
    refused("FILE_NOT_FOUND", link.call, "rename", path=str(tree / "a"), new_path=str(tree / "c"))
    link.call("rename", path=str(tree / "b"), new_path=str(tree / "x/y/b"), make_parents=True)
    assert (tree / "x/y/b").read_text() == "a"
    refused("CROSS_DEVICE", link.call, "rename", path=str(tree / "x"), new_path="/dev/shm/berm-test-never")


def test_remove_needs_recursive_for_a_full_directory(link, tree):
    refused("FILE_NOT_FOUND", link.call, "remove", path=str(tree / "none"))
    assert link.call("remove", path=str(tree / "none"), missing_ok=True)["removed"] == 0
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    (tree / "d/e").mkdir(parents=True)
    (tree / "d/link").symlink_to(outside)
    (tree / "d/e/f").write_text("")
    refused("DIRECTORY_NOT_EMPTY", link.call, "remove", path=str(tree / "d"))
    assert link.call("remove", path=str(tree / "d"), recursive=True)["removed"] == 4
    assert os.listdir(tree) == [] and (outside / "canary").read_text() == "alive"


def test_remove_handles_trees_deeper_than_the_descriptor_limit(link):
    # Not below tmp_path, because pytest removes leftovers there recursively, and this run may be killed.
    top = tempfile.mkdtemp(prefix="berm-deep-")
    try:
        at = os.open(top, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
        assert link.call("remove", path=top, recursive=True)["removed"] == 3001
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


def pages(link, **params):
    token, entries = "", []
    while True:
        page = link.call("list", page_token=token, **params)
        assert len(page["entries"]) <= params.get("max_entries", 1000)
        entries += page["entries"]
        token = page["next_page_token"]
        if not token:
            return entries


def test_list_pages_together_cover_the_tree(link, tree):
    for d in range(5):
        (tree / f"d{d}" / "sub").mkdir(parents=True)
        for f in range(7):
            (tree / f"d{d}" / f"f{f}").write_text("")
            (tree / f"d{d}" / "sub" / f"g{f}").write_text("")
    (tree / "d0" / "loop").symlink_to(tree)
    for depth in (1, 2, 3, 64):
        want = []

        def walk(path, left):
            for name in sorted(os.listdir(path)):
                want.append(f"{path}/{name}")
                if left > 1 and os.path.isdir(want[-1]) and not os.path.islink(want[-1]):
                    walk(want[-1], left - 1)

        walk(str(tree), depth)
        for size in (1, 2, 3, 10, 1000):
            assert [e["path"] for e in pages(link, path=str(tree), depth=depth, max_entries=size)] == want


def test_list_of_a_large_directory_is_complete(link, tree):
    names = sorted(f"{i:07}-{'x' * 100}" for i in range(20_000))
    for name in names:
        os.close(os.open(tree / name, os.O_CREAT | os.O_WRONLY))
    link.validate = False
    got = pages(link, path=str(tree), max_entries=10000)
    assert [os.path.basename(e["path"]) for e in got] == names


def test_list_during_changes_includes_every_unchanged_entry(link, tree):
    for i in range(100):
        (tree / f"{i:03}").write_text("")
    first = link.call("list", path=str(tree), max_entries=50)
    (tree / "000").unlink()
    (tree / "049").unlink()
    (tree / "010a").write_text("")
    rest = link.call("list", path=str(tree), max_entries=100, page_token=first["next_page_token"])
    assert [os.path.basename(e["path"]) for e in rest["entries"]] == [f"{i:03}" for i in range(50, 100)]
    refused("INVALID_ARGUMENT", link.call, "list", path=str(tree), page_token="!")
    refused("INVALID_ARGUMENT", link.call, "list", path=str(tree), page_token=b64(b"/etc"))


def test_handles_are_bounded(link, tree):
    (tree / "a").write_text("")
    handles = []
    for _ in range(64):
        handles.append(link.call("read", path=str(tree / "a"))["handle"])
        os.close(link.fds.pop(0))
    refused("LIMIT_REACHED", link.call, "read", path=str(tree / "a"))
    for handle in handles:
        link.call("close", handle=handle)
    read(link, tree / "a")
    refused("INVALID_ARGUMENT", link.call, "read_chunk", handle=handles[0], offset=0, max_bytes=1)


def test_concurrent_requests_are_all_answered(link, tree):
    (tree / "a").write_text("x")
    sent = [link.send("stat", {"path": str(tree / "a")}) for _ in range(200)]
    for request in sent:
        assert link.answer(request)["info"]["size_bytes"] == 1


def test_swapped_links_never_expose_another_file(link, tree):
    """A name alternates between a file and a FIFO: each reply fits one of them, and none hangs."""
    (tree / "file").write_text("file")
    os.mkfifo(tree / "fifo")
    os.link(tree / "file", tree / "name")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for target in ("fifo", "file"):
                os.link(tree / target, tree / "next")
                os.rename(tree / "next", tree / "name")
                if (tree / "next").exists():
                    os.unlink(tree / "next")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            try:
                assert read(link, tree / "name")[1] == b"file"
            except GuestError as error:
                assert error.code == "NOT_A_REGULAR_FILE"
    finally:
        stop.set()
        thread.join()


def test_sync_succeeds(link):
    assert link.call("sync") == {}


# Rights of the user.

@pytest.fixture
def nobody(tree):
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    entry = pwd.getpwnam("nobody")
    for parent in [tree, *tree.parents][:4]:
        parent.chmod(parent.stat().st_mode | 0o711)
    os.chown(tree, entry.pw_uid, entry.pw_gid)
    return entry


def test_files_belong_to_the_user(link, tree, nobody):
    write(link, tree / "a", b"x", user="nobody")
    st = os.stat(tree / "a")
    assert (st.st_uid, st.st_gid) == (nobody.pw_uid, nobody.pw_gid)
    info, _ = read(link, tree / "a", user="nobody")
    assert info["user"] == "nobody" and info["uid"] == nobody.pw_uid
    link.call("mkdir", path=str(tree / "d"), user="nobody")
    assert os.stat(tree / "d").st_uid == nobody.pw_uid


def test_file_requests_have_the_rights_of_the_user_only(link, tree, nobody):
    (tree / "secret").write_text("root's")
    (tree / "secret").chmod(0o600)
    refused("FILE_DENIED", link.call, "read", path=str(tree / "secret"), user="nobody")
    refused("FILE_DENIED", link.call, "write", path=str(tree / "secret"), user="nobody")
    refused("FILE_DENIED", link.call, "write", path="/etc/berm-test", user="nobody")
    refused("FILE_DENIED", link.call, "mkdir", path="/etc/berm-test", user="nobody")
    refused("FILE_DENIED", link.call, "remove", path="/etc/passwd", user="nobody")
    refused("FILE_DENIED", link.call, "rename", path="/etc/passwd", new_path="/etc/berm-test", user="nobody")
    refused("FILE_DENIED", link.call, "read", path="/etc/shadow", user="nobody")
    (tree / "private").mkdir(mode=0o700)
    refused("FILE_DENIED", link.call, "list", path=str(tree / "private"), user="nobody")
    assert link.call("list", path=str(tree), depth=2, user="nobody")["unreadable"] == [str(tree / "private")]
    refused("USER_NOT_FOUND", link.call, "stat", path="/", user="no-such-user")


def test_programs_of_the_user_have_no_privileges(run, nobody):
    x = run("id -u; id -g; id -G; grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status; echo $HOME", user="nobody")
    assert x.wait()["exit"] == {"code": 0}
    lines = x.output().decode().split("\n")
    assert lines[:3] == [str(nobody.pw_uid), str(nobody.pw_gid), str(nobody.pw_gid)]
    caps = dict(line.split(":\t") for line in lines if line.startswith("Cap"))
    assert len(caps) == 5 and set(caps.values()) == {"0000000000000000"}
    assert nobody.pw_dir in lines


def test_user_cannot_trace_or_signal_the_guest(guest, run, nobody):
    x = run(f"kill -9 {guest.pid()}; cat /proc/{guest.pid()}/environ; ls /proc/{guest.pid()}/fd; "
            f"kill -9 $PPID; ls /proc/$PPID/fd", user="nobody")
    x.wait()
    assert x.output() == b""
    assert x.output("stderr").count(b"ermi") >= 4
    x.link.call("ping")


def test_terminal_belongs_to_the_user(run, nobody):
    x = run("stat -c %u $(tty); echo works > $(tty)", user="nobody", terminal={"cols": 80, "rows": 24})
    assert x.wait()["exit"] == {"code": 0}
    assert x.output().split() == [str(nobody.pw_uid).encode(), b"works"]


def test_refused_files_are_never_opened(link, tree):
    """A process at the other end of the FIFO would see an open."""
    os.mkfifo(tree / "fifo")
    writer = subprocess.Popen(["sh", "-c", f"echo x > {tree}/fifo"])
    refused("NOT_A_REGULAR_FILE", link.call, "read", path=str(tree / "fifo"))
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.5)
    finally:
        writer.kill()
        writer.wait()
