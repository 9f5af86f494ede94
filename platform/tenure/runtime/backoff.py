"""The retry state of one loop: how long to wait before the next try. Never waits by anything but a stop-aware sleep."""

import math
import random

from tenure.runtime.shutdown import StopAware


class Backoff:
    """Delays in seconds from `initial`, times `factor` at each failure, up to `ceiling`; for one loop, one thread.

    An initial delay above the ceiling is clamped to it: a schedule never counts downwards. ValueError when a value is
    not a finite number, a time is not positive, or the factor is below 1. With `jitter` each wait is drawn evenly from
    0 to `delay()`, so that many loops that failed together do not come back together.
    """

    def __init__(
        self, initial: float = 5.0, factor: float = 2.0, ceiling: float = 900.0, *, jitter: bool = False
    ) -> None:
        _require("initial", initial, math.isfinite(initial) and initial > 0, "a finite number of seconds above 0")
        _require("factor", factor, math.isfinite(factor) and factor >= 1, "a finite number of at least 1")
        _require("ceiling", ceiling, math.isfinite(ceiling) and ceiling > 0, "a finite number of seconds above 0")
        self._first = float(min(initial, ceiling))
        self._factor = float(factor)
        self._ceiling = float(ceiling)
        self._jitter = jitter
        self._delay = self._first
        self._attempt = 0

    def delay(self) -> float:
        """Seconds the next `wait` takes; with jitter, the most it takes."""
        return self._delay

    def attempt(self) -> int:
        """Failures since the start or the last success."""
        return self._attempt

    def failed(self) -> None:
        """One step up. To wait the first delay after the first failure, call `wait` before `failed`."""
        self._attempt += 1
        # Stepwise, not initial * factor ** attempt: the power overflows a float after some thousand failures.
        self._delay = min(self._delay * self._factor, self._ceiling)

    def succeeded(self) -> None:
        """Straight back to the first delay and attempt 0."""
        self._delay = self._first
        self._attempt = 0

    def wait(self, watcher: StopAware) -> bool:
        """Sleep the current delay. False when a stop came or was there already: leave the loop, do not retry."""
        # Spreading load, not hiding anything; Python reseeds the generator in each forked child.
        seconds = random.uniform(0.0, self._delay) if self._jitter else self._delay  # noqa: S311
        return watcher.sleep(seconds)


def _require(name: str, value: float, holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"backoff: {name} must be {what}, not {value!r}")
