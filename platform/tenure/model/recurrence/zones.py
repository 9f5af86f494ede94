"""IANA zones, and what their clocks do: skip times (a gap) or show them twice (a fold). Pure but for the zone data.

The system's zone data wins; the package `tzdata` serves where there is none. PYTHONTZPATH= lets the package win.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tenure.model.errors import ScheduleInvalid, shortened

# Zones of the host, or that count leap seconds: another beat would know another time.
_NOT_IANA = ("localtime", "posixrules", "Factory", "posix/", "right/")


@dataclass(frozen=True, slots=True)
class Shift:
    """The clock is set from one offset to another `at` an instant (UTC); `start` to `end` (not included) is the wall
    time that is skipped or shown twice."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def start(self) -> datetime:
        return (self.at + min(self.before, self.after)).replace(tzinfo=None)

    @property
    def end(self) -> datetime:
        return (self.at + max(self.before, self.after)).replace(tzinfo=None)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Raises ScheduleInvalid for a name that is no IANA zone."""
    try:
        if name.startswith(_NOT_IANA):
            raise ValueError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleInvalid(f"zone {shortened(name)!r}: no such IANA zone{_meant(name)}") from None


def _meant(name: str) -> str:
    known = {zone.lower(): zone for zone in available_timezones()}
    near = get_close_matches(name[:60].lower(), known, n=1)
    return f"; is {known[near[0]]} meant?" if near else ", Europe/Oslo is one"


def wall_of(moment: datetime, zone: ZoneInfo) -> tuple[datetime, bool]:
    """The wall time of a moment, without a zone, and whether it is the second pass of a fold."""
    local = moment.astimezone(zone)
    return local.replace(tzinfo=None, fold=0), bool(local.fold)


def offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets before and after the shift that a wall time is in; equal where there is none."""
    first, second = wall.replace(tzinfo=zone).utcoffset(), wall.replace(tzinfo=zone, fold=1).utcoffset()
    assert first is not None and second is not None  # noqa: PT018 (a ZoneInfo always answers)
    return first, second


def shift_at(wall: datetime, zone: ZoneInfo) -> Shift | None:
    """The shift that skips or repeats this wall time, or None."""
    before, after = offsets(wall, zone)
    if before == after:
        return None
    early, late = sorted((to_utc(wall, before), to_utc(wall, after)))
    while late - early > timedelta(seconds=1):  # the shift lies in (early, late]
        middle = early + (late - early) // 2
        if middle.astimezone(zone).utcoffset() == after:
            late = middle
        else:
            early = middle
    return Shift(late.replace(microsecond=0), before, after)


def to_utc(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC)
