"""tests/apart hides directories of the host from one command, and leaves the clone where it is."""

import os
import pathlib
import shutil
import subprocess

import pytest

APART = pathlib.Path(__file__).resolve().parents[1] / "apart"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@pytest.fixture
def clone(tmp_path):
    """A clone with a space in its path, beside a file of the host."""
    (tmp_path / "hidden").write_text("of the host\n")
    clone = tmp_path / "a clone"
    (clone / "tests").mkdir(parents=True)
    shutil.copy(APART, clone / "tests/apart")
    (clone / "kept").write_text("of the clone\n")
    return clone


def run(clone, *arguments):
    return subprocess.run([clone / "tests/apart", *arguments], capture_output=True, text=True, cwd="/", timeout=60)


def test_a_clone_below_a_hidden_directory_stays(clone):
    done = run(clone, clone.parent, "/run", "--", "sh", "-c", 'pwd; ls "$0"; cat kept "$1/kept"', clone.parent, clone)
    assert done.stdout == f"{clone}\na clone\nof the clone\nof the clone\n", done
    assert sorted(os.listdir(clone.parent)) == ["a clone", "hidden"], "the host sees what it saw"


def test_a_clone_elsewhere_is_not_put_there(clone, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/hidden").touch()
    done = run(clone, tmp_path / "other", "--", "ls", "-A", tmp_path / "other")
    assert (done.returncode, done.stdout) == (0, ""), done


def test_the_status_is_the_commands(clone):
    assert run(clone, "/run", "--", "sh", "-c", "exit 7").returncode == 7
