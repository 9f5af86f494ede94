"""What a cron line means, minute by minute over UTC, written from the rule alone: slow, plain, independent.

Knows nothing of the product's code, nor of the library it parses lines with. The rule: a line whose hour field covers
every hour fires at every minute whose wall clock matches. Any other line fires at a matching wall time once: on the
first pass when a fold shows it twice, at the gap's end when a gap skips it.
"""

from __future__ import annotations

import calendar
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def fires(line: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """All whole minutes of UTC from start to end (not included) at which the line fires."""
    minutes, hours = (_values(field, 0, high, ()) for field, high in zip(line.split()[:2], (59, 23), strict=True))
    every_hour = len(hours) == 24
    found = []
    for minute, wall, skipped, second_pass in _clock(zone, start, end):
        if wall.minute not in minutes and not skipped:
            continue
        if every_hour:
            fired = matches(line, wall)
        else:
            fired = (matches(line, wall) and not second_pass) or any(matches(line, one) for one in skipped)
        if fired:
            found.append(minute)
    return found


@lru_cache(maxsize=4)
def _clock(
    zone: ZoneInfo, start: datetime, end: datetime
) -> tuple[tuple[datetime, datetime, tuple[datetime, ...], bool], ...]:
    """Per minute: UTC, the wall clock, what it skipped to get there, whether it has shown this before."""
    told: list[tuple[datetime, datetime, tuple[datetime, ...], bool]] = []
    shown: set[datetime] = set()
    at = start - timedelta(hours=6)  # longer than any fold
    before = _wall(at - MINUTE, zone)
    while at < end:
        wall = _wall(at, zone)
        skipped = tuple(before + n * MINUTE for n in range(1, (wall - before) // MINUTE))
        if at >= start:
            told.append((at, wall, skipped, wall in shown))
        shown.add(wall)
        at, before = at + MINUTE, wall
    return tuple(told)


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def matches(line: str, wall: datetime) -> bool:
    """Whether a wall time fits the five fields."""
    minute, hour, day, month, weekday = line.split()
    return (
        _in(minute, wall.minute, 0, 59, ())
        and _in(hour, wall.hour, 0, 23, ())
        and _in(month, wall.month, 1, 12, _MONTHS)
        and _fits_day(day, weekday, wall)
    )


def _fits_day(day: str, weekday: str, wall: datetime) -> bool:
    """Both day fields must fit if one of them starts with a star, else one is enough."""
    of_month = any(_is_day(term, wall) for term in day.split(","))
    of_week = any(_is_weekday(term, wall) for term in weekday.split(","))
    return (of_month and of_week) if day[0] == "*" or weekday[0] == "*" else (of_month or of_week)


def _is_day(term: str, wall: datetime) -> bool:
    last = calendar.monthrange(wall.year, wall.month)[1]
    if term == "L":
        return wall.day == last
    if term == "LW":
        return wall.day == max(d for d in range(1, last + 1) if calendar.weekday(wall.year, wall.month, d) < 5)
    return _in(term, wall.day, 1, 31, ())


def _is_weekday(term: str, wall: datetime) -> bool:
    number = wall.isoweekday()
    both = (number, number % 7)  # Sunday is 7 and 0
    if "#" in term:
        name, _, nth = term.partition("#")
        return _number(name, _DAYS) in both and (wall.day + 6) // 7 == int(nth)
    if term[-1] == "L":
        return int(term[:-1]) in both and (wall + timedelta(days=7)).month != wall.month
    return any(_in(term, one, 0, 7, _DAYS) for one in both)


def _in(field: str, value: int, low: int, high: int, names: tuple[str, ...]) -> bool:
    return value in _values(field, low, high, names)


@lru_cache(maxsize=4096)
def _values(field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(value for term in field.split(",") for value in _of_term(term, low, high, names))


def _of_term(term: str, low: int, high: int, names: tuple[str, ...]) -> range:
    what, _, step = term.partition("/")
    if what == "*":
        first, last = low, high
    elif "-" in what:
        first, last = (_number(part, names) for part in what.split("-"))
    else:
        first = _number(what, names)
        last = high if step else first
    return range(first, last + 1, int(step or 1))


def _number(text: str, names: tuple[str, ...]) -> int:
    return names.index(text.upper()) if text.upper() in names else int(text)
