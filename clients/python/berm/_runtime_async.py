"""The asyncio version of everything that differs between the async and the sync half: channels, pauses, clocks.
_runtime_sync.py defines the same names for threads. Both files are written by hand; the rest of the sync half is
derived from the async half."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

import grpc
import grpc.aio

from berm._methods import Method, Req, Res
from berm._target import CHANNEL_OPTIONS, Target

T = TypeVar("T")
P = ParamSpec("P")

Stream = AsyncGenerator[T, None]
Metadata = list[tuple[str, str]]
Channel = Any  # gRPC has no type hints
Call = Any
Cancelled = asyncio.CancelledError
Lock = asyncio.Lock
Event = asyncio.Event
Queue = asyncio.Queue
closing = contextlib.aclosing
sleep = asyncio.sleep


def here() -> object:
    """Identifies where a channel may be used: it belongs to the event loop that created it."""
    return asyncio.get_running_loop()


def open_channel(target: Target) -> Channel:
    return grpc.aio.insecure_channel(target.name, options=CHANNEL_OPTIONS)


async def close_channel(channel: Channel) -> None:
    await channel.close()


async def unary(
    channel: Channel,
    method: Method[Req, Res],
    request: Req,
    timeout: float | None,
    metadata: Metadata,
    wait_for_ready: bool = False,
) -> Res:
    call = channel.unary_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    answer: Res = await call(request, timeout=timeout, metadata=metadata, wait_for_ready=wait_for_ready)
    return answer


async def upload(
    channel: Channel, method: Method[Req, Res], requests: Iterable[Req], timeout: float | None, metadata: Metadata
) -> Res:
    call = channel.stream_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    answer: Res = await call(requests, timeout=timeout, metadata=metadata)
    return answer


def stream(
    channel: Channel, method: Method[Req, Res], request: Req, timeout: float | None, metadata: Metadata
) -> Call:
    call = channel.unary_stream(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    return call(request, timeout=timeout, metadata=metadata)


def interact(
    channel: Channel, method: Method[Req, Res], requests: Queue[Any], timeout: float | None, metadata: Metadata
) -> Call:
    """Opens a bidirectional stream that sends the requests in the queue, until it contains None."""
    call = channel.stream_stream(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    return call(_until_none(requests), timeout=timeout, metadata=metadata)


async def _until_none(requests: Queue[Any]) -> Stream[Any]:
    while (request := await requests.get()) is not None:
        yield request


def drop(queue: Queue[Any]) -> None:
    """Empties the queue."""
    with contextlib.suppress(asyncio.QueueEmpty):
        while True:
            queue.get_nowait()


class Runner:
    """A background task that runs until it ends or is stopped."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, None]]):
        self._task = asyncio.ensure_future(function())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class Silence:
    """Cancels a stream that is silent for too long while its reader waits (BEAT-3)."""

    def __init__(self, call: Call, seconds: float):
        self.broken = False
        self._call = call
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since: float | None = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look)

    def pause(self) -> None:
        """Stops counting silence while the reader handles a message."""
        self._since = None

    def resume(self) -> None:
        self._since = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        left = self._seconds - (now - self._since) if self._since is not None else self._seconds
        if left <= 0:
            self.broken = True
            self._call.cancel()
        else:
            self._timer = self._loop.call_later(left, self._look)


class Opening(Generic[T]):
    """An object that can be awaited or used with `async with`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]):
        self._coroutine = coroutine
        self._value: Any = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> T:
        self._value = await self._coroutine
        entered: T = await self._value.__aenter__()
        return entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._value.__aexit__(kind, error, trace)


def opening(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Opening[T]]:
    """Decorates a coroutine function, so that `async with make() as thing` needs no separate `await`."""

    @functools.wraps(function)
    def opened(*args: P.args, **kwargs: P.kwargs) -> Opening[T]:
        return Opening(function(*args, **kwargs))

    return opened

