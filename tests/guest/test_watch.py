"""Watches: changes, resync, floods, renames, replaced roots, and killed children. FILE-11."""

import os
import pathlib
import shutil
import signal
import tempfile
import time

import pytest

from conftest import TIMEOUT_S, descendants, freeze, until
from test_files import nobody, path_in, path_of, refused, tree  # noqa: F401 (fixtures)
from test_link import Stdio


class Watch:
    def __init__(self, link, path, **params):
        self.link, self.root = link, os.fsencode(path)
        self.answer = link.call("watch", **path_of(path), **params)
        self.id, self.events = self.answer["watch_id"], []

    def name(self, change, key="path"):
        path = path_in({k.removeprefix("old_") if key == "old_path" else k: v for k, v in change.items()
                        if k.startswith("old_") == (key == "old_path")})
        return path[len(self.root):].lstrip(b"/").decode("latin-1")

    def pump(self, timeout=TIMEOUT_S):
        """Receive one message and add its events as tuples."""
        def mine(message):
            return message["method"] == "changed" and message["params"]["watch_id"] == self.id

        end = time.monotonic() + timeout
        while not (found := [m for m in self.link.notices if mine(m)]):
            left = end - time.monotonic()
            if left <= 0 or not self.link.pump(left):
                return False
        self.link.notices.remove(found[0])
        params = found[0]["params"]
        for change in params["changes"]:
            old = (self.name(change, "old_path"),) if change["kind"] == "renamed" else ()
            self.events.append((change["kind"], self.name(change), *old))
        if "resync" in params:
            self.events.append(("resync", params["resync"]))
        if params.get("ended"):
            self.events.append(("ended",))
        self.last = params
        return True

    def wait(self, *wanted):
        """Wait for these events, in this order among others. Return and forget all events."""
        at = 0
        todo = list(wanted)
        while todo:
            while at < len(self.events) and todo:
                if self.events[at] == todo[0]:
                    todo.pop(0)
                at += 1
            if todo:
                assert self.pump(), f"{todo[0]} was not reported; got {self.events}"
        events, self.events = self.events, []
        return events

    def goes_on(self, directory, name="x"):
        """Check that a new file is reported. A resync that was pending may replace the event; then try another file."""
        for i in range(1000):
            path = directory / f"{name}{i}"
            path.write_text("")
            made = ("created", os.path.relpath(path, os.fsdecode(self.root)))
            while made not in self.events and ("resync", "overflow") not in self.events:
                assert self.pump(), f"{made} was not reported; got {self.events}"
            news, self.events = self.events, []
            if made in news:
                return
        raise AssertionError("nothing but resyncs")


@pytest.fixture
def watch(link, tree):  # noqa: F811
    return lambda path=tree, **params: Watch(link, path, **params)


def test_watch_reports_each_kind_of_change(watch, tree):
    w = watch()
    assert w.answer["info"]["path"] == str(tree) and w.answer["info"]["type"] == "directory"
    (tree / "a").write_text("")
    w.wait(("created", "a"))
    (tree / "a").write_text("x")
    w.wait(("modified", "a"))
    (tree / "a").chmod(0o600)
    w.wait(("attributes", "a"))
    os.rename(tree / "a", tree / "b")
    assert w.wait(("renamed", "b", "a")) == [("renamed", "b", "a")]
    (tree / "b").unlink()
    w.wait(("removed", "b"))
    (tree / "d").mkdir()
    w.wait(("created", "d"))
    (tree / "d").rmdir()
    w.wait(("removed", "d"))


def test_watch_merges_changes_within_its_interval(watch, tree):
    w = watch()
    with open(tree / "a", "w", buffering=1) as file:
        for i in range(2000):
            file.write("line\n")
    w.wait(("created", "a"))
    while w.pump(0.5):
        pass
    assert len(w.events) < 100 and set(w.events) <= {("modified", "a")}


def test_watch_covers_one_level_unless_recursive(watch, tree):
    (tree / "d").mkdir()
    flat, deep = watch(), watch(recursive=True)
    (tree / "d" / "x").write_text("")
    (tree / "y").write_text("")
    assert ("created", "d/x") not in flat.wait(("created", "y"))
    deep.wait(("created", "d/x"), ("created", "y"))


def test_watch_covers_new_directories_and_their_entries(watch, tree):
    w = watch(recursive=True)
    for i in range(20):
        path = tree / f"n{i}" / "a" / "b"
        path.mkdir(parents=True)
        (path / "f").write_text("x")
    seen = w.wait(*[("created", f"n{i}/a/b/f") for i in range(20)])
    assert all(kind == "created" or (kind == "modified" and name.endswith("/f")) for kind, name in seen)
    (tree / "n7/a/b/f").write_text("y")
    w.wait(("modified", "n7/a/b/f"))


def test_watch_reports_renames_within_into_and_out_of_the_tree(watch, tree):
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "came").mkdir()
    (outside / "came" / "f").write_text("")
    (tree / "d" / "e").mkdir(parents=True)
    (tree / "d" / "e" / "f").write_text("")
    w = watch(recursive=True)
    os.rename(tree / "d", tree / "z")
    w.wait(("renamed", "z", "d"))
    (tree / "z/e/f").write_text("1")
    w.wait(("modified", "z/e/f"))
    os.rename(tree / "z/e/f", tree / "f")
    w.wait(("renamed", "f", "z/e/f"))
    os.rename(outside / "came", tree / "came")
    w.wait(("created", "came"), ("created", "came/f"))
    os.rename(tree / "z", outside / "went")
    w.wait(("removed", "z"))
    (outside / "went" / "e" / "later").write_text("")       # outside the watched tree by now
    (tree / "mark").write_text("")
    assert [e for e in w.wait(("created", "mark")) if e[1] not in ("mark",)] == []
    os.rename(outside / "went", tree / "back")
    w.wait(("created", "back"), ("created", "back/e"), ("created", "back/e/later"))
    (tree / "back/e/later").write_text("x")
    w.wait(("modified", "back/e/later"))


def test_watch_of_a_file_reports_its_changes(watch, tree):
    (tree / "a").write_text("")
    w = watch(tree / "a")
    (tree / "other").write_text("")
    (tree / "a").write_text("x")
    assert w.wait(("modified", "")) == [("modified", "")]
    (tree / "new").write_text("new")
    os.rename(tree / "new", tree / "a")         # the way editors save
    w.wait(("resync", "root_changed"))
    (tree / "a").write_text("y")
    w.wait(("modified", ""))
    (tree / "a").unlink()
    w.wait(("removed", ""))
    (tree / "a").write_text("z")
    w.wait(("resync", "root_changed"))


def test_watch_follows_a_replaced_root(watch, tree):
    (tree / "root/sub").mkdir(parents=True)
    w = watch(tree / "root", recursive=True)
    os.rename(tree / "root", tree / "old")
    (tree / "root").mkdir()
    w.wait(("resync", "root_changed"))
    (tree / "old/sub/x").write_text("")
    (tree / "root/new").write_text("")
    assert ("created", "sub/x") not in w.wait(("created", "new"))
    shutil.rmtree(tree / "root")
    w.wait(("removed", "new"), ("removed", ""))
    (tree / "root/a").mkdir(parents=True)
    w.wait(("resync", "root_changed"))
    (tree / "root/a/b").write_text("")
    w.wait(("created", "a/b"))


def test_watch_ends_when_its_root_cannot_return(link, tree, nobody):  # noqa: F811
    """The user may not watch the parent, so the watch could not see the path return."""
    (tree / "d/root").mkdir(parents=True)
    (tree / "d/root").chmod(0o777)
    (tree / "d").chmod(0o711)
    os.chown(tree / "d", 0, 0)
    w = Watch(link, tree / "d/root", user="nobody")
    (tree / "d/root/x").write_text("")
    w.wait(("created", "x"))
    shutil.rmtree(tree / "d/root")
    w.wait(("removed", ""), ("ended",))
    refused("INVALID_ARGUMENT", link.call, "unwatch", watch_id=w.id)


def test_watch_includes_info_on_request(watch, tree):
    w = watch(include_info=True)
    (tree / "a").write_text("12345")
    w.wait(("created", "a"))
    info = w.last["changes"][0]["info"]
    assert info["type"] == "regular" and info["path"] == str(tree / "a")
    (tree / "l").symlink_to("a")
    w.wait(("created", "l"))
    assert [c["info"]["type"] for c in w.last["changes"] if c["path"].endswith("/l")] == ["symlink"]


def test_watch_reports_names_of_any_bytes(watch, tree):
    w = watch()
    for name in (b"\xff\xfe", b"new\nline", b"x" * 255):
        with open(os.fsencode(tree) + b"/" + name, "w"):
            pass
        w.wait(("created", name.decode("latin-1")))


@pytest.fixture
def fast():
    """A directory in memory, for tests with many files."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="berm-watch-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("n", [5000, 20_000], ids=["our queue", "the kernel's queue"])
def test_watch_reports_resync_after_a_flood(guest, link, fast, n):
    """More changes than the queue holds lead to resync. The guest serves other requests, and the watch continues."""
    w = Watch(link, fast, recursive=True)
    (fast / "d").mkdir()
    w.wait(("created", "d"))
    [watcher] = descendants(guest.pid())
    for turn in range(10):      # a slow machine may report all changes; then try again
        freeze(watcher)
        for i in range(n):
            os.close(os.open(fast / "d" / f"{turn}-{i}", os.O_CREAT | os.O_WRONLY))
        (fast / "d" / f"missed{turn}").mkdir()
        link.call("ping")
        os.kill(watcher, signal.SIGCONT)
        while not {("resync", "overflow"), ("created", f"d/missed{turn}")} & set(w.events):
            assert w.pump(), f"neither a resync nor the last change, but {w.events[-3:]}"
        news, w.events = w.events, []
        assert {event[0] for event in news} <= {"created", "resync"}
        if ("resync", "overflow") in news:
            break
        assert len(news) == n + 1
    else:
        raise AssertionError("no queue ever was full")
    w.goes_on(fast / "d" / f"missed{turn}")                 # directories of lost events are watched
    (fast / "d" / "made" / "below").mkdir(parents=True)
    w.wait(("created", "d/made/below"))


def test_watch_is_bounded_while_the_daemon_does_not_read(guest, link, fast):
    """Memory stays bounded. Once the daemon reads again it gets resync for the lost changes."""
    w = Watch(link, fast)
    names = [f"{'n' * 200}{i}" for i in range(3000)]
    for _ in range(12):
        for name in names:
            os.close(os.open(fast / name, os.O_CREAT | os.O_WRONLY))
        for name in names:
            os.unlink(fast / name)
    status = open(f"/proc/{guest.pid()}/status").read()
    if "asan" not in os.environ.get("BERM_GUEST", ""):
        assert int(status.split("VmRSS:")[1].split()[0]) < 24 << 10
    link.validate = False
    w.wait(("resync", "overflow"))
    w.goes_on(fast, "mark")


def test_watched_directories_are_bounded(link, fast):
    for i in range(8200):
        os.mkdir(fast / str(i))
    refused("LIMIT_REACHED", Watch, link, fast, recursive=True)
    Watch(link, fast)
    for i in range(8100, 8200):
        os.rmdir(fast / str(i))
    w = Watch(link, fast, recursive=True)
    for i in range(100):
        os.mkdir(fast / f"new{i}")
    w.wait(("resync", "overflow"), ("ended",))


def test_watches_are_bounded_and_end_with_the_connection(guest, link, tree):
    made = [Watch(link, tree) for _ in range(64)]
    refused("LIMIT_REACHED", Watch, link, tree)
    assert len({w.id for w in made}) == 64
    for w in made:
        link.call("unwatch", watch_id=w.id)
    refused("INVALID_ARGUMENT", link.call, "unwatch", watch_id=made[0].id)
    until(lambda: descendants(guest.pid()) == [], "watchers stay")
    Watch(link, tree)
    link.close()
    until(lambda: descendants(guest.pid()) == [], "watchers outlive their connection")
    link = guest.connect()
    refused("INVALID_ARGUMENT", link.call, "unwatch", watch_id=65)
    refused("FILE_NOT_FOUND", Watch, link, tree / "none")


def test_killed_watcher_is_reported(guest, watch, tree):
    w = watch()
    for pid in descendants(guest.pid()):
        os.kill(pid, signal.SIGKILL)
    w.wait(("resync", "overflow"), ("ended",))


def test_watch_skips_what_the_user_may_not_read(link, tree, nobody):  # noqa: F811
    (tree / "private").mkdir()
    (tree / "private").chmod(0o700)
    w = Watch(link, tree, recursive=True, user="nobody")
    (tree / "private" / "secret").write_text("")
    (tree / "mark").write_text("")
    assert w.wait(("created", "mark"))[0] == ("created", "mark")
    refused("FILE_DENIED", Watch, link, tree / "private", user="nobody")
    os.mkfifo(tree / "fifo")
    Watch(link, tree / "fifo", user="nobody")


def test_watch_does_not_follow_links(watch, tree):
    outside = tree.parent / "outside"
    outside.mkdir()
    (tree / "link").symlink_to(outside)
    w = watch(recursive=True)
    (outside / "x").write_text("")
    (tree / "mark").write_text("")
    assert w.wait(("created", "mark")) == [("created", "mark")]
    start = Watch(w.link, tree / "link")
    (outside / "y").write_text("")
    start.wait(("created", "y"))


def test_watch_works_without_descriptors(tree):
    link = Stdio()
    link.hello()
    w = Watch(link, tree)
    (tree / "a").write_text("")
    w.wait(("created", "a"))
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0
