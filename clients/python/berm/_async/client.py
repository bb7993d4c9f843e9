"""A connection to a daemon: calls with retries, and streams that resume after a break."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import Message

from berm import _convert as convert
from berm import _methods as methods
from berm import _runtime_async as runtime
from berm import errors, types
from berm._gen.berm.v1 import berm_pb2 as pb
from berm._methods import Method, Req, Res
from berm._retry import Retries, is_lost
from berm._status import ClosedError, DisconnectedError, UnreachableError, failure_of
from berm._target import target_of
from berm._trace import Span
from berm.errors import BermError

_FIRST = 5.0  # maximum seconds to wait for a daemon that never replied to this client
_RESUMED = (pb.STREAM_END_REASON_DRAINING, pb.STREAM_END_REASON_SLOW_READER)


class AsyncClient:
    """A daemon, reached by its Unix socket or its address. Connects at the first call.

    Without `socket` and `address`, the client uses BERM_SOCKET, BERM_ADDRESS (with the token in BERM_TOKEN_FILE), or
    bermd's default socket. All times are in seconds. `timeout` is the deadline of a call; a call that asks
    the daemon to wait gets that time in addition. `reconnect` is how long a call or stream waits for a daemon that
    disappeared before it raises UnreachableError; at most 5 if the daemon never replied to this client. A stream
    counts as broken after `silence` seconds without a message.
    """

    def __init__(
        self,
        *,
        socket: str | os.PathLike[str] | None = None,
        address: str | None = None,
        token: str | None = None,
        timeout: float = 60.0,
        reconnect: float = 30.0,
        silence: float = 30.0,
    ):
        self._target = target_of(socket, address, token)
        self._timeout = timeout
        self._reconnect = reconnect
        self._silence = silence
        self._channel: runtime.Channel | None = None
        self._place: object = None
        self._reached = False
        self._closed = False

    @property
    def target(self) -> str:
        """The address of the daemon in gRPC syntax."""
        return self._target.name

    async def info(self) -> types.DaemonInfo:
        """Returns the daemon's version, features and limits."""
        return convert.info_of(await self.call(methods.GET_INFO, pb.GetInfoRequest()))

    async def ping(self, payload: bytes = b"") -> bytes:
        return (await self.call(methods.PING, pb.PingRequest(payload=payload))).payload

    async def events(
        self,
        *,
        since: int | None = None,
        follow: bool = True,
        kinds: Sequence[str] = (),
        sandbox_ids: Sequence[str] = (),
        labels: dict[str, str] | None = None,
        deadline: float | None = None,
    ) -> runtime.Stream[types.Event]:
        """Yields stored events after a sequence (None: all stored events), then new events as they happen. Yields
        each event once and in order, even if the connection breaks or the daemon restarts meanwhile."""
        request = pb.WatchEventsRequest(
            sandbox_ids=sandbox_ids,
            label_selector=convert.pairs(labels, "labels"),
            kinds=[convert.number(pb.EventKind, "EVENT_KIND_", kind, "kinds") for kind in kinds],
            until_now=not follow,
        )
        if since is None:
            request.oldest.SetInParent()
        else:
            request.after_sequence = since
        async with runtime.closing(
            self.follow(methods.WATCH_EVENTS, lambda: request, deadline=deadline)
        ) as messages:
            async for message in messages:
                request.after_sequence = message.sequence
                if message.HasField("event"):
                    yield convert.event_of(message.event)

    async def close(self) -> None:
        """Closes the connection. Programs and sandboxes keep running."""
        self._closed = True
        channel, self._channel = self._channel, None
        if channel is not None and self._place == runtime.here():
            await runtime.close_channel(channel)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- for the other modules: any method ---

    async def call(
        self, method: Method[Req, Res], request: Req, *, wait: float = 0.0, timeout: float | None = None
    ) -> Res:
        """Makes a call with one response. The deadline is `timeout` if given, else the client's timeout plus `wait`,
        the time that the request lets the daemon wait. A `timeout` below 0 means no deadline."""
        seconds = self._timeout + wait if timeout is None else timeout
        retries = Retries(
            time.monotonic,
            reconnect=self._wait_for_daemon(),
            deadline=None if seconds < 0 else time.monotonic() + seconds,
            has_request_id=methods.give_request_id(request),
        )
        span = Span(method.name, request)

        async def attempt(channel: runtime.Channel, left: float | None) -> Res:
            return await runtime.unary(channel, method, request, left, self._metadata(span))

        return await self._attempts(attempt, retries, span)

    async def upload(
        self,
        method: Method[Req, Res],
        header: Message,
        requests: Callable[[], Iterator[Req]],
        *,
        repeatable: bool = True,
    ) -> Res:
        """Sends a stream of requests and returns the response. Sends the stream again from its start when the
        connection breaks. There is no deadline."""
        retries = Retries(
            time.monotonic,
            reconnect=self._wait_for_daemon(),
            has_request_id=methods.give_request_id(header),
            repeatable=repeatable,
        )
        span = Span(method.name, header)
        source = _Source(requests)

        async def attempt(channel: runtime.Channel, left: float | None) -> Res:
            try:
                return await runtime.upload(channel, method, source.start(), left, self._metadata(span))
            except (grpc.RpcError, runtime.Cancelled):
                source.check()  # if the source failed, raises its error instead of the call's
                raise

        return await self._attempts(attempt, retries, span)

    async def _attempts(
        self, attempt: Callable[[runtime.Channel, float | None], Awaitable[Res]], retries: Retries, span: Span
    ) -> Res:
        failure: BermError | None = None
        try:
            while True:
                try:
                    answer = await attempt(self._open(), retries.time_left())
                    self._reached = True
                    return answer
                except grpc.RpcError as error:
                    failure = failure_of(error)
                await self._again(retries, failure, span)
                failure = None
        except BermError as error:
            failure = error
            raise error from None
        finally:
            span.end(failure)

    async def follow(
        self,
        method: Method[Req, Res],
        request: Callable[[], Req],
        *,
        deadline: float | None = None,
        opens: Callable[..., runtime.Call] = runtime.stream,
    ) -> runtime.Stream[Res]:
        """Yields the messages of a stream until it ends. Reopens a broken stream with the current result of
        `request`, so the caller must advance a cursor with each message (RETRY-4)."""
        retries = Retries(time.monotonic, reconnect=self._wait_for_daemon(), deadline=deadline)
        span = Span(method.name, request())
        failure: BermError | None = None
        try:
            while True:
                try:
                    opened = self._messages(method, request(), retries, span, opens)
                    async with runtime.closing(opened) as messages:
                        async for message in messages:
                            yield message
                    return
                except BermError as error:
                    failure = error
                await self._again(retries, failure, span)
                failure = None
        except BermError as error:
            failure = error
            raise error from None
        finally:
            span.end(failure)

    async def _messages(
        self,
        method: Method[Req, Res],
        request: Req,
        retries: Retries,
        span: Span,
        opens: Callable[..., runtime.Call],
    ) -> runtime.Stream[Res]:
        """Opens the stream once and yields its messages until it ends or breaks."""
        call = opens(self._open(), method, request, retries.time_left(), self._metadata(span))
        silence = runtime.Silence(call, self._silence)
        try:
            async for message in call:
                if _is_to_be_resumed(message):
                    raise DisconnectedError("the daemon ended the stream before its end")
                retries.progress()
                self._reached = True
                silence.pause()
                yield message
                silence.resume()
        except (grpc.RpcError, runtime.Cancelled) as error:
            if silence.broken:
                raise DisconnectedError(f"nothing was heard for {self._silence:g} s") from None
            if not isinstance(error, grpc.RpcError):
                raise
            raise failure_of(error) from None
        finally:
            silence.stop()
            call.cancel()

    async def _again(self, retries: Retries, failure: BermError, span: Span) -> None:
        """Sleeps until the next attempt is due. Raises the failure if the call must not be retried."""
        pause = None if self._closed else retries.pause_after(failure)
        if pause is None and self._reconnect == 0 and isinstance(failure, DisconnectedError):
            raise UnreachableError(f"no daemon answered at {self.target}")
        if pause is None:
            raise failure
        span.again(failure)
        await runtime.sleep(pause)
        if not is_lost(failure) or await self._reaches(retries.reconnect_time(), span):
            return
        if retries.time_left() == 0:
            raise errors.DeadlineExceededError(f"no daemon answered at {self.target} before the deadline")
        raise UnreachableError(
            f"no daemon answered at {self.target} for {self._wait_for_daemon():g} s; `berm daemon start` starts one"
        )

    async def _reaches(self, seconds: float, span: Span) -> bool:
        """Pings until a daemon replies, even with an error. Returns False if none replies within `seconds`."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                await runtime.unary(
                    self._open(), methods.PING, pb.PingRequest(), left, self._metadata(span), wait_for_ready=True
                )
            except grpc.RpcError as error:
                failure = failure_of(error)
                if isinstance(failure, errors.DeadlineExceededError):
                    return False
                if is_lost(failure):
                    await runtime.sleep(min(left, 0.05))
                    continue
            return True
        return False

    def _wait_for_daemon(self) -> float:
        """Returns how long a call waits for an unreachable daemon: at most _FIRST if the daemon never replied."""
        return self._reconnect if self._reached else min(self._reconnect, _FIRST)

    def _open(self) -> runtime.Channel:
        if self._closed:
            raise ClosedError()
        if self._channel is None or self._place != runtime.here():
            self._channel, self._place = runtime.open_channel(self._target), runtime.here()
        return self._channel

    def _metadata(self, span: Span) -> runtime.Metadata:
        return [*self._target.metadata, *span.metadata]


def _is_to_be_resumed(message: Message) -> bool:
    end = getattr(message, "end", None)
    return isinstance(end, pb.StreamEnd) and end.reason in _RESUMED


class _Source:
    """The messages of an upload. Keeps an exception of their iterator, which gRPC would discard."""

    def __init__(self, requests: Callable[[], Iterable[Any]]):
        self._requests = requests
        self._error: Exception | None = None

    def start(self) -> Iterator[Any]:
        try:
            yield from self._requests()
        except Exception as error:
            self._error = error
            raise

    def check(self) -> None:
        if self._error is not None:
            raise self._error
