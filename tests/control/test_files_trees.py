"""Trees up and down, and watches."""

import gzip
import io
import os
import random
import tarfile

import pytest

from control import eventually, pb, refused
from files import (ATTRIBUTES, CREATED, DOWNLOAD, GZIP, MODIFIED, REMOVED, RENAMED, UPLOAD, Watch, download, entry,
                   file_events, listed, read, stat, tar, untar, upload, write)


@pytest.fixture(scope="module")
def box(shared):
    return shared.client().create().sandbox_id


@pytest.fixture
def client(shared):
    return shared.client()


# ---- trees

@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_tree_goes_up_and_comes_down(client, box, place, form, compressed):
    """covers: FILE-12, FILE-13, FILE-6"""
    numbers = random.Random(form)
    files = {f"{'d/' * (i % 5)}file-{i}": numbers.randbytes(i * 997) for i in range(40)}
    if form != tarfile.USTAR_FORMAT:
        files |= {"ü" * 100: b"long", "n/" * 60 + "deep": b"deep", "not-utf8-\udcff": b"raw"}
    members = [(entry("empty", tarfile.DIRTYPE, mode=0o750), None), (entry("run", tarfile.REGTYPE, mode=0o755), b"#!")]
    members += list(files.items())
    members += [(entry("link", tarfile.SYMTYPE, linkname="d/file-1"), None),
                (entry("hard", tarfile.LNKTYPE, linkname="file-5"), None)]
    archive = tar(*members, format=form, encoding="utf-8", errors="surrogateescape")
    how = {"compression": GZIP} if compressed else {}
    done = upload(client, box, place, gzip.compress(archive) if compressed else archive, **how)
    assert done.files == len(files) + 3 and done.total_bytes == sum(map(len, files.values())) + 2
    assert stat(client, box, f"{place}/run").mode == 0o755 and stat(client, box, f"{place}/empty").mode == 0o750
    assert stat(client, box, f"{place}/link").symlink_target == "d/file-1"
    data, end = download(client, box, place, **how)
    if compressed:
        data = gzip.decompress(data)
    found = untar(data)
    assert found["hard"] == files["file-5"]
    assert {name: found[name] for name in files} == files
    assert end.files == done.files and end.total_bytes >= done.total_bytes


def test_a_file_as_a_tree(client, box, place):
    """covers: FILE-13"""
    write(client, box, f"{place}/one", b"1")
    assert list(untar(download(client, box, f"{place}/one")[0]).values()) == [b"1"]
    with refused("FILE_NOT_FOUND", sandbox_id=box):
        download(client, box, f"{place}/none")


def test_what_a_tree_leaves_out(client, box, place):
    """covers: FILE-13"""
    client.output_of(box, f"cd {place} && mkdir -p a/node_modules b && touch a/node_modules/x a/y b/z && mkfifo pipe "
                          "&& echo s > hidden && chmod 0 hidden && mkdir closed && chmod 0 closed")
    data, end = download(client, box, place, excludes=["node_modules"])
    assert sorted(n for n in untar(data) if n != ".") == ["a", "a/y", "b", "b/z", "closed"]
    assert end.skipped_special == 1 and end.skipped_unreadable >= 1
    assert not any("node_modules" in name for name in untar(data))
    client.output_of(box, f"chmod 700 {place}/closed")
    with refused("INVALID_ARGUMENT", field="excludes"):
        download(client, box, place, excludes=["x"] * 257)
    with refused("INVALID_ARGUMENT", field="excludes[1]"):
        download(client, box, place, excludes=["x", "y" * 4097])


TRICKS = {
    "absolute": [("/etc/evil", b"x")],
    "climbs": [("a/../../evil", b"x")],
    "climbs at once": [("../evil", b"x")],
    "through a link": [(entry("l", tarfile.SYMTYPE, linkname="/tmp"), None), ("l/evil", b"x")],
    "through a link inside": [(entry("d", tarfile.DIRTYPE, mode=0o755), None),
                              (entry("l", tarfile.SYMTYPE, linkname="d"), None), ("l/evil", b"x")],
    "links outside": [(entry("l", tarfile.SYMTYPE, linkname="../../evil"), None)],
    "hard link outside": [(entry("h", tarfile.LNKTYPE, linkname="/etc/passwd"), None)],
    "hard link that climbs": [(entry("h", tarfile.LNKTYPE, linkname="../../etc/passwd"), None)],
    "device": [(entry("dev", tarfile.CHRTYPE, devmajor=1, devminor=3), None)],
    "disk": [(entry("dev", tarfile.BLKTYPE, devmajor=8, devminor=0), None)],
}


@pytest.mark.parametrize("trick", TRICKS, ids=str)
def test_archives_that_mean_harm(client, box, place, trick):
    """covers: FILE-12, PATH-6"""
    with refused("TREE_INVALID", sandbox_id=box) as caught:
        upload(client, box, f"{place}/in", tar(*TRICKS[trick]))
    assert "member" in caught.text
    assert "evil" not in client.output_of(box, f"find / -xdev -name evil 2>/dev/null; ls -R {place}; true")


@pytest.mark.parametrize("bytes_", [b"\0" * 100, b"x" * 512, tar(("a", b"1" * 2000))[:1500], b"\x1f\x8b" + bytes(600)],
                         ids=["short", "garbage", "cut", "gzip"])
def test_archives_that_are_broken(client, box, place, bytes_):
    """covers: FILE-12"""
    with refused("TREE_INVALID"):
        upload(client, box, place, bytes_)
    with refused("TREE_INVALID"):
        upload(client, box, place, bytes_, compression=GZIP)


def test_a_compressed_stream_that_is_cut(client, box, place):
    """covers: FILE-12"""
    whole = gzip.compress(tar(("a", os.urandom(50000))))
    for cut in (0, 5, 100, len(whole) - 1):
        with refused("TREE_INVALID"):
            upload(client, box, place, whole[:cut], compression=GZIP)
    upload(client, box, place, whole, size=997, compression=GZIP)
    two = tar(("b", b"x" * 5000))
    upload(client, box, place, gzip.compress(two[:700]) + gzip.compress(two[700:]), compression=GZIP)
    assert read(client, box, f"{place}/b") == b"x" * 5000


def test_an_unknown_compression(client, box, place):
    """covers: RPC-28"""
    with refused("INVALID_ARGUMENT", field="header.compression"):
        upload(client, box, place, b"", compression=7)
    with refused("INVALID_ARGUMENT", field="compression"):
        download(client, box, place, compression=7)


def test_a_bomb_meets_the_disk(shared):
    """covers: FILE-6, FILE-12"""
    client = shared.client()
    box = client.create(limits=pb.Limits(disk_bytes=16 << 20)).sandbox_id
    bomb = io.BytesIO()
    with tarfile.open(fileobj=bomb, mode="w:gz", compresslevel=9) as archive:
        info = tarfile.TarInfo("zeros")
        info.size = 300 << 20
        archive.addfile(info, io.BufferedReader(Zeros(info.size)))
    assert len(bomb.getvalue()) < 1 << 20
    with refused("DISK_FULL"):
        upload(client, box, "in", bomb.getvalue(), compression=GZIP)
    with refused("DISK_FULL"):
        write(client, box, "big", chunks=[bytes(1 << 20)] * 40)
    assert [e.path for e in listed(client, box, ".")] == ["/workspace/in"]
    client.delete(box)


class Zeros(io.RawIOBase):
    def __init__(self, n):
        self.left = n

    def readable(self):
        return True

    def readinto(self, to):
        n = min(len(to), self.left)
        to[:n] = bytes(n)
        self.left -= n
        return n


def test_slow_readers_of_a_tree(client, box, place):
    """A reader that stops costs nothing and gets all of it in the end. covers: FILE-6, FILE-13, RPC-16"""
    data = os.urandom(3 << 20)
    write(client, box, f"{place}/x", data)
    streams = [client.stream("DownloadTree", sandbox_id=box, path=place) for _ in range(4)]
    firsts = [next(s) for s in streams]
    assert read(client, box, f"{place}/x") == data
    for first, stream in zip(firsts, streams):
        rest = list(stream)
        assert rest[-1].HasField("end")
        assert untar(b"".join(m.data for m in [first, *rest]))["x"] == data


def test_tree_events(client, box, place):
    """covers: AUDIT-2"""
    after = client.events(sandbox_ids=[box])[-1].sequence
    archive = tar(("a", b"1"))
    upload(client, box, place, archive)
    download(client, box, place)
    with refused("FILE_NOT_FOUND"):
        download(client, box, f"{place}/none")
    # a reading is recorded without the answer waiting for it
    eventually(lambda: len(file_events(client, box, after)) >= 2, "both events")
    events = file_events(client, box, after)
    assert [(e.file.operation, e.file.path) for e in events] == [(UPLOAD, place), (DOWNLOAD, place)]
    assert events[0].file.bytes_moved == len(archive)


# ---- watches

def changes(messages):
    return [(m.change.kind, os.path.basename(m.change.path)) for m in messages if m.HasField("change")]


def is_change(kind, name):
    return lambda m: m.change.kind == kind and m.change.path.endswith(f"/{name}")


def test_changes(client, box, place):
    """covers: FILE-11"""
    watch = Watch(client, box, place, recursive=True, include_info=True)
    assert watch.info.path == f"/workspace/{place}"
    client.output_of(box, f"cd {place} && echo 1 > a")
    seen = watch.until(is_change(CREATED, "a"))
    assert seen[-1].change.info.path == f"/workspace/{place}/a"
    client.output_of(box, f"cd {place} && mv a b")
    assert watch.until(is_change(RENAMED, "b"))[-1].change.old_path == f"/workspace/{place}/a"
    client.output_of(box, f"cd {place} && chmod 600 b")
    watch.until(is_change(ATTRIBUTES, "b"))
    client.output_of(box, f"cd {place} && echo more >> b")
    watch.until(is_change(MODIFIED, "b"))
    client.output_of(box, f"cd {place} && mkdir -p d/e && touch d/e/f")
    watch.until(is_change(CREATED, "f"))
    write(client, box, f"{place}/d/w", b"x")
    watch.until(lambda m: m.change.path.endswith("/w"))
    client.output_of(box, f"cd {place} && rm b")
    watch.until(is_change(REMOVED, "b"))
    watch.close()
    with refused("FILE_NOT_FOUND", sandbox_id=box):
        Watch(client, box, f"{place}/none")


def test_names_of_any_bytes_are_told(client, box, place):
    """covers: FILE-11, PATH-4"""
    watch = Watch(client, box, place)
    write(client, box, place.encode() + b"/\xff", b"")
    watch.until(lambda m: m.change.raw_path == f"/workspace/{place}/".encode() + b"\xff")
    watch.close()


def test_a_flood_is_a_resync(client, box, place):
    """A reader that does not read is told that it missed something, and then what happens. covers: FILE-11"""
    watch = Watch(client, box, place, recursive=True)
    client.output_of(box, f"cd {place} && for i in $(seq 1 20); do mkdir d$i; (cd d$i; seq 1 1000 | xargs touch); done",
                     timeout=300)
    client.output_of(box, f"touch {place}/last")
    told, resynced = set(), False
    for message in watch:
        resynced |= message.HasField("resync")
        told.add(message.change.path)
        if message.change.path.endswith("/last"):
            break
    assert resynced or len(told) > 20000
    watch.close()


def test_the_watched_path_goes(client, box, place):
    """covers: FILE-11"""
    watch = Watch(client, box, place)
    client.output_of(box, f"rm -r {place}")
    watch.until(is_change(REMOVED, place))
    client.output_of(box, f"mkdir {place}")
    watch.until(lambda m: m.resync.reason == pb.FILE_RESYNC_REASON_ROOT_CHANGED)
    client.output_of(box, f"touch {place}/again")
    watch.until(is_change(CREATED, "again"))
    watch.close()


def test_watches_are_bounded(client, box, place):
    """covers: FILE-11"""
    watches = []
    with refused("LIMIT_REACHED", sandbox_id=box):
        for _ in range(65):
            watches.append(Watch(client, box, place))
    assert len(watches) == 64
    for watch in watches:
        watch.close()
    eventually(lambda: again(client, box, place), "a place for another").close()


def again(client, box, place):
    """A place is free once the daemon has heard of the end of the others."""
    from control import Refused
    try:
        return Watch(client, box, place)
    except Refused:
        return None


def test_a_watch_ends_with_its_sandbox(shared):
    """covers: FILE-11, SBX-8"""
    client = shared.client()
    box = client.create().sandbox_id
    watch = Watch(client, box, ".")
    client.stop(box)
    messages = list(watch)
    assert messages[-1].end.reason == pb.STREAM_END_REASON_SANDBOX_GONE
    client.start(box)
    watch = Watch(client, box, ".")
    with refused("SANDBOX_PAUSED", sandbox_id=box):
        client.pause(box)
        list(watch)
    client.delete(box)
