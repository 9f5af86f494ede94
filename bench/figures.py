"""A figure: what was measured, beside what it is compared with in the same run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """The repeats of one measurement, all kept; what is shown is the median and the range."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True)
class Figure:
    """One line of the table. `lower` says that less is better; `at_least` and `at_most` are aims on ours, `ratio_least`
    and `ratio_most` on ours divided by theirs."""

    part: str
    what: str
    unit: str
    ours: Sample
    against: str = ""
    theirs: Sample | None = None
    at_least: float | None = None
    at_most: float | None = None
    ratio_least: float | None = None
    conditions: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.ours.median / self.theirs.median

    @property
    def aim(self) -> str:
        said = [
            f"≥ {self.at_least:,g}" if self.at_least is not None else "",
            f"≤ {self.at_most:,g}" if self.at_most is not None else "",
            f"≥ {self.ratio_least:g} ×" if self.ratio_least is not None else "",
        ]
        return ", ".join(part for part in said if part)

    @property
    def reached(self) -> bool | None:
        """Whether every aim was reached; None without one."""
        if not self.aim:
            return None
        return (
            (self.at_least is None or self.ours.median >= self.at_least)
            and (self.at_most is None or self.ours.median <= self.at_most)
            and (self.ratio_least is None or (self.ratio or 0.0) >= self.ratio_least)
        )

    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "part": self.part,
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours.median,
            "ours_repeats": list(self.ours.values),
            "against": self.against or None,
            "theirs": self.theirs.median if self.theirs else None,
            "theirs_repeats": list(self.theirs.values) if self.theirs else None,
            "ratio": self.ratio,
            "aim": self.aim or None,
            "reached": self.reached,
            "conditions": self.conditions,
            **self.details,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
