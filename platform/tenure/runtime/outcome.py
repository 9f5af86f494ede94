"""What a body's return or exception means for its task: pure, so that every case is a line in a test."""

from __future__ import annotations

import json
import math
import re
import signal
from typing import NoReturn

import psycopg2
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import InvalidParams, InvalidResult
from tenure.model.faults import chain, sanitized, storable, stored_stack, text_of
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Ended
from tenure.model.retry import Reject, Retry
from tenure.model.stops import Cancelled, DeadlineExceeded, LeaseLost, ShuttingDown, Stop
from tenure.store.connect import dumps

SUCCEEDED = Ended("succeed", "succeeded")
DECIDE = Ended("decide", "")  # the body has returned; what that means is for its items and counters to say
CANCELLED = Ended("acknowledge_cancel", "cancelled", activity="cancelled")
RELEASE = Ended("release", "queued")
LOST = Ended("lost", "")  # nothing may be written: another attempt may hold the task
UNKNOWN_VERSION = "unknown_version"
UNKNOWN_VERSION_PAUSE = 10.0  # s until a worker looks again; each look is written into the task's history
DISCONNECTED = Ended("recover", "")  # the database went away under the body: settled as a lost worker's task is

_SIGNALS = {signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1, signal.SIGABRT}
LONGEST_DELAY = 3650 * 86_400.0  # s: a later retry is no retry
DIGITS = 10_000  # of one number: jsonb holds more, nobody reads them
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # escaped in JSON text, not a backslash followed by u0000


def failed(outcome: str, code: str, message: str, *, stack: str | None = None) -> Ended:
    verb = "reject" if outcome == "rejected" else "fail"
    return Ended(verb, "failed", outcome, storable(code), storable(message), activity="failed", stack=stack)


UNSTORABLE = failed(
    "error", "invalid_result", "what the task said at its end cannot be stored: see its result and summary"
)


def unknown_version(spec: KindSpec, version: int) -> Ended:
    """Params that this worker cannot read: the task goes back, for a worker that can."""
    known = f"{spec.oldest} to {spec.version}" if spec.oldest < spec.version else f"{spec.version}"
    said = f"its params are of version {version}, the worker that looked knows {known}"
    return Ended("release", "queued", None, UNKNOWN_VERSION, said, available_after=UNKNOWN_VERSION_PAUSE)


def encode_result(value: object, limit: int) -> str | None:
    """JSON text of a body's return value. InvalidResult when jsonb cannot hold it, or it exceeds `limit` bytes."""
    if value is None:
        return None
    try:
        text = value.model_dump_json() if isinstance(value, BaseModel) else dumps(value)
        size = len(text.encode())
        if size <= limit:
            json.loads(text, parse_constant=_refuse, parse_int=_short, parse_float=_short)  # as strictly as jsonb
    except (TypeError, ValueError, RecursionError):
        raise InvalidResult(
            "the result is no JSON value: return text, finite numbers, booleans, None, lists and dicts of these, or a model"
        ) from None
    if size > limit:
        raise InvalidResult(f"the result is {size} bytes, the limit is {limit} (TENURE_RESULT_BYTES)")
    if _NUL.search(text):
        raise InvalidResult("the result holds a NUL character, which PostgreSQL cannot store")
    return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _short(number: str) -> None:
    if len(number) > DIGITS or len(number.lower().partition("e")[2]) > 5:
        raise ValueError("a number of too many digits")


def of_database(error: BaseException) -> bool:
    """Whether an error of the database is this error, or behind it."""
    return any(isinstance(link, DBAPIError | psycopg2.Error) for link in chain(error, hidden=True))


def of_exception(error: BaseException, spec: KindSpec, claimed: Claimed) -> Ended:
    """The end that an exception of the body asks for."""
    if isinstance(error, Stop):
        return of_stop(error, spec)
    if by_signal(error):
        return of_stop(ShuttingDown(), spec)  # a cold shutdown raises inside the body
    if isinstance(error, Reject | InvalidParams):
        return failed("rejected", "rejected", text_of(error))
    if isinstance(error, InvalidResult):
        return failed("error", "invalid_result", text_of(error))  # the same body makes the same result: no retry
    message, stack = sanitized(error), stored_stack(error)
    if isinstance(error, Retry):
        return _again(spec, claimed, "retry", message, error.after)
    if spec.max_attempts > 1 and isinstance(error, spec.retry.on):
        return _again(spec, claimed, type(error).__name__, message, None, stack)
    return failed("error", type(error).__name__, message, stack=stack)


def by_signal(error: BaseException) -> bool:
    """Whether this is the SystemExit that Celery's child raises for a signal: its code is the signal's number less 256.

    A body that calls sys.exit() has failed, and is not handed on for ever.
    """
    return isinstance(error, SystemExit) and isinstance(error.code, int) and error.code + 256 in _SIGNALS


def of_stop(stop: Stop, spec: KindSpec) -> Ended:
    """The end that a stop asks for; LOST: none may be written."""
    if isinstance(stop, LeaseLost):
        return LOST
    if isinstance(stop, Cancelled):
        return CANCELLED
    if isinstance(stop, DeadlineExceeded):
        return failed("deadline_exceeded", "deadline_exceeded", stop.message)
    if spec.on_shutdown == "release":
        return RELEASE
    return failed("service_unavailable", "service_unavailable", "the worker was shut down; submit the task again")


def _again(
    spec: KindSpec, claimed: Claimed, code: str, message: str, after: float | None, stack: str | None = None
) -> Ended:
    failures = claimed.attempt - claimed.crashes
    if failures >= claimed.max_attempts:
        return failed("attempts_exhausted" if claimed.max_attempts > 1 else "error", code, message, stack=stack)
    asked = after if after is not None and math.isfinite(after) else spec.retry.delay(failures)
    delay = min(max(asked, 0.0), LONGEST_DELAY)
    return Ended("retry_later", "scheduled", None, storable(code), storable(message), available_after=delay)
