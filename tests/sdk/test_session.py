"""Conversations with programs: terminals, sizes, leaving and coming back, a daemon that is killed; both halves."""

import asyncio

import berm
import pytest

from daemon import SECONDS
from test_restart import crash


async def screen(session, end, seen=b""):
    """What is written until it ends with something."""
    async for chunk in session:
        seen += chunk
        if seen.endswith(end):
            return seen
    raise AssertionError(f"it ended with {seen!r}")


PROMPT = {"PS1": "ready> "}


async def test_a_shell_in_a_terminal(box):
    job = await box.exec(["sh"], terminal=(100, 30), env=PROMPT)
    async with job.interact() as talk:
        await screen(talk, b"ready> ")
        await talk.write("stty size; test -t 0 && echo is-a-t''ty\n")
        seen = await screen(talk, b"ready> ")
        assert b"30 100\r\n" in seen and b"is-a-tty\r\n" in seen
        await talk.resize(132, 50)
        await talk.write("stty size\n")
        assert b"50 132\r\n" in await screen(talk, b"ready> ")
        await talk.write("sh -c 'echo is-u\"\"p; exec sleep 1000'\n")
        await screen(talk, b"is-up\r\n")                             # a key before that would be the shell's
        await talk.write(b"\x03")                                      # Ctrl-C is the terminal's to make a signal of
        await screen(talk, b"ready> ")
        await talk.write("exit 3\n")
        async for _ in talk:
            pass
        assert job.exit.code == 3
        with pytest.raises(berm.ExecEndedError):
            await talk.write("more")


async def test_leave_and_come_back(both, client, box):
    job = await box.exec(["sh"], terminal=True, env=PROMPT)
    async with job.interact() as talk:
        await screen(talk, b"ready> ")
        await talk.write("x=remembered\n")
        await screen(talk, b"ready> ")
    assert (await job.refresh()).state == "running"
    same = await both.Sandbox.connect(box.id, client=client)
    found = await same.get_exec(job.id)
    async with found.interact(tail=7) as talk:
        assert await screen(talk, b"ready> ") == b"ready> "          # the screen as it was left
        await talk.write("echo $x; exit 4\n")
        seen = b"".join([chunk async for chunk in talk])
        assert b"\r\nremembered\r\n" in seen and found.exit.code == 4


async def test_much_goes_through_a_pipe(box):
    """More than any window holds, both ways at once."""
    data = bytes(range(256)) * 20_000
    job = await box.exec(["cat"], stdin=True)
    async with job.interact() as talk:
        writing = asyncio.ensure_future(_write(talk, data))
        assert b"".join([chunk async for chunk in talk]) == data
        await writing
    assert (await job.wait(SECONDS)).ok


async def _write(talk, data):
    await talk.write(data)
    await talk.end_input()


async def test_what_cannot_be_talked_to(box):
    job = await box.exec(["sleep", "100"])
    async with job.interact() as talk:
        await talk.write("there is no input")
        with pytest.raises(berm.StdinClosedError):
            [chunk async for chunk in talk]
    await job.kill()
    ended = await box.exec(["true"])
    await ended.wait(SECONDS)
    async with ended.interact() as talk:
        assert [chunk async for chunk in talk] == []


async def test_leaving_does_not_wait_for_anything(box):
    """The program takes nothing and says much: what waits on both sides is dropped."""
    job = await box.exec("yes; cat", stdin=True)
    async with job.interact() as talk:
        writing = asyncio.ensure_future(_expect_end(talk))
        async for _ in talk:
            break
    await writing
    await job.kill()


async def _expect_end(talk):
    with pytest.raises(berm.ExecEndedError):
        await talk.write(bytes(1_000_000))


async def test_who_reads_while_it_is_left_and_afterwards_is_reported_the_end(box):
    job = await box.exec("echo up; sleep 1000", stdin=True)
    async with job.interact() as talk:
        assert await screen(talk, b"up\n") == b"up\n"
        reading = asyncio.ensure_future(_rest(talk))
        await asyncio.sleep(0)                                         # it waits for what does not come
    assert await asyncio.wait_for(reading, SECONDS) == []
    assert await asyncio.wait_for(_rest(talk), SECONDS) == []
    await talk.leave()
    await job.kill()


async def _rest(talk):
    return [chunk async for chunk in talk]


async def test_a_shell_survives_kills_of_the_daemon(both, own):
    # covers: RETRY-4
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        job = await sb.exec(["sh"], terminal=True, env=PROMPT)
        async with job.interact() as talk:
            await screen(talk, b"ready> ")
            for i in range(3):
                await talk.write(f"echo be''fore-{i}\n")
                assert b"before-%d\r\n" % i in await screen(talk, b"ready> ")
                killing = asyncio.ensure_future(crash(own))
                await asyncio.sleep(0.15)                              # it is down
                await talk.resize(90 + i, 40)
                await talk.write(f"echo af''ter-{i}; stty size\n")
                seen = await screen(talk, b"ready> ")
                await killing
                assert seen.count(b"after-%d\r\n" % i) == 1
                await talk.write("stty size\n")
                assert b"40 %d\r\n" % (90 + i) in await screen(talk, b"ready> ")
            await talk.write("exit 9\n")
            async for _ in talk:
                pass
        assert job.exit.code == 9


async def test_input_and_output_of_a_pipe_survive_kills(both, own):
    # covers: RETRY-4
    data = bytes(range(256)) * 12_000
    async with both.client(socket=own.socket) as client, both.Sandbox.create(client=client) as sb:
        job = await sb.exec(["cat"], stdin=True)
        async with job.interact() as talk:
            writing = asyncio.ensure_future(_write(talk, data))
            seen, kills = b"", 0
            async for chunk in talk:
                seen += chunk
                if kills < 2 and len(seen) > (kills + 1) * 500_000:
                    kills += 1
                    await crash(own)
            await writing
            assert seen == data and kills == 2
