"""When something recurs: cron lines in IANA zones, and intervals of elapsed time. Moments are aware, answers in UTC.

A cron line whose hour field covers every hour follows elapsed time: a moment matches by what its wall clock shows, so
both passes of a fold match and a gap of whole hours loses nothing. Of any other line a wall time that a gap skips runs
once, at the gap's end, and one that a fold shows twice runs on the first pass only. An interval ignores the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tenure.model.errors import ScheduleInvalid, UsageError, shortened
from tenure.model.recurrence.line import LAST_YEAR, Line, compiled
from tenure.model.recurrence.zones import Shift, offsets, shift_at, to_utc, wall_of, zone_named
from tenure.model.retry import numeric

SHORTEST = 0.1  # s
LONGEST = 36_525 * 86_400.0  # s; a hundred years
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """A line of five fields or a macro, and the IANA zone it is read in. Raises ScheduleInvalid for what is neither."""

    line: str
    zone: str

    def __post_init__(self) -> None:
        compiled(self.line)
        zone_named(self.zone)


@dataclass(frozen=True, slots=True)
class Every:
    """So many seconds of elapsed time, to the microsecond: 0.1 s to a hundred years. Raises ScheduleInvalid."""

    seconds: float

    def __post_init__(self) -> None:
        if not (numeric(self.seconds) and SHORTEST <= self.seconds <= LONGEST):
            said = f"{SHORTEST} to {LONGEST:.0f} seconds are allowed"
            raise ScheduleInvalid(f"interval {shortened(self.seconds, 30)}: {said}")

    @property
    def length(self) -> timedelta:
        return timedelta(seconds=self.seconds)


Recurrence = Cron | Every


def parse_cron(line: str, zone: str) -> Cron:
    """The line with single spaces, as it is stored and shown. Raises ScheduleInvalid naming the field and its value."""
    return Cron(" ".join(line.split()), zone)


def next_after(recurrence: Recurrence, moment: datetime, *, anchor: datetime | None = None) -> datetime | None:
    """The first occurrence strictly after an aware moment, in UTC; None when there is none before the year 9999.

    An interval is counted from `anchor`, one of its occurrences (before or after the moment), without one from `moment`.
    """
    moment = _in_utc(moment)
    if isinstance(recurrence, Cron):
        line, zone = compiled(recurrence.line), zone_named(recurrence.zone)
        if moment.year >= LAST_YEAR:
            return None
        return _elapsed(line, zone, moment) if line.every_hour else _fixed(line, zone, moment)
    start = moment if anchor is None else _in_utc(anchor)
    passed = (moment - start) // recurrence.length
    try:
        return start + (passed + 1) * recurrence.length
    except OverflowError:
        return None


def occurrences(
    recurrence: Recurrence, start: datetime, end: datetime, *, anchor: datetime | None = None
) -> Iterator[datetime]:
    """Those from `start` to `end` (not included), ascending. An interval without an anchor has one at `start`."""
    start, end = _in_utc(start), _in_utc(end)
    anchor = start if anchor is None else _in_utc(anchor)
    at = next_after(recurrence, start - _TICK, anchor=anchor)
    while at is not None and at < end:
        yield at
        at = next_after(recurrence, at, anchor=anchor)


def _in_utc(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise UsageError(f"{moment.isoformat()} has no time zone: give one, UTC for example")
    return moment.astimezone(UTC)


def _fixed(line: Line, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """Of a line whose hour field leaves hours out."""
    wall, _ = wall_of(moment, zone)
    while (wall_next := line.after(wall)) is not None:
        before, after = offsets(wall_next, zone)
        if after > before:  # in a gap, which lies ahead: no clock has shown its times
            shift = shift_at(wall_next, zone)
            return shift.at if shift else None
        if (at := to_utc(wall_next, before)) > moment:
            return at
        # The moment is in the second pass of a fold, and the first has had all of this.
        shift = shift_at(wall_next, zone)
        wall = shift.end - _TICK if shift else wall_next
    return None


def _elapsed(line: Line, zone: ZoneInfo, moment: datetime) -> datetime | None:
    """Of a line whose hour field covers every hour."""
    wall, second_pass = wall_of(moment, zone)
    ahead = None if second_pass else _fold_at(wall, zone)  # the fold in whose first pass the moment is
    while True:
        found = line.after(wall)
        if ahead is not None and (found is None or found >= ahead.end):
            wall, ahead = ahead.start - _TICK, None
            continue
        if found is None:
            return None
        before, after = offsets(found, zone)
        if after > before:
            shift = shift_at(found, zone)
            wall = shift.end - _TICK if shift else found
            continue
        first = to_utc(found, before)
        return first if first > moment else to_utc(found, after)


def _fold_at(wall: datetime, zone: ZoneInfo) -> Shift | None:
    before, after = offsets(wall, zone)
    return shift_at(wall, zone) if before > after else None
