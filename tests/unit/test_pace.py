"""How fast and how long: the rules, on hand-made and on recorded progress."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model.pace import QUIET, SAMPLES, WINDOW, Pace


def fed(*samples: tuple[float, int], total: int | None = 1000) -> Pace:
    pace = Pace()
    for at, done in samples:
        pace.add(at, done, total)
    return pace


def test_nothing_is_said_of_less_than_two_samples() -> None:
    assert fed().rate(0.0) is None
    one = fed((1.0, 10))
    assert (one.rate(1.0), one.left(1.0)) == (None, None)


def test_rate_and_time_left_follow_from_the_samples() -> None:
    pace = fed((0.0, 0), (1.0, 100), (2.0, 200))
    assert pace.rate(2.0) == 100
    assert pace.left(2.0) == 8
    assert pace.left(2.5) == 7.5, "it counts down between samples"


def test_without_a_total_there_is_a_rate_and_no_time_left() -> None:
    pace = fed((0.0, 0), (1.0, 100), total=None)
    assert (pace.rate(1.0), pace.left(1.0), pace.finishing) == (100, None, False)


def test_a_total_of_nothing_is_no_total() -> None:
    pace = fed((0.0, 0), (1.0, 0), total=0)
    assert (pace.left(1.0), pace.finishing) == (None, False)


def test_at_a_rate_of_zero_there_is_no_time_left() -> None:
    pace = fed((0.0, 5), (1.0, 5), (2.0, 5))
    assert (pace.rate(2.0), pace.left(2.0)) == (0, None)


@pytest.mark.parametrize(
    ("done", "total"), [(150, 2000), (99, 1000), (0, 1000)], ids=["another total", "less done", "from the start"]
)
def test_it_begins_anew_when_the_counter_falls_or_the_total_changes(done: int, total: int) -> None:
    pace = fed((0.0, 0), (1.0, 100))
    pace.add(2.0, done, total)
    assert (pace.rate(2.0), pace.left(2.0)) == (None, None)
    pace.add(3.0, done + 10, total)
    assert pace.rate(3.0) == 10, "what came before does not count"


def test_when_all_is_counted_it_is_finishing_and_says_no_time() -> None:
    pace = fed((0.0, 0), (1.0, 1000))
    assert pace.finishing
    assert pace.left(1.0) is None
    assert pace.rate(500.0) is None
    assert pace.finishing, "also long after"


def test_only_the_last_two_minutes_count() -> None:
    slow = [(float(at), at) for at in range(0, 600, 10)]
    fast = [(600.0 + at, 600 + 50 * at) for at in range(0, 130, 10)]
    pace = fed(*slow, *fast, total=100_000)
    assert pace.rate(720.0) == pytest.approx(50, rel=0.05)


def test_samples_every_second_still_cover_the_whole_window() -> None:
    pace = fed(*((float(at), at * at) for at in range(400)), total=10**6)
    assert len(pace._samples) <= SAMPLES
    covered = pace._samples[-1][0] - pace._samples[0][0]
    assert WINDOW * 0.9 <= covered <= WINDOW
    assert pace._samples[-1] == (399.0, 399 * 399)


def test_silence_slows_the_rate_and_ends_with_none() -> None:
    pace = fed(*((float(at), 10 * at) for at in range(21)), total=10_000)
    assert pace.rate(20.0 + QUIET) == 10
    assert pace.rate(60.0) == pytest.approx(200 / 60)
    assert pace.rate(20.0 + WINDOW + 1) is None
    assert pace.left(20.0 + WINDOW + 1) is None


def test_an_estimate_that_has_passed_is_not_said() -> None:
    pace = fed((0.0, 0), (1.0, 500), total=1000)
    assert pace.left(1.5) == 0.5
    assert pace.left(2.5) is None


def test_a_sample_that_is_not_newer_is_passed_over() -> None:
    pace = fed((0.0, 0), (1.0, 100))
    pace.add(1.0, 900, 1000)
    pace.add(0.5, 900, 1000)
    assert pace.rate(1.0) == 100


# -- as they were recorded: [read at, written at, done, total] in seconds from the first; when the phase ended -------------

TRACES = Path(__file__).parent / "traces"


def replayed(name: str) -> Iterator[tuple[float, float, float | None, Pace]]:
    """(read at, seconds since the last write, time left as said, the pace) of each read of a recorded phase."""
    trace = json.loads((TRACES / f"{name}.json").read_text())
    pace = Pace()
    for read_at, written_at, done, total in trace["reads"]:
        pace.add(written_at, done, total)
        yield trace["ended"] - read_at, read_at - written_at, pace.left(read_at), pace


@pytest.mark.parametrize("name", ["reindex", "steady"])
def test_of_a_recorded_run_the_time_left_is_right_from_the_second_write_on(name: str) -> None:
    said = [(truth, left) for truth, _, left, pace in replayed(name) if len(pace._samples) > 1 and truth > 0.2]
    assert len(said) > 40
    assert all(left is not None and abs(left - truth) <= 1.3 for truth, left in said)


def test_of_a_recorded_run_that_stood_still_the_time_left_grows_until_it_goes_on() -> None:
    silent = [(left, pace.rate(0.0)) for _, silence, left, pace in replayed("stalled") if silence > QUIET]
    grown = [left for left, _ in silent if left is not None]
    assert len(grown) == len(silent) > 10
    assert grown == sorted(grown)
    assert grown[0] > 5, "not the rest of a countdown"


STEPS = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.integers(0, 500), st.sampled_from([None, 0, 100, 400])), min_size=1, max_size=80
)


@given(steps=STEPS, later=st.floats(0.0, 300.0))
def test_whatever_is_seen_the_answers_make_sense(steps: list[tuple[float, int, int | None]], later: float) -> None:
    pace, at = Pace(), 0.0
    for wait, done, total in steps:
        at += wait
        pace.add(at, done, total)
        now = at + later
        rate, left = pace.rate(now), pace.left(now)
        assert rate is None or rate >= 0
        assert left is None or (left > 0 and rate)
        assert not (pace.finishing and left is not None)
        assert len(pace._samples) <= SAMPLES


@given(
    rate=st.integers(1, 10_000), seconds=st.integers(2, 300), pace_of_reads=st.sampled_from([0.2, 1.0, 5.0]), over=st.integers(1, 1000)
)  # fmt: skip
def test_at_a_steady_rate_the_estimate_is_the_truth(rate: int, seconds: int, pace_of_reads: float, over: int) -> None:
    pace, total = Pace(), rate * (seconds + over)
    count = max(2, int(seconds / pace_of_reads))
    for number in range(count + 1):
        at = number * pace_of_reads
        pace.add(at, int(rate * at), total)
    now = count * pace_of_reads
    left = pace.left(now)
    if now < seconds + over:
        assert left == pytest.approx(
            seconds + over - now, rel=0.02, abs=1 / rate * 3 + 0.5 * (seconds + over) / (rate * now)
        )
