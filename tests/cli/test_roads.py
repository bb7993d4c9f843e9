"""libberm's files and sessions against a real daemon, over a road that breaks again and again."""

import io
import os
import random
import tarfile

import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from fake import Road
from libberm import BermError, Client


@pytest.fixture
def road(daemon, tmp_path):
    roads = []

    def make(*bounds):
        roads.append(Road(tmp_path / f"road-{len(roads)}.sock", daemon.socket, bounds, both=True))
        return roads[-1]

    yield make
    for one in roads:
        one.close()


def bounds(seed, most):
    dice = random.Random(seed)
    return [dice.randrange(1000, most) for _ in range(6)]


# --- files ---

@pytest.mark.parametrize("seed", range(4))
def test_a_file_is_read_once_and_whole(road, berm, sandbox, seed):
    data = os.urandom(3_000_000)
    berm("cp", "-", f"{sandbox}:file", stdin=data)
    r = road(*bounds(seed, 900_000))
    got = []
    with Client(r.path) as client:
        end = client.read_file(pb.ReadFileRequest(sandbox_id=sandbox, path="file"), lambda at, piece: got.append((at, piece)))
        part = []
        client.read_file(pb.ReadFileRequest(sandbox_id=sandbox, path="file", offset=1000, max_bytes=2_000_000),
                         lambda at, piece: part.append(piece))
    assert b"".join(piece for _, piece in got) == data and b"".join(part) == data[1000:2_001_000]
    assert [at for at, _ in got] == [sum(len(p) for _, p in got[:i]) for i in range(len(got))]
    assert end.total_bytes == len(data) and r.connections > 2


def test_a_file_that_changed_meanwhile_is_not_glued_together(road, berm, sandbox):
    berm("cp", "-", f"{sandbox}:file", stdin=bytes(2_000_000))
    r = road(1_000_000)

    def on_piece(at, piece):
        if at == 0:
            berm("cp", "-", f"{sandbox}:file", stdin=b"x" * 2_000_000)

    with Client(r.path) as client, pytest.raises(BermError) as error:
        client.read_file(pb.ReadFileRequest(sandbox_id=sandbox, path="file"), on_piece)
    assert error.value.name == "FILE_CHANGED"


@pytest.mark.parametrize("seed", range(4))
def test_a_file_is_written_whole(road, berm, sandbox, seed):
    data = os.urandom(3_000_000)
    r = road(*[b * 4 for b in bounds(seed, 700_000)][:4])
    begun = []

    def source(offset, n):
        if offset == 0:
            begun.append(offset)
        return data[offset:offset + n]

    with Client(r.path) as client:
        answer = client.write_file(pb.WriteFileHeader(sandbox_id=sandbox, path=f"written-{seed}"), source)
    assert answer.info.size_bytes == len(data) and berm("cat", f"{sandbox}:written-{seed}").stdout == data
    assert len(begun) > 1 and r.connections > 1


@pytest.mark.parametrize("seed", range(4))
def test_a_local_file_is_written_whole(road, berm, sandbox, tmp_path, seed):
    """Its pages go by a pipe: each attempt begins with an empty one, wherever in a frame the last was cut."""
    data = os.urandom(3_000_000)
    (tmp_path / "local").write_bytes(data)
    r = road(*[b * 4 for b in bounds(seed, 700_000)][:4])
    with Client(r.path) as client, open(tmp_path / "local", "rb") as local:
        answer, after = client.write_file_from(pb.WriteFileHeader(sandbox_id=sandbox, path=f"local-{seed}"), local)
        # the same connection is good for more
        again, _ = client.write_file_from(pb.WriteFileHeader(sandbox_id=sandbox, path=f"again-{seed}"), local)
    assert answer.info.size_bytes == after == again.info.size_bytes == len(data) and r.connections > 1
    assert berm("cat", f"{sandbox}:local-{seed}").stdout == data == berm("cat", f"{sandbox}:again-{seed}").stdout


@pytest.mark.parametrize("size", [0, 1, 262_143, 262_144, 262_145, 524_288])
def test_local_files_of_every_size(daemon, berm, sandbox, tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "local").write_bytes(data)
    with Client(daemon.socket) as client, open(tmp_path / "local", "rb") as local:
        answer, after = client.write_file_from(pb.WriteFileHeader(sandbox_id=sandbox, path=f"sized-{size}"), local)
    assert answer.info.size_bytes == after == size and berm("cat", f"{sandbox}:sized-{size}").stdout == data


def test_a_refused_upload_leaves_the_connection_whole(daemon, berm, sandbox, tmp_path):
    """The daemon ends the call while a frame is half out, and what is left of that in the pipe still has to follow."""
    (tmp_path / "local").write_bytes(os.urandom(3_000_000))
    with Client(daemon.socket) as client, open(tmp_path / "local", "rb") as local:
        for _ in range(5):
            with pytest.raises(BermError) as error:
                client.write_file_from(pb.WriteFileHeader(sandbox_id=sandbox, path="absent/file"), local)
            assert error.value.name == "FILE_NOT_FOUND"
            answer, _ = client.write_file_from(pb.WriteFileHeader(sandbox_id=sandbox, path="present"), local)
            assert answer.info.size_bytes == 3_000_000
    assert berm("cat", f"{sandbox}:present").stdout == (tmp_path / "local").read_bytes()


def test_a_source_that_cannot_begin_anew(road, sandbox):
    r = road(500_000)
    with Client(r.path) as client, pytest.raises(BermError) as error:
        seen = []

        def source(offset, n):
            seen.append(offset)
            return -29 if offset == 0 and len(seen) > 1 else bytes(n) if offset < 3_000_000 else b""

        client.write_file(pb.WriteFileHeader(sandbox_id=sandbox, path="pipe"), source)
    assert error.value.name == "DISCONNECTED" and "cannot be read again" in error.value.message


def test_a_source_that_fails_leaves_the_old_file(road, berm, sandbox):
    berm("cp", "-", f"{sandbox}:kept", stdin=b"before")
    with Client(road().path) as client, pytest.raises(BermError) as error:
        client.write_file(pb.WriteFileHeader(sandbox_id=sandbox, path="kept"),
                          lambda offset, n: -5 if offset > 0 else b"part")
    assert error.value.name == "CANCELLED" and "Input/output error" in error.value.message
    assert berm("cat", f"{sandbox}:kept").stdout == b"before"


def test_trees_both_ways(road, berm, sandbox):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for i in range(200):
            info = tarfile.TarInfo(f"d{i % 7}/f{i}")
            info.size = 10_000
            tar.addfile(info, io.BytesIO(os.urandom(10_000)))
    data = made.getvalue()
    r = road(300_000, 900_000)
    with Client(r.path) as client:
        answer = client.upload_tree(pb.UploadTreeHeader(sandbox_id=sandbox, path="tree"), lambda o, n: data[o:o + n])
    assert answer.files == 200 and r.connections > 1
    r, got = road(300_000, 900_000), []

    def on_piece(at, piece):
        if at == 0:
            got.clear()
        got.append(piece)

    with Client(r.path) as client:
        end = client.download_tree(pb.DownloadTreeRequest(sandbox_id=sandbox, path="tree"), on_piece)
    assert end.files == 200 and r.connections > 1
    with tarfile.open(fileobj=io.BytesIO(data)) as sent, tarfile.open(fileobj=io.BytesIO(b"".join(got))) as came:
        for member in sent:
            assert came.extractfile(member.name).read() == sent.extractfile(member).read()


def test_small_calls(daemon, sandbox):
    with Client(daemon.socket) as client:
        assert client.call("MakeDir", pb.MakeDirRequest(sandbox_id=sandbox, path="dir")).created
        client.write_file(pb.WriteFileHeader(sandbox_id=sandbox, path="dir/a"), lambda o, n: b"old text"[o:o + n])
        client.call("EditFile", pb.EditFileRequest(sandbox_id=sandbox, path="dir/a", edits=[pb.TextEdit(old_text="old", new_text="new")]))
        client.call("Rename", pb.RenameRequest(sandbox_id=sandbox, path="dir/a", new_path="dir/b"))
        assert client.call("StatFile", pb.StatFileRequest(sandbox_id=sandbox, path="dir/b")).info.size_bytes == 8
        page = client.call("ListFiles", pb.ListFilesRequest(sandbox_id=sandbox, path="dir"))
        assert [e.path for e in page.entries] == ["/workspace/dir/b"]
        assert client.call("Grep", pb.GrepRequest(sandbox_id=sandbox, pattern="new t")).matches[0].line == 1
        assert len(client.call("Glob", pb.GlobRequest(sandbox_id=sandbox, pattern="b")).matches) == 1
        assert client.call("Remove", pb.RemoveRequest(sandbox_id=sandbox, path="dir", recursive=True)).removed == 2


def test_a_watch_says_what_it_may_have_missed(road, berm, sandbox):
    r = road(3_000)
    seen = []

    def on_change(m):
        kind = m.WhichOneof("event")
        seen.append(kind)
        if "resync" not in seen:     # each change is told, and brings the next one, until the road breaks
            berm("cp", "-", f"{sandbox}:watched-{len(seen)}", stdin=b"")
        elif kind == "resync":
            berm("cp", "-", f"{sandbox}:last", stdin=b"")
        return int(kind == "change" and m.change.path.endswith("/last"))

    with Client(r.path) as client:
        client.watch_files(pb.WatchFilesRequest(sandbox_id=sandbox, path="."), on_change)
    assert seen[0] == "watching" and seen.count("watching") == 1 and "resync" in seen and r.connections > 1


# --- sessions ---

@pytest.mark.parametrize("seed", range(4))
def test_a_conversation_loses_and_doubles_nothing(road, sandbox, seed):
    """What goes in comes out of cat, over connections that are cut both ways."""
    data = os.urandom(2_000_000)
    r = road(*bounds(seed, 600_000))
    start = pb.InteractRequest(start=pb.StartExecRequest(sandbox_id=sandbox, spec=pb.ExecSpec(
        argv=["cat"], stdin_mode=pb.STDIN_MODE_PIPE)))
    got, at, kinds = [], [0], []
    with Client(r.path) as client, client.session(start) as session:
        def more():
            at[0] += session.write(data[at[0]:at[0] + 65536])
            if at[0] == len(data):
                session.end_input()

        def on_message(m):
            kinds.append(m.WhichOneof("event"))
            if m.HasField("output"):
                got.append(m.output.data)
            if m.HasField("attached") or m.HasField("input_accepted"):
                more()

        assert session.run(on_message) == 0
    assert b"".join(got) == data and r.connections > 2
    assert kinds[0] == "attached" and kinds.count("attached") == 1 and kinds[-1] == "exited"
