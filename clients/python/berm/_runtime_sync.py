"""The thread version of everything that differs between the async and the sync half. See _runtime_async.py."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

import grpc

from berm._methods import Method, Req, Res
from berm._target import CHANNEL_OPTIONS, Target

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Stream = Generator[T, None, None]
Metadata = list[tuple[str, str]]
Channel = Any  # gRPC has no type hints
Call = Any
Cancelled = grpc.FutureCancelledError
Lock = threading.Lock
Event = threading.Event
Queue = queue.Queue
closing = contextlib.closing
sleep = time.sleep


def here() -> object:
    """Identifies where a channel may be used: not in a forked child of the process that created it."""
    return os.getpid()


def open_channel(target: Target) -> Channel:
    return grpc.insecure_channel(target.name, options=CHANNEL_OPTIONS)


def close_channel(channel: Channel) -> None:
    channel.close()


def unary(
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
    answer: Res = call(request, timeout=timeout, metadata=metadata, wait_for_ready=wait_for_ready)
    return answer


def upload(
    channel: Channel, method: Method[Req, Res], requests: Iterable[Req], timeout: float | None, metadata: Metadata
) -> Res:
    call = channel.stream_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    answer: Res = call(iter(requests), timeout=timeout, metadata=metadata)
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
    return call(iter(requests.get, None), timeout=timeout, metadata=metadata)


def drop(queued: Queue[Any]) -> None:
    """Empties the queue, while another thread may also take items from it."""
    with contextlib.suppress(queue.Empty):
        while True:
            queued.get_nowait()


class Runner:
    """A background thread. stop() does nothing, because a thread cannot be stopped from outside: the session tells
    the function to return, and it may do so later."""

    def __init__(self, function: Callable[[], None]):
        threading.Thread(target=function, name="berm-session", daemon=True).start()

    def stop(self) -> None:
        pass


class Silence:
    """Cancels a stream that is silent for too long while its reader waits (BEAT-3)."""

    def __init__(self, call: Call, seconds: float):
        self.broken = False
        self._call = call
        self._seconds = seconds
        self._since: float | None = time.monotonic()
        _watchman.add(self)

    def pause(self) -> None:
        """Stops counting silence while the reader handles a message."""
        self._since = None

    def resume(self) -> None:
        self._since = time.monotonic()

    def stop(self) -> None:
        _watchman.remove(self)

    def look(self, now: float) -> float:
        """Cancels the call if it was silent for too long. Returns the seconds until the next check."""
        since = self._since
        left = self._seconds if since is None else self._seconds - (now - since)
        if left <= 0 and not self.broken:
            self.broken = True
            self._call.cancel()
        return max(left, 0.1)


class _Watchman:
    """A thread that checks all open streams for silence. It starts with the first stream."""

    def __init__(self) -> None:
        self._streams: set[Silence] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, silence: Silence) -> None:
        with self._changed:
            self._streams.add(silence)
            if self._thread is None or not self._thread.is_alive():  # a forked child has no threads of its parent
                self._thread = threading.Thread(target=self._watch, name="berm-silence", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, silence: Silence) -> None:
        with self._changed:
            self._streams.discard(silence)

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                self._changed.wait(min((s.look(now) for s in self._streams), default=None))


_watchman = _Watchman()


def opening(function: F) -> F:
    """Returns the function unchanged; only asyncio needs this decorator."""
    return function
