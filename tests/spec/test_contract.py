"""proto/baseline.binpb: the contract that clients rely on, and what may not be done to it."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUF = ROOT / "tests/node/node_modules/.bin/buf"


def breaks(folder, change):
    """What `buf breaking` says of the contract after a change of its text."""
    shutil.copytree(ROOT / "proto", folder / "proto")
    shutil.copy(ROOT / "buf.yaml", folder)
    file = folder / "proto/berm/v1/berm.proto"
    before = file.read_text()
    after = change(before)
    assert (after != before) == (change is not same)
    file.write_text(after)
    done = subprocess.run([BUF, "breaking", "--against", ROOT / "proto/baseline.binpb"], cwd=folder, capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def same(text):
    return text


FIELD = re.compile(r"(message Sandbox \{.*?\n  string )(sandbox_id)( = )(\d+)(;)", re.S)


def removed(text):
    return FIELD.sub(lambda m: m[1].removesuffix("string "), text, count=1)


def renumbered(text):
    return FIELD.sub(lambda m: f"{m[1]}{m[2]}{m[3]}4711{m[5]}", text, count=1)


def renamed(text):
    return FIELD.sub(lambda m: f"{m[1]}other_name{m[3]}{m[4]}{m[5]}", text, count=1)


def without_method(text):
    return re.sub(r"\n  rpc StatFile\(.*?;", "", text, count=1)


def added(text):
    return FIELD.sub(lambda m: f"{m[0]}\n  // New.\n  string something_new = 4711;", text, count=1)


@pytest.mark.parametrize("change", [removed, renumbered, renamed, without_method])
def test_what_older_clients_know_stays(tmp_path, change):
    """covers: SKEW-4"""
    status, text = breaks(tmp_path, change)
    assert status != 0 and "berm.proto" in text, text


@pytest.mark.parametrize("change", [same, added])
def test_what_is_new_may_come(tmp_path, change):
    assert breaks(tmp_path, change) == (0, "")
