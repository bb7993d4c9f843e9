"""Tests that unpacking a hostile archive never writes outside the target directory."""

import io
import os
import pathlib
import random
import sys
import tarfile

import pytest

from berm import _tar

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
from hostile_archives import ARCHIVES, DIR, FILE, HARD, SYM, pack  # noqa: E402


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


def survives(tmp_path, members):
    """Extracts into tmp_path/out and checks that nothing beside it changed, and that nothing in it leads out."""
    (tmp_path / "secret").mkdir(parents=True)
    (tmp_path / "secret/kept").write_text("mine")
    inside = tmp_path / "out"
    _tar.unpack(io.BytesIO(pack([*members, ("good", FILE, "")], str(tmp_path / "secret"))), inside)
    assert sorted(os.listdir(tmp_path)) == ["out", "secret"] and os.listdir(tmp_path / "secret") == ["kept"]
    assert (tmp_path / "secret/kept").read_text() == "mine" and os.stat(tmp_path / "secret/kept").st_nlink == 1
    for directory, directories, files in os.walk(inside):
        for name in directories + files:
            path = os.path.join(directory, name)
            assert os.path.realpath(path).startswith(str(inside)), path
            if not os.path.islink(path):
                assert os.lstat(path).st_mode & 0o7000 == 0 and os.lstat(path).st_uid == os.geteuid()
                assert os.path.isdir(path) or open(path, "rb").read() == b"evil"
    return inside


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive_changes_nothing_outside_its_target(tmp_path, name):
    assert (survives(tmp_path, ARCHIVES[name]) / "good").exists()


def test_random_archives_change_nothing_outside_their_target(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    parts = ["a", "b", "..", ".", "secret", "kept", "d"]
    for round_ in range(150):
        def name():
            return "/".join(chance.choices(parts, k=chance.randint(1, 4)))
        members = [(name(), chance.choice([FILE, DIR, SYM, SYM, HARD]), chance.choice(["SECRET", "SECRET/kept", name(), name()]))
                   for _ in range(chance.randint(1, 8))]
        survives(tmp_path / str(round_), members)


def test_members_keep_contents_and_modes(tmp_path):
    inside = tmp_path / "in"
    read_only = tarfile.TarInfo("shut")
    read_only.type, read_only.mode = tarfile.DIRTYPE, 0o555
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(read_only)
        for name, data in (("shut/file", b"x" * 3000000), ("no/parents", b"y")):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), 0o640, 12345
            tar.addfile(member, io.BytesIO(data))
    file.seek(0)
    assert _tar.unpack(file, inside) == 2
    assert (inside / "shut/file").read_bytes() == b"x" * 3000000 and (inside / "no/parents").read_bytes() == b"y"
    assert (inside / "shut").stat().st_mode & 0o7777 == 0o555 and (inside / "shut/file").stat().st_mode & 0o7777 == 0o640
    assert (inside / "shut/file").stat().st_mtime == 12345
    (inside / "shut").chmod(0o755)


def test_target_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "out").symlink_to("secret")
    with pytest.raises(NotADirectoryError, match="symbolic link"):
        _tar.unpack(io.BytesIO(pack([("x", FILE, "")])), tmp_path / "out")
    assert os.listdir(tmp_path / "secret") == []
    assert _tar.unpack(io.BytesIO(pack([("x", FILE, "")])), f"{tmp_path}/out/") == 1     # the slash asks to follow the link
    assert os.listdir(tmp_path / "secret") == ["x"]


def test_downloaded_file_replaces_a_link(tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "out").symlink_to("secret")
    with _tar.replacing(tmp_path / "out") as file:
        file.write(b"new")
    assert (tmp_path / "secret").read_text() == "mine" and (tmp_path / "out").read_bytes() == b"new"
    with pytest.raises(ZeroDivisionError), _tar.replacing(tmp_path / "out") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert (tmp_path / "out").read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == ["out", "secret"]
    with pytest.raises(IsADirectoryError), _tar.replacing(tmp_path):
        pass
