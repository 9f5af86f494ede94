"""When a zone's clocks are set: found by looking at its offsets, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo


def transitions(zone: ZoneInfo, first_year: int, last_year: int) -> list[datetime]:
    """The minutes of UTC at which the offset changes, ascending."""
    found = []
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    while at < end:
        later = at + timedelta(hours=12)
        if at.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(_between(at, later, zone))
        at = later
    return found


def _between(early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    was = early.astimezone(zone).utcoffset()
    while late - early > timedelta(minutes=1):
        middle = early + (late - early) // 2
        middle = middle.replace(second=0, microsecond=0)
        if middle.astimezone(zone).utcoffset() == was:
            early = middle
        else:
            late = middle
    return late
