"""Sandboxes that were made ahead: nobody can tell, nothing of them stays, and a crash finds them gone."""

import contextlib
import os
import signal

import pytest

from control import (DELETED, DELETING, TIMEOUT_S, PENDING, READY, STOPPED, Refused, at_once, eventually, parent_of, pb,
                     pids_in_cgroup, program_of, refused)

SIZE = 2
LOOK = """hostname; id -u; id -g; pwd; stat -c '%u %g %a' . /home/user /tmp; ls -A /workspace /home/user /tmp
env | sort | grep -v -e ^HOSTNAME= -e ^_=; cut -d' ' -f4- /proc/self/mountinfo | sed 's/ - .*//' | sort
cat /proc/self/uid_map | tr -s ' ' | cut -d' ' -f2,4; cat /proc/self/cgroup | sort; cat /etc/passwd /etc/hosts
grep -e ^Cap -e ^Seccomp -e ^NoNew /proc/self/status; ulimit -a; set -- /proc/[0-9]*; echo $#"""


@pytest.fixture
def pool(make, tmp_path_factory):
    """A daemon with a small pool, full, and a folder of the host that may go in."""
    folder = tmp_path_factory.mktemp("shared")
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    daemon = make("--set", f"limits.sandboxes.parked={SIZE}", "--set", f"mount_roots={folder}",
                  "--set", "log_level=debug").start()
    daemon.folder = folder
    daemon.wait_parked(SIZE)
    return daemon


def is_claimed(daemon, box):
    return box in daemon.instances().values()


def limit(daemon, box, *names):
    return {(path / name).read_text().strip() for path in daemon.cgroups()[box] for name in names
            if (path / name).exists()}


@pytest.mark.parametrize("name", ["the-box", ""], ids=["its name", "ours"])
def test_a_claimed_one_is_like_any_other(pool, make, name):
    """covers: SBX-25"""
    cold = make("--set", "limits.sandboxes.parked=0").start()
    seen = []
    for daemon in (pool, cold):
        client = daemon.client()
        box = client.create(name, env={"NAME": "value"}).sandbox_id
        assert is_claimed(daemon, box) == (daemon is pool)
        seen.append(client.output_of(box, LOOK).replace(box, "the-box"))
    assert "the-box\n1000\n1000\n/workspace\n" in seen[0] and "NAME=value" in seen[0]
    assert seen[0] == seen[1]


def test_one_that_is_as_wanted_is_ready_without_the_driver(pool):
    """covers: SBX-25"""
    client = pool.client()
    with pool.driver_held():
        boxes = [client.create(env={"NAME": "value"}) for _ in range(SIZE)]
        assert [box.state for box in boxes] == [READY] * SIZE
    instances = pool.instances()
    assert set(instances.values()) == {box.sandbox_id for box in boxes}        # each an instance of its own
    for box in instances.values():
        assert client.output_of(box, "hostname; echo $NAME") == f"{box}\nvalue\n"


@pytest.mark.parametrize("spec", [dict(sandbox_id="named"), dict(limits=pb.Limits(pids=48))], ids=["name", "limits"])
def test_one_that_differs_waits_for_the_driver(pool, spec):
    client = pool.client()
    with pool.driver_held():
        box = client.create(**spec, wait_ms=100)
        assert box.state == PENDING and is_claimed(pool, box.sandbox_id)
    assert client.wait_state(box.sandbox_id, READY)
    assert client.output_of(box.sandbox_id, "hostname") == f"{box.sandbox_id}\n"
    assert limit(pool, box.sandbox_id, "pids.max") == {"48" if "limits" in spec else "512"}


def test_env_limits_copies_and_mounts_come_along(pool):
    """covers: SBX-25"""
    client = pool.client()
    (pool.folder / "shown").mkdir()
    (pool.folder / "shown/file").write_text("shown")
    (pool.folder / "copied").write_text("copied")
    box = client.create(
        env={"NAME": "value"}, limits=pb.Limits(memory_bytes=128 << 20, pids=48, cpu_millis=500),
        mounts=[pb.Mount(source=str(pool.folder / "shown"), target="/in/here")],
        copies=[pb.Copy(source=str(pool.folder / "copied"), target="/workspace/copy")]).sandbox_id
    assert is_claimed(pool, box)
    assert client.output_of(box, "cat /in/here/file copy; echo $NAME; touch /in/here/x || echo no; hostname") == (
        f"showncopiedvalue\nno\n{box}\n")
    assert limit(pool, box, "pids.max") == {"48"}
    assert limit(pool, box, "memory.max", "memory.limit_in_bytes") == {str(128 << 20)}
    assert limit(pool, box, "cpu.max", "cpu.cfs_quota_us") <= {"50000 100000", "50000"}


@pytest.mark.parametrize("spec", [
    dict(profile=pb.SANDBOX_PROFILE_ROOT), dict(root=pb.RootFilesystem(layer=pb.WRITABLE_LAYER_MEMORY)),
    dict(limits=pb.Limits(disk_bytes=64 << 20)), dict(limits=pb.Limits(pids=-1))], ids=str)
def test_what_cannot_be_made_of_a_parked_one_is_made_as_ever(pool, spec):
    client = pool.client()
    parked = pool.parked()
    box = client.create(**spec).sandbox_id
    assert not is_claimed(pool, box) and pool.parked() == parked
    assert client.output_of(box, "hostname") == f"{box}\n"


def test_a_folder_that_can_be_written_is_made_as_ever(pool):
    client = pool.client()
    os.chown(pool.folder, 61234, 61234)
    box = client.create(mounts=[pb.Mount(source=str(pool.folder), target="/in", writable=True)]).sandbox_id
    assert not is_claimed(pool, box)
    client.output_of(box, "touch /in/made")
    assert (pool.folder / "made").stat().st_uid == 61234


def test_the_pool_fills_again_and_nothing_is_used_twice(pool):
    """covers: SBX-25"""
    client = pool.client()
    used = set()
    for _ in range(3 * SIZE):
        pool.wait_parked(SIZE)
        box = client.create().sandbox_id
        assert is_claimed(pool, box)
        assert client.output_of(box, "ls -A; cat /home/user/mark /tmp/mark 2>/dev/null; echo end") == "end\n"
        client.output_of(box, "touch mark; echo mine | tee /home/user/mark >/tmp/mark")
        client.delete(box)
    used = list(pool.instances())
    assert len(used) == len(set(used)) == 3 * SIZE


def test_more_at_once_than_are_parked(pool):
    client = pool.client()
    boxes = at_once([client.create] * (4 * SIZE))
    assert all(box.state == READY for box in boxes), boxes
    claimed = [box.sandbox_id for box in boxes if is_claimed(pool, box.sandbox_id)]
    assert len(claimed) >= SIZE
    for box in boxes:
        assert client.output_of(box.sandbox_id, "hostname") == f"{box.sandbox_id}\n"
    pool.wait_parked(SIZE)


def test_no_pool(make):
    daemon = make("--set", "limits.sandboxes.parked=0").start()
    client = daemon.client()
    box = client.create().sandbox_id
    assert not is_claimed(daemon, box) and not daemon.parked()
    assert next(entry.value for entry in client.info().limits if entry.name == "sandboxes.parked") == 0


def test_its_whole_life(pool):
    """covers: SBX-4, SBX-5, SBX-25"""
    client = pool.client()
    box = client.create(env={"NAME": "value"}, limits=pb.Limits(pids=48)).sandbox_id
    assert is_claimed(pool, box)
    client.output_of(box, "echo kept >file")
    before = client.output_of(box, "stat -c %u:%g file; cat /proc/self/uid_map")
    client.pause(box)
    client.resume(box)
    for _ in range(2):
        assert client.stop(box).state == STOPPED
        assert client.start(box).state == READY
        assert client.output_of(box, "cat file; hostname; echo $NAME") == f"kept\n{box}\nvalue\n"
        assert client.output_of(box, "stat -c %u:%g file; cat /proc/self/uid_map") == before
        assert limit(pool, box, "pids.max") == {"48"}
    pool.kill()
    pool.start()
    assert client.output_of(box, "cat file; hostname") == f"kept\n{box}\n"
    assert client.delete(box).state == DELETED
    pool.expect_nothing_left()


def test_a_clean_stop_leaves_no_parked_one(pool):
    """covers: SBX-25"""
    pool.stop()
    pool.expect_nothing_left()
    pool.start()
    pool.wait_parked(SIZE)


def test_after_a_crash_none_of_them_stays(pool):
    """covers: SBX-25"""
    before = pool.parked()
    assert len(before) == SIZE
    pool.kill()
    assert pool.parked() == before      # nobody was there to end them
    pool.start()
    eventually(lambda: not before & pool.parked(), "the end of those from before")
    pool.wait_parked(SIZE)
    client = pool.client()
    box = client.create().sandbox_id
    assert is_claimed(pool, box) and not before & set(pool.instances())
    assert client.output_of(box, "hostname") == f"{box}\n"


def test_one_whose_guest_ends_is_replaced(pool):
    victim = sorted(pool.parked())[0]
    (pid,) = set(guests(pool, [victim]))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: victim not in pool.parked(), "its end")
    pool.wait_parked(SIZE)
    client = pool.client()
    for _ in range(SIZE):
        assert client.output_of(client.create().sandbox_id, "echo up") == "up\n"


def guests(daemon, names):
    """Host pids of these instances' guests."""
    return [int(pid) for name in names for path in daemon.all_cgroups()[name]
            for cgroup in path.glob("guest/cgroup.procs") for pid in cgroup.read_text().split()]


def test_a_guest_that_does_not_answer_is_not_waited_for(pool):
    """covers: SBX-25"""
    stopped = guests(pool, pool.parked())
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    client = pool.client()
    box = client.create(wait_ms=0).sandbox_id
    with pool.driver_held():        # it does not answer for the instance that is given up
        request = pb.UpdateSandboxRequest(sandbox_id=box, limits=pb.Limits(pids=48))
        update = client.method("UpdateSandbox").future(request, timeout=TIMEOUT_S)
        pool.wait_for_log("msg=unclaim")
    assert update.result().sandbox.spec.limits.pids == 48
    assert client.wait_state(box, READY)
    assert is_claimed(pool, box) and not set(stopped) & pool.pids(box)      # made anew, under the name of the instance
    assert client.output_of(box, "hostname") == f"{box}\n"
    assert limit(pool, box, "pids.max") == {"48"}


def test_a_guest_that_ends_while_it_is_claimed(pool):
    """All that are parked are killed as they are asked for: each create ends with a sandbox all the same."""
    client = pool.client()
    for _ in range(5):
        pool.wait_parked(SIZE)
        pids = guests(pool, pool.parked())
        made = at_once([client.create, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids]])[0]
        assert made.state in (READY, STOPPED) or made.reason.code == "GUEST_LOST", made
        if made.state == READY:
            try:
                client.run(made.sandbox_id, "true")
            except Refused:     # it was hit when it was READY: that is an end like any other
                assert client.wait_state(made.sandbox_id, STOPPED).reason.code == "GUEST_LOST"
        client.delete(made.sandbox_id)


def test_a_path_that_goes_away_is_refused_as_ever(pool):
    client = pool.client()
    source = pool.folder / "goes"
    source.mkdir()
    box = client.create(mounts=[pb.Mount(source=str(source), target="/in")]).sandbox_id
    assert is_claimed(pool, box)
    client.stop(box)
    source.rmdir()
    pool.wait_parked(SIZE)
    parked = pool.parked()
    with refused("FILE_NOT_FOUND", "spec.mounts[0].source"):
        client.start(box)
    with refused("FILE_NOT_FOUND", "spec.mounts[0].source"):
        client.create(mounts=[pb.Mount(source=str(source), target="/in")])
    assert pool.parked() == parked          # who is refused takes none
    assert client.delete(box).state == DELETED


def test_ids_of_instances_are_no_sandboxes_to_take(pool):
    client = pool.client()
    with refused("INVALID_ARGUMENT", "sandbox_id"):
        client.create(sorted(pool.parked())[0])


def test_delete_and_stop_while_it_is_claimed(pool):
    client = pool.client()
    for act in (client.delete, client.stop):
        pool.wait_parked(SIZE)
        box = client.create(wait_ms=0).sandbox_id
        state = act(box).state
        assert state in (DELETED, STOPPED)
        if state == STOPPED:
            assert client.start(box).state == READY and client.output_of(box, "hostname") == f"{box}\n"


def opener_of(daemon):
    (opener,) = [pid for pid in daemon.processes() if parent_of(pid) == daemon.process.pid
                 and program_of(pid).endswith("/berm-open")]
    return opener


def test_a_guest_that_ends_while_its_imports_are_opened(pool):
    """What berm-open answers later is for nobody: the sandbox is removed once, and nothing of it is used again."""
    client = pool.client()
    opener = opener_of(pool)
    folders = [pool.folder / f"m{i}" for i in range(8)]
    mounts = [pb.Mount(source=str(folder), target=f"/in/{folder.name}") for folder in folders]
    for folder in folders:
        folder.mkdir()
    for attempt in range(100):
        pool.wait_parked(SIZE)
        box = client.create(f"held-{attempt}", mounts=mounts, wait_ms=0).sandbox_id
        os.kill(opener, signal.SIGSTOP)
        try:
            client.stop(box, wait_ms=0)
            log = pool.text()
            if f"{box}: PARKED -> OPENING" not in log or f"{box}: OPENING -> " in log:
                continue            # berm-open was faster than we are
            with contextlib.suppress(StopIteration, ProcessLookupError):    # its last answer was on its way
                pool.kill_guest(box)
            client.wait_state(box, STOPPED)
            for folder in folders:
                folder.rmdir()      # so that its next answer is the last one
            with pool.driver_held():
                assert client.delete(box, wait_ms=0).state == DELETING
                pool.wait_for_log(f"{box}: NONE -> REMOVING")
                os.kill(opener, signal.SIGCONT)
                with refused("FILE_NOT_FOUND"):
                    client.create(mounts=mounts)        # what was asked before is answered
            client.wait_state(box, DELETED)
            break
        finally:
            os.kill(opener, signal.SIGCONT)
    else:
        pytest.fail("berm-open was always faster")
    assert pool.text().count(f"{box}: NONE -> REMOVING") == 1
    assert client.create().state == READY


def test_parked_guests_end_without_a_daemon(pool):
    """Nobody will claim them; no next daemon is needed to be rid of them."""
    assert set(pids_in_cgroup(pool.cgroup_name))
    pool.kill()
    eventually(lambda: not set(pids_in_cgroup(pool.cgroup_name)), "the end of the parked guests")
    pool.start()
