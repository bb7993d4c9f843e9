"""Grep and glob: matches, order, bounds, and hostile trees. FILE-15..18."""

import fnmatch
import os
import signal
import subprocess
import threading
import time

import pytest

from conftest import descendants, until
from test_files import nobody, path_in, path_of, refused, tree  # noqa: F401 (fixtures)


def grep(link, path, pattern, **params):
    return link.call("grep", **path_of(path), pattern=pattern, **params)


def lines(answer, root):
    return [(os.path.relpath(m["path"], root), m["line"], m["text"]) for m in answer["matches"]]


def glob(link, root, pattern, **params):
    answer = link.call("glob", **path_of(root), pattern=pattern, **params)
    return [os.path.relpath(m["path"], root) for m in answer["matches"]]


def fill(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


# Grep.

def test_grep_reports_lines_in_order_of_their_paths(link, tree):
    for name in ("b", "a/x", "a.txt", "a-", "a/b/c", "Z", "é"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("first\nwith needle\nlast needle")
    answer = grep(link, tree, "needle")
    want = [(name, n, text) for name in sorted(["b", "a/x", "a.txt", "a-", "a/b/c", "Z", "é"], key=os.fsencode)
            for n, text in ((2, "with needle"), (3, "last needle"))]
    assert lines(answer, tree) == want
    assert answer["truncated"] == "" and answer["files"] == 7
    assert answer["binary_files"] == answer["unreadable"] == 0


def test_grep_pattern_is_literal_by_default(link, tree):
    (tree / "a").write_text("a.c\nabc\nA.C\n(a|b)*\n$HOME\n")
    assert [n for _, n, _ in lines(grep(link, tree, "a.c"), tree)] == [1]
    assert [n for _, n, _ in lines(grep(link, tree, "a.c", ignore_case=True), tree)] == [1, 3]
    assert [n for _, n, _ in lines(grep(link, tree, "a.c", regex=True), tree)] == [1, 2]
    assert [n for _, n, _ in lines(grep(link, tree, "^a.C$", regex=True, ignore_case=True), tree)] == [1, 2, 3]
    assert [n for _, n, _ in lines(grep(link, tree, "(a|b)*"), tree)] == [4]
    assert [n for _, n, _ in lines(grep(link, tree, "$HOME"), tree)] == [5]
    refused("INVALID_ARGUMENT", grep, link, tree, "(", regex=True)
    refused("INVALID_ARGUMENT", grep, link, tree, "a\nb")
    refused("INVALID_ARGUMENT", grep, link, tree, "")
    refused("INVALID_ARGUMENT", grep, link, tree, "x" * 4097)
    refused("INVALID_ARGUMENT", link.call, "grep", path=str(tree))


def test_grep_counts_lines_by_line_ends(link, tree):
    (tree / "a").write_bytes(b"x\r\n\nx\n\n\nlast x")
    assert [(n, t) for _, n, t in lines(grep(link, tree, "x"), tree)] == [(1, "x"), (3, "x"), (6, "last x")]
    assert [n for _, n, _ in lines(grep(link, tree, "^x$", regex=True), tree)] == [1, 3]
    assert [n for _, n, _ in lines(grep(link, tree, "^$", regex=True), tree)] == [2, 4, 5]


def test_grep_reports_lines_around_a_match(link, tree):
    (tree / "a").write_text("".join(f"line {i}\n" for i in range(1, 31)))
    answer = grep(link, tree, "line 1", before_lines=2, after_lines=3)
    by_line = {m["line"]: m for m in answer["matches"]}
    assert sorted(by_line) == [1, *range(10, 20)]
    assert by_line[1]["before"] == [] and by_line[1]["after"] == ["line 2", "line 3", "line 4"]
    assert by_line[10]["before"] == ["line 8", "line 9"] and by_line[19]["after"] == ["line 20", "line 21", "line 22"]
    answer = grep(link, tree, "line 30", before_lines=20, after_lines=20)["matches"]
    assert answer[0]["before"] == [f"line {i}" for i in range(10, 30)] and answer[0]["after"] == []
    answer = grep(link, tree, "LINE 3", ignore_case=True, after_lines=1)["matches"]
    assert [(m["line"], m["after"]) for m in answer] == [(3, ["line 4"]), (30, [])]
    refused("INVALID_ARGUMENT", grep, link, tree, "x", before_lines=21)


def test_grep_reports_text_of_any_bytes_as_utf8(link, tree):
    (tree / "a").write_bytes(b"ok \xff\xfe needle \xc3\xa9 \xe2\x82\n" + b"y" * 4095 + "é needle".encode() + b"\n")
    first, second = grep(link, tree, "needle")["matches"]
    assert first["text"] == "ok \ufffd\ufffd needle é \ufffd\ufffd" and "text_truncated" not in first
    assert second["text"] == "y" * 4095 and second["text_truncated"] is True
    name = os.fsencode(tree) + b"/\xff"
    with open(name, "wb") as file:
        file.write(b"needle")
    assert path_in(grep(link, tree, "needle")["matches"][-1]) == name


def test_grep_counts_and_skips_binary_files(link, tree):
    (tree / "early").write_bytes(b"needle\n" + b"x" * 8180 + b"\0")
    (tree / "late").write_bytes(b"needle\n" + b"x" * 8190 + b"\n\0needle\n")
    answer = grep(link, tree, "needle")
    assert [(f, n) for f, n, _ in lines(answer, tree)] == [("late", 1), ("late", 3)]
    assert answer["binary_files"] == 1 and answer["files"] == 2
    assert answer["matches"][1]["text"] == "\ufffdneedle"
    assert [n for _, n, _ in lines(grep(link, tree, "needle$", regex=True), tree)] == [1, 3]
    assert [n for _, n, _ in lines(grep(link, tree, "^needle", regex=True), tree)] == [1]


@pytest.mark.parametrize("regex", [False, True])
def test_grep_matches_lines_longer_than_its_window(link, tree, regex):
    at = (1 << 20) - 3
    (tree / "a").write_bytes(b"x" * at + b"needle" + b"y" * (3 << 20) + b"\nshort needle\n" + b"z" * (2 << 20))
    (tree / "b").write_bytes(b"x" * (5 << 20) + b"needle")
    answer = grep(link, tree, "needle", regex=regex)
    assert [(f, n) for f, n, _ in lines(answer, tree)] == [("a", 1), ("a", 2), ("b", 1)]
    assert answer["matches"][0]["text"] == "x" * 4096 and answer["matches"][1]["text"] == "short needle"
    assert grep(link, tree, "zz$", regex=True)["matches"][0]["line"] == 3


def test_grep_matches_lines_across_windows(link, tree):
    text = "".join(f"{i} {'needle' if i % 1000 == 0 else 'hay'} {'x' * (i % 97)}\n" for i in range(1, 60_001))
    assert len(text) > 3 << 20
    (tree / "a").write_text(text)
    want = list(range(1000, 60_001, 1000))
    for params in ({}, {"ignore_case": True}, {"regex": True}, {"before_lines": 1}):
        assert [m["line"] for m in grep(link, tree, "needle", **params)["matches"]] == want, params


def test_grep_searches_one_file_or_those_of_a_glob(link, tree):
    fill(tree, **{"a.c": "x", "b.h": "x", "sub__c.c": "x", ".hidden__d.c": "x"})
    assert [f for f, _, _ in lines(grep(link, tree / "a.c", "x"), tree)] == ["a.c"]
    assert [f for f, _, _ in lines(grep(link, tree, "x"), tree)] == [".hidden/d.c", "a.c", "b.h", "sub/c.c"]
    assert [f for f, _, _ in lines(grep(link, tree, "x", glob="*.c"), tree)] == ["a.c", "sub/c.c"]
    assert [f for f, _, _ in lines(grep(link, tree, "x", glob="sub/*"), tree)] == ["sub/c.c"]
    assert grep(link, tree / "a.c", "x", glob="*.h")["matches"] == []
    refused("FILE_NOT_FOUND", grep, link, tree / "none", "x")
    refused("INVALID_ARGUMENT", grep, link, tree, "x", glob="{" * 20 + "}" * 20)


def test_grep_reports_the_bound_that_ended_it(link, tree):
    (tree / "a").write_text("x\n" * 20_000)
    answer = grep(link, tree, "x", max_matches=5)
    assert len(answer["matches"]) == 5 and answer["truncated"] == "matches"
    answer = grep(link, tree, "x")
    assert len(answer["matches"]) == 1000 and answer["truncated"] == "matches"
    (tree / "a").write_text("x\n" * 5)
    assert grep(link, tree, "x", max_matches=5)["truncated"] == ""
    (tree / "a").write_bytes((b"x" + b"\x01" * 4000 + b"\n") * 100)
    answer = grep(link, tree, "x", before_lines=20, after_lines=20)
    assert answer["truncated"] == "size" and len(answer["matches"]) < 100
    refused("INVALID_ARGUMENT", grep, link, tree, "x", max_matches=10_001)


def test_grep_opens_only_regular_files(link, tree):
    """The tree has FIFOs, devices, endless and giant files, links that lead outside, and loops."""
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "canary").write_text("needle")
    os.mkfifo(tree / "fifo")
    (tree / "good").write_text("needle")
    (tree / "out").symlink_to(outside)
    (tree / "file-link").symlink_to(outside / "canary")
    (tree / "loop").symlink_to(tree)
    os.mknod(tree / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    with open(tree / "giant", "wb") as file:
        file.truncate(1 << 42)
    answer = grep(link, tree, "needle")
    assert [f for f, _, _ in lines(answer, tree)] == ["good"] and answer["binary_files"] == 1
    assert answer["truncated"] == ""
    assert lines(grep(link, tree / "out", "needle"), outside) == [("../tree/out/canary", 1, "needle")]
    for name in ("fifo", "zero"):
        refused("NOT_A_REGULAR_FILE", grep, link, tree / name, "x")
    refused("SYMLINK_LOOP", grep, link, "/proc/self/root/etc", "x")


def test_search_does_not_enter_proc(link):
    answer = link.call("glob", path="/", pattern="/{proc,sys}/**", max_matches=1)
    assert answer["matches"] == [] and answer["truncated"] == ""
    assert grep(link, "/proc/self/status", "Name:")["matches"][0]["text"] == "Name:\tberm-guest"


def test_search_handles_trees_deeper_than_the_descriptor_limit(link, tree):
    """Files up to the longest path are searched; deeper ones cannot be reported and are counted."""
    at = os.open(tree, os.O_RDONLY)
    for _ in range(2200):
        fd = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=at)
        os.write(fd, b"needle")
        os.close(fd)
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        answer = grep(link, tree, "hay")
        assert answer["files"] == (4095 - len(str(tree)) - 2) // 2 + 1 and answer["unreadable"] > 0
        assert answer["truncated"] == "" and answer["matches"] == []
        answer = link.call("glob", path=str(tree), pattern="f")
        assert answer["truncated"] == "size" and len(answer["matches"][0]["path"]) in (4094, 4095)
    finally:        # pytest cannot remove it
        link.call("remove", path=str(tree / "d"), recursive=True)


def test_search_of_a_large_directory_is_complete(link, tree):
    for i in range(8000):
        os.close(os.open(tree / f"{i:06}", os.O_CREAT | os.O_WRONLY))
    (tree / "005000").write_text("needle")
    assert [f for f, _, _ in lines(grep(link, tree, "needle"), tree)] == ["005000"]
    answer = link.call("glob", path=str(tree), pattern="*", max_matches=3)
    assert [os.path.basename(m["path"]) for m in answer["matches"]] == ["000000", "000001", "000002"]
    assert answer["truncated"] == "matches"
    link.validate = False
    assert link.call("glob", path=str(tree), pattern="*")["truncated"] == "size"
    assert glob(link, tree, "0079?[89]") == [f"0079{i}{j}" for i in range(10) for j in (8, 9)]


SLOW = "(a{1,60}){1,60}b"       # takes more than 30 s per line, with little memory
LONG = ("a" * 900_000 + "\n") * 20


def test_expression_that_never_ends_is_killed_at_its_deadline(guest, link, tree):
    """The guest serves other requests meanwhile, and the reply has the matches found before."""
    (tree / "a").write_text("aab\n")
    (tree / "b").write_text(LONG)
    slow = link.send("grep", {"path": str(tree), "regex": True, "pattern": SLOW})
    while slow not in link.answers:
        assert link.call("stat", path=str(tree / "a"))["info"]["size_bytes"] == 4
        time.sleep(0.2)
    answer = link.answer(slow)
    assert [f for f, _, _ in lines(answer, tree)] == ["a"] and answer["truncated"] == "work"
    until(lambda: descendants(guest.pid()) == [], "the search goes on")


def test_searches_are_bounded_and_leave_jobs_free(link, tree):
    (tree / "b").write_text(LONG)
    slow = {"path": str(tree), "regex": True, "pattern": SLOW}
    sent = [link.send("grep", slow) for _ in range(8)]
    refused("LIMIT_REACHED", link.call, "grep", path=str(tree), pattern="x")
    refused("LIMIT_REACHED", link.call, "glob", path=str(tree), pattern="x")
    link.call("stat", path=str(tree))
    assert len(sent) == 8


def test_killed_search_is_an_error(guest, link, tree):
    (tree / "b").write_text(LONG)
    sent = link.send("grep", {"path": str(tree), "regex": True, "pattern": SLOW})
    victims = until(lambda: len(below := descendants(guest.pid())) == 2 and below, "no search")
    os.kill(max(victims), signal.SIGKILL)
    refused("INTERNAL", link.answer, sent)


def test_grep_counts_files_that_the_user_may_not_read(link, tree, nobody):  # noqa: F811
    fill(tree, secret="needle", private__x="needle", good="needle")
    (tree / "secret").chmod(0)
    (tree / "private").chmod(0)
    answer = grep(link, tree, "needle", user="nobody")
    assert [f for f, _, _ in lines(answer, tree)] == ["good"] and answer["unreadable"] == 2
    answer = link.call("glob", path=str(tree), pattern="*", user="nobody")
    assert len(answer["matches"]) == 2 and answer["unreadable"] == 1
    refused("FILE_DENIED", grep, link, tree / "secret", "x", user="nobody")
    refused("FILE_DENIED", link.call, "glob", path=str(tree / "private"), pattern="*", user="nobody")


def test_grep_of_swapped_directories_never_leaves_the_tree(link, tree):
    outside = tree.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub/inner").write_text("needle")
    (tree / "real/sub").mkdir(parents=True)
    (tree / "real/sub/inner").write_text("hay")
    (tree / "link").symlink_to(outside)
    swap = subprocess.Popen(["python3", "-c", f"""
import ctypes
rename = ctypes.CDLL(None).renameat2
while True:
    rename(-100, b"{tree}/real", -100, b"{tree}/link", 2)
"""])
    try:
        for _ in range(100):
            assert grep(link, tree, "needle")["matches"] == []
            assert set(glob(link, tree, "**/*")) <= {"real/sub/inner", "link/sub/inner"}
    finally:
        swap.kill()
        swap.wait()


# Glob.

NAMES = ["a.txt", "b.py", "src/a.txt", "src/main.c", "src/deep/er/x.c", "src/deep/.h/y.c", ".env", ".git/config",
         "sp ace", "[x]", "{y}", "back\\slash", "ünï", "**", "a*b", "src.d/z"]


@pytest.fixture
def names(tree):  # noqa: F811
    for name in NAMES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    return tree


@pytest.mark.parametrize("pattern,want", [
    ("*.txt", ["a.txt", "src/a.txt"]),                  # without "/": matches the last name at any depth
    ("/*.txt", ["a.txt"]),                              # a leading "/" anchors the pattern
    ("src/*.c", ["src/main.c"]),
    ("src/**/*.c", ["src/deep/er/x.c", "src/main.c"]),  # zero or more directories, no hidden ones
    ("**/*.c", ["src/deep/er/x.c", "src/main.c"]),
    ("src/**", ["src/a.txt", "src/deep/er/x.c", "src/main.c"]),
    ("src/deep/**/.h/*", ["src/deep/.h/y.c"]),
    (".*", [".env"]),                                   # a name that starts with "." needs a pattern that does
    ("[.]env", []), ("?env", []), ("*env", []),
    (".git/*", [".git/config"]), ("*/config", []),
    ("{a,b}.{txt,py}", ["a.txt", "b.py", "src/a.txt"]),
    ("{src/,}a.txt", ["a.txt", "src/a.txt"]),
    ("/{src/{main,x}.c,.env}", [".env", "src/main.c"]),
    ("?.py", ["b.py"]), ("[ab].*", ["a.txt", "b.py", "src/a.txt"]), ("[!a].??", ["b.py"]), ("[a-c].p[x-z]", ["b.py"]),
    ("??ï", ["ünï"]), ("[ü]n?", ["ünï"]), ("[!a-z]nï", ["ünï"]),
    ("[[]x]", ["[x]"]), ("[x", []), ("{y", []), ("back\\slash", ["back\\slash"]), ("[*][*]", ["**"]), ("a[*]b", ["a*b"]),
    ("sp ace", ["sp ace"]), ("src", []), ("src.d/*", ["src.d/z"]), ("*/", []), ("nothing", []),
])
def test_glob_matches_its_patterns(link, names, pattern, want):
    assert glob(link, names, pattern) == want


def test_glob_lists_types_on_request_and_in_order(link, names):
    os.mkfifo(names / "fifo")
    (names / "link").symlink_to("src")
    found = glob(link, names, "/*", all_types=True)
    assert found == sorted((n for n in os.listdir(names) if not n.startswith(".")), key=os.fsencode)
    assert glob(link, names, "src*", all_types=True) == ["src", "src.d"]
    everything = glob(link, names, "**/*", all_types=True)
    assert everything == sorted(everything, key=os.fsencode) and "src.d/z" in everything and "src/a.txt" in everything
    info = link.call("glob", path=str(names), pattern="link", all_types=True)["matches"][0]
    assert info["type"] == "symlink" and info["target"] == "src"
    assert glob(link, names, "link") == [] and glob(link, names, "link/*") == []
    assert glob(link, names / "link", "*.c") == ["deep/er/x.c", "main.c"]


def test_glob_requires_a_directory(link, names):
    refused("NOT_A_DIRECTORY", glob, link, names / "a.txt", "*")
    refused("FILE_NOT_FOUND", glob, link, names / "none", "*")
    refused("INVALID_ARGUMENT", glob, link, names, "")
    refused("INVALID_ARGUMENT", glob, link, names, "{" * 17 + "a" + "}" * 17)
    assert glob(link, names, "{" * 16 + "a.txt" + "}" * 16) == ["a.txt", "src/a.txt"]


@pytest.mark.parametrize("pattern", ["*a" * 500 + "b", "**/" * 600 + "b", "{a,a}" * 400 + "b", "{" + "a," * 2000 + "}" * 1,
                                     "?*" * 1000, "{*,**,?}" * 300, "[a-z]*" * 300])
def test_glob_pattern_cannot_take_exponential_time(link, tree, pattern):
    path = tree
    for _ in range(12):
        path = path / ("a" * 250)
    path.mkdir(parents=True)
    (path / ("a" * 255)).write_text("")
    answer = link.call("glob", path=str(tree), pattern=pattern)
    assert answer["truncated"] == ""


def test_glob_matches_like_the_standard_library(link, tree):
    """For one level without braces, glob matches like fnmatch, except for names that start with "."."""
    names = ["".join(x) for n in (1, 2, 3) for x in __import__("itertools").product("ab-]!", repeat=n)]
    for name in names:
        (tree / name).write_text("")
    for pattern in ("*", "a*", "*a", "a*b", "?", "??", "a?b", "[ab]", "[!a]", "[a-b]?", "[]]", "[!]]*", "[-a]", "[a-]b",
                    "**", "a**b", "[!!]", "*[!a-b]*"):
        want = sorted(n for n in names if fnmatch.fnmatchcase(n, pattern))
        assert glob(link, tree, pattern) == want, pattern


def test_glob_survives_names_that_come_and_go(link, tree):
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for i in range(50):
                (tree / f"d{i}").mkdir(exist_ok=True)
                (tree / f"d{i}" / "f").write_text("needle")
            for i in range(50):
                (tree / f"d{i}" / "f").unlink()
                (tree / f"d{i}").rmdir()

    (tree / "stays").write_text("needle")
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(30):
            assert "stays" in glob(link, tree, "*")
            assert ("stays", 1, "needle") in lines(grep(link, tree, "needle"), tree)
    finally:
        stop.set()
        thread.join()
