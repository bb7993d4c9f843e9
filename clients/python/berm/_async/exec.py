"""A program in a sandbox, running or ended."""

from __future__ import annotations

import codecs
import signal as signals
import time
from collections.abc import Sequence
from types import TracebackType

from berm import _convert as convert
from berm import _methods as methods
from berm import _runtime_async as runtime
from berm import errors, types
from berm._async.client import AsyncClient
from berm._async.session import AsyncSession
from berm._gen.berm.v1 import berm_pb2 as pb
from berm._status import ProgramFailedError

_PIECE = 1024 * 1024  # bytes of input per call
_ACK = 4 * 1024 * 1024  # maximum bytes of output between two acknowledgements
# Errors of a kill which mean that the program no longer runs.
_GONE = (errors.ExecNotFoundError, errors.SandboxDeletedError, errors.SandboxFailedError, errors.SandboxStoppedError)
_STREAMS = {"stdout": pb.OUTPUT_STREAM_STDOUT, "stderr": pb.OUTPUT_STREAM_STDERR}


class AsyncStdin:
    """The standard input of a program. Every byte arrives exactly once, even if a call is retried."""

    def __init__(self, client: AsyncClient, exec_id: str, offset: int):
        self._client = client
        self._exec_id = exec_id
        self._lock = runtime.Lock()
        self.offset = offset  #: bytes written so far

    async def write(self, data: bytes | str) -> None:
        """Writes data and returns when all of it is accepted. Raises StdinFullError if the program does not read for
        a long time."""
        left = memoryview(data.encode() if isinstance(data, str) else data)
        async with self._lock:
            while left:
                request = pb.WriteStdinRequest(
                    exec_id=self._exec_id, offset=self.offset, data=bytes(left[:_PIECE])
                )
                answer = await self._client.call(methods.WRITE_STDIN, request)
                left = left[answer.next_offset - self.offset :]
                self.offset = answer.next_offset

    async def close(self) -> None:
        """Ends the input. With a terminal, sends the end-of-file character."""
        async with self._lock:
            await self._client.call(
                methods.CLOSE_STDIN, pb.CloseStdinRequest(exec_id=self._exec_id, offset=self.offset)
            )


class AsyncExec:
    """A program in a sandbox. Its `id` identifies it for any client.

    Iterating yields its output as bytes from the start until it exits. A `with` block kills the program at its end if
    the program still runs.
    """

    def __init__(self, client: AsyncClient, info: types.ExecInfo, sequence: int):
        self._client = client
        self._info = info
        self._sequence = sequence
        self._reader = methods.new_request_id()
        self.stdin = AsyncStdin(client, info.id, info.stdin_offset)

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def info(self) -> types.ExecInfo:
        """The program's record from the last reply; refresh() updates it."""
        return self._info

    @property
    def exit(self) -> types.Exit | None:
        """How the program ended; None if the last reply showed it running."""
        return self._info.exit

    async def refresh(self) -> types.ExecInfo:
        answer = await self._client.call(methods.GET_EXEC, pb.GetExecRequest(exec_id=self.id))
        self._info, self._sequence = convert.exec_of(answer.exec), answer.sequence
        return self._info

    def __aiter__(self) -> runtime.Stream[types.Chunk]:
        return self.output()

    async def output(
        self,
        since: int = 0,
        *,
        since_stderr: int = 0,
        streams: Sequence[types.StreamName] = (),
        tail: int | None = None,
        follow: bool = True,
        fail_on_gap: bool = False,
    ) -> runtime.Stream[types.Chunk]:
        """Yields output from byte offsets, or from `tail` bytes before the current end. Each chunk is bytes with a
        stream and an offset. Follows the program until it exits; with follow=False, stops at the current end of
        the output. Leaving the loop never ends the program.

        With output_policy="block", a program that reaches the output limit waits until this loop has read its
        output. A chunk counts as read when the loop requests the next chunk. This needs both streams and follow=True.
        """
        at = await self._begin_at(since, since_stderr, tail)
        missing = dict.fromkeys(at, 0)
        holds = self._info.output_policy == "block" and follow and not streams
        stride, acked = max(1, min(_ACK, self._info.output_limit // 4)), 0

        def request() -> pb.AttachExecRequest:
            return pb.AttachExecRequest(
                exec_id=self.id,
                stdout_offset=at[pb.OUTPUT_STREAM_STDOUT],
                stderr_offset=at[pb.OUTPUT_STREAM_STDERR],
                streams=[_STREAMS[name] for name in streams],
                until_now=not follow,
                fail_on_gap=fail_on_gap,
                reader_id=self._reader if holds else "",
            )

        async with runtime.closing(self._client.follow(methods.ATTACH_EXEC, request)) as messages:
            async for message in messages:
                kind = message.WhichOneof("event")
                if kind == "output":
                    chunk = message.output
                    at[chunk.stream] = chunk.offset + len(chunk.data)
                    gap, missing[chunk.stream] = missing.get(chunk.stream, 0), 0
                    name = convert.word(pb.OutputStream, "OUTPUT_STREAM_", chunk.stream)
                    yield types.Chunk.of(chunk.data, name, chunk.offset, gap)
                    if holds and sum(at.values()) - acked >= stride:
                        acked = sum(at.values())
                        await self._acknowledge(at)
                elif kind in ("attached", "heartbeat") and holds and sum(at.values()) > acked:
                    acked = sum(at.values())  # a blocked program may wait for this acknowledgement
                    await self._acknowledge(at)
                elif kind == "gap":
                    at[message.gap.stream] = message.gap.next_offset
                    missing[message.gap.stream] = message.gap.next_offset - message.gap.offset
                elif kind == "exited":
                    self._info = convert.exec_of(message.exited)
        if holds:
            await self._acknowledge(at, release=True)

    async def text(
        self,
        since: int = 0,
        *,
        since_stderr: int = 0,
        streams: Sequence[types.StreamName] = (),
        tail: int | None = None,
        follow: bool = True,
        encoding: str = "utf-8",
        errors: str = "replace",
    ) -> runtime.Stream[types.Text]:
        """Yields output as text, like `output`, but decodes each stream separately, so that a character that spans
        two chunks stays whole. Each piece of text has a stream."""
        decoders: dict[str, codecs.IncrementalDecoder] = {}
        decoder = codecs.getincrementaldecoder(encoding)
        chunks = self.output(since, since_stderr=since_stderr, streams=streams, tail=tail, follow=follow)
        async with runtime.closing(chunks) as stream:
            async for chunk in stream:
                own = decoders.setdefault(chunk.stream, decoder(errors))
                if chunk.missing:
                    own.reset()
                if piece := own.decode(chunk):
                    yield types.Text.of(piece, chunk.stream)
        for name, own in decoders.items():
            if piece := own.decode(b"", True):
                yield types.Text.of(piece, name)

    async def lines(
        self,
        since: int = 0,
        *,
        since_stderr: int = 0,
        streams: Sequence[types.StreamName] = (),
        tail: int | None = None,
        follow: bool = True,
        encoding: str = "utf-8",
        errors: str = "replace",
    ) -> runtime.Stream[types.Text]:
        """Yields output line by line, without line ends. The last line of a stream is yielded even if it has no line
        end. Lines of the two streams are yielded in the order in which they are completed."""
        rest: dict[str, str] = {}
        pieces = self.text(
            since,
            since_stderr=since_stderr,
            streams=streams,
            tail=tail,
            follow=follow,
            encoding=encoding,
            errors=errors,
        )
        async with runtime.closing(pieces) as stream:
            async for piece in stream:
                *whole, rest[piece.stream] = (rest.get(piece.stream, "") + piece).split("\n")
                for line in whole:
                    yield types.Text.of(line.removesuffix("\r"), piece.stream)
        for name, line in rest.items():
            if line:
                yield types.Text.of(line, name)

    async def _begin_at(self, since: int, since_stderr: int, tail: int | None) -> dict[int, int]:
        """Returns the offset of the first requested byte of each stream."""
        at: dict[int, int] = {pb.OUTPUT_STREAM_STDOUT: since, pb.OUTPUT_STREAM_STDERR: since_stderr}
        if tail is not None:
            answer = await self._client.call(methods.GET_EXEC, pb.GetExecRequest(exec_id=self.id))
            for state in answer.exec.output:
                at[state.stream] = max(state.first_offset, state.end_offset - tail)
        return at

    async def _acknowledge(self, at: dict[int, int], *, release: bool = False) -> None:
        """Allows the daemon to discard the bytes before these offsets."""
        request = pb.AckOutputRequest(
            exec_id=self.id,
            reader_id=self._reader,
            stdout_offset=at[pb.OUTPUT_STREAM_STDOUT],
            stderr_offset=at[pb.OUTPUT_STREAM_STDERR],
            release=release,
        )
        await self._client.call(methods.ACK_OUTPUT, request)

    @runtime.opening
    async def interact(self, since: int = 0, *, tail: int | None = None) -> AsyncSession:
        """Opens a session, which reads output, writes input and sets the terminal size in one stream. Output starts
        at a byte offset, or `tail` bytes before the current end. A program may have several sessions at a time."""
        return AsyncSession(self._client, self.id, await self._begin_at(since, 0, tail), self._heard)

    def _heard(self, info: types.ExecInfo) -> None:
        self._info = info

    async def wait(self, timeout: float | None = None, *, check: bool = False) -> types.Exit:
        """Waits until the program exits and returns how it ended. Raises DeadlineExceededError after `timeout`
        seconds; the program keeps running. With `check`, raises ProgramFailedError unless the exit code is 0."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._info.exit is None:
            await self.refresh()
            if self._info.exit is None:
                await self._hear_of_it(deadline)
        if check and not self._info.exit.ok:
            raise ProgramFailedError(
                types.Completed(self.id, self._info.argv, self._info.exit, b"", b"", self._info.usage)
            )
        return self._info.exit

    async def _hear_of_it(self, deadline: float | None) -> None:
        """Waits for an event which shows that the program has ended or its sandbox has stopped."""
        events = self._client.events(
            since=self._sequence,
            kinds=["exec_exit", "sandbox_state"],
            sandbox_ids=[self._info.sandbox_id],
            deadline=deadline,
        )
        async with runtime.closing(events) as stream:
            async for event in stream:
                if event.exec_id == self.id or event.state in ("stopped", "failed", "deleted"):
                    return

    async def kill(self, signal: int = signals.SIGKILL) -> None:
        """Kills the program and all its descendants. Succeeds if the program has already ended."""
        try:
            await self.signal(signal)
        except errors.ExecEndedError:
            pass

    async def signal(self, number: int, *, leader_only: bool = False) -> None:
        """Sends a signal to all processes of the program, or only to its first process."""
        request = pb.SignalExecRequest(exec_id=self.id, signal_number=number, leader_only=leader_only)
        await self._client.call(methods.SIGNAL_EXEC, request)

    async def resize(self, cols: int, rows: int) -> None:
        """Sets the size of the terminal."""
        size = pb.TerminalSize(cols=cols, rows=rows)
        await self._client.call(methods.RESIZE_EXEC, pb.ResizeExecRequest(exec_id=self.id, size=size))

    async def __aenter__(self) -> AsyncExec:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._info.exit is None:
            try:
                await self.kill()
            except _GONE:
                pass

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._info.state}>"
