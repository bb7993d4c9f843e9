"""Tests how the client reacts when a scripted gRPC server answers, fails, or does not answer."""

import asyncio
import io
import threading
import time

import grpc
import pytest

import berm
from berm import _retry
from berm._gen.berm.v1 import berm_pb2 as pb
from peer import Failure

READY = pb.Sandbox(sandbox_id="box", state=pb.SANDBOX_STATE_READY)
CREATED = pb.CreateSandboxResponse(sandbox=READY, sequence=7)
GOT = pb.GetSandboxResponse(sandbox=READY, sequence=7)
DELETED = pb.DeleteSandboxResponse(sandbox=pb.Sandbox(sandbox_id="box", state=pb.SANDBOX_STATE_DELETED))
BUSY = Failure("LIMIT_REACHED", "later", grpc.StatusCode.RESOURCE_EXHAUSTED)
LOST = Failure("GUEST_LOST", "check")


async def test_every_attempt_has_the_same_request_id(both, peer):
    # covers: RETRY-3
    server = peer(CreateSandbox=[BUSY, LOST, CREATED], DeleteSandbox=[DELETED])
    async with both.client(address=server.address) as client:
        async with both.Sandbox.create(client=client) as sandbox:
            assert sandbox.id == "box"
        async with both.Sandbox.create(client=client):
            pass
    ids = [request.request_id for request in server.named("CreateSandbox")]
    assert len(ids) == 4 and len(set(ids[:3])) == 1 and ids[3] != ids[0] and all(ids)


async def test_five_attempts_and_no_more(both, peer):
    # covers: RETRY-1
    server = peer(Ping=[BUSY])
    async with both.client(address=server.address) as client:
        with pytest.raises(berm.LimitReachedError):
            await client.ping()
    assert len(server.calls) == 5


async def test_what_is_never_to_be_retried_is_not(both, peer):
    # covers: RETRY-2, RETRY-5
    failure = Failure("SANDBOX_NOT_FOUND", "never", grpc.StatusCode.NOT_FOUND, "no sandbox has this id",
                      sandbox_id="box")
    server = peer(GetSandbox=[failure])
    async with both.client(address=server.address) as client:
        with pytest.raises(berm.SandboxNotFoundError, match="no sandbox has this id") as caught:
            await both.Sandbox.connect("box", client=client)
    assert len(server.calls) == 1
    assert caught.value.metadata["sandbox_id"] == "box"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__   # users never see a gRPC error


async def test_fields_at_fault_are_told(both, peer):
    failure = Failure("INVALID_ARGUMENT", "never", grpc.StatusCode.INVALID_ARGUMENT,
                      fields=[("spec.env[0].key", "is empty")])
    server = peer(CreateSandbox=[failure])
    async with both.client(address=server.address) as client:
        with pytest.raises(berm.InvalidArgumentError) as caught:
            await both.Sandbox.create(client=client)
    assert caught.value.fields == {"spec.env[0].key": "is empty"}


async def test_a_reason_newer_than_this_package(both, peer):
    server = peer(Ping=[Failure("NEWER", "never")])
    async with both.client(address=server.address) as client:
        with pytest.raises(berm.BermError) as caught:
            await client.ping()
    assert type(caught.value) is berm.BermError
    assert (caught.value.reason, caught.value.retry) == ("NEWER", "never")


async def test_nobody_there(both, tmp_path):
    async with both.client(socket=tmp_path / "sock", reconnect=0.3) as client:
        with pytest.raises(berm.UnreachableError, match="no daemon answered"):
            await client.ping()
    async with both.client(socket=tmp_path / "sock", reconnect=0) as client:
        with pytest.raises(berm.UnreachableError, match="no daemon answered"):
            await client.ping()


async def test_a_daemon_that_comes_later_is_waited_for(both, peer, tmp_path):
    async with both.client(socket=tmp_path / "sock") as client:
        call = asyncio.ensure_future(_payload(client))
        await asyncio.sleep(0.3)
        assert not call.done()
        peer(f"unix:{tmp_path}/sock", Ping=[pb.PingResponse(payload=b"x")])
        assert await call == b"x"


async def _payload(client):
    return await client.ping(b"x")


async def test_the_deadline_of_a_call(both, peer, monkeypatch):
    monkeypatch.setattr(_retry.random, "uniform", lambda low, high: high)     # the longest pauses exceed the timeout
    server = peer(Ping=[Failure("LIMIT_REACHED", "later")])
    async with both.client(address=server.address, timeout=0.05) as client:
        with pytest.raises((berm.LimitReachedError, berm.DeadlineExceededError)):
            await client.ping()
    assert len(server.calls) < 5


def chunk(offset, data):
    return pb.AttachExecResponse(output=pb.OutputChunk(stream=1, offset=offset, data=data))


RUNNING = pb.Exec(exec_id="job", sandbox_id="box", state=pb.EXEC_STATE_RUNNING)
EXITED = pb.Exec(exec_id="job", state=pb.EXEC_STATE_EXITED, exit=pb.ExitStatus(code=0))


async def test_output_goes_on_where_it_broke(both, peer):
    # covers: RETRY-4, SKEW-5
    draining = pb.AttachExecResponse(end=pb.StreamEnd(reason=pb.STREAM_END_REASON_DRAINING))
    slow = pb.AttachExecResponse(end=pb.StreamEnd(reason=pb.STREAM_END_REASON_SLOW_READER))
    server = peer(
        GetSandbox=[GOT],
        GetExec=[pb.GetExecResponse(exec=RUNNING)],
        AttachExec=[
            [pb.AttachExecResponse(attached=RUNNING), chunk(0, b"one"), Failure("SHUTTING_DOWN", "later")],
            [chunk(3, b"two"), draining],
            [pb.AttachExecResponse(heartbeat=pb.Heartbeat()), pb.AttachExecResponse(), slow],
            [chunk(6, b"three"), pb.AttachExecResponse(exited=EXITED)],
        ])
    async with both.client(address=server.address) as client:
        job = await (await both.Sandbox.connect("box", client=client)).get_exec("job")
        assert [bytes(c) async for c in job.output()] == [b"one", b"two", b"three"]
        assert job.exit.code == 0
    assert [r.stdout_offset for r in server.named("AttachExec")] == [0, 3, 6, 6]


async def test_a_gap_is_reported(both, peer):
    gap = pb.AttachExecResponse(gap=pb.OutputGap(stream=1, offset=0, next_offset=10))
    server = peer(GetSandbox=[GOT], GetExec=[pb.GetExecResponse(exec=RUNNING)],
                  AttachExec=[[gap, chunk(10, b"x"), pb.AttachExecResponse(exited=EXITED)]])
    async with both.client(address=server.address) as client:
        job = await (await both.Sandbox.connect("box", client=client)).get_exec("job")
        [only] = [c async for c in job.output()]
        assert (only, only.offset, only.missing, only.stream) == (b"x", 10, 10, "stdout")


async def test_a_silent_stream_is_broken(both, peer):
    # covers: BEAT-3
    release = threading.Event()
    server = peer(GetSandbox=[GOT], GetExec=[pb.GetExecResponse(exec=RUNNING)],
                  AttachExec=[[chunk(0, b"one"), lambda: release.wait(60)],
                              [chunk(3, b"two"), pb.AttachExecResponse(exited=EXITED)]])
    try:
        async with both.client(address=server.address, silence=3) as client:     # longer than a delay of a slow machine
            job = await (await both.Sandbox.connect("box", client=client)).get_exec("job")
            assert [bytes(c) async for c in job.output()] == [b"one", b"two"]
    finally:
        release.set()
    assert len(server.named("AttachExec")) == 2


async def test_a_reader_that_takes_its_time_is_not_silence(both, peer):
    server = peer(GetSandbox=[GOT], GetExec=[pb.GetExecResponse(exec=RUNNING)],
                  AttachExec=[[chunk(0, b"one"), chunk(3, b"two"), pb.AttachExecResponse(exited=EXITED)]])
    async with both.client(address=server.address, silence=3) as client:
        job = await (await both.Sandbox.connect("box", client=client)).get_exec("job")
        seen = []
        async for c in job.output():
            seen.append(bytes(c))
            await asyncio.sleep(4 if len(seen) == 1 else 0)
    assert seen == [b"one", b"two"] and len(server.named("AttachExec")) == 1


def event(sequence, **body):
    return pb.WatchEventsResponse(sequence=sequence, event=pb.Event(sequence=sequence, **body))


async def test_events_go_on_after_the_last_sequence_heard(both, peer):
    # covers: RETRY-4, SKEW-5
    server = peer(WatchEvents=[
        [event(3, exec_start=pb.ExecStartEvent(exec_id="job")), Failure("SHUTTING_DOWN", "later")],
        [pb.WatchEventsResponse(sequence=9, heartbeat=pb.Heartbeat()), Failure("SHUTTING_DOWN", "later")],
        [event(12, kind=99), pb.WatchEventsResponse(sequence=12, end=pb.StreamEnd(reason=1))],
    ])
    async with both.client(address=server.address) as client:
        events = [e async for e in client.events(since=1)]
    assert [(e.sequence, e.kind) for e in events] == [(3, "exec_start"), (12, "99")]
    assert [r.after_sequence for r in server.named("WatchEvents")] == [1, 3, 9]


async def test_input_is_given_once_whatever_is_taken(both, peer):
    # covers: RETRY-4
    taken = [pb.WriteStdinResponse(next_offset=4), LOST, pb.WriteStdinResponse(next_offset=10)]
    server = peer(GetSandbox=[GOT], GetExec=[pb.GetExecResponse(exec=RUNNING)], WriteStdin=taken,
                  CloseStdin=[pb.CloseStdinResponse()])
    async with both.client(address=server.address) as client:
        job = await (await both.Sandbox.connect("box", client=client)).get_exec("job")
        await job.stdin.write("0123456789")
        await job.stdin.close()
    writes = server.named("WriteStdin")
    assert [(r.offset, r.data) for r in writes] == [(0, b"0123456789"), (4, b"456789"), (4, b"456789")]
    assert server.named("CloseStdin")[0].offset == 10


WRITTEN = pb.WriteFileResponse(info=pb.FileInfo(path="/f", type=pb.FILE_TYPE_REGULAR))


async def test_an_upload_is_sent_again_from_its_start(both, peer):
    server = peer(GetSandbox=[GOT], WriteFile=[LOST, WRITTEN])
    file = io.BytesIO(b"skipped" + b"x" * 1_500_000)
    file.seek(7)
    async with both.client(address=server.address) as client:
        files = (await both.Sandbox.connect("box", client=client)).files
        await files.write("/f", file)
    first, second = server.named("WriteFile")
    assert first == second
    assert first[0].header.request_id and first[0].header.size.size_bytes == 1_500_000
    assert b"".join(part.data for part in first[1:]) == b"x" * 1_500_000


async def test_a_source_that_fails_is_what_is_raised(both, peer):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError("the disk is gone")

    server = peer(GetSandbox=[GOT], WriteFile=[WRITTEN])
    async with both.client(address=server.address) as client:
        files = (await both.Sandbox.connect("box", client=client)).files
        with pytest.raises(OSError, match="the disk is gone"):
            await files.write("/f", Broken())


def part(**fields):
    return pb.ReadFileResponse(**fields)


async def test_a_file_that_changed_is_not_pasted_together(both, peer):
    def info(size):
        return part(info=pb.FileInfo(path="/f", size_bytes=size, modified_unix_ns=1))

    begun = [info(6), part(chunk=pb.FileChunk(offset=0, data=b"one")), Failure("SHUTTING_DOWN", "later")]
    rest = [part(chunk=pb.FileChunk(offset=3, data=b"two")), part(end=pb.ReadFileEnd(total_bytes=3))]
    server = peer(GetSandbox=[GOT], ReadFile=[begun, [info(6), *rest], begun, [info(7), *rest]])
    async with both.client(address=server.address) as client:
        files = (await both.Sandbox.connect("box", client=client)).files
        assert await files.read("/f") == b"onetwo"
        with pytest.raises(berm.FileChangedError):
            await files.read("/f")
    assert [r.offset for r in server.named("ReadFile")] == [0, 3, 0, 3]


async def test_a_create_that_fails_leaves_nothing(both, peer):
    failed = pb.Sandbox(sandbox_id="box", state=pb.SANDBOX_STATE_FAILED,
                        reason=pb.StateReason(code="IMAGE_NOT_FOUND", message="no such image"))
    server = peer(CreateSandbox=[pb.CreateSandboxResponse(sandbox=failed)], DeleteSandbox=[DELETED])
    async with both.client(address=server.address) as client:
        with pytest.raises(berm.ImageNotFoundError, match="no such image"):
            await both.Sandbox.create(client=client)
    assert len(server.named("DeleteSandbox")) == 1


async def test_waiting_is_not_asking_again_and_again(both, peer):
    # covers: RETRY-6
    pending = pb.Sandbox(sandbox_id="box", state=pb.SANDBOX_STATE_PENDING)
    state = pb.SandboxStateEvent(state=pb.SANDBOX_STATE_READY)
    server = peer(CreateSandbox=[pb.CreateSandboxResponse(sandbox=pending, sequence=7)], GetSandbox=[GOT],
                  WatchEvents=[[event(9, sandbox_state=state)]])
    async with both.client(address=server.address) as client:
        sandbox = await both.Sandbox.create(client=client, wait=90)
        assert sandbox.state == "ready"
    assert server.named("CreateSandbox")[0].wait_ms == 60000           # the daemon's maximum
    assert [r.after_sequence for r in server.named("WatchEvents")] == [7]
    assert len(server.named("GetSandbox")) == 1


async def test_no_waiting(both, peer):
    pending = pb.Sandbox(sandbox_id="box", state=pb.SANDBOX_STATE_PENDING)
    server = peer(CreateSandbox=[pb.CreateSandboxResponse(sandbox=pending)])
    async with both.client(address=server.address) as client:
        sandbox = await both.Sandbox.create(client=client, wait=False)
        assert sandbox.state == "pending"
    assert server.named("CreateSandbox")[0].wait_ms == 0


async def test_a_token_is_shown(both, peer):
    server = peer(Ping=[pb.PingResponse()])
    async with both.client(address=server.address, token="secret") as client:
        await client.ping()
    assert server.metadata[0]["authorization"] == "Bearer secret"


async def test_a_closed_client_says_so(both, peer):
    server = peer(Ping=[pb.PingResponse()])
    client = both.client(address=server.address)
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.ping()


def test_one_client_in_two_event_loops(peer):
    server = peer(Ping=[pb.PingResponse(payload=b"x")])
    client = berm.AsyncClient(address=server.address)
    for _ in range(2):
        assert asyncio.run(client.ping(b"x")) == b"x"


async def test_a_cancelled_task_is_cancelled(peer):
    server = peer(GetSandbox=[GOT], GetExec=[pb.GetExecResponse(exec=RUNNING)],
                  AttachExec=[[chunk(0, b"one"), lambda: time.sleep(2)]])
    async with berm.AsyncClient(address=server.address) as client:
        job = await (await berm.AsyncSandbox.connect("box", client=client)).get_exec("job")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_drain(job), 0.5)


async def _drain(job):
    async for _ in job:
        pass


def test_where_the_daemon_is(monkeypatch, tmp_path):
    for name in ("BERM_SOCKET", "BERM_ADDRESS", "BERM_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERM_SOCKET", "/x/y.sock")
    assert berm.Client().target == "unix:/x/y.sock"
    monkeypatch.setenv("BERM_ADDRESS", "localhost:1")
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("BERM_TOKEN_FILE", str(tmp_path / "token"))
    client = berm.Client()
    assert (client.target, client._target.token) == ("localhost:1", "secret")
    assert berm.Client(socket="/z.sock").target == "unix:/z.sock"
    with pytest.raises(ValueError, match="HOST:PORT"):
        berm.Client(address="localhost")


async def test_wrong_arguments_raise_berm_errors_before_anything_is_sent(both, peer):
    server = peer()
    async with both.client(address=server.address) as client:
        for arguments, word in (
            ({"profile": "rooot"}, "profile: must be one of user, root, got 'rooot'"),
            ({"labels": "x=y"}, "labels: must be a mapping"),
            ({"env": {"A": 1}}, "env: must be a mapping"),
            ({"limits": {"pids": 3}}, "limits: must be a berm.Limits"),
            ({"lifetime": 3}, "lifetime: must be a berm.Lifetime"),
            ({"limits": berm.Limits(pids="many")}, "request: must be built"),
            ({"mounts": ["/tmp"]}, "request: must be built"),
            ({"tools": "git"}, "tools: must be a sequence"),
            ({"layer": "paper"}, "layer: must be one of disk, memory"),
            ({"workspace": 7}, "request: must be built"),
        ):
            with pytest.raises(berm.InvalidArgumentError, match=word) as caught:
                await both.Sandbox.create(client=client, **arguments)
            assert isinstance(caught.value, ValueError) and caught.value.fields
    with pytest.raises(berm.BermError, match="closed"):
        await client.ping()
