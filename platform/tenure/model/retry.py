"""When a failed attempt is tried again: pure arithmetic, and the two signals a body may raise."""

from __future__ import annotations

import random
from dataclasses import dataclass


class Retry(Exception):
    """Raised by a body: try again, after so many seconds (None: the kind's backoff). Counts as an attempt."""

    def __init__(self, message: str = "retry asked", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Reject(Exception):
    """Raised by a body: the request itself is wrong; the task ends `failed / rejected` with this reason, as given."""


@dataclass(frozen=True)
class RetryPolicy:
    """Backoff of one kind. `on` lists the exception classes worth another attempt; delays in seconds, full jitter."""

    initial: float = 5.0
    factor: float = 2.0
    ceiling: float = 900.0
    jitter: bool = True
    on: tuple[type[BaseException], ...] = (Exception,)

    def delay(self, failures: int) -> float:
        """Seconds to wait after the given number of failures (1 for the first)."""
        bound = min(self.ceiling, self.initial * self.factor ** min(failures - 1, 64))
        return random.uniform(0, bound) if self.jitter else bound  # noqa: S311 - spreads load, guards nothing
