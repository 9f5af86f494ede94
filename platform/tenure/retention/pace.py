"""How many rows a batch looks at: so many that its statement takes a good part of what it may. Pure."""

from __future__ import annotations

from typing import Final

TARGET: Final = 0.12  # s that a statement should take
MOST_SECONDS: Final = 0.24  # s after which the server ends it; it is tried again with fewer rows
LEAST: Final = 10
MOST: Final = 20_000
TRIES: Final = 20  # of the smallest batch


class Pace:
    """`rows` for the next batch. It grows by at most twice, so that one lucky batch decides little."""

    def __init__(self, rows: int = 1_000) -> None:
        self.rows = rows
        self._failed = 0

    def took(self, seconds: float, seen: int) -> None:
        """A batch of `seen` rows went well. A short last one says nothing about the size."""
        self._failed = 0
        if seen * 2 >= self.rows:
            factor = min(2.0, max(0.25, TARGET / max(seconds, 1e-6)))
            self.rows = min(MOST, max(LEAST, int(self.rows * factor)))

    def too_long(self) -> bool:
        """A batch was ended by the server. False: it was of the smallest size too often, so size is not what is wrong."""
        self._failed += self.rows <= LEAST
        self.rows = max(LEAST, self.rows // 4)
        return self._failed < TRIES
