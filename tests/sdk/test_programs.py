"""Programs: run to their end, or live, with input, output, signals and terminals; both halves."""

import asyncio
import signal
import subprocess
import sys

import berm
import pytest

from daemon import SECONDS


async def test_run(box):
    done = await box.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == ("out\n", "err\n", 3, False)
    assert done.exit.how == "code" and not done.truncated and done.usage.wall_us > 0
    assert (await box.run(["echo", "$HOME; true"])).stdout == "$HOME; true\n"       # no shell
    assert (await box.run("echo $((1 + 2)) | cat")).stdout == "3\n"                 # a shell
    assert (await box.run("echo a; echo b >&2", merge_stderr=True)).stdout == "a\nb\n"
    assert (await box.run("pwd; echo $X", cwd="/tmp", env={"X": "y"})).stdout == "/tmp\ny\n"


async def test_only_check_raises(box):
    with pytest.raises(berm.ProgramFailedError, match="ended with 7") as caught:
        await box.run("echo why; exit 7", check=True)
    assert caught.value.completed.stdout == "why\n" and isinstance(caught.value, berm.BermError)
    await box.run(["true"], check=True)


async def test_bytes_are_bytes(box):
    every = bytes(range(256)) * 17
    done = await box.run(["cat"], input=every)
    assert done.stdout_bytes == every
    assert "\ufffd" in done.stdout


async def test_more_output_than_one_answer_holds(box):
    done = await box.run("seq 400000; seq 300000 >&2")
    assert done.stdout_bytes == b"".join(b"%d\n" % i for i in range(1, 400001))
    assert done.stderr_bytes == b"".join(b"%d\n" % i for i in range(1, 300001))
    assert not done.truncated
    cut = await box.run("seq 400000", max_output=1_500_000)
    assert cut.stdout_bytes == done.stdout_bytes[:1_500_000] and cut.truncated
    tiny = await box.run("seq 400000; echo e >&2", max_output=3)
    assert (tiny.stdout_bytes, tiny.stderr_bytes, tiny.truncated) == (b"1\n2", b"e\n", True)


async def test_text_never_splits_a_character(box):
    script = r"printf 'gr\303'; sleep 0.2; printf '\274n\n'; printf 'e\342\202' >&2; sleep 0.2; printf '\254\n' >&2; printf '\303'"
    job = await box.exec(script)
    pieces = [piece async for piece in job.text()]
    assert "".join(p for p in pieces if p.stream == "stdout") == "grün\n\ufffd"
    assert "".join(p for p in pieces if p.stream == "stderr") == "e€\n"
    assert len(pieces) > 2, pieces
    with pytest.raises(UnicodeDecodeError):
        [piece async for piece in job.text(errors="strict")]


async def test_lines_come_whole_and_per_stream(box):
    job = await box.exec(r"printf 'a'; echo err >&2; sleep 0.2; printf 'b\r\n\nlast'")
    lines = [line async for line in job.lines()]
    assert [str(line) for line in lines if line.stream == "stdout"] == ["ab", "", "last"]
    assert [str(line) for line in lines if line.stream == "stderr"] == ["err"]
    assert [str(line) async for line in job.lines(streams=["stdout"], since=1)] == ["b", "", "last"]


async def test_output_beyond_its_limit(box):
    done = await box.run("seq 100000", output_limit=64 * 1024)
    assert done.truncated and done.stdout_bytes.endswith(b"\n100000\n")
    job = await box.get_exec(done.exec_id)
    first = [c async for c in job.output()][0]
    assert first.missing > 0 and first.offset == first.missing
    with pytest.raises(berm.OutputTrimmedError):
        [c async for c in job.output(fail_on_gap=True)]
    ended = await box.run("seq 100000", output_limit=64 * 1024, output_policy="kill")
    assert ended.exit.how == "output_limit"


async def test_a_program_that_waits_for_its_reader(box):
    """64 KiB are kept; 3 MB arrive whole, however slow the reader, and nothing before it came."""
    # covers: OUT-8
    job = await box.exec("seq 400000; echo end >&2", output_limit=64 * 1024, output_policy="block")
    assert (job.info.output_policy, job.info.output_limit) == ("block", 64 * 1024)
    await asyncio.sleep(0.3)
    assert (await job.refresh()).state == "running"                     # it waits
    seen = {"stdout": b"", "stderr": b""}
    async for chunk in job:
        assert chunk.offset == len(seen[chunk.stream]) and not chunk.missing
        seen[chunk.stream] += chunk
    assert seen == {"stdout": b"".join(b"%d\n" % i for i in range(1, 400001)), "stderr": b"end\n"}
    assert (await job.wait(SECONDS)).ok
    with pytest.raises(ValueError, match="use exec"):
        await box.run("seq 400000", output_policy="block")


async def test_a_reader_that_comes_back_finds_what_it_did_not_take(box):
    # covers: OUT-8
    job = await box.exec("seq 400000", output_limit=64 * 1024, output_policy="block")
    seen = b""
    for _ in range(3):
        chunks = job.output(since=len(seen))
        async for chunk in chunks:
            seen += chunk
            if len(seen) % 3 == 0:
                break
        await chunks.aclose()
    async for chunk in job.output(since=len(seen)):
        assert chunk.offset == len(seen)
        seen += chunk
    assert seen == b"".join(b"%d\n" % i for i in range(1, 400001))


async def test_what_a_program_used(box):
    done = await box.run("head -c 30000 /dev/zero; head -c 200 /dev/zero >&2; cat >/dev/null; "
                         "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", input=b"x" * 5000)
    usage = done.usage
    assert (usage.stdin_bytes, usage.stdout_bytes, usage.stderr_bytes) == (5000, 30000, 200)
    assert 0 < usage.cpu_user_us + usage.cpu_system_us and usage.cpu_user_us <= 16 * usage.wall_us
    job = await box.get_exec(done.exec_id)
    assert job.info.usage == usage                                      # and it is kept


async def test_more_input_than_one_call_takes(box):
    data = b"0123456789abcdef" * 150_000   # 2.4 MB
    assert (await box.run(["sha256sum"], input=data)).stdout == (
        await box.run("yes 0123456789abcdef | tr -d '\\n' | head -c 2400000 | sha256sum")).stdout
    assert (await box.run(["head", "-c", "3"], input=data)).stdout == "012"   # and one that wants little


async def test_how_it_can_end(box):
    done = await box.run(["sleep", "60"], timeout=0.2, grace=0)
    assert done.exit.how == "timed_out" and done.exit_code is None and done.exit.shell_code == 124
    killed = await box.run("kill -TERM $$")
    assert (killed.exit.how, killed.exit.signal, str(killed.exit)) == ("signal", 15, "ended by SIGTERM")
    with pytest.raises(berm.ProgramNotFoundError) as caught:
        await box.run(["nonesuch"])
    record = await box.get_exec(caught.value.metadata["exec_id"])
    assert record.exit.how == "not_started" and record.exit.shell_code == 127
    with pytest.raises(berm.CwdNotFoundError):
        await box.run(["true"], cwd="/nonesuch")


async def test_live_output_and_input(box):
    async with box.exec("while read line; do echo got $line; done; echo end >&2", stdin=True) as job:
        chunks = job.output()
        await job.stdin.write("one\n")
        first = await anext(chunks)
        assert (first, first.stream, first.offset) == (b"got one\n", "stdout", 0)
        await job.stdin.write(b"two\n")
        await job.stdin.close()
        rest = [chunk async for chunk in chunks]
        assert b"".join(c for c in rest if c.stream == "stdout") == b"got two\n"
        assert [(bytes(c), c.offset) for c in rest if c.stream == "stderr"] == [(b"end\n", 0)]
        assert job.exit.code == 0                # told by the end of its output
        assert (await job.wait()).ok
        with pytest.raises(berm.BermError) as caught:
            await job.stdin.write("late")
        assert caught.value.reason in ("EXEC_ENDED", "STDIN_CLOSED")


async def test_output_again_from_anywhere(box):
    async with box.exec("printf 0123456789; printf abc >&2") as job:
        await job.wait(SECONDS)
        assert b"".join([c async for c in job if c.stream == "stdout"]) == b"0123456789"
        assert b"".join([c async for c in job.output(7, streams=["stdout"])]) == b"789"
        both = [(c.stream, bytes(c)) async for c in job.output(8, since_stderr=2)]
        assert sorted(both) == [("stderr", b"c"), ("stdout", b"89")]
        assert b"".join([c async for c in job.output(tail=4, streams=["stdout"])]) == b"6789"
        again = await box.get_exec(job.id)
        assert again.exit.ok and again.info.argv[0] == "/bin/sh"
        with pytest.raises(berm.OffsetBeyondEndError):
            [c async for c in job.output(11)]


async def test_what_is_there_now(box):
    async with box.exec("echo early; exec sleep 100") as job:
        async for chunk in job:
            assert chunk == b"early\n"
            break                                 # leaving the loop ends nothing
        assert [bytes(c) async for c in job.output(follow=False)] == [b"early\n"]
        assert (await job.refresh()).state == "running"


async def test_wait_kill_and_signal(box):
    async with box.exec(["sleep", "100"]) as job:
        with pytest.raises(berm.DeadlineExceededError):
            await job.wait(0.2)
        waiting = asyncio.ensure_future(_wait(job))
        await job.signal(signal.SIGTERM)
        assert (await waiting).signal == signal.SIGTERM
        with pytest.raises(berm.ExecEndedError):
            await job.signal(signal.SIGTERM)
        await job.kill()                          # no error
        with pytest.raises(berm.ProgramFailedError):
            await job.wait(check=True)


async def _wait(job):
    return await job.wait(SECONDS)


async def test_the_end_of_the_block_ends_it(box):
    async with box.exec(["sleep", "100"]) as job:
        pass
    assert (await job.wait(SECONDS)).signal == signal.SIGKILL


async def test_the_end_of_the_block_after_the_sandbox_is_gone(both, client):
    sb = await both.Sandbox.create(client=client)
    async with sb.exec(["sleep", "100"]):
        await sb.delete()


async def test_waiting_for_a_program_whose_sandbox_goes(both, client):
    async with both.Sandbox.create(client=client) as sb:
        job = await sb.exec(["sleep", "100"])
        waiting = asyncio.ensure_future(_wait(job))
        await asyncio.sleep(0.1)
        await sb.stop(grace=0)
        assert (await waiting).how in ("signal", "lost")


async def test_a_terminal(box):
    async with box.exec("stty size; read x; stty size; echo [$x]", terminal=(100, 30)) as job:
        screen = b""
        async for chunk in job:
            screen += chunk
            if screen.endswith(b"30 100\r\n"):
                await job.resize(120, 40)
                await job.stdin.write("hi\n")
        assert screen.split(b"\r\n")[-3:] == [b"40 120", b"[hi]", b""]
    plain = await box.exec(["true"])
    await plain.wait()
    with pytest.raises(berm.BermError) as caught:
        await plain.resize(80, 24)
    assert caught.value.reason in ("EXEC_NO_TERMINAL", "EXEC_ENDED")


async def test_programs_are_listed(box):
    async with box.exec(["sleep", "100"], id=f"my-{box.id}", labels={"a": "b"}) as job:
        await box.run(["true"])
        assert len([e async for e in box.execs()]) == 2
        [running] = [e async for e in box.execs(states=["running"])]
        assert running.id == job.id == f"my-{box.id}" and running.labels == {"a": "b"} and running.exit is None
        assert [e.id async for e in box.execs(labels={"a": "b"})] == [job.id]


async def test_many_at_once(box):
    jobs = [_output(box, n) for n in range(20)]
    assert await asyncio.gather(*jobs) == [f"{n}\n" for n in range(20)]


async def _output(box, n):
    return (await box.run(["echo", str(n)])).stdout


def test_ctrl_c_ends_the_call_and_not_the_program(daemon, sync_client):
    with berm.Sandbox.create(client=sync_client) as sb:
        script = (f"import berm\nc = berm.Client(socket={str(daemon.socket)!r})\n"
                  f"berm.Sandbox.connect({sb.id!r}, client=c).run(['sleep', '300'])")
        process = subprocess.Popen([sys.executable, "-c", script], env={"PYTHONPATH": ":".join(sys.path)},
                                   stderr=subprocess.PIPE, text=True)
        try:
            next(event for event in sb.events(kinds=["exec_start"]))
            process.send_signal(signal.SIGINT)
            assert "KeyboardInterrupt" in process.communicate(timeout=SECONDS)[1]
        finally:
            process.kill()
            process.wait()
        assert [info.state for info in sb.execs()] == ["running"]
