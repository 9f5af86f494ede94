"""A cron line as wall-clock times: pure calendar, no zone. `cronsim` reads the fields and knows the days."""

from __future__ import annotations

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from tenure.model.errors import ScheduleInvalid, shortened

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST = 200  # characters
FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L (the last) or LW (the last from Monday to Friday)",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 (0 and 7 are Sunday) or SUN-SAT, MON#2 (the second), 5L (the last Friday)",
}
LAST_YEAR = 9998
# 29 February falls on a given weekday every 28 years, across a century without one every 40.
HORIZON_YEARS = 50
_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 (a wall clock's, of no zone)


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says of minutes, hours, months (sorted) and days."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    matches_day: Callable[[date], bool]

    @property
    def every_hour(self) -> bool:
        """Whether the hour field covers every hour: such a line follows elapsed time."""
        return len(self.hours) == 24

    def on(self, day: date) -> bool:
        """Whether it has times on this date."""
        return day.month in self.months and self.matches_day(day)

    def after(self, wall: datetime) -> datetime | None:
        """Its first time in a minute after that of `wall`; None when 50 years have none, or time ends."""
        day = wall.date()
        if self.on(day) and (found := self._later(wall.hour, wall.minute)) is not None:
            return datetime.combine(day, found)
        last = min(day.year + HORIZON_YEARS, LAST_YEAR)
        while (day := self._next_day(day)).year <= last:
            if self.on(day):
                return datetime.combine(day, time(self.hours[0], self.minutes[0]))
        return None

    def before(self, hour: int, minute: int) -> int:
        """How many of its times of a day lie before this one."""
        at = bisect_left(self.hours, hour)
        within = bisect_left(self.minutes, minute) if self.hours[at : at + 1] == (hour,) else 0
        return at * len(self.minutes) + within

    def _later(self, hour: int, minute: int) -> time | None:
        at = bisect_left(self.hours, hour)
        if at < len(self.hours) and self.hours[at] == hour:
            within = bisect_right(self.minutes, minute)
            if within < len(self.minutes):
                return time(hour, self.minutes[within])
            at += 1
        return time(self.hours[at], self.minutes[0]) if at < len(self.hours) else None

    def _next_day(self, day: date) -> date:
        """The next date, or the first of the next month that the line names."""
        if day.month in self.months and day.day < calendar.monthrange(day.year, day.month)[1]:
            return day + timedelta(days=1)
        year, month = day.year, day.month
        while True:
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if month in self.months:
                return date(year, month, 1)


@lru_cache(maxsize=2048)
def compiled(line: str) -> Line:
    """A line of five fields or a macro. Raises ScheduleInvalid naming the field and its value."""
    said = f"cron {shortened(line)!r}"
    text = line.strip()
    if text.startswith("@"):
        if text.lower() not in MACROS:
            raise ScheduleInvalid(f"{said}: no such macro; there are {', '.join(MACROS)}")
        text = MACROS[text.lower()]
    fields = text.split()
    if len(fields) != 5 or len(text) > LONGEST:
        raise ScheduleInvalid(f"{said}: {_wrong_shape(fields)}")
    try:
        sim = CronSim(text, _SOME_DAY)
    except CronSimError:
        raise ScheduleInvalid(f"{said}: {_wrong_field(fields)}") from None
    made = Line(tuple(sorted(sim.minutes)), tuple(sorted(sim.hours)), frozenset(sim.months), sim.match_day)
    if made.after(_SOME_DAY) is None:
        raise ScheduleInvalid(f"{said}: {_NEVER}")
    return made


_NEVER = "no date is ever all that day-of-month, month and day-of-week ask for"


def _wrong_shape(fields: list[str]) -> str:
    if len(fields) == 6:
        return "6 fields: seconds and years are not supported; below a minute use an interval (--every 10s)"
    if len(fields) == 5:
        return f"longer than {LONGEST} characters"
    return f"{len(fields)} fields; a line has 5: minute, hour, day-of-month, month, day-of-week"


def _wrong_field(fields: list[str]) -> str:
    """Which term of which field it is. Fields are tried one by one: what is wrong only together never comes."""
    for at, (name, allowed) in enumerate(FIELDS.items()):
        for term in fields[at].split(","):
            alone = ["*"] * 5
            alone[at] = term
            try:
                CronSim(" ".join(alone), _SOME_DAY)
            except CronSimError:
                return (
                    f"{name} {shortened(term, 30)!r} is not understood; it takes {allowed}, a-b, */n, and lists of them"
                )
    return _NEVER
