"""Files of a sandbox, whole, in windows, as trees; both halves."""

import asyncio
import io
import os
import tarfile

import berm
import pytest

from test_restart import crash

EVERY = bytes(range(256)) * 20_000   # 5 MB


async def collect(stream):
    return [item async for item in stream]


async def test_write_and_read(box):
    info = await box.files.write("a/b/file", EVERY, mode=0o640)
    assert (info.path, info.size, info.mode, info.type) == ("/workspace/a/b/file", len(EVERY), 0o640, "regular")
    assert await box.files.read("/workspace/a/b/file") == EVERY
    assert await box.files.read("a/b/file", offset=250, max_bytes=10) == EVERY[250:260]
    assert b"".join([c async for c in box.files.stream("a/b/file", offset=1_000_000)]) == EVERY[1_000_000:]
    await box.files.write("a/b/file", "текст\n")
    assert await box.files.read_text("a/b/file") == "текст\n"
    assert (await box.files.stat("a/b/file")).mode == 0o640            # kept
    await box.files.write("empty", b"")
    assert await box.files.read("empty") == b""
    with pytest.raises(berm.FileExistsError):
        await box.files.write("empty", b"x", must_not_exist=True)
    with pytest.raises(berm.FileNotFoundError):
        await box.files.write("no/such/dir/file", b"x", make_parents=False)


async def test_from_an_open_file(box, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"skip" + EVERY)
    with local.open("rb") as file:
        file.seek(4)
        await box.files.write("copy", file)
    assert await box.files.read("copy") == EVERY


async def test_what_is_wrong_is_reported(box):
    with pytest.raises(berm.FileNotFoundError):
        await box.files.read("nonesuch")
    with pytest.raises(berm.IsADirectoryError):
        await box.files.read("/tmp")
    with pytest.raises(berm.FileDeniedError):
        await box.files.read("/etc/shadow")
    with pytest.raises(berm.InvalidArgumentError):
        await box.files.read("../../etc/passwd")
    with pytest.raises(berm.OffsetBeyondEndError):
        await box.files.write("short", b"x")
        await box.files.read("short", offset=5)


async def test_lines(box):
    await box.files.write("lines", "".join(f"line {n}\n" for n in range(5000)))
    page = await box.files.read_lines("lines", 4990, max_lines=5)
    assert page.text == "".join(f"line {n}\n" for n in range(4990, 4995))
    assert (page.first, page.next, page.total) == (4990, 4995, 5000)


async def test_the_tree(box):
    files = box.files
    assert await files.make_dir("dir/sub") is True
    assert await files.make_dir("dir/sub") is False
    await files.write("dir/one", b"1")
    await files.rename("dir/one", "dir/two")
    assert await files.exists("dir/two") and not await files.exists("dir/one") and not await files.exists("x/y")
    assert [e.name for e in await collect(files.list("dir"))] == ["sub", "two"]
    assert [e.is_dir for e in await collect(files.list("dir"))] == [True, False]
    assert {e.path for e in await collect(files.list(depth=2))} >= {"/workspace/dir", "/workspace/dir/two"}
    with pytest.raises(berm.DirectoryNotEmptyError):
        await files.remove("dir")
    assert await files.remove("dir", recursive=True) == 3
    assert await files.remove("dir", missing_ok=True) == 0
    with pytest.raises(berm.FileNotFoundError):
        await files.remove("dir")


async def test_names_that_are_not_text(box):
    name = b"/workspace/\xff\xfe"
    await box.files.write(name, b"odd")
    [entry] = [e for e in await collect(box.files.list()) if e.name.endswith(os.fsdecode(b"\xff\xfe"))]
    assert os.fsencode(entry.path) == name
    assert await box.files.read(entry.path) == b"odd"
    await box.run(["ln", "-s", "target", "link"])
    link = await box.files.stat("link")
    assert (link.type, link.symlink_target) == ("symlink", "target")


async def test_edit_grep_glob(box):
    files = box.files
    await files.write("src/a.py", "alpha\nbeta\nalpha\n")
    await files.write("src/b.txt", "alpha (x)\n")
    with pytest.raises(berm.EditNotUniqueError):
        await files.edit("src/a.py", ("alpha", "gamma"))
    assert await files.edit("src/a.py", ("alpha", "gamma"), replace_all=True) == 2
    assert await files.edit("src/a.py", ("beta", "delta"), ("delta\n", "")) == 2
    assert await files.read_text("src/a.py") == "gamma\ngamma\n"
    with pytest.raises(berm.EditNoMatchError):
        await files.edit("src/a.py", ("beta", "x"))
    found = await files.grep("alpha (x)", "src")
    assert [(m.path, m.line, m.text) for m in found.matches] == [("/workspace/src/b.txt", 1, "alpha (x)")]
    assert (await files.grep("^g.*a$", "src", regex=True, glob="*.py", max_matches=1)).truncated == "matches"
    globbed = await files.glob("*.py")
    assert [m.path for m in globbed.matches] == ["/workspace/src/a.py"] and not globbed.truncated


async def test_watch(box):
    await box.files.make_dir("seen")
    changes = box.files.watch("seen")
    first = await anext(changes)
    assert (first.kind, first.path) == ("watching", "/workspace/seen")
    await box.files.write("seen/file", b"x")
    kinds = set()
    async for change in changes:
        kinds.add((change.kind, change.path))
        if any(path == "/workspace/seen/file" for _, path in kinds):
            break
    await changes.aclose()


async def test_trees(box, tmp_path):
    local = tmp_path / "tree"
    (local / "sub").mkdir(parents=True)
    (local / "one").write_bytes(EVERY)
    (local / "sub/two").write_text("2")
    (local / "sub/two").chmod(0o755)
    assert await box.files.upload(local, "up") == 2
    assert (await box.run("cat up/sub/two; stat -c %a up/sub/two")).stdout == "2755\n"
    assert await box.files.download("up", tmp_path / "down") == 2
    assert (tmp_path / "down/one").read_bytes() == EVERY and (tmp_path / "down/sub/two").read_text() == "2"
    assert await box.files.upload(local / "one", "single") == 1
    assert await box.files.download("single", tmp_path / "single") == 1
    assert (tmp_path / "single").read_bytes() == EVERY
    archive = io.BytesIO()
    await box.files.download_tree("up", archive, excludes=["sub"], gzip=True)
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        assert not any("two" in name for name in tar.getnames())
    with pytest.raises(berm.TreeInvalidError):
        await box.files.upload_tree("up", b"this is no tar archive" * 100)


async def test_as_another_user(both, client):
    async with both.Sandbox.create(client=client, profile="root") as sb:
        await sb.files.write("/root/secret", b"x", mode=0o600)
        assert (await sb.files.stat("/root/secret")).uid == 0


async def test_the_daemon_dies_in_the_middle(both, own):
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        await sb.files.write("big", EVERY)
        seen, killed = b"", False
        async for chunk in sb.files.stream("big"):
            seen += chunk
            if len(seen) > 300_000 and not killed:
                killed = True
                await crash(own)
        assert seen == EVERY and killed
        await asyncio.to_thread(own.kill)
        writing = asyncio.ensure_future(_write(sb, "other", EVERY))
        await asyncio.to_thread(own.start)
        await writing
        assert await sb.files.read("other") == EVERY


async def _write(sb, path, data):
    await sb.files.write(path, data)


class Deadly(io.BytesIO):
    """A local file in the middle of which something happens, once."""

    def __init__(self, data, happens):
        super().__init__(data)
        self.happens = [happens]

    def read(self, size=-1):
        if self.tell() > 2_000_000 and self.happens:
            self.happens.pop()()
        return super().read(size)


async def test_an_upload_survives_a_kill_in_its_middle(both, own):
    # covers: RETRY-4, IDEMP-6
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        await sb.files.write("file", b"old")

        def happens():
            with berm.Client(socket=own.socket) as other:
                assert berm.Sandbox.connect(sb.id, client=other).files.read("file") == b"old"   # nothing shows yet
            own.kill()
            own.start()

        source = Deadly(EVERY, happens)
        assert (await sb.files.write("file", source)).size == len(EVERY) and not source.happens
        assert await sb.files.read("file") == EVERY
        events = [e async for e in sb.events(follow=False, kinds=["file"]) if e.operation == "write"]
        assert [e.bytes_moved for e in events] == [3, len(EVERY)]       # it happened once
