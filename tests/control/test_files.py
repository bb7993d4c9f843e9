"""Files: contents and names, exact."""

import os
import random

import grpc
import pytest

from control import TIMEOUT_S, fresh, pb, refused
from files import (CHUNK, DIRECTORY, EDIT, FIFO, GREP, MAKE_DIR, READ, REGULAR, REMOVE, RENAME, SYMLINK, WRITE, Read,
                   download, file_events, listed, name_of, named, pieces, read, read_all, stat, write)

NAMES = ["plain", "with space", "ünïcode-日本", "new\nline", "-dash", b"not-utf8-\xff\xfe", b"\x80", "a" * 255,
         "quote'\"\\", "\x01\x1b[31m", "trailing."]


@pytest.fixture(scope="module")
def box(shared):
    return shared.client().create().sandbox_id


@pytest.fixture
def client(shared):
    return shared.client()


def below(place, name):
    return f"{place}/".encode() + name if isinstance(name, bytes) else f"{place}/{name}"


# ---- contents

@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, (1 << 20) + 7, 9 << 20])
def test_bytes_come_back(client, box, place, size):
    """covers: FILE-1, FILE-4"""
    data = random.Random(size).randbytes(size)
    path = f"{place}/data"
    written = write(client, box, path, data, size=size)
    assert written.created and written.info.size_bytes == size and written.info.type == REGULAR
    assert written.info.path == f"/workspace/{path}" and written.info.mode == 0o644
    got = read_all(client, box, path)
    assert got.data == data and not got.end.shrunk and not got.end.HasField("lines")
    assert got.info == written.info


@pytest.mark.parametrize("size", [1, 1000, 3 * CHUNK + 7])
def test_bytes_come_back_in_compressed_messages(client, box, place, size):
    """covers: FILE-1"""
    data = (random.Random(size).randbytes(100) + bytes(100)) * (size // 200 + 1)
    write(client, box, f"{place}/data", data)
    call = client.method("ReadFile")(pb.ReadFileRequest(sandbox_id=box, path=f"{place}/data"), timeout=TIMEOUT_S,
                                     compression=grpc.Compression.Gzip)
    assert Read(client.messages(call)).data == data


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_are_exact(client, box, place, name):
    """covers: PATH-4, FILE-1, FILE-7"""
    path = below(place, name)
    info = write(client, box, path, b"x").info
    whole = f"/workspace/{place}/".encode() + (name if isinstance(name, bytes) else name.encode())
    assert (info.raw_path or info.path.encode()) == whole
    assert bool(info.raw_path) == isinstance(name, bytes)
    assert read(client, box, path) == b"x"
    assert [name_of(e) for e in listed(client, box, place)] == [name_of(info)]
    event = file_events(client, box)[-1].file
    assert (event.raw_path or event.path.encode()) == (path if isinstance(path, bytes) else path.encode())
    moved = below(place, b"moved\xff" if isinstance(name, str) else "moved")
    client.ask("Rename", sandbox_id=box, **named(path), **named(moved, "new_path"))
    client.ask("Remove", sandbox_id=box, **named(moved))
    assert listed(client, box, place) == []


def test_ranges(client, box, place):
    """covers: FILE-1, FILE-2"""
    data = random.Random(1).randbytes(700001)
    path = f"{place}/r"
    write(client, box, path, data)
    for offset, count in [(0, 1), (1, 5), (700000, 1), (700000, 9), (700001, 5), (5, 600000), (0, 0), (13, 0),
                          (690000, 1 << 20), (699990, 1 << 20), (1, 1 << 40)]:
        got = read_all(client, box, path, offset=offset, max_bytes=count)
        assert got.data == data[offset:offset + count if count else None]
        assert not got.data or got.offset == offset
        assert not got.end.shrunk
    with refused("OFFSET_BEYOND_END", end_offset=700001, sandbox_id=box):
        read(client, box, path, offset=700002)
    with refused("INVALID_ARGUMENT", field="offset"):
        read(client, box, path, offset=1 << 63)
    with refused("INVALID_ARGUMENT", field="lines"):
        read(client, box, path, offset=1, lines=pb.LineWindow())


def test_windows_of_lines(client, box, place):
    """covers: FILE-3"""
    path = f"{place}/lines"
    lines = [b"%d %s\n" % (i, b"x" * (i % 97)) for i in range(5000)] + [b"last without end"]
    write(client, box, path, b"".join(lines))
    at, got = 0, b""
    while True:
        part = read_all(client, box, path, lines=pb.LineWindow(first_line=at, max_lines=1234))
        assert part.end.lines.first_line == at and part.end.lines.total_lines == 5001
        assert part.data == b"".join(lines[at:at + 1234])
        got += part.data
        at = part.end.lines.next_line
        if at == 5001:
            break
    assert got == b"".join(lines)
    few = read_all(client, box, path, lines=pb.LineWindow(first_line=10, max_bytes=100))
    assert few.data == b"".join(lines[10:few.end.lines.next_line]) and len(few.data) <= 100
    with refused("INVALID_ARGUMENT", field="lines.max_lines", limit="lines.max"):
        read(client, box, path, lines=pb.LineWindow(max_lines=100001))
    with refused("INVALID_ARGUMENT", field="lines.max_bytes", limit="lines.bytes"):
        read(client, box, path, lines=pb.LineWindow(max_bytes=(3 << 20) + 1))


def test_modes(client, box, place):
    """covers: FILE-5"""
    path = f"{place}/m"
    assert write(client, box, path, b"1", mode=0o600).info.mode == 0o600
    kept = write(client, box, path, b"2")
    assert kept.info.mode == 0o600 and not kept.created
    assert write(client, box, path, b"3", mode=0o755).info.mode == 0o755
    assert write(client, box, f"{place}/a/b/c", b"", make_parents=True).info.mode == 0o644
    assert stat(client, box, f"{place}/a/b").mode == 0o755
    with refused("INVALID_ARGUMENT", field="header.mode.bits"):
        write(client, box, path, b"", mode=0o4755)
    with refused("INVALID_ARGUMENT", field="mode.bits"):
        client.ask("MakeDir", sandbox_id=box, path=f"{place}/x", mode=pb.FileMode(bits=0o1777))
    with refused("FILE_EXISTS", sandbox_id=box):
        write(client, box, path, b"", must_not_exist=True)
    with refused("FILE_NOT_FOUND"):
        write(client, box, f"{place}/no/such", b"")


def test_the_announced_size(client, box, place):
    """covers: FILE-4"""
    path = f"{place}/s"
    write(client, box, path, b"old")
    for data, size in [(b"abc", 4), (b"abc", 2), (b"", 1), (b"a" * 3000000, 10)]:
        with refused("UPLOAD_INCOMPLETE", sandbox_id=box):
            write(client, box, path, data, size=size)
        assert read(client, box, path) == b"old"
    write(client, box, path, b"", size=0)
    assert read(client, box, path) == b""
    assert len(listed(client, box, place)) == 1


def test_messages_of_an_upload(client, box, place):
    """covers: FILE-4"""
    header = write(client, box, f"{place}/p", chunks=[b"", b"a", b"", b"b"])
    assert header.info.size_bytes == 2
    with refused("INVALID_ARGUMENT", field="data", limit="file.upload_chunk"):
        write(client, box, f"{place}/p", chunks=[bytes((1 << 20) + 1)])
    from files import send, write_header
    with refused("INVALID_ARGUMENT", field="header"):
        send(client, "WriteFile", [])
    with refused("INVALID_ARGUMENT", field="header"):
        send(client, "WriteFile", [pb.WriteFileRequest(data=b"x")])
    with refused("INVALID_ARGUMENT", field="header"):
        send(client, "WriteFile", [write_header(box, f"{place}/p")] * 2)
    with refused("INVALID_ARGUMENT", field="part"):
        send(client, "WriteFile", [write_header(box, f"{place}/p"), pb.WriteFileRequest()])
    assert read(client, box, f"{place}/p") == b"ab"


def test_a_symlink_is_written_through(client, box, place):
    """covers: FILE-4, PATH-6"""
    client.output_of(box, f"cd {place} && echo old > target && ln -s target link && ln -s nothing dangling")
    write(client, box, f"{place}/link", b"new")
    assert read(client, box, f"{place}/target") == b"new"
    assert stat(client, box, f"{place}/link").type == SYMLINK
    assert stat(client, box, f"{place}/link", follow=True).type == REGULAR
    assert stat(client, box, f"{place}/link").symlink_target == "target"
    write(client, box, f"{place}/dangling", b"now there")
    assert read(client, box, f"{place}/nothing") == b"now there"


# ---- paths

@pytest.mark.parametrize("path,field", [
    ("", "path"), ("..", "path"), ("a/../..", "path"), ("/..", "path"), ("a/b/../../../c", "path"),
    ("x" * 256, "path"), ("a/" * 2048, "path"), (b"nul\0l", "raw_path"), (b"../\xff", "raw_path")])
def test_paths_that_are_refused(client, box, path, field):
    """covers: PATH-1, PATH-2, PATH-3"""
    asks = [("StatFile", {}), ("ListFiles", {}), ("MakeDir", {}), ("Remove", {}), ("Rename", {"new_path": "q"}),
            ("EditFile", {"edits": [pb.TextEdit(old_text="a")]})]
    for method, fields in asks:
        with refused("INVALID_ARGUMENT", field=field):
            client.ask(method, sandbox_id=box, **named(path), **fields)
    with refused("INVALID_ARGUMENT", field=field):
        read(client, box, path)
    with refused("INVALID_ARGUMENT", field=f"header.{field}"):
        write(client, box, path)
    with refused("INVALID_ARGUMENT", field=field.replace("path", "new_path")):
        client.ask("Rename", sandbox_id=box, path="q", **named(path, "new_path"))


def test_both_paths(client, box):
    """covers: PATH-4"""
    with refused("INVALID_ARGUMENT", field="raw_path"):
        client.ask("StatFile", sandbox_id=box, path="a", raw_path=b"a")


def test_where_paths_start(client, box, place):
    """covers: PATH-1, PATH-3"""
    write(client, box, f"{place}/a", b"1")
    for path in (f"/workspace/{place}/a", f"./{place}//./a", f"{place}/x/../a", f"/{'x/../' * 3}workspace/{place}/a"):
        client.ask("MakeDir", sandbox_id=box, path=f"{place}/x")
        client.ask("MakeDir", sandbox_id=box, path="/tmp/x")
        if path.startswith("/x"):
            continue        # such names are the kernel's to find
        assert read(client, box, path) == b"1", path


def test_who(client, box, place):
    """covers: PATH-8"""
    with refused("FILE_DENIED", sandbox_id=box):
        write(client, box, "/root-owned", b"")
    with refused("INVALID_ARGUMENT", field="user"):
        client.ask("StatFile", sandbox_id=box, path="a", user="u" * 65)
    with refused("USER_NOT_FOUND", sandbox_id=box):
        client.ask("StatFile", sandbox_id=box, path="a", user="nobody-of-this-name")
    client.output_of(box, f"cd {place} && echo s > secret && chmod 0 secret")
    with refused("FILE_DENIED"):
        read(client, box, f"{place}/secret")


def test_what_is_no_regular_file(client, box, place):
    """covers: PATH-7"""
    client.output_of(box, f"cd {place} && mkfifo pipe && mkdir dir && ln -s /dev/null dev && ln -s loop loop")
    assert stat(client, box, f"{place}/pipe").type == FIFO
    for name in ("pipe", "dev"):
        with refused("NOT_A_REGULAR_FILE", sandbox_id=box):
            read(client, box, f"{place}/{name}")
        with refused("NOT_A_REGULAR_FILE"):
            write(client, box, f"{place}/{name}", b"x")
        with refused("NOT_A_REGULAR_FILE"):
            edit(client, box, f"{place}/{name}", ("a", "b"))
    with refused("IS_A_DIRECTORY"):
        read(client, box, f"{place}/dir")
    with refused("IS_A_DIRECTORY"):
        write(client, box, f"{place}/dir", b"x")
    with refused("NOT_A_DIRECTORY"):
        listed(client, box, f"{place}/pipe")
    with refused("NOT_A_DIRECTORY"):
        stat(client, box, f"{place}/pipe/x")
    with refused("SYMLINK_LOOP"):
        read(client, box, f"{place}/loop")


# ---- names

def test_make_dir(client, box, place):
    """covers: FILE-5, FILE-8"""
    made = client.ask("MakeDir", sandbox_id=box, path=f"{place}/a/b", make_parents=True, mode=pb.FileMode(bits=0o700))
    assert made.created and made.info.type == DIRECTORY and made.info.mode == 0o700
    again = client.ask("MakeDir", sandbox_id=box, path=f"{place}/a/b")
    assert not again.created and again.info.mode == 0o700
    write(client, box, f"{place}/file", b"")
    with refused("FILE_EXISTS", sandbox_id=box):
        client.ask("MakeDir", sandbox_id=box, path=f"{place}/file")
    with refused("FILE_NOT_FOUND"):
        client.ask("MakeDir", sandbox_id=box, path=f"{place}/no/such")


def test_remove(client, box, place):
    """covers: FILE-9"""
    client.output_of(box, f"cd {place} && mkdir -p t/u/v && touch t/1 t/u/2 keep && ln -s ../keep t/link")
    with refused("DIRECTORY_NOT_EMPTY", sandbox_id=box):
        client.ask("Remove", sandbox_id=box, path=f"{place}/t")
    assert client.ask("Remove", sandbox_id=box, path=f"{place}/t", recursive=True).removed == 6
    assert [os.path.basename(e.path) for e in listed(client, box, place)] == ["keep"]
    with refused("FILE_NOT_FOUND"):
        client.ask("Remove", sandbox_id=box, path=f"{place}/t")
    assert client.ask("Remove", sandbox_id=box, path=f"{place}/t", missing_ok=True).removed == 0


def test_rename(client, box, place):
    """covers: FILE-10"""
    write(client, box, f"{place}/a", b"a")
    write(client, box, f"{place}/b", b"b")
    with refused("FILE_EXISTS", sandbox_id=box):
        client.ask("Rename", sandbox_id=box, path=f"{place}/a", new_path=f"{place}/b")
    client.ask("Rename", sandbox_id=box, path=f"{place}/a", new_path=f"{place}/b", replace=True)
    assert read(client, box, f"{place}/b") == b"a"
    moved = client.ask("Rename", sandbox_id=box, path=f"{place}/b", new_path=f"{place}/x/y", make_parents=True)
    assert moved.info.path == f"/workspace/{place}/x/y"
    with refused("FILE_NOT_FOUND"):
        client.ask("Rename", sandbox_id=box, path=f"{place}/b", new_path=f"{place}/c")
    with refused("CROSS_DEVICE"):
        client.ask("Rename", sandbox_id=box, path=f"{place}/x/y", new_path="/dev/shm/y")


def test_list_pages(client, box, place):
    """covers: FILE-7, RPC-27"""
    client.output_of(box, f"cd {place} && for i in $(seq 1 60); do mkdir d$i; touch d$i/f$i; ln -s / d$i/l; done")
    names = [e.path for e in listed(client, box, place, depth=2)]
    assert len(names) == 180 and len(set(names)) == 180
    assert [e.path for e in listed(client, box, place, depth=2, page_size=7)] == names
    assert len(listed(client, box, place)) == 60
    first = client.ask("ListFiles", sandbox_id=box, path=place, page_size=10)
    assert len(first.entries) == 10
    token = first.next_page_token
    for changed in ({"page_size": 11}, {"depth": 2}, {"path": f"{place}/."}, {"page_token": token[:-4] + "AAAA"},
                    {"page_token": "x"}, {"page_token": "A" * 6000}):
        with refused("INVALID_ARGUMENT", field="page_token"):
            client.ask("ListFiles", **{"sandbox_id": box, "path": place, "page_size": 10, "page_token": token,
                                       **changed})
    with refused("INVALID_ARGUMENT", field="page_size", limit="page.max"):
        client.ask("ListFiles", sandbox_id=box, path=place, page_size=10001)
    with refused("INVALID_ARGUMENT", field="depth", limit="list.depth"):
        client.ask("ListFiles", sandbox_id=box, path=place, depth=65)


def test_a_directory_of_many(client):
    """BERM_ENTRIES (100000) of them. covers: FILE-7, FILE-6"""
    count = int(os.environ.get("BERM_ENTRIES", 100000))
    box, place = client.create(root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY),
                               limits=pb.Limits(disk_bytes=1 << 30, disk_inodes=2 * count)).sandbox_id, "many"
    client.ask("MakeDir", sandbox_id=box, path=place)
    client.output_of(box, f"cd {place} && seq -f %07g 0 {count - 1} | xargs touch", timeout=600)
    names = [os.path.basename(e.path) for e in listed(client, box, place, page_size=10000)]
    assert names == [f"{i:07}" for i in range(count)]
    assert len(client.ask("Glob", sandbox_id=box, path=place, pattern=f"{count - 10:07}"[:-1] + "*").matches) == 10
    _data, end = download(client, box, place)
    assert end.files == count
    assert client.ask("Remove", sandbox_id=box, path=place, recursive=True, timeout=600).removed == count + 1


# ---- edit and search

def edit(client, box, path, *edits, **fields):
    return client.ask("EditFile", sandbox_id=box, **named(path),
                      edits=[pb.TextEdit(old_text=e[0], new_text=e[1], replace_all=len(e) > 2) for e in edits], **fields)


def test_edit(client, box, place):
    """covers: FILE-14"""
    path = f"{place}/e"
    write(client, box, path, "eins zwei zwei drei\n".encode(), mode=0o640)
    done = edit(client, box, path, ("eins", "ein$&\\1s"), ("zwei", "2", True))
    assert done.replacements == 3 and done.info.mode == 0o640
    assert read(client, box, path) == b"ein$&\\1s 2 2 drei\n"
    with refused("EDIT_NO_MATCH", sandbox_id=box):
        edit(client, box, path, ("drei", "3"), ("vier", "4"))
    with refused("EDIT_NOT_UNIQUE"):
        edit(client, box, path, ("drei", "3"), ("2", "4"))
    assert read(client, box, path) == b"ein$&\\1s 2 2 drei\n"      # all or none
    write(client, box, path, b"a\r\nb\r\nc\r\n")
    edit(client, box, path, ("a\nb", "x\ny"))
    assert read(client, box, path) == b"x\r\ny\r\nc\r\n"
    with refused("INVALID_ARGUMENT", field="edits"):
        edit(client, box, path)
    with refused("INVALID_ARGUMENT", field="edits[1].old_text"):
        edit(client, box, path, ("a", "b"), ("", "x"))
    with refused("INVALID_ARGUMENT", field="edits", limit="edit.text"):
        edit(client, box, path, ("a", "b" * (256 << 10)))
    with refused("INVALID_ARGUMENT", field="edits", limit="edit.count"):
        edit(client, box, path, *[("a", "b")] * 65)
    client.output_of(box, f"truncate -s 17M {path}")
    with refused("FILE_TOO_LARGE"):
        edit(client, box, path, ("a", "b"))


def test_grep(client, box, place):
    """covers: FILE-15, FILE-17"""
    write(client, box, f"{place}/a.c", b"one\nTwo (x)\nthree\n")
    write(client, box, f"{place}/b.txt", b"two (x)\n\xffbytes two (x)\n")
    write(client, box, f"{place}/bin", b"\0two (x)\n")
    write(client, box, below(place, b"r\xff"), b"two (x)")

    def grep(pattern, **fields):
        return client.ask("Grep", sandbox_id=box, path=place, pattern=pattern, **fields)
    found = grep("two (x)")
    assert [(name_of(m), m.line) for m in found.matches] == [
        (f"/workspace/{place}/b.txt", 1), (f"/workspace/{place}/b.txt", 2), (f"/workspace/{place}/".encode() + b"r\xff", 1)]
    assert found.matches[1].text == "\ufffdbytes two (x)"
    assert found.binary_files == 1 and found.truncated == 0
    assert len(grep("two (x)", ignore_case=True).matches) == 4
    assert len(grep("^t.* [(]x", regex=True, ignore_case=True, glob="*.c").matches) == 1
    around = grep("Two", before_lines=1, after_lines=5).matches[0]
    assert list(around.before) == ["one"] and list(around.after) == ["three"]
    assert grep("two", max_matches=1).truncated == pb.TRUNCATED_REASON_MATCHES
    for fields, field in [({"pattern": ""}, "pattern"), ({"pattern": "a" * 4097}, "pattern"),
                          ({"pattern": "a", "max_matches": 10001}, "max_matches"),
                          ({"pattern": "a", "before_lines": 21}, "before_lines"),
                          ({"pattern": "a", "after_lines": 21}, "after_lines"),
                          ({"pattern": "[", "regex": True}, "pattern")]:
        with refused("INVALID_ARGUMENT", field=field):
            client.ask("Grep", sandbox_id=box, path=place, **fields)
    with refused("FILE_NOT_FOUND"):
        client.ask("Grep", sandbox_id=box, path=f"{place}/nix", pattern="a")


def test_glob(client, box, place):
    """covers: FILE-16, FILE-17"""
    client.output_of(box, f"cd {place} && mkdir -p s/t .h && touch a.c s/b.c s/t/c.c s/t/d.h .h/e.c && ln -s a.c l.c")

    def glob(pattern, **fields):
        found = client.ask("Glob", sandbox_id=box, path=place, pattern=pattern, **fields)
        return [m.path.removeprefix(f"/workspace/{place}/") for m in found.matches]
    assert glob("*.c") == ["a.c", "s/b.c", "s/t/c.c"]
    assert glob("/*.c") == ["a.c"]
    assert glob("s/**/*.{c,h}") == ["s/b.c", "s/t/c.c", "s/t/d.h"]
    assert glob("*", all_types=True) == ["a.c", "l.c", "s", "s/b.c", "s/t", "s/t/c.c", "s/t/d.h"]
    assert glob("*.c", max_matches=2) == ["a.c", "s/b.c"]
    with refused("INVALID_ARGUMENT", field="pattern"):
        glob("")
    assert client.ask("Glob", sandbox_id=box, pattern="*.c").matches      # the workspace


# ---- what is left of it

def test_events(client, box, place):
    """covers: AUDIT-1, AUDIT-2, AUDIT-3"""
    after = client.events(sandbox_ids=[box])[-1].sequence
    path = f"{place}/x"
    write(client, box, path, b"secret text", request_id=fresh())
    read(client, box, path)
    edit(client, box, path, ("secret", "other"))
    client.ask("Grep", sandbox_id=box, pattern="text")
    client.ask("MakeDir", sandbox_id=box, path=f"{place}/d")
    client.ask("Rename", sandbox_id=box, path=path, new_path=f"{place}/y")
    client.ask("Remove", sandbox_id=box, path=f"{place}/y")
    stat(client, box, place), listed(client, box, place), client.ask("Glob", sandbox_id=box, pattern="*")
    for method in ("StatFile", "Remove"):
        with refused("FILE_NOT_FOUND"):
            client.ask(method, sandbox_id=box, path=f"{place}/nix")
    with refused("FILE_NOT_FOUND"):
        read(client, box, f"{place}/nix")
    events = file_events(client, box, after)
    assert [(e.file.operation, e.file.path) for e in events] == [
        (WRITE, path), (READ, path), (EDIT, path), (GREP, ""), (MAKE_DIR, f"{place}/d"), (RENAME, path),
        (REMOVE, f"{place}/y")]
    assert events[0].file.bytes_moved == events[1].file.bytes_moved == 11
    assert events[5].file.new_path == f"{place}/y" and events[0].request_id
    assert all(e.actor.identity == "uid:0" and e.sandbox_id == box for e in events)
    assert b"secret" not in b"".join(e.SerializeToString() for e in events)


def test_others_files(shared, client, box):
    """covers: OWN-2"""
    other = shared.other_user()
    with refused("SANDBOX_NOT_FOUND"):
        other.ask("StatFile", sandbox_id=box, path=".")
    with refused("SANDBOX_NOT_FOUND"):
        other.ask("Remove", sandbox_id=box, path="x", recursive=True)
    mine = other.create().sandbox_id
    other.ask("MakeDir", sandbox_id=mine, path="d")
    with refused("SANDBOX_NOT_FOUND"):
        client.ask("StatFile", sandbox_id="no-such-sandbox", path=".")
    with refused("INVALID_ARGUMENT", field="sandbox_id"):
        client.ask("StatFile", sandbox_id="", path=".")
    with refused("SANDBOX_STALE"):
        client.ask("StatFile", sandbox_id=box, path=".", incarnation=2)
    assert pieces(b"") == []
