"""berm and files: cp both ways, cat, find, grep, run --copy-here, and a daemon that is killed meanwhile."""

import base64
import hashlib
import json
import os
import subprocess
import tarfile

import pytest

from conftest import SECONDS, Berm, Daemon, can_sandbox
from fake import Road
from hostile_archives import ARCHIVES, pack

ODD = [b"plain", b"with space", b"-dash", b"quote'\"", b"new\nline", b"\xc3\xbcmlaut", b"not-utf8-\xff\xfe", b"*star?",
       b"x" * 200, b".hidden", b"colon:name"]


def make_tree(root):
    """A tree with odd names, modes, links and empty parts; as bytes, for names that are no text."""
    root = os.fsencode(root)
    os.makedirs(root + b"/deep/" + b"/".join([b"d" * 100] * 5))
    os.mkdir(root + b"/empty")
    for i, name in enumerate(ODD):
        with open(root + b"/" + name, "wb") as file:
            file.write(os.urandom(i * 3001))
    with open(root + b"/deep/" + b"/".join([b"d" * 100] * 5) + b"/leaf", "wb") as file:
        file.write(b"leaf")
    with open(root + b"/run.sh", "wb") as file:
        file.write(b"#!/bin/sh\necho ran\n")
    os.chmod(root + b"/run.sh", 0o755)
    os.symlink(b"plain", root + b"/link")
    os.symlink(b"../run.sh", root + b"/deep/up")
    os.symlink(b"nowhere", root + b"/dangling")
    os.mkdir(root + b"/closed")
    with open(root + b"/closed/inside", "wb") as file:
        file.write(b"inside")
    os.chmod(root + b"/closed", 0o555)


def describe(root):
    """Every path below a folder: what it is, its mode and its checksum."""
    root, found = os.fsencode(root), {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                found[key] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[key] = ("directory", os.stat(path).st_mode & 0o777)
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", os.stat(path).st_mode & 0o777, hashlib.sha256(file.read()).hexdigest())
    return found


@pytest.fixture
def tree(tmp_path):
    make_tree(tmp_path / "tree")
    yield tmp_path / "tree"
    os.chmod(tmp_path / "tree/closed", 0o755)


# --- cp ---

def test_a_tree_goes_in_and_comes_back(berm, sandbox, tree, tmp_path):
    berm("cp", tree, f"{sandbox}:copied")
    assert berm("exec", sandbox, "--", "copied/run.sh").stdout == b"ran\n"
    for _ in range(2):  # the second copy meets the first, closed folder and all
        berm("cp", f"{sandbox}:copied/.", tmp_path / "back")
        assert describe(tmp_path / "back") == describe(tree)
        berm("cp", f"{tree}/.", f"{sandbox}:copied")
    assert len(describe(tree)) > 20
    os.chmod(tmp_path / "back/closed", 0o755)


def test_where_a_copy_goes(berm, sandbox, tmp_path):
    """Into a directory that is there under its own name, else to the very path."""
    (tmp_path / "one").write_text("1")
    (tmp_path / "many").mkdir()
    (tmp_path / "many/two").write_text("2")
    berm("exec", sandbox, "--", "mkdir", "there")
    for target in ("there", "there/", "named", "made/by/cp"):
        berm("cp", tmp_path / "one", f"{sandbox}:{target}")
    berm("cp", tmp_path / "many", f"{sandbox}:there")
    berm("cp", tmp_path / "many", f"{sandbox}:fresh")
    berm("cp", f"{tmp_path}/many/.", f"{sandbox}:there")
    berm("cp", tmp_path / "one", f"{sandbox}:")
    found = berm("exec", sandbox, "--", "find", ".", "-type", "f").stdout.decode().split()
    assert sorted(found) == ["./fresh/two", "./made/by/cp", "./named", "./one", "./there/many/two", "./there/one",
                             "./there/two"]
    (tmp_path / "way").symlink_to("many")    # what is named is followed; what lies below is not
    berm("cp", tmp_path / "way", f"{sandbox}:followed")
    assert berm("cat", f"{sandbox}:followed/two").stdout == b"2"
    (tmp_path / "out").mkdir()
    berm("cp", f"{sandbox}:there", tmp_path / "out")
    berm("cp", f"{sandbox}:named", tmp_path / "out")
    berm("cp", f"{sandbox}:named", tmp_path / "out/other")
    berm("cp", f"{sandbox}:there/many/.", tmp_path / "flat")
    assert sorted(describe(tmp_path / "out")) == [b"named", b"other", b"there", b"there/many", b"there/many/two",
                                                  b"there/one", b"there/two"]
    assert (tmp_path / "flat/two").read_text() == "2"


def test_large_files_by_checksum(berm, sandbox, tmp_path):
    data = os.urandom(32 << 20)
    (tmp_path / "large").write_bytes(data)
    os.chmod(tmp_path / "large", 0o640)
    berm("cp", tmp_path / "large", f"{sandbox}:large")
    said = berm("exec", sandbox, "--", "sh", "-c", "sha256sum < large; stat -c %a large").stdout.decode().split()
    assert said == [hashlib.sha256(data).hexdigest(), "-", "640"]
    berm("cp", f"{sandbox}:large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data and (tmp_path / "back").stat().st_mode & 0o777 == 0o640
    assert berm("cat", f"{sandbox}:large").stdout == data


def test_standard_input_and_output(berm, sandbox):
    berm("cp", "-", f"{sandbox}:piped", stdin=b"through a pipe")
    assert berm("cp", f"{sandbox}:piped", "-").stdout == b"through a pipe"
    berm("cp", "-", f"{sandbox}:empty", stdin=b"")
    assert berm("cat", f"{sandbox}:empty", f"{sandbox}:piped").stdout == b"through a pipe"


def test_what_cannot_be_copied_is_reported(berm, sandbox, tmp_path):
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree/fifo")
    (tmp_path / "tree/out").symlink_to("/etc/passwd")
    (tmp_path / "tree/file").write_text("here")
    done = berm("cp", tmp_path / "tree", f"{sandbox}:tree", status=125)
    assert b"fifo" in done.stderr and b"leads outside" in done.stderr
    assert berm("exec", sandbox, "--", "ls", "tree").stdout == b"file\n"
    for arguments, word in ((["/no/such", f"{sandbox}:x"], b"No such file"), ([f"{sandbox}:none", tmp_path], b"FILE_NOT_FOUND"),
                            (["a", "b"], b"one argument must be SANDBOX:PATH"), ([f"{sandbox}:a", f"{sandbox}:b"], b"one argument must be SANDBOX:PATH"),
                            ([tmp_path / "tree/file", f"{sandbox}:/proc/x"], b"FILE_"), (["x:y", "none:z"], b"one argument must be SANDBOX:PATH"),
                            ([f"{sandbox}:tree", "-"], b"cannot write the directory"), ([tmp_path / "tree/file", "none:z"], b"SANDBOX_NOT_FOUND")):
        done = berm("cp", *arguments, status=125)
        assert word in done.stderr, (arguments, done)


def test_a_copy_that_fails_leaves_what_was_there(berm, sandbox, tmp_path):
    (tmp_path / "kept").write_text("before")
    berm("cp", f"{sandbox}:none", tmp_path / "kept", status=125)
    assert (tmp_path / "kept").read_text() == "before" and os.listdir(tmp_path) == ["kept"]


def test_links_of_a_sandbox_are_not_followed_here(berm, sandbox, tmp_path):
    """A folder of ours that became a link out of the target: nothing is written through it."""
    (tmp_path / "secret").mkdir()
    berm("exec", sandbox, "--", "sh", "-c", "mkdir -p tree/sub && echo evil > tree/sub/file")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/sub").symlink_to(tmp_path / "secret")
    done = berm("cp", f"{sandbox}:tree/.", tmp_path / "target", status=125)
    assert b"sub" in done.stderr and os.listdir(tmp_path / "secret") == []


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive_changes_nothing_outside_its_target(fake, tmp_path, name):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/kept").write_text("mine")
    fake.tree = pack(ARCHIVES[name], str(tmp_path / "secret"))
    done = Berm(fake.path)("cp", "sb-1:tree", tmp_path / "out", status=None)
    assert done.returncode == 0 or (done.returncode == 125 and done.stderr.startswith(b"berm: "))
    assert os.listdir(tmp_path / "secret") == ["kept"] and os.stat(tmp_path / "secret/kept").st_nlink == 1
    assert (tmp_path / "secret/kept").read_text() == "mine" and set(os.listdir(tmp_path)) <= {"out", "secret", "fake.sock"}
    assert all(entry.is_symlink() or entry.is_dir() or entry.read_text() == "evil" for entry in (tmp_path / "out").rglob("*"))


def test_copy_refuses_a_link_that_an_earlier_copy_brought(berm, sandbox, tmp_path):
    """The sandbox plants a link in one copy and turns its name into a directory before the next."""
    (tmp_path / "secret").mkdir()
    berm("exec", sandbox, "--", "sh", "-c", f"mkdir -p w && ln -s {tmp_path}/secret w/out")
    berm("cp", f"{sandbox}:w", tmp_path / "results")
    assert (tmp_path / "results/out").is_symlink()
    berm("exec", sandbox, "--", "sh", "-c", "rm w/out && mkdir w/out && echo evil > w/out/authorized_keys")
    for target in ("results", "results/", "results/out"):
        done = berm("cp", f"{sandbox}:w/out", tmp_path / target if target[-1] != "/" else f"{tmp_path}/{target}", status=125)
        assert b"symbolic link" in done.stderr, done
    done = berm("cp", f"{sandbox}:w/out/.", tmp_path / "results/out", status=125)
    assert b"symbolic link" in done.stderr and os.listdir(tmp_path / "secret") == []
    berm("cp", f"{sandbox}:w/out/authorized_keys", tmp_path / "results/out")      # a file takes the link's name
    assert os.listdir(tmp_path / "secret") == [] and (tmp_path / "results/out").read_text() == "evil\n"


def test_copy_follows_a_link_whose_name_ends_with_a_slash(berm, sandbox, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    berm("exec", sandbox, "--", "sh", "-c", "mkdir -p tree && echo x > tree/file")
    berm("cp", f"{sandbox}:tree/.", f"{tmp_path}/link/")
    assert (tmp_path / "real/file").read_text() == "x\n"


def test_what_is_odd_and_harmless_is_unpacked(fake, tmp_path):
    """A link out of the tree is made as it is, and never followed; a name that was a link is replaced; no set-id bits."""
    (tmp_path / "secret").write_text("mine")
    fake.tree = pack([("out", tarfile.SYMTYPE, str(tmp_path / "secret")), ("out", tarfile.REGTYPE, ""), ("no/parents", tarfile.REGTYPE, ""),
                        ("hard", tarfile.LNKTYPE, "no/parents")])
    Berm(fake.path)("cp", "sb-1:tree", tmp_path / "target")
    assert (tmp_path / "secret").read_text() == "mine" and (tmp_path / "target/out").read_text() == "evil"
    assert (tmp_path / "target/out").stat().st_mode & 0o7777 == 0o755 and (tmp_path / "target/hard").read_text() == "evil"


def test_a_tree_that_ends_early(fake, tmp_path):
    fake.tree = pack([("file", tarfile.REGTYPE, "")])[:700]
    assert b"is truncated" in Berm(fake.path)("cp", "sb-1:tree", tmp_path / "out", status=125).stderr


def test_run_with_this_folder(berm, sandbox, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/hello").write_text("hello")
    done = berm("run", "--copy-here", "--", "sh", "-c", "cat src/hello; touch new", cwd=tmp_path)
    assert done.stdout == b"hello" and os.listdir(tmp_path) == ["src"]
    (tmp_path / "out").symlink_to("/etc/passwd")     # as virtual environments have them: told, and no reason to stop
    done = berm("run", "--json", "--copy-here", "--", "ls", cwd=tmp_path)
    assert base64.b64decode(json.loads(done.stdout)["stdoutData"]) == b"src\n" and b"left out ./out" in done.stderr
    done = berm("run", "--mount", ".", "--", "true", cwd=tmp_path, status=125)   # no folder may be mounted by default
    assert b"HOST_PATH_REFUSED" in done.stderr and b"mount_roots" in done.stderr and b"--copy-here" in done.stderr


def test_run_with_this_folder_mounted(tmp_path):
    """The folder itself: what is written inside is here at once, where that was asked for."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project/hello").write_text("hello")
    os.chown(tmp_path / "project", 61234, 61234)
    os.chmod(tmp_path, 0o755)
    daemon = Daemon(tmp_path, "--set", f"mount_roots={tmp_path}/project")
    berm = Berm(daemon.socket)
    try:
        if not can_sandbox(daemon):
            pytest.skip("this machine lets no driver make sandboxes")
        done = berm("run", "--mount", ".", "--", "sh", "-c", "cat hello; echo x > new", cwd=tmp_path / "project", status=2)
        assert done.stdout == b"hello" and b"Read-only" in done.stderr
        berm("run", "-v", ".:rw", "--", "sh", "-c", "echo made > new", cwd=tmp_path / "project")
        assert (tmp_path / "project/new").read_text() == "made\n"
        done = berm("run", "-v", f"{tmp_path}/project:/data", "--copy", "./hello:/tmp/copied", "--", "cat", "/data/hello",
                    "/tmp/copied", cwd=tmp_path / "project")
        assert done.stdout == b"hellohello"
    finally:
        daemon.stop()


# --- cat, find, grep ---

def test_find(berm, sandbox):
    berm("exec", sandbox, "--", "sh", "-c", "mkdir -p a/b; touch a/x.c a/b/y.c a/b/z.h; printf x > \"$(printf 'odd\\nname.c')\"")
    assert berm("find", sandbox, "*.h").stdout == b"/workspace/a/b/z.h\n"
    assert berm("find", f"{sandbox}:a/b", "*.c").stdout == b"/workspace/a/b/y.c\n"
    assert berm("find", "-a", sandbox, "b").stdout == b"/workspace/a/b\n"
    assert berm("find", "-0", sandbox, "odd*").stdout == b"/workspace/odd\nname.c\0"
    assert [m["path"] for m in json.loads(berm("find", "--json", sandbox, "a/*.c").stdout)["matches"]] == ["/workspace/a/x.c"]
    assert b"SANDBOX_NOT_FOUND" in berm("find", "none", "x", status=125).stderr


def test_grep(berm, sandbox):
    berm("exec", sandbox, "--", "sh", "-c", "printf 'one\\nTwo\\nthree\\n' > a.txt; echo two > b.log")
    assert berm("grep", "two", sandbox).stdout == b"/workspace/b.log:1:two\n"
    assert berm("grep", "-i", "two", f"{sandbox}:a.txt").stdout == b"/workspace/a.txt:2:Two\n"
    assert berm("grep", "-i", "-g", "*.txt", "two", sandbox).stdout == b"/workspace/a.txt:2:Two\n"
    assert berm("grep", "-E", "^t.*e$", sandbox).stdout == b"/workspace/a.txt:3:three\n"
    assert berm("grep", "-B1", "-A1", "Two", sandbox).stdout == \
        b"/workspace/a.txt-1-one\n/workspace/a.txt:2:Two\n/workspace/a.txt-3-three\n"
    assert berm("grep", "absent", sandbox, status=1).stdout == b""


# --- a daemon that is killed ---

def test_an_upload_survives_kills_of_the_daemon(mortal, tmp_path):
    """covers: RETRY-4; each kill comes when so many bytes have passed, and most are still to come."""
    made = mortal.berm("create", "-q", "--disk", "none").stdout.decode().strip()
    make_tree(tmp_path / "tree")
    os.chmod(tmp_path / "tree/closed", 0o755)  # what a broken upload made keeps the mode it has
    (tmp_path / "tree/large").write_bytes(os.urandom(48 << 20))
    kills = []

    def kill():
        road.close()     # nobody listens while no daemon does: a client waits for one, and counts attempts that fail
        mortal.kill()
        mortal.start()
        road.open()
        kills.append(1)

    road = Road(tmp_path / "road.sock", mortal.daemon.socket, [1 << 20, 20 << 20], both=True, on_cut=kill)
    Berm(road.path)("cp", tmp_path / "tree", f"{made}:copied")
    road.close()
    assert len(kills) == 2
    mortal.berm("cp", f"{made}:copied", tmp_path / "back")
    assert describe(tmp_path / "back") == describe(tmp_path / "tree")


def test_a_download_survives_kills_of_the_daemon(mortal, tmp_path):
    """covers: RETRY-4"""
    berm = mortal.berm
    made = berm("create", "-q", "--disk", "none").stdout.decode().strip()
    berm("exec", made, "--", "sh", "-c", "head -c 100000000 /dev/urandom > large")
    expected = berm("exec", made, "--", "sha256sum", "large").stdout.split()[0].decode()
    process = berm.start("cp", f"{made}:large", "-", stdout=subprocess.PIPE)
    digest = hashlib.sha256()
    for _ in range(2):
        digest.update(process.stdout.read(1 << 20))
        mortal.kill()
        mortal.start()
    for piece in iter(lambda: process.stdout.read(1 << 20), b""):
        digest.update(piece)
    process.stdout.close()
    assert process.wait(SECONDS) == 0 and digest.hexdigest() == expected
