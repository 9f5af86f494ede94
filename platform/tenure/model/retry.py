"""When a failed attempt is tried again: pure arithmetic, and the two signals a body may raise."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tenure.model.errors import InvalidKind

LONGEST = 30 * 24 * 3600  # s
STEEPEST = 1000  # its 64th power is still a number


def numeric(value: Any) -> bool:
    """Whether it is a number to compare with: not a string, not a truth value. Not-a-number fails every comparison."""
    return isinstance(value, int | float) and not isinstance(value, bool)


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

    def __post_init__(self) -> None:
        """Raises InvalidKind: the policy is declared with its kind."""
        if not (numeric(self.ceiling) and 0 <= self.ceiling <= LONGEST):
            raise InvalidKind(f"retry policy: ceiling must be 0 to {LONGEST} seconds (30 days)")
        if not (numeric(self.initial) and 0 <= self.initial <= LONGEST):
            raise InvalidKind(f"retry policy: initial must be 0 to {LONGEST} seconds (30 days)")
        if not (numeric(self.factor) and 0 < self.factor <= STEEPEST):
            raise InvalidKind(f"retry policy: factor must be above 0, at most {STEEPEST}")

    def delay(self, failures: int) -> float:
        """Seconds to wait after the given number of failures (1 for the first)."""
        bound = min(self.ceiling, self.initial * self.factor ** min(failures - 1, 64))
        return random.uniform(0, bound) if self.jitter else bound  # noqa: S311 - spreads load, guards nothing
