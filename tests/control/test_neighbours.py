"""One sandbox does its worst, within its limits: whoever lives beside it is served as ever, and it ends when told to.
How much slower that is, bench/sandbox measures."""

import os
import pathlib

import pytest

from control import READY, RUNNING, Refused, eventually, pb
from test_escape import PLACE, escape, stage  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for berm-spawn")

MIB = 1 << 20
FLOOD = int(os.environ.get("BERM_FLOOD_GIB", 1)) << 30
PIDS = 80
LIMITS = pb.Limits(memory_bytes=256 * MIB, cpu_millis=1000, pids=PIDS, disk_bytes=256 * MIB)
# Processes of each; more than there are processors, or more than may be.
STORMS = {"spin": 64, "membarrier": 16, "futexes": 64, "forks": 200, "timers": 4, "syncs": 8, "direct": 4, "names": 16}


@pytest.fixture
def daemon(shared):
    """One for all tests of this file, without a sandbox between them."""
    yield shared
    shared.empty()


def serve_as_ever(client, box, turn):
    """A program, a file there and back, another sandbox: each comes out right."""
    assert client.run(box, "sh", "-c", f"echo {turn}; exit 3").exec.exit.code == 3
    data = bytes([turn]) * 100_000
    client.write(box, "file", data)
    assert b"".join(m.chunk.data for m in client.stream("ReadFile", sandbox_id=box, path="file")) == data
    other = client.create(root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)).sandbox_id
    assert client.output_of(other, "echo there") == "there\n"
    client.delete(other)


def answer_of(client, box):
    try:
        return client.run(box, "true").exec.exit.code
    except Refused as error:
        return error.reason


@pytest.mark.parametrize("profile", [pb.SANDBOX_PROFILE_USER, pb.SANDBOX_PROFILE_ROOT], ids=["user", "root"])
@pytest.mark.parametrize("kind", STORMS)
def test_a_storm_next_door(daemon, client, stage, kind, profile):  # noqa: F811
    """covers: SBX-12"""
    quiet = client.create().sandbox_id
    wild = client.create(profile=profile, limits=LIMITS).sandbox_id
    client.write(wild, PLACE, stage.probes.read_bytes(), mode=pb.FileMode(bits=0o755))
    guest = daemon.guest_pid(wild)
    storm = client.exec(wild, PLACE, "act", "storm", kind, str(STORMS[kind])).exec_id
    words = next(m for m in client.attach(storm) if m.HasField("output")).output.data.split()
    assert words[0] == b"ready" and min(STORMS[kind], PIDS // 4) <= int(words[1]) <= min(STORMS[kind], PIDS), words
    for turn in range(5):
        serve_as_ever(client, quiet, turn)
    now = client.get_exec(storm)
    assert now.state == RUNNING and now.usage.pids_peak <= PIDS, now            # it rages, and within its bounds
    assert answer_of(client, wild) in (0, "LIMIT_REACHED" if kind == "forks" else 0)    # its own guest answers too
    client.signal(storm, 9)
    assert client.wait(storm).exit.signal.signal_number == 9
    eventually(lambda: daemon.pids(wild) == {guest}, lambda: f"{daemon.pids(wild)} beside {guest}")
    assert client.get(wild).state == READY and client.run(wild, "true").exec.exit.code == 0


def test_gigabytes_that_nobody_reads(daemon, client):
    """covers: OUT-6"""
    box = client.create(limits=pb.Limits(output_bytes=4 * MIB)).sandbox_id
    before = resident(daemon)
    held = client.exec(box, "head", "-c", str(FLOOD), "/dev/zero").exec_id
    assert client.wait(held).exit.code == 0 and client.get_exec(held).usage.stdout_bytes == FLOOD
    got = client.read(held)
    assert 0 < got.stdout.count(0) == len(got.stdout) <= 4 * MIB
    assert resident(daemon) - before < 16 * MIB


def resident(daemon):
    return int(pathlib.Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]) * 4096
