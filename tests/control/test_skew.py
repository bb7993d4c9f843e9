"""A daemon of today with a guest of an earlier version."""

import pathlib
import subprocess

import pytest

from control import BERMD, READY, ROOT, STOPPED, pb
from test_exec import PIPE, up

# The commit whose guest is taken: the last one before the daemon served sandboxes.
EARLIER = "65c69b4"


@pytest.fixture(scope="module")
def earlier_guest():
    """Its path; built once and kept."""
    where = ROOT / "build" / f"guest-{EARLIER}"
    guest = where / "build/bin/berm-guest"
    if guest.exists():
        return guest
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{EARLIER}^{{commit}}"], capture_output=True).returncode:
        pytest.skip(f"the commit {EARLIER} is not in this clone")
    where.mkdir(parents=True, exist_ok=True)
    tree = subprocess.run(["git", "-C", ROOT, "archive", EARLIER], capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", where], input=tree, check=True)
    if not (where / ".deps").exists():
        (where / ".deps").symlink_to(ROOT / ".deps")
    subprocess.run(["scripts/build", "gcc", "bin/berm-guest"], cwd=where, check=True, capture_output=True, timeout=300)
    return guest


def test_a_guest_of_the_previous_version_is_served(make, earlier_guest):
    """covers: SKEW-1, SKEW-3"""
    daemon = make("--set", f"guest={earlier_guest}").start()
    client = daemon.client()
    box = client.create(env={"A": "sandbox"}).sandbox_id
    program = pathlib.Path(f"/proc/{daemon.guest_pid(box)}/exe").read_bytes()
    assert program == earlier_guest.read_bytes() != (BERMD.parent / "berm-guest").read_bytes()
    assert client.output_of(box, "echo $A; pwd") == "sandbox\n/workspace\n"
    held = client.sh(box, "echo up; while read line; do echo got $line; done; exit 4", stdin_mode=PIPE).exec_id
    up(client, held)
    client.ask("WriteStdin", exec_id=held, data=b"one\n")
    up(client, held, b"got one\n")
    daemon.kill()
    daemon.start()                           # taken over as well
    client.found(held)
    client.ask("WriteStdin", exec_id=held, data=b"two\n", offset=4)
    client.ask("CloseStdin", exec_id=held, offset=8)
    got = client.read(held)
    assert got.stdout == b"up\ngot one\ngot two\n" and got.ended.exit.code == 4
    slow = client.exec(box, "sleep", "1000").exec_id
    client.signal(slow, 15)
    assert client.wait(slow).exit.signal.signal_number == 15
    terminal = client.exec(box, "tty", terminal=pb.Terminal()).exec_id
    assert b"/dev/pts/" in client.read(terminal).stdout
    assert client.stop(box).state == STOPPED
    assert client.start(box).state == READY


def test_a_guest_of_today_after_one_of_before(make, earlier_guest):
    """covers: SKEW-3"""
    daemon = make("--set", f"guest={earlier_guest}").start()
    client = daemon.client()
    box = client.create().sandbox_id
    client.output_of(box, "echo kept >file")
    held = client.sh(box, "echo up; sleep 1000").exec_id
    up(client, held)
    daemon.stop()
    daemon.arguments = ()
    daemon.start()                           # an upgrade: the old guest lives on under the new daemon
    assert client.found(held).state == 2
    client.stop(box, grace_ms=-1)
    client.start(box)
    assert client.output_of(box, "cat file") == "kept\n"
