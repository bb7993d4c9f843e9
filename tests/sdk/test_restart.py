"""The daemon is killed or restarted in the middle of everything, and the caller does not notice."""

import asyncio

import berm
import pytest

from daemon import SECONDS

COUNT = "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.05; done"
LINES = b"".join(b"line %d\n" % i for i in range(60))


async def crash(daemon):
    """kill -9, and a new daemon on the same state after a while."""
    await asyncio.to_thread(daemon.kill)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(daemon.start)


async def restart(daemon):
    await asyncio.to_thread(daemon.stop)
    await asyncio.to_thread(daemon.start)


ways = pytest.mark.parametrize("way", [crash, restart])


@ways
async def test_run_goes_on(both, own, way):
    # covers: RETRY-3, IDEMP-6
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        script = "echo x >> /workspace/times; " + COUNT + "; until [ -e /workspace/go ]; do sleep 0.02; done; exit 5"
        running = asyncio.ensure_future(_run(sb, script))
        while not await sb.files.exists("/workspace/times"):
            await asyncio.sleep(0.02)
        await way(own)
        assert not running.done()
        await sb.files.write("/workspace/go", b"")
        done = await running
        assert done.stdout_bytes == LINES and done.exit_code == 5
        assert (await sb.run(["cat", "/workspace/times"])).stdout == "x\n"     # it ran once


async def _run(sb, command):
    return await sb.run(command)


@ways
async def test_output_goes_on(both, own, way):
    # covers: RETRY-4
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        async with sb.exec(COUNT) as job:
            seen, killed = b"", False
            async for chunk in job:
                assert chunk.offset == len(seen)
                seen += chunk
                if len(seen) > 100 and not killed:
                    killed = True
                    await way(own)
            assert seen == LINES and killed
            assert (await job.wait(SECONDS)).ok


async def test_wait_and_events_go_on(both, own):
    # covers: RETRY-4, RETRY-6
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        job = await sb.exec("sleep 2; exit 4")
        waiting = asyncio.ensure_future(_wait(job))
        story = asyncio.ensure_future(_until_exit(sb, sb.sequence))
        await asyncio.sleep(0.3)
        await crash(own)
        assert (await waiting).code == 4
        events = await story
        assert [e.kind for e in events] == ["exec_start", "exec_exit"]
        assert len({e.sequence for e in events}) == 2 and events[1].exit.code == 4


async def _wait(job):
    return await job.wait(SECONDS)


async def _until_exit(sb, since):
    events = []
    async for event in sb.events(since=since):
        events.append(event)
        if event.kind == "exec_exit":
            return events


async def test_input_goes_on(both, own):
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        async with sb.exec(["cat"], stdin=True) as job:
            for n in range(20):
                if n == 10:
                    await asyncio.to_thread(own.kill)
                    starting = asyncio.ensure_future(asyncio.to_thread(own.start))
                await job.stdin.write(b"%d\n" % n)
            await starting
            await job.stdin.close()
            seen = b"".join([c async for c in job])
            assert seen == b"".join(b"%d\n" % n for n in range(20))


async def test_calls_wait_for_a_daemon_that_is_down(both, own):
    async with both.client(socket=own.socket) as client:
        sb = await both.Sandbox.create(client=client)
        await asyncio.to_thread(own.kill)
        made = asyncio.ensure_future(_create(both, client))
        looked = asyncio.ensure_future(_refresh(sb))
        await asyncio.sleep(0.5)
        assert not made.done() and not looked.done()
        await asyncio.to_thread(own.start)
        assert (await made).state == (await looked).state == "ready"


async def _create(both, client):
    return await both.Sandbox.create(client=client)


async def _refresh(sb):
    return await sb.refresh()


async def test_a_daemon_that_stays_away(both, own):
    async with both.client(socket=own.socket, reconnect=3) as client:     # gRPC looks again every second
        sb = await both.Sandbox.create(client=client)
        job = await sb.exec(["sleep", "1000"])
        await asyncio.to_thread(own.kill)
        with pytest.raises((berm.UnreachableError, berm.DisconnectedError)):
            await sb.run(["true"])
        with pytest.raises((berm.UnreachableError, berm.DisconnectedError)):
            [c async for c in job]
        await asyncio.to_thread(own.start)
        assert (await sb.run(["true"])).ok         # the same client, again


async def test_a_daemon_that_hangs_is_not_waited_for_in_silence(both, own):
    before = attached(own)
    async with both.client(socket=own.socket, silence=1) as client, both.Sandbox.create(client=client) as sb:
        async with sb.exec("read x; echo $x", stdin=True) as job:
            reading = asyncio.ensure_future(_all(job))
            await asyncio.sleep(0.2)
            with own.held():
                await asyncio.sleep(2.5)
                assert not reading.done()
            await job.stdin.write("late\n")
            assert await reading == b"late\n"
    assert attached(own) - before > 1, "the stream was never taken up again"


def attached(daemon):
    return daemon.log.read_text().count("ExecService/AttachExec")


async def _all(job):
    return b"".join([c async for c in job])
