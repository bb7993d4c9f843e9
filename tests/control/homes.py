"""What tests of tools and their caches share: a caller's home, and a daemon whose accounts have ONE at home there."""

import os
import pathlib
import shutil
import tempfile

import pytest

from control import OTHER_UIDS

ONE, TWO = OTHER_UIDS


@pytest.fixture
def home():
    """ONE's home, private as homes are; everything that may go in lies in it."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="berm-tools-"))
    top.chmod(0o755)
    path = top / "one"
    path.mkdir(mode=0o750)
    own(path)
    yield path
    shutil.rmtree(top)


def own(path, uid=ONE):
    os.lchown(path, uid, 65534)
    return path


def put(home, name, text, mode=0o755, uid=ONE):
    """A file and the directories to it, all of ONE's."""
    path = home / name
    for parent in reversed(path.relative_to(home).parents[:-1]):
        if not (home / parent).exists():
            (home / parent).mkdir(mode=0o755)
            own(home / parent)
    path.write_text(text)
    path.chmod(mode)
    return own(path, uid)


def program(says):
    return f"#!/bin/sh\necho {says}\n"


def link(home, name, to):
    put(home, name, "")
    (home / name).unlink()
    (home / name).symlink_to(to)
    own(home / name)


def start_at_home(make, home, uid=ONE, parked=0, *settings):
    """Accounts as the daemon sees them have this user at home there; root moves."""
    lines = pathlib.Path("/etc/passwd").read_text().splitlines()
    lines = [line for line in lines if line.split(":")[2] != str(uid)] + [f"one:x:{uid}:{65534 if uid else 0}::{home}:/bin/sh"]
    passwd = home.parent / "passwd"
    passwd.write_text("\n".join(lines) + "\n")
    inside = ("unshare", "--mount", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh")
    daemon = make("--set", "socket_mode=0666", "--set", f"allow_uids={ONE},{TWO}", "--set", f"mount_roots={home}",
                  "--set", f"limits.sandboxes.parked={parked}", "--set", "log_level=debug", *settings).start(prefix=inside)
    daemon.n_parked, daemon.inside = parked, inside
    if parked:
        daemon.wait_parked(parked)
    return daemon
