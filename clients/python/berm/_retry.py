"""Decides whether a call is retried, and after which pause. No I/O and no clock of its own.

The client retries a failure that the daemon reported if its `retry` allows, with at most five attempts. A lost
connection, or a daemon that is shutting down, does not count as an attempt: the call may reconnect until `reconnect`
seconds after the first loss. No retry starts after the call's deadline (RETRY-1 to RETRY-3).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from berm._status import DisconnectedError
from berm.errors import BermError, ShuttingDownError

INITIAL, FACTOR, CAP, ATTEMPTS = 0.1, 2.0, 5.0, 5


def is_lost(failure: BermError) -> bool:
    return isinstance(failure, (DisconnectedError, ShuttingDownError))


class Retries:
    """The attempts of one call, or of one stream and its resumptions."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        reconnect: float,
        deadline: float | None = None,
        has_request_id: bool = False,
        repeatable: bool = True,
    ):
        self._clock = clock
        self._reconnect = reconnect
        self._deadline = deadline
        self._has_request_id = has_request_id
        self._repeatable = repeatable
        self.progress()

    def progress(self) -> None:
        """Forgets earlier failures, because the daemon replied."""
        self._answers = 0
        self._losses = 0
        self._lost_at: float | None = None

    def time_left(self) -> float | None:
        """Returns the seconds until the deadline, or None if there is no deadline."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())

    def reconnect_time(self) -> float:
        """Returns how many seconds the call may still wait for a connection."""
        since = self._clock() if self._lost_at is None else self._lost_at
        left = max(0.0, since + self._reconnect - self._clock())
        until = self.time_left()
        return left if until is None else min(left, until)

    def pause_after(self, failure: BermError) -> float | None:
        """Returns the seconds until the next attempt, or None if the call must not be retried."""
        if is_lost(failure):
            if not self._repeatable:
                return None
            if self._lost_at is None:
                self._lost_at = self._clock()
            if self.reconnect_time() == 0:
                return None
            self._losses += 1
            pause = self._backoff(self._losses)
        else:
            if failure.retry != "later" and not (failure.retry == "check" and self._has_request_id):
                return None
            self._answers += 1
            if not self._repeatable or self._answers >= ATTEMPTS:
                return None
            pause = self._backoff(self._answers)
        left = self.time_left()
        return None if left is not None and pause >= left else pause

    @staticmethod
    def _backoff(number: int) -> float:
        return random.uniform(0, min(CAP, INITIAL * FACTOR ** (number - 1)))
