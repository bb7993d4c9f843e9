"""Sandboxes from their making to their end, their events, and what can go wrong; both halves."""

import berm
import pytest
from berm import Lifetime, Limits

from daemon import SECONDS, Daemon


async def test_the_first_thing_a_user_does(both, daemon, monkeypatch):
    monkeypatch.setenv("BERM_SOCKET", str(daemon.socket))
    async with both.Sandbox.create() as sb:
        assert (await sb.run(["echo", "hello"])).stdout == "hello\n"
        assert sb.state == "ready"
    async with both.Sandbox.connect(sb.id) as gone:
        assert gone.state == "deleted"


async def test_what_was_asked_for(both, client):
    async with both.Sandbox.create(
        client=client,
        labels={"team": "a", "run": "7"},
        env={"GREETING": "hello"},
        limits=Limits(memory_bytes=64 << 20, pids=50),
        lifetime=Lifetime(ttl=3600),
        workspace="/tmp",
    ) as sb:
        info = sb.info
        assert info.labels == {"team": "a", "run": "7"} and info.workspace == "/tmp"
        assert info.limits.memory_bytes == 64 << 20 and info.limits.pids == 50
        assert info.lifetime.ttl == 3600 and info.expires > info.created
        assert (await sb.run("echo $GREETING; pwd")).stdout == "hello\n/tmp\n"


async def test_connect_leaves_it_alone(both, client, box):
    async with both.Sandbox.connect(box.id, client=client) as same:
        assert same.id == box.id
    assert (await box.refresh()).state == "ready"


async def test_list(both, client, box):
    async with both.Sandbox.create(client=client, labels={"mark": box.id}) as other:
        found = [info.id async for info in both.Sandbox.list(client=client, labels={"mark": box.id})]
        assert found == [other.id]
        everything = [info.id async for info in both.Sandbox.list(client=client, states=["ready"])]
        assert everything.index(other.id) < everything.index(box.id)   # newest first
        assert [i async for i in both.Sandbox.list(client=client, labels={"mark": "no"})] == []


async def test_life(box):
    await box.run("echo kept > /workspace/file")
    await box.pause()
    assert box.state == "paused"
    with pytest.raises(berm.SandboxPausedError) as caught:
        await box.run(["true"])
    assert caught.value.metadata["sandbox_id"] == box.id
    await box.resume()
    await box.stop(grace=0)
    assert box.state == "stopped"
    with pytest.raises(berm.SandboxStoppedError):
        await box.run(["true"])
    await box.start()
    assert box.state == "ready" and box.info.incarnation == 2
    assert (await box.run(["cat", "/workspace/file"])).stdout == "kept\n"
    await box.delete()
    await box.delete()   # no error


async def test_waiting_without_and_then_with(both, client):
    sandbox = await both.Sandbox.create(client=client, wait=False)
    try:
        assert sandbox.state in ("pending", "ready")
        assert (await sandbox.wait_for("ready", timeout=SECONDS)).state == "ready"
        with pytest.raises(berm.DeadlineExceededError):
            await sandbox.wait_for("stopped", timeout=0.2)
        await sandbox.stop(wait=False)
        await sandbox.wait_for("stopped", timeout=SECONDS)
    finally:
        await sandbox.delete()
    with pytest.raises(berm.SandboxDeletedError):
        await sandbox.wait_for("ready", timeout=SECONDS)


async def test_update(box):
    await box.update(labels={"a": "1", "b": "2"})
    info = await box.update(labels={"a": None, "c": "3"}, limits=Limits(pids=40))
    assert info.labels == {"b": "2", "c": "3"} and info.limits.pids == 40


async def test_a_name_is_taken_for_ever(both, client, box):
    name = f"named-{box.id[3:9]}-{both.half}"
    async with both.Sandbox.create(name, client=client) as sb:
        assert sb.id == name
        with pytest.raises(berm.SandboxExistsError):
            await both.Sandbox.create(name, client=client)
    with pytest.raises(berm.SandboxExistsError):
        await both.Sandbox.create(name, client=client)


async def test_bad_arguments(both, client):
    with pytest.raises(berm.InvalidArgumentError) as caught:
        await both.Sandbox.create("Not-An-Id", client=client)
    assert list(caught.value.fields) == ["sandbox_id"]
    with pytest.raises(berm.SandboxNotFoundError):
        await both.Sandbox.connect("nonesuch", client=client)
    with pytest.raises(ValueError, match="profile"):
        await both.Sandbox.create(client=client, profile="emperor")
    with pytest.raises(berm.UnsupportedError):
        await both.Sandbox.create(client=client, driver="nonesuch")


async def test_delete_all_removes_what_has_the_labels(both, client):
    made = [await both.Sandbox.create(client=client, labels={"batch": "one", "n": str(i)}) for i in range(2)]
    other = await both.Sandbox.create(client=client, labels={"batch": "two"})
    assert sorted(await both.Sandbox.delete_all(labels={"batch": "one"}, client=client)) == sorted(box.id for box in made)
    assert (await other.refresh()).state == "ready"
    with pytest.raises(berm.InvalidArgumentError):
        await both.Sandbox.delete_all(labels={}, client=client)
    await other.delete()


async def test_memory_layer_is_lost_at_a_stop(both, client):
    async with await both.Sandbox.create(client=client, layer="memory") as box:
        await box.run("echo x > kept")
        assert "tmpfs" in (await box.run("stat -f -c %T / . ; cat /proc/mounts")).stdout
        await box.stop()
        await box.start()
        assert not (await box.run(["ls", "kept"])).ok


async def test_events(box, client):
    begin = box.sequence
    done = await box.run(["false"])
    events = [e async for e in box.events(follow=False)]
    assert [e.state for e in events if e.kind == "sandbox_state"] == ["pending", "ready"]
    [start] = [e for e in events if e.kind == "exec_start"]
    assert start.exec_id == done.exec_id and start.argv == ("false",) and start.replayed
    assert start.identity == "uid:0" and start.sandbox_id == box.id
    seen = []
    async for e in box.events(since=begin, kinds=["exec_exit"]):
        seen.append(e)
        break
    assert seen[0].exit.code == 1 and seen[0].exec_id == done.exec_id
    with pytest.raises(berm.EventCursorAheadError) as caught:
        async for e in client.events(since=10**9):
            pass
    assert int(caught.value.metadata["head_sequence"]) >= start.sequence


async def test_usage(box, client):
    before = await box.usage()
    assert before.memory_bytes > 0 and before.pids >= 1 and before.running_execs == 0
    assert before.limits.memory_bytes == box.info.limits.memory_bytes
    async with box.exec("head -c 100000 /dev/zero; while :; do :; done") as job:
        samples = []
        async for sample in box.watch_usage(0.1):
            samples.append(sample)
            if sample.output_bytes == 100000 and sample.cpu_us > before.cpu_us + 100_000:
                break
        last = samples[-1]
        assert last.running_execs == 1 and last.pids > before.pids
        assert all(a.time < b.time and a.cpu_us <= b.cpu_us for a, b in zip(samples, samples[1:]))
        await job.kill()
    async for sample in box.watch_usage(0.1):
        if sample.running_execs == 0:
            break
    await box.stop(grace=0)
    with pytest.raises(berm.SandboxStoppedError):
        await box.usage()


async def test_the_daemon(client):
    info = await client.info()
    assert "native" in info.drivers and info.identity == "uid:0" and info.admin
    assert info.limits["heartbeat"] == 10000
    assert await client.ping(b"\0payload") == b"\0payload"


async def test_over_tcp_with_a_token(both):
    daemon = Daemon("--listen", "127.0.0.1:0").start()
    try:
        address = daemon.wait_for_log(r"msg=listening addr=(127\.0\.0\.1:\d+)")[1]
        token = (daemon.directory / "state/token").read_text().strip()
        async with both.client(address=address, token=token) as client:
            async with both.Sandbox.create(client=client) as sb:
                assert (await sb.run(["echo", "far"])).stdout == "far\n"
                assert sb.info.owner.startswith("token:")
        async with both.client(address=address, token="wrong") as client:
            with pytest.raises(berm.UnauthenticatedError):
                await client.ping()
    finally:
        daemon.close()
