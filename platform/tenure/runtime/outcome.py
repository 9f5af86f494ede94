"""What a body's return or exception means for its task: pure, so that every case is a line in a test."""

from __future__ import annotations

import re
import traceback
from types import TracebackType

import psycopg2
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import InvalidParams, InvalidResult, TenureError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Ended
from tenure.model.retry import Reject, Retry
from tenure.model.stops import Cancelled, DeadlineExceeded, LeaseLost, ShuttingDown, Stop
from tenure.store.connect import dumps

MESSAGE = 500  # characters of a stored message

SUCCEEDED = Ended("succeed", "succeeded")
PARTIALLY = Ended("partially_succeed", "partially_succeeded", activity="complete_with_error")
CANCELLED = Ended("acknowledge_cancel", "cancelled", activity="cancelled")
RELEASE = Ended("release", "queued")
LOST = Ended("lost", "")  # nothing may be written: another attempt may hold the task
DISCONNECTED = Ended("recover", "")  # the database went away under the body: settled as a lost worker's task is

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # escaped in JSON text, not a backslash followed by u0000


def failed(outcome: str, code: str, message: str) -> Ended:
    verb = "reject" if outcome == "rejected" else "fail"
    return Ended(verb, "failed", outcome, code, storable(message), activity="failed")


def storable(text: str) -> str:
    """One line, shortened, without what PostgreSQL's text refuses: NUL and lone surrogates."""
    return shortened(text.replace("\0", "").encode(errors="replace").decode(), MESSAGE)


def encode_result(value: object, limit: int) -> str | None:
    """JSON text of a body's return value. InvalidResult when jsonb cannot hold it, or it exceeds `limit` bytes."""
    if value is None:
        return None
    try:
        text = value.model_dump_json() if isinstance(value, BaseModel) else dumps(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise InvalidResult(
            "the result is no JSON value: return text, finite numbers, booleans, None, lists and dicts of these, or a model"
        ) from None
    if size > limit:
        raise InvalidResult(f"the result is {size} bytes, the limit is {limit} (TENURE_RESULT_BYTES)")
    if _NUL.search(text):
        raise InvalidResult("the result holds a NUL character, which PostgreSQL cannot store")
    return text


def of_database(error: BaseException) -> bool:
    """Whether an error of the database is this error, or behind it."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, DBAPIError | psycopg2.Error):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def of_exception(error: BaseException, spec: KindSpec, claimed: Claimed) -> Ended:
    """The end that an exception of the body asks for."""
    if isinstance(error, Stop):
        return of_stop(error, spec)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return of_stop(ShuttingDown(), spec)  # a cold shutdown raises inside the body
    if isinstance(error, Reject | InvalidParams):
        return failed("rejected", "rejected", str(error))
    if isinstance(error, InvalidResult):
        return failed("error", "invalid_result", str(error))  # the same body makes the same result: no retry
    message = sanitized(error)
    if isinstance(error, Retry):
        return _again(spec, claimed, "retry", message, error.after)
    if spec.max_attempts > 1 and isinstance(error, spec.retry.on):
        return _again(spec, claimed, type(error).__name__, message, None)
    return failed("error", type(error).__name__, message)


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


def _again(spec: KindSpec, claimed: Claimed, code: str, message: str, after: float | None) -> Ended:
    failures = claimed.attempt - claimed.crashes
    if failures >= claimed.max_attempts:
        return failed("attempts_exhausted" if claimed.max_attempts > 1 else "error", code, message)
    delay = spec.retry.delay(failures) if after is None else max(after, 0.0)
    return Ended("retry_later", "scheduled", None, code, storable(message), available_after=delay)


def sanitized(error: BaseException) -> str:
    """A message fit to be stored: our own and the author's Retry as they are, others by class and place only.

    An exception's own text may hold rows, URLs or driver messages.
    """
    if isinstance(error, TenureError | Retry):
        return storable(str(error))
    place = _place(error.__traceback__)
    return f"unexpected {type(error).__name__}{place}; the worker's log has the stack"


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    own = [f for f in frames if "site-packages" not in f.filename]
    if not own:
        return ""
    last = own[-1]
    return f" in {last.name} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def stack(error: BaseException) -> list[str]:
    """The stack without values: file, line and function of each frame, the way a log may hold it."""
    return [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
