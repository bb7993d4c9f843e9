"""A session with a program in one stream: output in one direction, input and terminal size in the other."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from berm import _convert as convert
from berm import _methods as methods
from berm import _runtime_async as runtime
from berm import errors, types
from berm._async.client import AsyncClient
from berm._gen.berm.v1 import berm_pb2 as pb
from berm._methods import Method

_INPUT = 64 * 1024  # bytes of pending input at which write waits, and the maximum of one message
_CHUNKS = 16  # maximum of chunks buffered for the reader; the daemon waits while the buffer is full


class _LeftError(Exception):
    """The caller left the session while it was reconnecting."""


class AsyncSession:
    """A program with its terminal, or with its plain input and output.

    Iterating yields output until the program exits. Leaving the `with` block leaves the program running; `interact`
    on a handle to it opens a new session. No byte is lost or repeated in either direction when the connection breaks
    or the daemon restarts: the session keeps input until the program gets it.
    """

    def __init__(self, client: AsyncClient, exec_id: str, at: dict[int, int], on_info: Callable[[types.ExecInfo], None]):
        self._client = client
        self._exec_id = exec_id
        self._at = at  # by stream: offset of the first byte that the caller does not have
        self._on_info = on_info
        self._lock = runtime.Lock()
        self._room = runtime.Event()
        self._heard: runtime.Queue[Any] = runtime.Queue(_CHUNKS)
        self._pipe: runtime.Queue[Any] = runtime.Queue(0)  # requests for the current connection
        self._talk: runtime.Queue[Any] | None = None  # _pipe, once the daemon has sent `attached`
        self._knows_base = False
        self._base = 0  # stdin offset of the first byte in _input
        self._input = bytearray()  # input that the program has not accepted yet
        self._input_ended = False
        self._size: pb.TerminalSize | None = None
        self._call: runtime.Call = None
        self._failure: Exception | None = None
        self._over = False
        self._left = False
        self._runner = runtime.Runner(self._run)

    @property
    def exec_id(self) -> str:
        """The id of the program."""
        return self._exec_id

    # --- for the caller ---

    async def write(self, data: bytes | str) -> None:
        """Sends bytes to the program, each exactly once. Waits while 64 KiB are pending."""
        left = data.encode() if isinstance(data, str) else bytes(data)
        while left:
            await self._wait_for_room()
            async with self._lock:
                piece, left = left[:_INPUT], left[_INPUT:]
                self._say(input=pb.StdinChunk(offset=self._base + len(self._input), data=piece))
                self._input += piece

    async def _wait_for_room(self) -> None:
        while not self._over and len(self._input) >= _INPUT:
            self._room.clear()
            if not self._over and len(self._input) >= _INPUT:  # check again: space may have appeared before clear()
                await self._room.wait()
        if self._failure is not None:
            raise self._failure
        if self._over:
            raise errors.ExecEndedError("the program has ended", metadata={"exec_id": self._exec_id})

    async def end_input(self) -> None:
        """Ends the input. With a terminal, sends the end-of-file character."""
        async with self._lock:
            self._input_ended = True
            self._say(input_end=pb.StdinEnd(offset=self._base + len(self._input)))

    async def resize(self, cols: int, rows: int) -> None:
        """Sets the terminal size now and after each reconnect."""
        async with self._lock:
            self._size = pb.TerminalSize(cols=cols, rows=rows)
            self._say(resize=self._size)

    def __aiter__(self) -> runtime.Stream[types.Chunk]:
        return self.output()

    async def output(self) -> runtime.Stream[types.Chunk]:
        """Yields the program's output until it exits. A new loop continues where the last loop stopped."""
        while (heard := await self._heard.get()) is not None:
            yield heard
        self._heard.put_nowait(None)  # keep the end mark for the next reader
        if self._failure is not None:
            raise self._failure

    async def leave(self) -> None:
        """Ends the session. The program keeps running."""
        self._left = self._over = True
        self._room.set()
        if self._call is not None:
            self._call.cancel()
        runtime.drop(self._heard)
        await self._runner.stop()
        self._pipe.put_nowait(None)
        self._heard.put_nowait(None)  # ends current and later readers; drop() made space for it

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()

    # --- background task ---

    def _say(self, **part: Any) -> None:
        """Sends a message if the daemon is connected. Otherwise _attached sends the state after the reconnect."""
        if self._talk is not None:
            self._talk.put_nowait(pb.InteractRequest(**part))

    async def _run(self) -> None:
        """Follows the program until it exits, over any number of connections."""
        try:
            conversation = self._client.follow(methods.INTERACT, self._begin, opens=self._open)
            async with runtime.closing(conversation) as messages:
                async for message in messages:
                    await self._hear(message)
                    if self._left:
                        break
        except _LeftError:
            pass
        except Exception as failure:  # output() and write() raise it
            self._failure = failure
        self._over = True
        self._room.set()
        self._pipe.put_nowait(None)
        if not self._left:
            await self._heard.put(None)

    def _begin(self) -> pb.InteractRequest:
        """Returns the first message of a connection. Further messages wait until the daemon has replied."""
        self._pipe.put_nowait(None)  # ends the sender of the last connection
        self._pipe = runtime.Queue(0)
        return pb.InteractRequest(
            attach=pb.AttachExecRequest(
                exec_id=self._exec_id,
                stdout_offset=self._at[pb.OUTPUT_STREAM_STDOUT],
                stderr_offset=self._at[pb.OUTPUT_STREAM_STDERR],
            )
        )

    def _open(
        self,
        channel: runtime.Channel,
        method: Method[Any, Any],
        first: pb.InteractRequest,
        timeout: float | None,
        metadata: runtime.Metadata,
    ) -> runtime.Call:
        if self._left:
            raise _LeftError
        self._pipe.put_nowait(first)
        self._call = runtime.interact(channel, method, self._pipe, timeout, metadata)
        return self._call

    async def _hear(self, message: pb.InteractResponse) -> None:
        kind = message.WhichOneof("event")
        if kind == "attached":
            await self._attached(message.attached)
        elif kind == "input_accepted":
            async with self._lock:
                self._accepted(message.input_accepted.next_offset)
        elif kind == "output":
            chunk = message.output
            self._at[chunk.stream], missing = chunk.offset + len(chunk.data), chunk.offset - self._at[chunk.stream]
            name = convert.word(pb.OutputStream, "OUTPUT_STREAM_", chunk.stream)
            await self._heard.put(types.Chunk.of(chunk.data, name, chunk.offset, missing))
        elif kind == "exited":
            self._on_info(convert.exec_of(message.exited))

    async def _attached(self, record: pb.Exec) -> None:
        """Handles `attached`: the record says how much input the program has accepted; sends the rest again."""
        async with self._lock:
            if not self._knows_base:
                self._base, self._knows_base = record.input.next_offset, True
            self._accepted(record.input.next_offset)
            self._talk = self._pipe
            if self._size is not None:
                self._say(resize=self._size)
            for at in range(0, len(self._input), _INPUT):
                self._say(input=pb.StdinChunk(offset=self._base + at, data=bytes(self._input[at : at + _INPUT])))
            if self._input_ended and not record.input.closed:
                self._say(input_end=pb.StdinEnd(offset=self._base + len(self._input)))

    def _accepted(self, next_offset: int) -> None:
        taken = max(0, next_offset - self._base)
        del self._input[:taken]
        self._base += taken
        self._room.set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._exec_id}>"
