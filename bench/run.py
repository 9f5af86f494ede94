"""What every part of the bench is given: the servers, how much to do, and where to say what is going on."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.status import Status

from bench.place import Place


@dataclass(frozen=True)
class Run:
    """`scale` shrinks the counts for --quick; repeats stay three at least."""

    place: Place
    status: Status
    console: Console  # stderr
    quick: bool
    repeats: int = 3

    def count(self, full: int) -> int:
        """How many of something to do."""
        return max(1, full // 5) if self.quick else full

    def sized(self, rate: float, full: int) -> int:
        """How many tasks a run has: so many that a slow or loaded machine is done with it in a few seconds."""
        return max(200, min(self.count(full), int(rate * (1.0 if self.quick else 4.0))))

    def say(self, text: str) -> None:
        """What runs now, on stderr."""
        self.status.update(text)
        if not self.console.is_terminal:
            self.console.print(text)
