"""Counting late occurrences without visiting them all: arithmetic for intervals, by whole days for cron lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from tenure.model.recurrence.line import Line, compiled
from tenure.model.recurrence.rules import Cron, Every, Recurrence, occurrences
from tenure.model.recurrence.zones import offsets, to_utc, wall_of, zone_named

DAYS = 400  # how far back the late occurrences of a cron line are counted
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many there are, and the newest of them, ascending."""

    count: int
    newest: tuple[datetime, ...]


def tally(recurrence: Recurrence, first: datetime, end: datetime, *, keep: int) -> Tally:
    """The occurrences from `first`, which counts as one, to `end` (not included); the newest `keep` as moments."""
    if isinstance(recurrence, Every):
        return _of_interval(recurrence, first, end, keep)
    after = _of_line(recurrence, max(first + _TICK, end - timedelta(days=DAYS)), end, keep)
    return Tally(after.count + 1, (first, *after.newest)[-keep:])


def _of_interval(every: Every, first: datetime, end: datetime, keep: int) -> Tally:
    count = -((first - end) // every.length)
    return Tally(count, tuple(first + n * every.length for n in range(max(0, count - keep), count)))


def _of_line(cron: Cron, start: datetime, end: datetime, keep: int) -> Tally:
    line, zone = compiled(cron.line), zone_named(cron.zone)
    start = (start + timedelta(minutes=1) - _TICK).replace(second=0, microsecond=0)
    count, kept_from = 0, end
    for begin, until in _days_back(start, end, zone):
        if count < keep:
            kept_from = begin
        plain = _plain(line, zone, begin, until)
        count += plain if plain is not None else sum(1 for _ in occurrences(cron, begin, until))
    return Tally(count, tuple(occurrences(cron, kept_from, end))[-keep:])


def _days_back(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    """From `start` to `end` cut at the zone's midnights, the newest part first."""
    while end > start:
        midnight = datetime.combine(wall_of(end - _TICK, zone)[0], time())
        begin = max(start, to_utc(midnight, offsets(midnight, zone)[0]))
        yield begin, end
        end = begin


def _plain(line: Line, zone: ZoneInfo, begin: datetime, end: datetime) -> int | None:
    """How many times a line has in this part of a day, which begins with a minute; None near a shift, where the times must be looked at."""
    if (begin - timedelta(days=1)).astimezone(zone).utcoffset() != end.astimezone(zone).utcoffset():
        return None
    wall, last = wall_of(begin, zone)[0], wall_of(end - _TICK, zone)[0]
    if not line.on(wall.date()):
        return 0
    return line.before(last.hour, last.minute + 1) - line.before(wall.hour, wall.minute)
