"""Occurrences around everything that clocks do, against an oracle that goes minute by minute."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tenure.model.recurrence import Every, next_after, occurrences, parse_cron
from tests.support.cron_lines import ZONES, lines
from tests.support.cron_oracle import fires
from tests.support.tasks import scale
from tests.support.transitions import transitions

AROUND = timedelta(hours=3)
LINES = lines(scale(200, 20))


def windows(name: str) -> list[tuple[datetime, datetime]]:
    moments = transitions(ZoneInfo(name), 2000, 2037)
    if name == "Asia/Kolkata":
        assert not moments
        moments = [datetime(year, month, 1, tzinfo=UTC) for year in range(2000, 2038) for month in (1, 7)]
    return [(at - AROUND, at + AROUND) for at in moments]


@pytest.mark.parametrize("name", ZONES)
def test_a_line_fires_when_the_rule_says_around_every_shift_from_2000_to_2037(name: str) -> None:
    zone = ZoneInfo(name)
    draw = random.Random(name)
    for start, end in windows(name):
        for line in LINES:
            expected = fires(line, zone, start, end)
            cron = parse_cron(line, name)
            found = list(occurrences(cron, start, end))
            assert found == expected, (line, start)
            # And from moments that are no occurrences, in the second pass of a fold among them.
            moment = start + timedelta(seconds=draw.randrange(int(2 * AROUND.total_seconds())))
            later = next((at for at in expected if at > moment), None)
            answer = next_after(cron, moment)
            assert (answer if answer is None or answer < end else None) == later, (line, moment)


@pytest.mark.parametrize("name", ZONES)
def test_an_interval_is_elapsed_time_whatever_clocks_do(name: str) -> None:
    for start, end in windows(name)[:: scale(1, 8)]:
        for minutes in (1, 7, 60, 90):
            every = Every(minutes * 60)
            expected = [start + n * timedelta(minutes=minutes) for n in range(1000)]
            assert list(occurrences(every, start, end)) == [at for at in expected if at < end]
