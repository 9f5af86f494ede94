"""`stubborn`: bodies that do not stop when they are told to, one mode for each way not to hear.

Each leaves a row of the ledger first, so that a test knows when the body is in it.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt

Mode = Literal["cooperative", "sql", "busy", "c_free", "c_held", "swallow", "finally", "deaf", "pool"]
ROUNDS = 2_000_000_000  # of a hash: about half an hour
SUM = 30_000_000_000  # additions: some minutes
_MARK = text("insert into ledger (task_id, step, token) values (:task_id, :step, :token)")


class Stubborn(BaseModel):
    """How it spends its time, and how long at most where that can be said."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode = "cooperative"
    seconds: float = 60.0


def work(attempt: Attempt, params: Stubborn) -> None:
    _mark(attempt, 1)
    _WAYS[params.mode](attempt, params.seconds)
    _mark(attempt, 2)


def _mark(attempt: Attempt, step: int) -> None:
    with attempt.transaction() as tx:
        tx.execute(_MARK, {"task_id": attempt.task_id, "step": step, "token": attempt.token})


def _cooperative(attempt: Attempt, seconds: float) -> None:
    attempt.sleep(seconds)
    attempt.check()


def _sql(attempt: Attempt, seconds: float) -> None:
    with attempt.connection() as connection:
        connection.execute(text("select pg_sleep(:s)"), {"s": seconds})


def _busy(attempt: Attempt, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def _c_free(attempt: Attempt, seconds: float) -> None:
    hashlib.pbkdf2_hmac("sha256", b"word", b"salt", ROUNDS)


def _c_held(attempt: Attempt, seconds: float) -> None:
    sum(range(SUM))


def _swallow(attempt: Attempt, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
            attempt.check()
        except Exception:
            pass


def _finally(attempt: Attempt, seconds: float) -> None:
    try:
        _cooperative(attempt, seconds)
    finally:
        time.sleep(60)


def _deaf(attempt: Attempt, seconds: float) -> None:
    time.sleep(seconds)


def _pool(attempt: Attempt, seconds: float) -> None:
    """More connections than one attempt may have: the last is waited for."""
    with contextlib.ExitStack() as opened:
        for _ in range(17):
            opened.enter_context(attempt.connection())


_WAYS: dict[str, Callable[[Attempt, float], None]] = {
    "cooperative": _cooperative,
    "sql": _sql,
    "busy": _busy,
    "c_free": _c_free,
    "c_held": _c_held,
    "swallow": _swallow,
    "finally": _finally,
    "deaf": _deaf,
    "pool": _pool,
}

stubborn = kind("stubborn", params=Stubborn)(work)
handed_on = kind("stubborn.handed_on", params=Stubborn, on_shutdown="release")(work)
finishing = kind("stubborn.finishing", params=Stubborn, on_shutdown="finish")(work)
brief = kind("stubborn.brief", params=Stubborn, on_shutdown="finish", drain=2.0)(work)
