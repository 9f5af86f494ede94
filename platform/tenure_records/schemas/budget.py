"""Whether a document can be judged here: only if even the worst case ends in time, as nothing can stop the library."""

from __future__ import annotations

import re
from typing import Final

from .bounds import HERE_SECONDS
from .weights import Cost

_HERE_NS: Final = HERE_SECONDS * 1e9
_LONG_INTEGER: Final = re.compile("[0-9]{19,}")
# `1.5,`: no exact number is shorter.
_SHORTEST: Final = 4
_COMPARED_NS: Final = 12_000
# Naming one place takes about 16 µs; an evaluation of 20 ns may lead to one.
_NAMED: Final = 800


class Budget:
    """How long a text may be for a schema of this cost."""

    __slots__ = ("_cost", "_free", "_free_named", "_named")

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._named = Cost(cost.character * _NAMED, cost.number, cost.string, cost.unique)
        self._free, self._free_named = _longest(self._cost), _longest(self._named)

    def admits(self, text: str) -> bool:
        """Whether a verdict surely comes in time."""
        return len(text) <= self._free or _worst(self._cost, text) <= _HERE_NS

    def admits_findings(self, text: str) -> bool:
        """Whether the places surely can be named in time."""
        return len(text) <= self._free_named or _worst(self._named, text) <= _HERE_NS


def _longest(cost: Cost) -> int:
    """The length up to which no text can be too costly, whatever it holds."""
    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _nanoseconds(cost, middle, middle / _SHORTEST) <= _HERE_NS else (low, middle - 1)
    return low


def _worst(cost: Cost, text: str) -> float:
    if cost.number or cost.unique:
        numbers = text.count(".") + text.count("e") + text.count("E")
        numbers += sum(1 + len(digits) // 16 for digits in _LONG_INTEGER.findall(text))
    else:
        numbers = 0
    return _nanoseconds(cost, len(text), numbers)


def _nanoseconds(cost: Cost, length: int, numbers: float) -> float:
    compared = cost.unique * numbers * numbers * _COMPARED_NS
    return length * (cost.character + cost.string) + numbers * cost.number + compared
