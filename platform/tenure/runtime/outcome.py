"""What a body's return or exception means for its task: pure, so that every case is a line in a test."""

from __future__ import annotations

import json
import traceback
from types import TracebackType

from pydantic import BaseModel

from tenure.model.errors import InvalidParams, TenureError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Ended
from tenure.model.retry import Reject, Retry
from tenure.model.stops import Cancelled, DeadlineExceeded, LeaseLost, ShuttingDown, Stop

MESSAGE = 500  # characters of a stored message

SUCCEEDED = Ended("succeed", "succeeded")
PARTIALLY = Ended("partially_succeed", "partially_succeeded", activity="complete_with_error")
CANCELLED = Ended("acknowledge_cancel", "cancelled", activity="cancelled")
RELEASE = Ended("release", "queued")
LOST = Ended("lost", "")  # nothing may be written: another attempt may hold the task


def failed(outcome: str, code: str, message: str) -> Ended:
    verb = "reject" if outcome == "rejected" else "fail"
    return Ended(verb, "failed", outcome, code, shortened(message, MESSAGE), activity="failed")


def encode_result(value: object, limit: int) -> str | None:
    """JSON text of a body's return value. ValueError when it is no JSON value, or larger than `limit` bytes."""
    if value is None:
        return None
    if isinstance(value, BaseModel):
        text = value.model_dump_json()
    else:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text.encode()) > limit:
        raise ValueError(f"the result is larger than {limit} bytes")
    if "\\u0000" in text:
        raise ValueError("the result holds a NUL character")
    return text


def of_exception(error: BaseException, spec: KindSpec, claimed: Claimed) -> Ended:
    """The end that an exception of the body asks for."""
    if isinstance(error, Stop):
        return _of_stop(error, spec)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return _of_stop(ShuttingDown(), spec)  # a cold shutdown raises inside the body
    if isinstance(error, Reject | InvalidParams):
        return failed("rejected", "rejected", str(error))
    message = sanitized(error)
    if isinstance(error, Retry):
        return _again(spec, claimed, "retry", message, error.after)
    if spec.max_attempts > 1 and isinstance(error, spec.retry.on):
        return _again(spec, claimed, type(error).__name__, message, None)
    return failed("error", type(error).__name__, message)


def _of_stop(stop: Stop, spec: KindSpec) -> Ended:
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
    return Ended("retry_later", "scheduled", None, code, shortened(message, MESSAGE), available_after=delay)


def sanitized(error: BaseException) -> str:
    """A message fit to be stored: our own and the author's Retry as they are, others by class and place only.

    An exception's own text may hold rows, URLs or driver messages.
    """
    if isinstance(error, TenureError | Retry):
        return shortened(error, MESSAGE)
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
