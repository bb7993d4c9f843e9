"""Pack and unpack: exact names and contents, no way outside, bounded memory. FILE-12, FILE-13."""

import base64
import hashlib
import io
import os
import random
import signal
import stat
import struct
import subprocess
import tarfile
import threading

import pytest

from conftest import TIMEOUT_S, b64, descendants, freeze, until
from test_files import nobody, path_of, refused, tree  # noqa: F401 (fixtures)
from test_link import Stdio


def begin_pack(link, path, **params):
    answer = link.call("pack", **path_of(path), **params)
    assert answer["fds"] == 1
    return answer["handle"], os.fdopen(link.fds.pop(0), "rb")


def pack(link, path, **params):
    handle, file = begin_pack(link, path, **params)
    with file:
        data = file.read()
    done = link.notice("tree_done", lambda p: p["handle"] == handle)
    link.call("close", handle=handle)
    return data, done


def send(link, path, data, **params):
    """Unpack bytes, or an iterable of pieces, and return the parameters of tree_done."""
    answer = link.call("unpack", **path_of(path), **params)
    try:
        with os.fdopen(link.fds.pop(0), "wb", buffering=0) as file:
            for piece in [data] if isinstance(data, bytes) else data:
                while piece:
                    piece = piece[file.write(piece):]
    except BrokenPipeError:
        pass
    done = link.notice("tree_done", lambda p: p["handle"] == answer["handle"])
    link.call("close", handle=answer["handle"])
    return done


def unpack(link, path, data, **params):
    done = send(link, path, data, **params)
    assert "error" not in done, done["error"]
    return done


def invalid(link, path, data, member=None):
    done = send(link, path, data)
    assert done["error"]["data"]["code"] == "TREE_INVALID", done
    if member is not None:
        assert done["error"]["data"]["field"] == member and member in done["error"]["message"]
    return done["error"]["message"]


def member(name, data=b"", kind=tarfile.REGTYPE, target="", mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def archive(*members, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def look(root):
    """Return path, kind, permissions and contents of everything below."""
    root = os.fsencode(root)
    found = {}
    for at, dirs, files in os.walk(root):
        for name in dirs + files:
            path = at + b"/" + name
            st = os.lstat(path)
            what = (os.readlink(path) if stat.S_ISLNK(st.st_mode) else
                    hashlib.sha256(open(path, "rb").read()).hexdigest() if stat.S_ISREG(st.st_mode) else None)
            mode = 0 if stat.S_ISLNK(st.st_mode) else stat.S_IMODE(st.st_mode)
            found[path[len(root) + 1:]] = (stat.S_IFMT(st.st_mode), mode, what)
    return found


def fill(root):
    names = [b"plain", "ünï 💾".encode(), b"new\nline", b"\xff\xfe", b"-rf", b"x" * 255, b'"\\', b" ", b"a" * 100, b"b" * 101]
    base = os.fsencode(root)
    for i, name in enumerate(names):
        with open(base + b"/" + name, "wb") as file:
            file.write(random.Random(i).randbytes(i * 777))
    deep = base + b"/" + b"/".join([b"d" * 60] * 8)
    os.makedirs(deep)
    with open(deep + b"/\xffdeep", "wb") as file:
        file.write(b"x" * 512)
    os.symlink(b"plain", base + b"/link")
    os.symlink(b"\xff\xfe", base + b"/raw-link")
    os.symlink(b"t" * 150, base + b"/long-link")
    os.mkdir(base + b"/empty", 0o700)
    os.chmod(base + b"/plain", 0o751)
    os.utime(base + b"/plain", (1, 1_000_000_000))
    return len(names) + 1 + 3, 8 + 1


# Pack and unpack.

def test_packed_tree_unpacks_to_the_same_tree(link, tree):
    files, directories = fill(tree)
    data, done = pack(link, tree)
    assert (done["files"], done["directories"]) == (files, directories)
    assert done["skipped_special"] == done["skipped_unreadable"] == 0 and len(data) % 512 == 0
    other = tree.parent / "made/on/the/way"
    back = unpack(link, other, data)
    assert (back["files"], back["directories"], back["total_bytes"]) == (files, directories, done["total_bytes"])
    assert look(other) == look(tree)
    assert os.stat(other / "plain").st_mtime == 1_000_000_000
    assert pack(link, other)[0][:512] == data[:512]


def test_packed_tree_is_readable_by_other_tools(link, tree):
    fill(tree)
    data, _ = pack(link, tree)
    other = tree.parent / "gnu"
    other.mkdir()
    subprocess.run(["tar", "-x", "-C", other], input=data, check=True)
    assert look(other) == look(tree)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = {os.fsencode(m.name) for m in tar}
    assert names == set(look(tree))


@pytest.mark.parametrize("format", ["gnu", "pax", "ustar", "v7", "oldgnu"])
def test_archives_of_other_tools_unpack(link, tree, format):
    fill(tree)
    if format in ("ustar", "v7"):       # these formats cannot carry everything
        os.unlink(os.fsencode(tree) + b"/" + b"x" * 255)
        os.unlink(tree / "long-link")
        os.unlink(tree / ("a" * 100))
        os.unlink(tree / ("b" * 101))
        subprocess.run(["rm", "-r", tree / ("d" * 60)], check=True)
    data = subprocess.run(["tar", "-c", f"--format={format}", "-C", tree, "."], stdout=subprocess.PIPE, check=True).stdout
    unpack(link, tree.parent / "out", data)
    assert look(tree.parent / "out") == look(tree)


def test_file_and_empty_directory_pack(link, tree):
    (tree / "a").write_text("content")
    data, done = pack(link, tree / "a")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [(m.name, tar.extractfile(m).read()) for m in tar] == [("a", b"content")]
    (tree / "d").mkdir()
    data, done = pack(link, tree / "d")
    assert done["files"] == done["directories"] == 0 and data == bytes(1024)
    unpack(link, tree / "e", data)
    assert os.listdir(tree / "e") == []


def test_archive_may_arrive_in_any_pieces(link, tree):
    data = archive(*[member(f"f{i}", bytes([i]) * (i * 100)) for i in range(40)], member("d/" * 100 + "x", b"x"))
    for size in (1, 7, 511, 512, 513, 10_000):
        if size == 1:
            part = archive(member("one", b"abc"))
            unpack(link, tree / "1", (part[i:i + 1] for i in range(len(part))))
            assert (tree / "1/one").read_bytes() == b"abc"
            continue
        unpack(link, tree / str(size), (data[i:i + size] for i in range(0, len(data), size)))
        assert (tree / str(size) / "f39").read_bytes() == bytes([39]) * 3900
        assert (tree / str(size) / ("d/" * 100 + "x")).read_bytes() == b"x"


# Pack.

def test_pack_leaves_out_excludes(link, tree):
    for name in ("a.py", "a.pyc", "d/b.pyc", "d/c.py", "node_modules/x", "d/node_modules/y", ".git/z", "top", "d/top"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    data, _ = pack(link, tree, excludes=["*.pyc", "node_modules", "/top", ".git", "{x,y}"])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [m.name for m in tar] == ["a.py", "d", "d/c.py", "d/top"]
    refused("INVALID_ARGUMENT", link.call, "pack", path=str(tree), excludes=["x"] * 257)
    refused("INVALID_ARGUMENT", link.call, "pack", path=str(tree), excludes=[7])
    refused("INVALID_ARGUMENT", link.call, "pack", path=str(tree), excludes=[""])


def test_pack_counts_what_it_leaves_out(link, tree, nobody):  # noqa: F811
    (tree / "good").write_text("x")
    (tree / "secret").write_text("x")
    (tree / "secret").chmod(0)
    (tree / "private/x").mkdir(parents=True)
    (tree / "private").chmod(0)
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    __import__("socket").socket(1).bind(str(tree / "sock"))
    data, done = pack(link, tree, user="nobody")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [m.name for m in tar] == ["good", "private"]
    assert (done["files"], done["skipped_special"], done["skipped_unreadable"]) == (1, 3, 2)
    refused("FILE_DENIED", link.call, "pack", path=str(tree / "secret"), user="nobody")
    refused("NOT_A_REGULAR_FILE", link.call, "pack", path=str(tree / "fifo"))
    refused("FILE_NOT_FOUND", link.call, "pack", path=str(tree / "none"))


def test_pack_does_not_follow_links(link, tree):
    (tree.parent / "canary").write_text("outside")
    (tree / "out").symlink_to(tree.parent)
    (tree / "loop").symlink_to(".")
    data, done = pack(link, tree)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [(m.name, m.linkname) for m in tar] == [("loop", "."), ("out", str(tree.parent))]


def test_pack_survives_files_that_grow_and_shrink(link, tree):
    """Each file has the size that it had when it was opened, and the archive stays valid."""
    stop = threading.Event()
    for i in range(6):
        (tree / f"f{i}").write_bytes(b"x" * 300_000)

    def churn():
        while not stop.is_set():
            for i in range(6):
                os.truncate(tree / f"f{i}", random.randrange(600_000))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            data, done = pack(link, tree)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                assert [m.name for m in tar] == [f"f{i}" for i in range(6)]
            assert data.endswith(bytes(1024))
    finally:
        stop.set()
        thread.join()


def test_pack_waits_for_its_reader_and_ends_with_it(guest, link, tree):
    with open(tree / "giant", "wb") as file:
        file.truncate(1 << 40)
    handle, file = begin_pack(link, tree)
    assert len(file.read(1 << 20)) == 1 << 20
    [child] = descendants(guest.pid())
    rss = int(open(f"/proc/{child}/status").read().split("VmRSS:")[1].split()[0])
    assert rss < 8 << 10 or "asan" in os.environ.get("BERM_GUEST", "")
    file.close()
    done = link.notice("tree_done")
    assert done["handle"] == handle and done["error"]["data"]["code"] == "CANCELLED"
    link.call("close", handle=handle)
    handle, file = begin_pack(link, tree)
    link.call("close", handle=handle)
    until(lambda: descendants(guest.pid()) == [], "it goes on")
    file.close()
    assert link.notices == []


def test_archives_are_bounded_and_end_with_the_connection(guest, link, tree):
    (tree / "a").write_bytes(b"x" * (1 << 20))
    begun = [begin_pack(link, tree) for _ in range(8)]
    refused("LIMIT_REACHED", link.call, "pack", path=str(tree))
    refused("LIMIT_REACHED", link.call, "unpack", path=str(tree))
    link.call("stat", path=str(tree))
    link.call("close", handle=begun[0][0])
    pack(link, tree / "a")
    link.close()
    until(lambda: descendants(guest.pid()) == [], "children outlive their connection")
    for _, file in begun:
        file.close()
    guest.connect().call("ping")


def test_killed_archive_child_is_an_error(guest, link, tree):
    (tree / "a").write_bytes(b"x" * (1 << 20))
    handle, file = begin_pack(link, tree)
    for pid in descendants(guest.pid()):
        os.kill(pid, signal.SIGKILL)
    assert link.notice("tree_done")["error"]["data"]["code"] == "INTERNAL"
    link.call("close", handle=handle)
    file.close()


def test_pack_and_unpack_handle_many_files(link, tree):
    data = archive(*[member(f"d{i % 100}/f{i}", b"%d" % i) for i in range(2000)])
    assert unpack(link, tree, data)["files"] == 2000
    again, done = pack(link, tree)
    assert done["files"] == 2000 and done["directories"] == 100
    with tarfile.open(fileobj=io.BytesIO(again)) as tar:
        names = [m.name for m in tar]
    assert names == sorted(names)


# Unpack.

def test_unpack_replaces_files_and_never_writes_to_them(link, tree):
    outside = tree.parent / "canary"
    outside.write_text("alive")
    (tree / "link").symlink_to(outside)
    os.link(outside, tree / "hard")
    os.mkfifo(tree / "fifo")
    (tree / "file").write_text("old and longer")
    (tree / "keeps").mkdir(mode=0o700)
    unpack(link, tree, archive(*[member(n, b"new") for n in ("link", "hard", "fifo", "file")],
                               member("keeps", kind=tarfile.DIRTYPE, mode=0o755), member("keeps/x", b"new")))
    assert outside.read_text() == "alive"
    for name in ("link", "hard", "fifo", "file", "keeps/x"):
        assert not (tree / name).is_symlink() and (tree / name).read_text() == "new"
    assert stat.S_IMODE(os.stat(tree / "keeps").st_mode) == 0o700
    done = send(link, tree, archive(member("keeps", b"a file in its place")))
    assert done["error"]["data"]["code"] == "IS_A_DIRECTORY"
    (tree / "dirlink").symlink_to("keeps")
    done = send(link, tree, archive(member("dirlink", kind=tarfile.DIRTYPE)))
    assert done["error"]["data"]["code"] == "NOT_A_DIRECTORY"


ESCAPES = {
    "climbs": ("../x", [member("../x", b"x")]),
    "climbs inside": ("a/../../x", [member("a/../../x", b"x")]),
    "climbs and returns": ("a/../b", [member("a/../b", b"x")]),
    "absolute": ("/tmp/berm-never", [member("/tmp/berm-never", b"x")]),
    "absolute directory": ("/", [member("/", kind=tarfile.DIRTYPE)]),
    "through a symlink": ("s/x", [member("d", kind=tarfile.DIRTYPE), member("s", kind=tarfile.SYMTYPE, target="d"),
                                  member("s/x", b"x")]),
    "through a symlink further up": ("s/e/x", [member("d/e", kind=tarfile.DIRTYPE), member("s", kind=tarfile.SYMTYPE, target="d"),
                                               member("s/e/x", b"x")]),
    "through a symlink of the tree": ("there/x", [member("there/x", b"x")]),
    "through a symlink to a directory": ("there/d/", [member("there/d", kind=tarfile.DIRTYPE)]),
    "symlink outside": ("s", [member("s", kind=tarfile.SYMTYPE, target="../../x")]),
    "symlink to the parent": ("d/s", [member("d/s", kind=tarfile.SYMTYPE, target="../..")]),
    "symlink absolute": ("s", [member("s", kind=tarfile.SYMTYPE, target="/etc")]),
    "hard link outside": ("h", [member("h", kind=tarfile.LNKTYPE, target="../canary")]),
    "hard link absolute": ("h", [member("h", kind=tarfile.LNKTYPE, target="/etc/passwd")]),
    "hard link through a symlink": ("h", [member("h", kind=tarfile.LNKTYPE, target="there/canary")]),
    "hard link to a symlink": ("h", [member("h", kind=tarfile.LNKTYPE, target="there")]),
    "hard link to a directory": ("h", [member("d", kind=tarfile.DIRTYPE), member("h", kind=tarfile.LNKTYPE, target="d")]),
    "hard link to nothing": ("h", [member("h", kind=tarfile.LNKTYPE, target="nothing")]),
    "character device": ("c", [member("c", kind=tarfile.CHRTYPE)]),
    "block device": ("b", [member("b", kind=tarfile.BLKTYPE)]),
    "FIFO": ("p", [member("p", kind=tarfile.FIFOTYPE)]),
    "no name": ("", [member("", b"x")]),
    "a file for the root": ("./", [member(".", b"x")]),
    "a name too long": (None, [member("y" * 256, b"x")]),
    "a path too long": (None, [member("y/" * 2050 + "y", b"x")]),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_unpack_refuses_unsafe_members(link, tree, name):
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    (tree / "root").mkdir()
    (tree / "root" / "there").symlink_to(outside)
    who, members = ESCAPES[name]
    before = sorted(os.listdir(tree.parent))
    done = send(link, tree / "root", archive(*members, member("after", b"x")))
    assert done["error"]["data"]["code"] == "TREE_INVALID", done
    if who is not None and name != "a file for the root":
        assert done["error"]["data"].get("field", "") == who
    assert sorted(os.listdir(tree.parent)) == before and os.listdir(outside) == ["canary"]
    assert os.listdir(tree) == ["root"] and not (tree / "root/after").exists()
    assert os.stat(outside / "canary").st_nlink == 1 and not os.path.exists("/tmp/berm-never")


def test_unpack_makes_links_that_stay_inside(link, tree):
    unpack(link, tree, archive(member("a/b/f", b"x"), member("a/s", kind=tarfile.SYMTYPE, target="../a/./b//f"),
                               member("h", kind=tarfile.LNKTYPE, target="./a/b/f"),
                               member("dangling", kind=tarfile.SYMTYPE, target="nothing")))
    assert (tree / "a/s").read_text() == "x" and os.stat(tree / "h").st_ino == os.stat(tree / "a/b/f").st_ino
    assert os.readlink(tree / "dangling") == "nothing"


def test_unpack_sets_modes_and_owners(link, tree, nobody):  # noqa: F811
    done = unpack(link, tree, archive(
        member("ro", kind=tarfile.DIRTYPE, mode=0o555), member("ro/deep", kind=tarfile.DIRTYPE, mode=0),
        member("ro/deep/f", b"x", mode=0o4755, uid=0, gid=0, uname="root"), member("w", b"", mode=0o666)), user="nobody")
    assert done["files"] == 2 and done["directories"] == 2
    st = os.stat(tree / "ro/deep/f")
    assert stat.S_IMODE(st.st_mode) == 0o755 and st.st_uid == nobody.pw_uid
    assert stat.S_IMODE(os.stat(tree / "ro").st_mode) == 0o555 and stat.S_IMODE(os.stat(tree / "ro/deep").st_mode) == 0
    assert stat.S_IMODE(os.stat(tree / "w").st_mode) == 0o666
    os.chmod(tree / "ro/deep", 0o700)
    os.chown(tree, 0, 0)
    done = send(link, tree, archive(member("new", b"x")), user="nobody")
    assert done["error"]["data"]["code"] == "FILE_DENIED" and "new" in done["error"]["message"]
    refused("FILE_DENIED", link.call, "unpack", path=str(tree / "made"), user="nobody")
    (tree / "file").write_text("")
    refused("NOT_A_DIRECTORY", link.call, "unpack", path=str(tree / "file"))


add = sum


def raw_header(name=b"a", size=b"%011o\0" % 0, kind=b"0", mode=b"0000644\0", magic=b"ustar\x0000", sum=None, target=b""):
    block = bytearray(512)
    block[:len(name)] = name
    block[100:108], block[124:136] = mode, size
    block[136:148] = b"%011o\0" % 0
    block[156:157], block[257:265] = kind, magic
    block[157:157 + len(target)] = target
    block[148:156] = b" " * 8
    block[148:156] = sum or b"%06o\0 " % add(block)
    return bytes(block)


def pax(*records):
    body = b"".join(records)
    return raw_header(b"pax", b"%011o\0" % len(body), b"x") + body + bytes(-len(body) % 512)


def record(key, value):
    body = len(key) + len(value) + 3
    size = body + 1
    while len(str(size)) + body != size:
        size = len(str(size)) + body
    return b"%d %s=%s\n" % (size, key, value)


END = bytes(1024)


@pytest.mark.parametrize("data,why", [
    (b"", "truncated"), (b"x" * 100, "truncated"), (raw_header(), "truncated"), (bytes(511), "truncated"),
    (raw_header(size=b"%011o\0" % 9) + b"12345", "truncated"),
    (raw_header(sum=b"0000000\0") + END, "checksum"), (b"\x7fELF" * 128, "checksum"),
    (raw_header(size=b"99999999999\0") + END, "number"), (raw_header(size=b"\xff" * 12) + END, "size"),
    (raw_header(size=b"\x80" + b"\x7f" * 11) + END, "number"),
    (raw_header(size=b"\x80\0\0\0" + b"\x7f" * 8) + END, "size"),
    (raw_header(kind=b"S") + END, "type"), (raw_header(kind=b"V") + END, "type"), (raw_header(kind=b"Z") + END, "type"),
    (raw_header(kind=b"L", size=b"%011o\0" % (1 << 30)) + END, "large"),
    (raw_header(kind=b"x", size=b"%011o\0" % (1 << 30)) + END, "large"),
    (pax(b"nonsense") + raw_header() + END, "pax"), (pax(b"9999 path=x\n") + raw_header() + END, "pax"),
    (pax(b"0 path=x\n") + raw_header() + END, "pax"), (pax(b"8 pathx\n") + raw_header() + END, "pax"),
    (pax(b"-1 path=x\n") + raw_header() + END, "pax"), (pax(b"99999999999999999999 a=b\n") + raw_header() + END, "pax"),
    (pax(record(b"size", b"-5")) + raw_header() + END, "size"), (pax(record(b"size", b"9" * 30)) + raw_header() + END, "size"),
    (pax(record(b"size", b"9999")) + raw_header() + END, "truncated"),
    (pax(record(b"path", b"a\0b")) + raw_header() + END, "NUL"), (pax(record(b"path", b"../x")) + raw_header() + END, '".."'),
    (pax(record(b"path", b"/x")) + raw_header() + END, "absolute"), (pax(record(b"path", b"")) + raw_header() + END, "no name"),
    (pax(record(b"GNU.sparse.major", b"1")) + raw_header() + END, "sparse"), (pax(record(b"mtime", b"soon")) + raw_header() + END, "time"),
    (raw_header(kind=b"L", size=b"%011o\0" % 4) + b"../x" + bytes(508) + raw_header() + END, '".."'),
], ids=lambda v: v if isinstance(v, str) else "")
def test_unpack_refuses_damaged_archives(link, tree, data, why):
    assert why in invalid(link, tree / "root", data)
    assert os.listdir(tree) == ["root"] and [n for n in os.listdir(tree / "root") if n != "a"] == []


def test_unpack_reads_base_256_and_prefers_pax(link, tree):
    size = b"\x80" + struct.pack(">Q", 5).rjust(11, b"\0")
    unpack(link, tree, raw_header(b"big", size) + b"12345" + bytes(507) +
           pax(record(b"path", b"pax/name"), record(b"size", b"3"), record(b"mtime", b"1.5"), record(b"comment", b"x")) +
           raw_header(b"other", b"%011o\0" % 0) + b"abc" + bytes(509) +
           raw_header(b"old/", kind=b"\0", magic=bytes(8)) + raw_header(b"plain") + END + b"what follows is not looked at")
    assert (tree / "big").read_bytes() == b"12345" and (tree / "pax/name").read_bytes() == b"abc"
    assert os.stat(tree / "pax/name").st_mtime == 1 and (tree / "old").is_dir() and (tree / "plain").read_bytes() == b""


def test_unpack_keeps_the_last_duplicate_and_chains_of_links(link, tree):
    unpack(link, tree, archive(*[member("same", b"%d" % i) for i in range(50)],
                               member("h0", b"x"), *[member(f"h{i}", kind=tarfile.LNKTYPE, target=f"h{i - 1}") for i in range(1, 200)]))
    assert (tree / "same").read_text() == "49" and os.stat(tree / "h0").st_nlink == 200


def test_unpack_into_swapped_directories_never_leaves_the_tree(link, tree):
    outside = tree.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (tree / "d/sub").mkdir(parents=True)
    (tree / "s").symlink_to(outside)
    data = archive(*[member(f"d{'/sub' * (i % 2)}/{i}", b"x") for i in range(300)])
    swap = subprocess.Popen(["python3", "-c", f"""
import ctypes
rename = ctypes.CDLL(None).renameat2
while True:
    rename(-100, b"{tree}/d", -100, b"{tree}/s", 2)
"""])
    try:
        for _ in range(15):
            done = send(link, tree, data)
            assert "error" not in done or done["error"]["data"]["code"] == "TREE_INVALID", done
    finally:
        swap.kill()
        swap.wait()
    assert os.listdir(outside) == ["sub"] and os.listdir(outside / "sub") == []


def test_unpack_reports_a_full_disk(link, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        done = send(link, small, archive(member("big", b"x" * (4 << 20))))
        assert done["error"]["data"]["code"] == "DISK_FULL" and "big" in done["error"]["message"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_lost_connection_ends_an_unpack(guest, link, tree):
    link.call("unpack", path=str(tree))
    link.close()
    until(lambda: descendants(guest.pid()) == [], "the child outlives its connection")


# Without descriptors.

def test_trees_travel_in_chunks_without_descriptors(tree):
    link = Stdio()
    link.hello()
    (tree / "in").mkdir()
    fill(tree / "in")
    begun = link.call("pack", path=str(tree / "in"))
    assert begun["fds"] == 0
    data, end = b"", False
    while not end:
        chunk = link.call("read_chunk", handle=begun["handle"], offset=len(data), max_bytes=49152)
        data, end = data + base64.b64decode(chunk["data_b64"]), chunk["end"]
    assert "error" not in link.notice("tree_done")
    refused("INVALID_ARGUMENT", link.call, "read_chunk", handle=begun["handle"], offset=0, max_bytes=1)
    refused("INVALID_ARGUMENT", link.call, "write_chunk", handle=begun["handle"], offset=len(data), data_b64="")
    link.call("close", handle=begun["handle"])

    begun, at = link.call("unpack", path=str(tree / "out")), 0
    while at < len(data):
        at = link.call("write_chunk", handle=begun["handle"], offset=at, data_b64=b64(data[at:at + 49152]))["next_offset"]
    refused("INVALID_ARGUMENT", link.call, "write_chunk", handle=begun["handle"], offset=0, data_b64="")
    assert link.call("write_chunk", handle=begun["handle"], offset=at, data_b64="")["next_offset"] == at
    assert "error" not in link.notice("tree_done")
    assert look(tree / "in") == look(tree / "out")
    link.call("close", handle=begun["handle"])
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0


def test_chunk_requests_wait_for_the_child(tree):
    link = Stdio()
    link.hello()
    with open(tree / "giant", "wb") as file:
        file.truncate(1 << 30)
    begun = link.call("pack", path=str(tree))
    [child] = descendants(link.process.pid)
    total = 0
    freeze(child)
    while True:                                 # the bytes that the pipe held
        waiting = link.send("read_chunk", {"handle": begun["handle"], "offset": total, "max_bytes": 49152})
        link.call("ping")
        if waiting not in link.answers:
            break
        total += len(base64.b64decode(link.answer(waiting)["data_b64"]))
    refused("INVALID_ARGUMENT", link.call, "read_chunk", handle=begun["handle"], offset=total, max_bytes=1)
    os.kill(child, signal.SIGCONT)
    assert len(base64.b64decode(link.answer(waiting)["data_b64"])) > 0
    link.call("close", handle=begun["handle"])

    begun = link.call("unpack", path=str(tree / "out"))
    [child] = until(lambda: descendants(link.process.pid), "no child")[-1:]
    freeze(child)
    head = raw_header(b"big", b"%011o\0" % (1 << 20))
    waiting = link.send("write_chunk", {"handle": begun["handle"], "offset": 0, "data_b64": b64(head)})
    at = link.answer(waiting)["next_offset"]
    while True:
        waiting = link.send("write_chunk", {"handle": begun["handle"], "offset": at, "data_b64": b64(bytes(49152))})
        link.call("ping")
        if waiting not in link.answers:
            break
        at = link.answer(waiting)["next_offset"]
    os.kill(child, signal.SIGCONT)
    assert link.answer(waiting)["next_offset"] > at
    os.kill(child, signal.SIGKILL)
    assert link.notice("tree_done")["error"]["data"]["code"] == "INTERNAL"
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0
