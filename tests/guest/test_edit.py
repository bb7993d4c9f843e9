"""Windows of lines, and atomic edits of exact bytes. FILE-3, FILE-14."""

import os
import stat
import subprocess
import threading
import time

import pytest

from conftest import TIMEOUT_S, GuestError, b64
from test_files import nobody, path_in, path_of, refused, tree  # noqa: F401 (fixtures)


def window(link, path, first=0, max_lines=2000, max_bytes=512_000, **params):
    got = link.call("read_lines", **path_of(path), first_line=first, max_lines=max_lines, max_bytes=max_bytes, **params)
    fd = link.fds.pop(0)
    data = os.pread(fd, got["length"], got["offset"])
    os.close(fd)
    link.call("close", handle=got["handle"])
    assert len(data) == got["length"] and data.count(b"\n") in (got["next_line"] - first, got["next_line"] - first - 1)
    return data, got["next_line"], got["total_lines"], got.get("total_truncated", False)


def edit(link, path, *edits, **params):
    edits = [{"old_b64": b64(e[0]), "new_b64": b64(e[1]), **({"replace_all": True} if e[2:] else {})} for e in edits]
    return link.call("edit", **path_of(path), edits=edits, **params)


# Lines.

@pytest.mark.parametrize("text,total", [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2),
                                        (b"a\r\nb\r\n", 2), (b"\0\n\xff\n", 2)])
def test_lines_are_counted_by_line_ends(link, tree, text, total):
    (tree / "a").write_bytes(text)
    assert window(link, tree / "a") == (text, total, total, False)
    for first in range(total):
        want = b"".join(text.splitlines(keepends=True)[first:]) if b"\r" not in text else text[3 * first:]
        assert window(link, tree / "a", first)[0] == want
    assert window(link, tree / "a", total) == (b"", total, total, False)
    assert window(link, tree / "a", total + 7) == (b"", total + 7, total, False)


def test_consecutive_windows_cover_the_file(link, tree):
    text = b"".join(b"%d %s\n" % (i, b"x" * (i * 7919 % 300)) for i in range(1500)) + b"end"
    (tree / "a").write_bytes(text)
    for max_lines, max_bytes in ((1000, 512_000), (7, 512_000), (100_000, 4096), (100_000, 3 << 20), (13, 1000)):
        got, at = b"", 0
        while True:
            data, following, total, _ = window(link, tree / "a", at, max_lines, max_bytes)
            assert total == 1501 and following - at <= max_lines and len(data) <= max_bytes
            if not data:
                break
            got, at = got + data, following
        assert got == text and at == 1501


def test_window_cuts_only_a_first_line_that_is_too_long(link, tree):
    (tree / "a").write_bytes(b"x" * 100 + b"\nshort\n" + b"y" * 100 + b"\n")
    assert window(link, tree / "a", 0, 10, 50) == (b"x" * 50, 1, 3, False)
    assert window(link, tree / "a", 1, 10, 50) == (b"short\n", 2, 3, False)
    assert window(link, tree / "a", 0, 10, 101) == (b"x" * 100 + b"\n", 1, 3, False)
    assert window(link, tree / "a", 0, 10, 106) == (b"x" * 100 + b"\n", 1, 3, False)
    assert window(link, tree / "a", 0, 10, 107) == (b"x" * 100 + b"\nshort\n", 2, 3, False)


def test_line_count_stops_at_its_bound(link, tree):
    with open(tree / "a", "wb") as file:
        file.write(b"one\ntwo\n")
        file.truncate(1 << 40)
    assert window(link, tree / "a", 0, 2, 100) == (b"one\ntwo\n", 2, 2, True)
    assert window(link, tree / "a", 0, 3, 100) == (b"one\ntwo\n", 2, 2, True)
    assert window(link, tree / "a", 5, 3, 100) == (b"", 5, 2, True)


def test_file_that_reports_no_size_is_read_to_its_end(link):
    lines = open("/proc/filesystems", "rb").read().splitlines(keepends=True)
    assert window(link, "/proc/filesystems", 1, 2) == (b"".join(lines[1:3]), 3, len(lines), False)


def test_read_lines_refuses_anything_but_a_regular_file(link, tree):
    os.mkfifo(tree / "fifo")
    refused("NOT_A_REGULAR_FILE", window, link, tree / "fifo")
    refused("IS_A_DIRECTORY", window, link, tree)
    refused("FILE_NOT_FOUND", window, link, tree / "none")
    for params in ({"first": -1}, {"max_lines": 0}, {"max_lines": 100_001}, {"max_bytes": 0}, {"max_bytes": (3 << 20) + 1}):
        refused("INVALID_ARGUMENT", window, link, tree / "none", **params)
    refused("INVALID_ARGUMENT", link.call, "read_lines", path="/x", first_line=0, max_lines=1)


# Edits.

def test_edit_replaces_exact_bytes(link, tree):
    a = tree / "a"
    a.write_bytes(b"one two\x00\xff two three")
    refused("EDIT_NO_MATCH", edit, link, a, (b"four", b"x"))
    refused("EDIT_NOT_UNIQUE", edit, link, a, (b"two", b"x"))
    done = edit(link, a, (b"\x00\xff", b""), (b"two", b"2", True), (b"one 2", b"\xfe"))
    assert done["replacements"] == 4 and path_in(done["info"]) == os.fsencode(a)
    assert a.read_bytes() == b"\xfe 2 three" and done["info"]["size_bytes"] == 9
    assert os.listdir(tree) == ["a"]


def test_edits_apply_all_or_none(link, tree):
    a = tree / "a"
    a.write_text("one two")
    before = os.stat(a)
    refused("EDIT_NO_MATCH", edit, link, a, (b"one", b"1"), (b"one", b"1"))
    assert a.read_text() == "one two" and os.stat(a).st_ino == before.st_ino
    edit(link, a, (b"one", b"two three"), (b"three two", b"x"))         # each edit applies to the result of the one before
    assert a.read_text() == "two x"
    edit(link, a, (b"t", b"t"))
    a.write_text("aaa")
    assert edit(link, a, (b"aa", b"b"))["replacements"] == 1
    assert a.read_text() == "ba"


@pytest.mark.parametrize("before,old,new,after", [
    (b"a\r\nb\r\nc", b"a\nb", b"x\ny\nz", b"x\r\ny\r\nz\r\nc"),
    (b"a\r\nb\r\n", b"a\r\nb", b"x\r\ny", b"x\r\ny\r\n"),
    (b"a\r\nb\nc\n", b"b\nc", b"x\ny", b"a\r\nx\ny\n"),             # mixed line ends: exact bytes
    (b"a\nb\n", b"a\nb", b"x\r\ny", b"x\r\ny\n"),
    (b"a\r\nb", b"b", b"1\n2", b"a\r\n1\r\n2"),
    (b"no end", b"no", b"an\n", b"an\n end"),
])
def test_edit_follows_the_line_ends_of_the_file(link, tree, before, old, new, after):
    (tree / "a").write_bytes(before)
    edit(link, tree / "a", (old, new))
    assert (tree / "a").read_bytes() == after


def test_edit_of_mixed_line_ends_matches_exact_bytes(link, tree):
    (tree / "a").write_bytes(b"a\r\nb\nc\n")
    refused("EDIT_NO_MATCH", edit, link, tree / "a", (b"a\nb", b"x"))


def test_edit_keeps_mode_owner_and_links(link, tree, nobody):  # noqa: F811
    a = tree / "a"
    a.write_text("x")
    os.chown(a, nobody.pw_uid, 4242)
    os.chmod(a, 0o5751)                         # set-id bits are dropped: no file in a sandbox may have them
    (tree / "link").symlink_to("a")
    done = edit(link, tree / "link", (b"x", b"y"))
    st = os.stat(a)
    assert a.read_text() == "y" and (tree / "link").is_symlink() and done["info"]["path"] == str(a)
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (nobody.pw_uid, 4242, 0o1751)


def test_edit_needs_the_rights_of_the_user(link, tree, nobody):  # noqa: F811
    a = tree / "a"
    a.write_text("x")
    os.chown(a, nobody.pw_uid, nobody.pw_gid)
    edit(link, a, (b"x", b"y"), user="nobody")
    a.chmod(0o444)
    refused("FILE_DENIED", edit, link, a, (b"y", b"z"), user="nobody")
    a.chmod(0o666)
    os.chown(a, 0, 0)
    refused("FILE_DENIED", edit, link, a, (b"y", b"z"), user="nobody")     # root could not stay the owner
    os.chown(tree, 0, 0)
    refused("FILE_DENIED", edit, link, a, (b"y", b"z"), user="nobody")
    assert a.read_text() == "y" and os.listdir(tree) == ["a"]


def test_edit_refuses_wrong_targets_and_requests(link, tree):
    a = tree / "a"
    a.write_text("x")
    os.mkfifo(tree / "fifo")
    refused("NOT_A_REGULAR_FILE", edit, link, tree / "fifo", (b"x", b"y"))
    refused("IS_A_DIRECTORY", edit, link, tree, (b"x", b"y"))
    refused("IS_A_DIRECTORY", edit, link, "/", (b"x", b"y"))
    refused("FILE_NOT_FOUND", edit, link, tree / "none", (b"x", b"y"))
    refused("INVALID_ARGUMENT", edit, link, a)
    refused("INVALID_ARGUMENT", edit, link, a, (b"", b"y"))
    refused("INVALID_ARGUMENT", edit, link, a, *[(b"x", b"x")] * 65)
    refused("INVALID_ARGUMENT", edit, link, a, (b"x", b"y" * (1 << 18)))
    refused("INVALID_ARGUMENT", link.call, "edit", path=str(a))
    refused("INVALID_ARGUMENT", link.call, "edit", path=str(a), edits=["x"])
    refused("INVALID_ARGUMENT", link.call, "edit", path=str(a), edits=[{"new_b64": ""}])
    refused("INVALID_ARGUMENT", link.call, "edit", path=str(a), edits=[{"old_b64": "!", "new_b64": ""}])


def test_edit_refuses_texts_and_files_above_their_limits(link, tree):
    a = tree / "a"
    a.write_bytes(b"x" * (16 << 20))
    edit(link, a, (b"x" * 100_000, b"y" * 100_000, True))
    assert a.read_bytes()[:3] == b"yyy"
    refused("FILE_TOO_LARGE", edit, link, a, (b"y" * 1000, b"z" * 1001, True))
    a.write_bytes(b"x" * ((16 << 20) + 1))
    refused("FILE_TOO_LARGE", edit, link, a, (b"x", b"", True))
    with open(tree / "giant", "wb") as file:
        file.truncate(1 << 42)
    refused("FILE_TOO_LARGE", edit, link, tree / "giant", (b"x", b""))
    a.write_bytes(b"x" * 4096)
    refused("FILE_TOO_LARGE", edit, link, a, (b"x", b"y" * 200_000, True))


def test_edit_never_overwrites_a_concurrent_change(link, tree):
    """While another process appends, each reply is FILE_CHANGED or the edit kept every appended byte."""
    a = tree / "a"
    a.write_bytes(b"mark" + b"-" * (1 << 20))
    stop = threading.Event()

    def append():
        while not stop.is_set():
            with open(a, "ab") as file:
                file.write(b"+")

    thread = threading.Thread(target=append)
    thread.start()
    codes = set()
    try:
        end = time.monotonic() + TIMEOUT_S
        i = 0
        while i < 100 or "FILE_CHANGED" not in codes and time.monotonic() < end:
            i += 1
            try:
                edit(link, a, (b"mark", b"mark"))
                codes.add("done")
            except GuestError as error:
                codes.add(error.code)
    finally:
        stop.set()
        thread.join()
    assert codes <= {"done", "FILE_CHANGED"} and "FILE_CHANGED" in codes
    assert os.listdir(tree) == ["a"] and a.read_bytes().startswith(b"mark-")


def test_readers_see_the_file_before_or_after_an_edit(link, tree):
    a = tree / "a"
    old, new = b"old" * 100_000, b"new" * 100_000
    a.write_bytes(old)
    stop, seen = threading.Event(), set()

    def look():
        while not stop.is_set():
            seen.add(a.read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for i in range(40):
            edit(link, a, (b"old", b"new", True) if i % 2 == 0 else (b"new", b"old", True))
    finally:
        stop.set()
        thread.join()
    assert seen <= {old, new}


def test_edit_of_swapped_names_never_writes_elsewhere(link, tree):
    outside = tree.parent / "canary"
    outside.write_text("mark")
    (tree / "a").write_text("mark")
    (tree / "link").symlink_to("none")
    swap = subprocess.Popen(["python3", "-c", f"""
import ctypes
rename = ctypes.CDLL(None).renameat2
while True:
    rename(-100, b"{tree}/a", -100, b"{tree}/link", 2)
"""])
    try:
        for _ in range(150):
            try:
                edit(link, tree / "a", (b"mark", b"mark"))
            except Exception as error:
                assert error.code in ("FILE_NOT_FOUND", "FILE_CHANGED", "NOT_A_REGULAR_FILE"), error.error
    finally:
        swap.kill()
        swap.wait()
    assert outside.read_text() == "mark" and sorted(os.listdir(tree)) == ["a", "link"]
