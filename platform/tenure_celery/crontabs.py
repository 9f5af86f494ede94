"""Celery's `crontab` as a cron line. Both day fields must fit in Celery; in a line either is enough, unless one of them
starts with a star: what cannot be said is refused."""

from __future__ import annotations

from collections.abc import Collection

from celery.schedules import crontab

from tenure_celery.errors import UnsupportedByTenure

_WEEK = 7


def line_of(schedule: crontab) -> str:
    """The five fields. Raises UnsupportedByTenure for two restricted day fields that no line can join."""
    minute, hour = _field(schedule.minute, 0, 59), _field(schedule.hour, 0, 23)
    days, weekdays = _days(schedule.day_of_month, schedule.day_of_week)
    return f"{minute} {hour} {days} {_field(schedule.month_of_year, 1, 12)} {weekdays}"


def _days(days: Collection[int], weekdays: Collection[int]) -> tuple[str, str]:
    of_month, of_week = _field(days, 1, 31), _field(weekdays, 0, 6)
    if "*" in (of_month, of_week):
        return of_month, of_week
    weeks = [nth for nth in range(1, 5) if set(range(_WEEK * nth - 6, _WEEK * nth + 1)) <= set(days)]
    if len(weeks) * _WEEK == len(days):  # the first Monday, as `1-7` and `mon` say it
        return "*", ",".join(f"{day}#{nth}" for nth in weeks for day in sorted(weekdays))
    if step := _step(days, 1, 31):
        return f"*/{step}", of_week
    if step := _step(weekdays, 0, 7):
        return of_month, f"*/{step}"
    raise UnsupportedByTenure(
        f"day_of_month {of_month} and day_of_week {of_week} must both fit in Celery, which a cron line cannot say: "
        "write the n-th weekday as MON#1, or make it two schedules"
    )


def _field(values: Collection[int], low: int, high: int) -> str:
    if len(values) == high - low + 1:
        return "*"
    if len(values) > 2 and (step := _step(values, low, high)):
        return f"*/{step}"
    return ",".join(_ranges(sorted(values)))


def _step(values: Collection[int], low: int, high: int) -> int | None:
    """The step of `*/step` that is exactly these values, or None. A Sunday is 0 and, to `*/7`, also 7."""
    wanted = set(values)
    for step in range(1, high - low + 2):
        said = set(range(low, high + 1, step))
        if (said if high != _WEEK else {day % _WEEK for day in said}) == wanted:
            return step
    return None


def _ranges(values: list[int]) -> list[str]:
    made: list[tuple[int, int]] = []
    for value in values:
        if made and made[-1][1] == value - 1:
            made[-1] = (made[-1][0], value)
        else:
            made.append((value, value))
    return [str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in made]
