"""Lengths of time as people write them: `90`, `90s`, `5m`, `2h`, `1d`, `250ms`. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

from tenure.model.errors import UsageError, shortened

LONGEST = timedelta(days=36500)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d)?", re.ASCII)
_UNITS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def is_duration(text: str) -> bool:
    """Whether the text has the form of a duration, whatever its size."""
    return _DURATION.fullmatch(text.strip()) is not None


def read_duration(text: str) -> timedelta:
    """More than nothing, at most 100 years. Raises UsageError."""
    found = _DURATION.fullmatch(text.strip())
    length = timedelta(seconds=float(found[1]) * _UNITS[found[2]]) if found else None
    if length is None or not timedelta(0) < length <= LONGEST:
        raise UsageError(f"{shortened(text)!r} is no duration: write 90, 90s, 5m, 2h or 1d")
    return length


def write_duration(seconds: float) -> str:
    """The shortest way to write it that `read_duration` reads back as the same."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
