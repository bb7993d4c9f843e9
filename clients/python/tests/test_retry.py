"""Tests when a call is retried, after which pause, and when it fails, with the numbers of the spec."""

import pathlib
import re

import pytest

from berm import _retry, errors
from berm._retry import Retries
from berm._status import DisconnectedError

SPEC = (pathlib.Path(__file__).parents[3] / "spec/behavior.md").read_text()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(_retry.random, "uniform", lambda low, high: high)
    return Clock()


def limit(name):
    return int(re.search(rf"`{name}` \| (\d+)", SPEC)[1])


def test_numbers_are_the_specs():
    # covers: RETRY-1
    assert _retry.INITIAL * 1000 == limit("retry.initial")
    assert _retry.CAP * 1000 == limit("retry.cap")
    assert _retry.ATTEMPTS == limit("retry.attempts")


def test_an_answered_failure_has_five_attempts_with_growing_pauses(clock):
    # covers: RETRY-1
    retries = Retries(clock, reconnect=30)
    pauses = [retries.pause_after(errors.LimitReachedError()) for _ in range(5)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, None]


def test_the_pause_is_capped_and_jittered(clock, monkeypatch):
    # covers: RETRY-1
    assert Retries._backoff(20) == _retry.CAP
    seen = []
    monkeypatch.setattr(_retry.random, "uniform", lambda low, high: seen.append((low, high)) or low)
    assert Retries._backoff(3) == 0 and seen == [(0, 0.4)]


@pytest.mark.parametrize("failure, has_id, again", [
    (errors.LimitReachedError(), False, True),        # retry: later
    (errors.SandboxNotFoundError(), True, False),     # retry: never
    (errors.GuestLostError(), True, True),            # retry: check, with a request id
    (errors.GuestLostError(), False, False),          # retry: check, without a request id
    (errors.BermError(reason="NEWER", retry="later"), False, True),
    (errors.BermError(reason="NEWER", retry="never"), True, False),
])
def test_what_may_be_retried(clock, failure, has_id, again):
    # covers: RETRY-2
    pause = Retries(clock, reconnect=30, has_request_id=has_id).pause_after(failure)
    assert (pause is not None) == again


@pytest.mark.parametrize("lost", [DisconnectedError(), errors.ShuttingDownError()])
def test_a_daemon_that_is_down_is_waited_for_and_takes_no_attempt(clock, lost):
    retries = Retries(clock, reconnect=30)
    for _ in range(20):
        assert retries.pause_after(lost) is not None
    clock.now += 29.9
    assert retries.pause_after(lost) is not None
    assert retries.reconnect_time() == pytest.approx(0.1)
    clock.now += 0.1
    assert retries.pause_after(lost) is None


def test_progress_forgets_what_failed(clock):
    retries = Retries(clock, reconnect=30)
    for _ in range(100):
        assert retries.pause_after(DisconnectedError()) == 0.1
        clock.now += 29
        retries.progress()


def test_no_attempt_after_the_deadline(clock):
    retries = Retries(clock, reconnect=30, deadline=clock.now + 0.25)
    assert retries.pause_after(errors.LimitReachedError()) == 0.1
    clock.now += 0.1
    assert retries.pause_after(errors.LimitReachedError()) is None   # a pause of 0.2 s would end after the deadline
    assert retries.reconnect_time() == pytest.approx(0.15)


def test_what_cannot_be_sent_again_is_not(clock):
    retries = Retries(clock, reconnect=30, has_request_id=True, repeatable=False)
    assert retries.pause_after(DisconnectedError()) is None
    assert retries.pause_after(errors.LimitReachedError()) is None
