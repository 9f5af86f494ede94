"""How fast a counter rises and how long it will take: what a reader makes of progress it sees. Pure.

Never an estimate of the whole run: of the counter it is given, one phase's or one task's.
"""

from __future__ import annotations

from collections import deque

WINDOW = 120.0  # s: what is older says nothing of the pace now
SAMPLES = 30  # kept at most, spread over the window
QUIET = 5.0  # s without a sample: from then on the time that passes counts as time without progress
_SPACING = WINDOW / SAMPLES


class Pace:
    """Fed with (time in seconds, done, total) as they are seen; time from any clock that does not go back."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._done = 0
        self._total: int | None = None

    def add(self, at: float, done: int, total: int | None) -> None:
        """A sample. It begins anew when `done` has fallen or `total` is another; one that is not newer is passed over."""
        samples = self._samples
        if samples and at <= samples[-1][0]:
            return
        if done < self._done or total != self._total:
            samples.clear()
        self._done, self._total = done, total
        # The newest always stands. The one before it goes unless it is as far from its own as thirty in two minutes are.
        if len(samples) > 1 and samples[-1][0] - samples[-2][0] < _SPACING:
            samples.pop()
        samples.append((at, done))
        self._forget(at)

    def rate(self, now: float) -> float | None:
        """Per second, over the window; None with less than two samples in it."""
        self._forget(now)
        if len(self._samples) < 2:
            return None
        (began, first), (last, done) = self._samples[0], self._samples[-1]
        until = last if now - last <= QUIET else now
        return (done - first) / (until - began)

    def left(self, now: float) -> float | None:
        """Seconds until `total` at this rate, counted from `now`. None: no total, no rate, all done, or overdue."""
        rate = self.rate(now)
        if not rate or not self._total or self.finishing:
            return None
        silence = now - self._samples[-1][0]
        # It counts down between samples; in a long silence the rate falls instead, and the time left grows.
        seconds = (self._total - self._done) / rate - (silence if silence <= QUIET else 0.0)
        return seconds if seconds > 0 else None

    @property
    def finishing(self) -> bool:
        """Whether all is counted: what is left to do is not in the counter."""
        return bool(self._total) and self._done >= (self._total or 0)

    def _forget(self, now: float) -> None:
        while self._samples and now - self._samples[0][0] > WINDOW:
            self._samples.popleft()
