"""User code that only mypy checks: decorators and context managers must keep the types."""

from typing import assert_type

import berm


def sync(sb: berm.Sandbox) -> None:
    with berm.Sandbox.create(labels={"a": "b"}) as made:
        assert_type(made, berm.Sandbox)
        assert_type(made.run(["true"]), berm.Completed)
        assert_type(made.run("true").stdout, str)
    with sb.exec(["make"]) as job:
        assert_type(job, berm.Exec)
        for chunk in job:
            assert_type(chunk, berm.Chunk)
        assert_type(job.wait(), berm.Exit)
        with job.interact(tail=100) as talk:
            assert_type(talk, berm.Session)
            talk.write("x")
            for chunk in talk:
                assert_type(chunk, berm.Chunk)
    for info in berm.Sandbox.list():
        assert_type(info, berm.SandboxInfo)
    for event in sb.events():
        assert_type(event, berm.Event)
    assert_type(sb.files.read("x"), bytes)
    assert_type(sb.usage(), berm.Usage)


async def asynchronous(sb: berm.AsyncSandbox) -> None:
    async with berm.AsyncSandbox.create() as made:
        assert_type(made, berm.AsyncSandbox)
    assert_type(await berm.AsyncSandbox.create(), berm.AsyncSandbox)
    assert_type(await sb.run(["true"]), berm.Completed)
    job = await sb.exec(["make"])
    assert_type(job, berm.AsyncExec)
    async for chunk in job:
        assert_type(chunk, berm.Chunk)
    async with job.interact() as talk:
        assert_type(talk, berm.AsyncSession)
        await talk.resize(80, 24)
        async for chunk in talk:
            assert_type(chunk, berm.Chunk)
    async for entry in sb.files.list():
        assert_type(entry, berm.FileInfo)
