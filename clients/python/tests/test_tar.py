"""Archives from a sandbox are hostile: nothing of them lands outside, whatever they hold."""

import io
import os
import tarfile

import pytest

from berm import _tar


def archive(*members):
    """(name, contents), or (name, type, link target)"""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, what, *target in members:
            member = tarfile.TarInfo(name)
            member.mode, member.uid = 0o6755, 12345
            if target:
                member.type, member.linkname = what, target[0]
                tar.addfile(member)
            else:
                member.size = len(what)
                tar.addfile(member, io.BytesIO(what))
    file.seek(0)
    return file


def names(directory):
    return sorted(os.path.relpath(os.path.join(d, n), directory) for d, ds, fs in os.walk(directory) for n in ds + fs)


def test_there_and_back(tmp_path):
    (tmp_path / "from/sub").mkdir(parents=True)
    (tmp_path / "from/sub/file").write_bytes(b"x")
    (tmp_path / "from/sub/file").chmod(0o750)
    (tmp_path / "from/link").symlink_to("sub/file")
    file = io.BytesIO()
    _tar.pack(tmp_path / "from", file)
    file.seek(0)
    assert _tar.unpack(file, tmp_path / "to") == 2
    assert names(tmp_path / "to") == ["link", "sub", "sub/file"]
    assert (tmp_path / "to/link").read_bytes() == b"x"
    assert (tmp_path / "to/sub/file").stat().st_mode & 0o7777 == 0o750


@pytest.mark.parametrize("members", [
    [("../out", b"x")],
    [("/tmp/berm-tar-out", b"x")],
    [("a/../../out", b"x")],
    [("link", tarfile.SYMTYPE, ".."), ("link/out", b"x")],
    [("link", tarfile.SYMTYPE, "/"), ("link/tmp/berm-tar-out", b"x")],
    [("link", tarfile.SYMTYPE, "../out")],
    [("one", tarfile.SYMTYPE, "."), ("one/two", tarfile.SYMTYPE, ".."), ("two/out", b"x")],
    [("sub/deep/x", b""), ("b", tarfile.SYMTYPE, "sub/deep"), ("a", tarfile.SYMTYPE, "b/../../c"),
     ("b", tarfile.SYMTYPE, "."), ("a", b"x")],
    [("hard", tarfile.LNKTYPE, "../victim")],
    [("hard", tarfile.LNKTYPE, "/etc/passwd")],
    [("dev", tarfile.CHRTYPE, "-")],
    [("fifo", tarfile.FIFOTYPE, "-")],
])
def test_nothing_lands_outside(tmp_path, members):
    (tmp_path / "victim").write_text("mine")
    inside = tmp_path / "in"
    _tar.unpack(archive(*members, ("good", b"y")), inside)
    assert sorted(os.listdir(tmp_path)) == ["in", "victim"] and (tmp_path / "victim").read_text() == "mine"
    assert not os.path.exists("/tmp/berm-tar-out")
    assert (inside / "good").read_bytes() == b"y"
    assert (inside / "good").stat().st_mode & 0o7000 == 0 and (inside / "good").stat().st_uid == os.geteuid()
    for directory, _, files in os.walk(inside):
        for name in files:
            path = os.path.join(directory, name)
            assert os.path.realpath(path).startswith(str(inside)), path
            assert not os.path.islink(path) or os.readlink(path) == "."
            assert os.path.isfile(path)
