"""What a cron line and an interval may say, and what is said about one that may not."""

import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tenure.model.errors import ScheduleInvalid, UsageError
from tenure.model.recurrence import Cron, Every, next_after, occurrences, parse_cron
from tenure.model.recurrence.line import MACROS, compiled
from tests.support.cron_lines import lines
from tests.support.cron_oracle import matches
from tests.support.tasks import scale

NOW = datetime(2026, 3, 5, 14, 33, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("61 * * * *", "minute '61'"),
        ("0 24 * * *", "hour '24'"),
        ("0 0 1,0 * *", "day-of-month '0'"),
        ("0 0 * 1-FRO *", "month '1-FRO'"),
        ("0 0 * * FRI-MON", "day-of-week 'FRI-MON'"),
        ("*/0 * * * *", "minute '*/0'"),
        ("0 0 1,,2 * *", "day-of-month ''"),
        ("٣ * * * *", "minute '٣'"),
        ("* * *", "3 fields; a line has 5"),
        ("* * * * * *", "6 fields: seconds"),
        ("", "0 fields"),
        ("@reboot", "no such macro; there are @yearly"),
        ("0 0 30 2 *", "no date is ever"),
        ("0 0 31 4,6,9,11 *", "no date is ever"),
        ("0 0 */31 2 MON#5", "no date is ever"),
        ("9" * 5000 + " * * * *", "longer than 200 characters"),
    ],
)
def test_a_line_that_means_nothing_is_refused_by_field_and_value(line: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as refusal:
        parse_cron(line, "UTC")
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 260


@pytest.mark.parametrize("name", ["", "Europe", "Europe/Olso", "../../etc/passwd", "/etc/localtime", "localtime", "\0"])
def test_an_unknown_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(ScheduleInvalid, match="no such IANA zone"):
        Cron("0 0 * * *", name)


def test_a_zone_that_counts_leap_seconds_is_refused() -> None:
    with pytest.raises(ScheduleInvalid, match="is Europe/Oslo meant"):
        Cron("0 0 * * *", "right/Europe/Oslo")


def test_a_misspelt_zone_is_answered_with_the_one_it_resembles() -> None:
    with pytest.raises(ScheduleInvalid, match="is Europe/Oslo meant"):
        Cron("0 0 * * *", "europe/olso")


def test_a_line_is_kept_as_it_was_written_with_single_spaces() -> None:
    assert parse_cron("  */5   * * jan-mar\tmon ", "UTC").line == "*/5 * * jan-mar mon"
    assert parse_cron("@Daily", "UTC").line == "@Daily"


def test_a_macro_is_its_line() -> None:
    for macro, line in MACROS.items():
        of_macro, of_line = parse_cron(macro, "Europe/Oslo"), parse_cron(line, "Europe/Oslo")
        assert next_after(of_macro, NOW) == next_after(of_line, NOW)
    assert next_after(parse_cron("@hourly", "UTC"), NOW) == datetime(2026, 3, 5, 15, tzinfo=UTC)


def test_every_minute_around_a_leap_day_matches_as_the_oracle_says() -> None:
    start, end = datetime(2024, 2, 24), datetime(2024, 3, 3)
    for line in lines(scale(200, 30)):
        expected, wall = [], start
        while wall < end:
            if matches(line, wall):
                expected.append(wall)
            wall += timedelta(minutes=1)
        found, at = [], compiled(line).after(start - timedelta(minutes=1))
        while at is not None and at < end:
            found.append(at)
            at = compiled(line).after(at)
        assert found == expected, line


@pytest.mark.parametrize(
    ("line", "after", "found"),
    [
        ("0 0 29 2 *", (2096, 3, 1), (2104, 2, 29)),  # 2100 has none
        ("0 0 29 2 */7", (2088, 3, 1), (2128, 2, 29)),  # the next on a Sunday
        ("0 0 13 * FRI", (2026, 3, 1), (2026, 3, 6)),  # both fields restrict: one is enough
        ("0 0 */2 * FRI", (2026, 3, 1), (2026, 3, 13)),  # one starts with a star: both must fit
        ("59 23 31 12 *", (2026, 12, 31), (2026, 12, 31)),
        ("0 0 LW * *", (2026, 5, 1), (2026, 5, 29)),
        ("0 0 * * FRI#5", (2026, 3, 1), (2026, 5, 29)),
        ("0 0 1 1 *", (2199, 1, 1), (2200, 1, 1)),
    ],
)
def test_rare_days_are_found(line: str, after: tuple[int, ...], found: tuple[int, ...]) -> None:
    answer = next_after(parse_cron(line, "UTC"), datetime(*after, tzinfo=UTC))
    assert answer is not None
    assert answer.date() == datetime(*found).date()


def test_the_next_time_costs_microseconds_however_far_it_is() -> None:
    """Ten thousand schedules are looked at in passing: nothing steps through minutes or through a year's days."""
    draw = random.Random(1)
    moments = [NOW + timedelta(seconds=draw.randrange(365 * 86_400)) for _ in range(20)]
    # In the second pass of a two-hour fold nearly all of it has had its turn.
    fold = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    for line, zone, at, bound in [
        *((line, "Europe/Oslo", moments, 250e-6) for line in (*lines(200), "59 23 31 12 *", "0 0 29 2 *")),
        ("* 0-3 * * *", "Antarctica/Troll", [fold], 500e-6),
        ("* * 30 12 *", "Pacific/Apia", [datetime(2011, 12, 30, 9, tzinfo=UTC)], 500e-6),
    ]:
        cron = parse_cron(line, zone)
        assert min(cost(cron, at) for _ in range(5)) < bound, line


def cost(cron: Cron, moments: list[datetime]) -> float:
    """Seconds of processor time for one answer."""
    began = time.process_time()
    for moment in moments:
        next_after(cron, moment)
    return (time.process_time() - began) / len(moments)


def test_zones_exist_where_the_system_has_none() -> None:
    code = "import zoneinfo; from tenure.model.recurrence.zones import zone_named; print(zoneinfo.TZPATH, zone_named('Europe/Oslo'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONTZPATH": ""}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "() Europe/Oslo\n"


def test_an_answer_is_strictly_after_the_moment() -> None:
    cron = parse_cron("33 14 * * *", "UTC")
    exactly = datetime(2026, 3, 5, 14, 33, tzinfo=UTC)
    assert next_after(cron, exactly - timedelta(microseconds=1)) == exactly
    assert next_after(cron, exactly) == exactly + timedelta(days=1)
    assert next_after(cron, exactly + timedelta(microseconds=1)) == exactly + timedelta(days=1)


def test_the_zone_of_the_moment_does_not_matter() -> None:
    cron = parse_cron("30 2 * * *", "Europe/Oslo")
    for name in ("Asia/Tokyo", "America/New_York"):
        assert next_after(cron, NOW.astimezone(ZoneInfo(name))) == next_after(cron, NOW)


def test_a_moment_without_a_zone_is_refused() -> None:
    for recurrence in (Every(60), parse_cron("* * * * *", "UTC")):
        with pytest.raises(UsageError, match="no time zone"):
            next_after(recurrence, datetime(2026, 1, 1))


def test_time_ends_without_an_error() -> None:
    end = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert next_after(Every(3600), end) is None
    assert next_after(parse_cron("* * * * *", "Pacific/Kiritimati"), end) is None
    assert next_after(parse_cron("0 0 1 1 *", "UTC"), datetime(9997, 6, 1, tzinfo=UTC)) is not None


@pytest.mark.parametrize("seconds", [0, -1, 0.09, float("nan"), float("inf"), 3.2e9, True, "5"])
def test_an_interval_nobody_means_is_refused(seconds: float) -> None:
    with pytest.raises(ScheduleInvalid, match="interval"):
        Every(seconds)


def test_an_interval_keeps_the_step_of_its_anchor_on_both_sides() -> None:
    anchor = datetime(2026, 3, 5, 0, 0, 0, 250_000, tzinfo=UTC)
    assert next_after(Every(0.5), NOW, anchor=anchor) == NOW + timedelta(seconds=0.25)
    assert next_after(Every(0.5), anchor, anchor=anchor) == anchor + timedelta(seconds=0.5)
    assert next_after(Every(3600), anchor - timedelta(days=1, minutes=1), anchor=anchor) == anchor - timedelta(days=1)
    assert next_after(Every(90), NOW) == NOW + timedelta(seconds=90)


def test_a_range_includes_its_start_and_not_its_end() -> None:
    start, end = datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 3, 6, tzinfo=UTC)
    for recurrence in (Every(3600), parse_cron("@hourly", "UTC")):
        found = list(occurrences(recurrence, start, end))
        assert (len(found), found[0], found[-1]) == (24, start, end - timedelta(hours=1))
    assert list(occurrences(Every(3600), end, start)) == []
