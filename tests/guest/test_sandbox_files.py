"""File requests in a sandbox: behind its filter and limits, as its user, with hostile programs beside them."""

import os

import pytest

from conftest import GuestError
from test_edit import edit, window
from test_files import read, refused, write
from test_sandbox import Sandbox, pytestmark, sandbox, spawn  # noqa: F401 (fixtures)
from test_search import SLOW, glob, grep, lines
from test_trees import archive, begin_pack, member, pack, send, unpack
from test_watch import Watch

import tarfile


def run(box, script):
    x = box.run(script)
    assert x.wait()["exit"] == {"code": 0}, x.output("stderr")
    return x.output()


def test_lines_edits_and_searches_work_inside_a_sandbox(sandbox):
    link = sandbox.link
    run(sandbox, "mkdir -p src/.git; printf 'one\\nneedle\\nthree\\n' > src/a.c; echo needle > src/b.h; echo needle > src/.git/c")
    assert window(link, "src/a.c", 1, 1)[:3] == (b"needle\n", 2, 3)
    done = edit(link, "src/a.c", (b"needle", b"thread"))
    assert done["info"]["user"] == "user" and done["info"]["path"] == "/workspace/src/a.c"
    assert run(sandbox, "cat src/a.c; ls -A src") == b"one\nthread\nthree\n.git\na.c\nb.h\n"
    assert [f for f, _, _ in lines(grep(link, ".", "needle"), "/workspace")] == ["src/.git/c", "src/b.h"]
    assert lines(grep(link, ".", "^t.*d$", regex=True, glob="*.c"), "/workspace") == [("src/a.c", 2, "thread")]
    found = link.call("glob", path="src", pattern="*.[ch]")["matches"]
    assert [m["path"] for m in found] == ["/workspace/src/a.c", "/workspace/src/b.h"]
    refused("FILE_DENIED", grep, link, "/etc/shadow", "x")
    refused("FILE_DENIED", edit, link, "/etc/passwd", (b"root", b"r00t"))


def test_watches_work_inside_a_sandbox(sandbox):
    w = Watch(sandbox.link, "/workspace", recursive=True)
    run(sandbox, "mkdir -p a/b && echo x > a/b/f && mv a z && rm -r z")
    w.wait(("created", "a"), ("removed", "z"))
    run(sandbox, "mkdir q && touch q/r")
    w.wait(("created", "q/r"))
    sandbox.link.call("unwatch", watch_id=w.id)


def test_trees_work_inside_a_sandbox(sandbox):
    link = sandbox.link
    done = unpack(link, "tree", archive(member("d/f", b"content", mode=0o640, uid=0, uname="root"),
                                        member("s", kind=tarfile.SYMTYPE, target="d/f"),
                                        member("h", kind=tarfile.LNKTYPE, target="d/f")))
    assert done["files"] == 3
    assert run(sandbox, "stat -c '%U %a' tree/d/f; cat tree/s tree/h; mkfifo tree/fifo") == b"user 640\ncontentcontent"
    data, done = pack(link, "tree")
    assert (done["files"], done["directories"], done["skipped_special"]) == (3, 1, 1)
    unpack(link, "copy", data)
    assert run(sandbox, "rm tree/fifo; diff -r tree copy && echo same") == b"same\n"
    run(sandbox, "ln -s /etc tree/etc")
    assert send(link, "tree", archive(member("etc/x", b"x")))["error"]["data"]["code"] == "TREE_INVALID"
    done = send(link, "/usr", archive(member("x", b"x")))
    assert done["error"]["data"]["code"] == "FILE_READ_ONLY"


def test_file_requests_survive_hostile_programs(sandbox):
    """The user may kill the children of the guest that run as that user. That fails one request, never the guest."""
    link = sandbox.link
    run(sandbox, "yes $(head -c 90000 /dev/zero | tr '\\0' a) | head -n 200 > lines")
    sent = link.send("grep", {"path": "/workspace", "regex": True, "pattern": SLOW})
    while sent not in link.answers:
        sandbox.run("kill -9 -1").wait()
    refused("INTERNAL", link.answer, sent)
    w = Watch(link, "/workspace")
    sandbox.run("kill -9 -1").wait()
    w.wait(("resync", "overflow"), ("ended",))
    handle, file = begin_pack(link, "/workspace")
    sandbox.run("kill -9 -1").wait()
    assert link.notice("tree_done")["error"]["data"]["code"] == "INTERNAL"
    file.close()
    link.call("close", handle=handle)
    assert {f for f, _, _ in lines(grep(link, ".", "aaa"), "/workspace")} == {"lines"}


def test_expression_that_exhausts_memory_fails_alone(sandbox):
    link = sandbox.link
    write(link, "a", b"a\n")
    for pattern in ("((((a{1,200}){1,200}){1,200}){1,200})", "(" * 2000 + ")" * 2000, "a|" * 2000 + "b", "[[:alpha:]]{255}{255}{255}"):
        try:
            grep(link, ".", pattern, regex=True)
        except GuestError as error:
            assert error.code == "INVALID_ARGUMENT" and error.error["data"]["field"] == "pattern", error.error
    assert run(sandbox, "echo lives") == b"lives\n"


def test_file_requests_meet_no_trap_of_a_program(sandbox):
    link = sandbox.link
    run(sandbox, "mkdir t; cd t; mkfifo fifo; truncate -s 1T giant; ln -s /proc/1/root out; ln -s . loop; ln -s /dev/zero zero; "
                 "echo needle > good; touch $(printf 'n\\377'); mkdir -m 0 closed; "
                 "python3 -c \"import socket; socket.socket(1).bind('sock')\"")
    answer = grep(link, "t", "needle")
    assert [f for f, _, _ in lines(answer, "/workspace/t")] == ["good"] and answer["unreadable"] == 1
    assert [n for n in glob(link, "/workspace/t", "g*")] == ["giant", "good"]
    handle, file = begin_pack(link, "t", excludes=["giant"])
    with file:
        names = tarfile.open(fileobj=file, mode="r|").getnames()
    done = link.notice("tree_done")
    assert sorted(os.fsencode(n) for n in names) == [b"closed", b"good", b"loop", b"n\xff", b"out", b"zero"]
    assert done["skipped_special"] == 2 and done["skipped_unreadable"] == 1
    link.call("close", handle=handle)
    for name in ("out/etc", "zero", "fifo"):
        try:
            grep(link, f"t/{name}", "root")
            raise AssertionError(name)
        except GuestError as error:
            assert error.code in ("FILE_NOT_FOUND", "FILE_DENIED", "NOT_A_REGULAR_FILE", "SYMLINK_LOOP"), error.error


@pytest.fixture
def empty(spawn):  # noqa: F811
    """A sandbox whose image is an empty directory."""
    import client
    directory = spawn.state / "empty"
    directory.mkdir()
    image = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    box = Sandbox(spawn, "empty", client.PROFILE_USER, image=image)
    os.close(image)
    yield box
    box.close()
    assert os.listdir(directory) == []


def test_every_file_request_works_in_an_empty_image(empty):
    """Every method works without a shell, a library or any other file. covers: FILE-18"""
    link = empty.link
    refused("FILE_NOT_FOUND", link.call, "stat", path="/bin/sh")
    w = Watch(link, "/workspace", recursive=True)
    link.call("mkdir", path="d")
    write(link, "d/f", b"one\ntwo\n")
    assert read(link, "d/f")[1] == b"one\ntwo\n" and window(link, "d/f", 1, 1)[0] == b"two\n"
    edit(link, "d/f", (b"two", b"three"))
    assert link.call("stat", path="d/f")["info"]["size_bytes"] == 10
    assert [m[2] for m in lines(grep(link, ".", "^t", regex=True), "/workspace")] == ["three"]
    assert glob(link, "/workspace", "**/f") == ["d/f"]
    link.call("rename", path="d/f", new_path="d/g")
    assert [e["path"] for e in link.call("list", path="d")["entries"]] == ["/workspace/d/g"]
    data, done = pack(link, "d")
    assert done["files"] == 1 and unpack(link, "copy", data)["files"] == 1
    assert read(link, "copy/g")[1] == b"one\nthree\n"
    link.call("remove", path="d", recursive=True)
    w.wait(("created", "d"), ("removed", "d"))
