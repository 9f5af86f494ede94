"""What becomes of occurrences that nobody fired in time. Pure; the work is bounded however long nobody was there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tenure.model.errors import ScheduleInvalid
from tenure.model.recurrence.rules import Cron, Recurrence, next_after, occurrences
from tenure.model.recurrence.tally import Tally, tally

AT_MOST = 1000  # occurrences of one schedule fired at once
_SHORTEST_GRACE, _LONGEST_GRACE = timedelta(seconds=5), timedelta(seconds=60)


class Misfire(StrEnum):
    """What is fired of the occurrences that are late: none, the newest (unless one is in time), or the newest n."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Due:
    """Occurrences to fire now, ascending; how many are given up; when to look again (None: never)."""

    fire: tuple[datetime, ...]
    skipped: int
    next_run_at: datetime | None


def grace_of(recurrence: Recurrence) -> timedelta:
    """How late an occurrence may be and still count as in time: a minute; of a short interval its length, at least 5 s."""
    if isinstance(recurrence, Cron):
        return _LONGEST_GRACE
    return min(_LONGEST_GRACE, max(_SHORTEST_GRACE, recurrence.length))


def due(
    recurrence: Recurrence,
    next_run_at: datetime,
    now: datetime,
    policy: Misfire,
    at_most: int = 1,
    *,
    grace: timedelta | None = None,
) -> Due:
    """What to do about a schedule whose stored next occurrence is `next_run_at`. The same stored row, the same answer.

    Occurrences that are late by no more than the grace are fired under every policy. Of the late ones `skip` fires none,
    `once` the newest if nothing is in time, `all` the newest `at_most` (1 to AT_MOST). `skipped` is exact for intervals;
    for cron lines it counts the last 400 days. Raises ScheduleInvalid for another `at_most`.
    """
    if not 1 <= at_most <= AT_MOST:
        raise ScheduleInvalid(f"misfire: 1 to {AT_MOST} occurrences may be caught up, not {at_most}")
    if next_run_at > now:
        return Due((), 0, next_run_at)
    since = now - (grace_of(recurrence) if grace is None else grace)  # what is due from here on is in time
    # What is stored is an occurrence, also where the line or the zone's rules say otherwise by now.
    stored = (next_run_at,) if next_run_at >= since else ()
    after = occurrences(recurrence, max(since, next_run_at + _TICK), now + _TICK, anchor=next_run_at)
    in_time = (*stored, *after)
    late = tally(recurrence, next_run_at, since, keep=at_most) if next_run_at < since else Tally(0, ())
    fire = {
        Misfire.SKIP: (),
        Misfire.ONCE: () if in_time else late.newest[-1:],
        Misfire.ALL: late.newest,
    }[policy]
    return Due(fire + in_time, late.count - len(fire), next_after(recurrence, now, anchor=next_run_at))


def resumed(recurrence: Recurrence, next_run_at: datetime, now: datetime) -> datetime | None:
    """The next occurrence of a schedule that is enabled or resumed: what came while it was off was not missed.

    An interval keeps its step; a `next_run_at` that is still ahead stays.
    """
    if next_run_at > now:
        return next_run_at
    return next_after(recurrence, now, anchor=next_run_at)


_TICK = timedelta(microseconds=1)
