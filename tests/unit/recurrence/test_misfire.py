"""What becomes of occurrences that were missed: each policy, however long nobody was there."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from tenure.model.errors import ScheduleInvalid
from tenure.model.recurrence import Cron, Every, Misfire, Recurrence, due, next_after, occurrences, parse_cron, resumed
from tenure.model.recurrence.tally import tally
from tests.support.cron_lines import ZONES, lines

NOW = datetime(2026, 3, 30, 12, 0, 30, tzinfo=UTC)  # a day after the clocks of Oslo were set
TICK = timedelta(microseconds=1)
DOWN = [timedelta(minutes=5), timedelta(hours=5), timedelta(days=5)]
RECURRENCES: list[Recurrence] = [
    Every(10),
    Every(90),
    Every(7 * 3600),
    parse_cron("* * * * *", "Europe/Oslo"),
    parse_cron("*/7 * * * *", "America/New_York"),
    parse_cron("30 2 * * *", "Europe/Oslo"),
]


def missed(recurrence: Recurrence, down: timedelta) -> list[datetime]:
    """What a schedule that was last looked at so long ago has had since, one by one."""
    first = next_after(recurrence, NOW - down, anchor=NOW - down)
    assert first is not None
    return list(occurrences(recurrence, first, NOW + TICK, anchor=first)) or [first]


def grace(recurrence: Recurrence) -> timedelta:
    if isinstance(recurrence, Cron):
        return timedelta(seconds=60)
    return timedelta(seconds=min(60, max(5, recurrence.seconds)))


@pytest.mark.parametrize("recurrence", RECURRENCES, ids=str)
@pytest.mark.parametrize("down", DOWN, ids=str)
@pytest.mark.parametrize("policy", Misfire)
def test_each_policy_fires_what_it_promises_and_counts_the_rest(
    recurrence: Recurrence, down: timedelta, policy: Misfire
) -> None:
    every = missed(recurrence, down)
    found = due(recurrence, every[0], NOW, policy, 3)
    past = [at for at in every if at <= NOW]
    in_time = [at for at in past if NOW - at <= grace(recurrence)]
    late = past[: len(past) - len(in_time)]
    caught_up = {Misfire.SKIP: [], Misfire.ONCE: late[-1:] if not in_time else [], Misfire.ALL: late[-3:]}[policy]
    assert list(found.fire) == caught_up + in_time
    assert found.skipped == len(late) - len(caught_up)
    assert found.next_run_at == (next_after(recurrence, NOW, anchor=every[0]) if past else every[0])


@pytest.mark.parametrize("recurrence", RECURRENCES, ids=str)
def test_once_after_days_is_one_run_or_what_is_in_time(recurrence: Recurrence) -> None:
    found = due(recurrence, missed(recurrence, timedelta(days=5))[0], NOW, Misfire.ONCE)
    assert len(found.fire) == (2 if recurrence == Every(10) else 1)  # ten seconds ago is in time


@pytest.mark.parametrize("policy", Misfire)
def test_what_is_in_time_fires_under_every_policy(policy: Misfire) -> None:
    for seconds in (0.0, 3.0, 59.0):
        at = NOW - timedelta(seconds=seconds)
        assert due(Every(3600), at, NOW, policy).fire == (at,)
    assert due(Every(0.5), NOW - timedelta(seconds=1.2), NOW, policy).fire == tuple(
        NOW - timedelta(seconds=1.2 - step) for step in (0, 0.5, 1.0)
    )


def test_what_is_not_due_is_left_alone() -> None:
    for policy in Misfire:
        found = due(Every(60), NOW + TICK, NOW, policy)
        assert (found.fire, found.skipped, found.next_run_at) == ((), 0, NOW + TICK)


@pytest.mark.parametrize("ago", [timedelta(seconds=20), timedelta(minutes=20), timedelta(days=500)], ids=str)
def test_a_stored_time_that_the_line_does_not_have_is_an_occurrence_all_the_same(ago: timedelta) -> None:
    """Somebody moved it, or the zone's rules were changed since it was computed: the day's run must not be lost."""
    cron, stored = parse_cron("30 2 * * *", "Europe/Oslo"), NOW - ago
    found = due(cron, stored, NOW, Misfire.ALL, 1000)
    assert found.fire[0] == stored
    assert found.fire[1:] == tuple(occurrences(cron, max(stored, NOW - timedelta(days=400)), NOW))
    assert found.skipped == 0
    assert found.next_run_at == next_after(cron, NOW)
    once = due(cron, stored, NOW, Misfire.ONCE)
    assert once.fire == found.fire[-1:]
    assert once.skipped == len(found.fire) - 1


def test_the_grace_can_be_set() -> None:
    at = NOW - timedelta(minutes=10)
    assert due(Every(3600), at, NOW, Misfire.SKIP).fire == ()
    assert due(Every(3600), at, NOW, Misfire.SKIP, grace=timedelta(minutes=10)).fire == (at,)
    assert due(Every(3600), at, NOW, Misfire.SKIP, grace=timedelta(0)).skipped == 1


@pytest.mark.parametrize("at_most", [0, -1, 1001])
def test_catching_up_has_bounds(at_most: int) -> None:
    with pytest.raises(ScheduleInvalid, match="1 to 1000"):
        due(Every(1), NOW, NOW, Misfire.ALL, at_most)


@pytest.mark.parametrize("recurrence", RECURRENCES, ids=str)
@pytest.mark.parametrize("off", DOWN, ids=str)
def test_what_came_while_a_schedule_was_off_is_not_missed(recurrence: Recurrence, off: timedelta) -> None:
    stored = missed(recurrence, off)[0]
    at = resumed(recurrence, stored, NOW)
    assert at is not None
    assert at > NOW or at == stored
    assert at == (stored if stored > NOW else next_after(recurrence, NOW, anchor=stored))
    for policy in Misfire:
        assert due(recurrence, at, NOW, policy).fire == ()
        assert due(recurrence, at, at, policy).fire == (at,)


def test_an_interval_longer_than_the_time_between_restarts_fires_on_time() -> None:
    every, stored, clock = Every(3600), NOW + timedelta(hours=1), NOW
    for _ in range(30):  # each restart looks at what is stored, and changes nothing
        clock += timedelta(minutes=1, seconds=58)
        found = due(every, stored, clock, Misfire.ONCE)
        assert found.fire == ()
        assert found.next_run_at is not None
        stored = found.next_run_at
    assert due(every, stored, NOW + timedelta(hours=1), Misfire.ONCE).fire == (NOW + timedelta(hours=1),)


@pytest.mark.parametrize("name", ZONES)
def test_late_occurrences_are_counted_as_if_one_by_one(name: str) -> None:
    draw = random.Random(name)
    for line in lines(25):
        cron = parse_cron(line, name)
        end = datetime(draw.randint(2001, 2036), draw.choice((3, 4, 10, 11)), draw.randint(1, 28), tzinfo=UTC)
        end += timedelta(minutes=draw.randrange(1440), seconds=draw.choice((0, 30)))
        first = end - timedelta(minutes=draw.randrange(1, 40 * 1440), seconds=draw.choice((0, 45)))
        following = next_after(cron, first)
        if following is not None and following < end and draw.random() < 0.5:
            first = following
        keep = draw.choice((1, 3, 100))
        every = [first, *occurrences(cron, first + TICK, end)]
        found = tally(cron, first, end, keep=keep)
        assert (found.count, list(found.newest)) == (len(every), every[-keep:]), (line, first, end)


@pytest.mark.parametrize(
    ("recurrence", "skipped"),
    [
        (Every(0.1), 3 * 365 * 864_000 - 50),
        (parse_cron("* * * * *", "America/New_York"), 400 * 1440),
        (parse_cron("* * * 5 *", "America/New_York"), 31 * 1440),
        (parse_cron("0 0 29 2 *", "America/New_York"), 0),
    ],
    ids=str,
)
def test_three_years_down_cost_little(recurrence: Recurrence, skipped: int) -> None:
    first = next_after(recurrence, NOW - timedelta(days=3 * 365), anchor=NOW - timedelta(days=3 * 365))
    assert first is not None
    fastest, found = 9.9, due(recurrence, first, NOW, Misfire.ALL, 1000)
    for _ in range(5):
        began = time.process_time()
        due(recurrence, first, NOW, Misfire.ALL, 1000)
        fastest = min(fastest, time.process_time() - began)
    assert len(found.fire) <= 1060
    assert found.skipped == pytest.approx(max(0, skipped - 1000), abs=3)
    assert fastest < 0.2
