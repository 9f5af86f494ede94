"""The schedule of a retry loop: it climbs to its ceiling, stays there, and gives way to a stop."""

import math

import pytest

from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import Shutdown


class Diary:
    """A stop-aware sleeper that writes down what it was asked to sleep instead of sleeping."""

    def __init__(self, running: bool = True) -> None:
        self.running = running
        self.slept: list[float] = []

    def is_running(self) -> bool:
        return self.running

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        return self.running


def test_the_default_schedule_doubles_from_5_seconds_to_15_minutes() -> None:
    backoff, diary = Backoff(), Diary()
    for _ in range(10):
        assert backoff.wait(diary)
        backoff.failed()
    assert diary.slept == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert backoff.attempt() == 10


def test_twenty_failures_stay_at_the_ceiling_and_so_do_thousands() -> None:
    backoff = Backoff()
    for _ in range(20):
        backoff.failed()
    assert (backoff.delay(), backoff.attempt()) == (900.0, 20)
    for _ in range(5_000):
        backoff.failed()
    assert (backoff.delay(), backoff.attempt()) == (900.0, 5_020)


def test_a_success_goes_straight_back_to_the_first_delay() -> None:
    backoff = Backoff(initial=1, factor=3, ceiling=60)
    for _ in range(4):
        backoff.failed()
    assert backoff.delay() == 60
    backoff.succeeded()
    assert (backoff.delay(), backoff.attempt()) == (1, 0)


def test_an_initial_delay_above_the_ceiling_is_clamped_so_it_never_counts_downwards() -> None:
    backoff = Backoff(initial=100, ceiling=10)
    assert backoff.delay() == 10
    backoff.failed()
    assert backoff.delay() == 10
    backoff.succeeded()
    assert backoff.delay() == 10


def test_a_factor_of_one_keeps_the_delay() -> None:
    backoff = Backoff(initial=7, factor=1)
    backoff.failed()
    assert backoff.delay() == 7


@pytest.mark.parametrize(
    "name, value",
    [("factor", value) for value in (0.99, 0, -2, math.inf, math.nan)]
    + [(name, value) for name in ("initial", "ceiling") for value in (0, -1, math.inf, math.nan)],
)
def test_an_impossible_value_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"backoff: {name} must be .* not {value}"):
        Backoff(**{name: value})


def test_jitter_draws_evenly_from_zero_to_the_delay_which_is_told_as_its_ceiling() -> None:
    backoff, diary = Backoff(initial=8, jitter=True), Diary()
    for _ in range(1_000):
        backoff.wait(diary)
    assert backoff.delay() == 8
    assert all(0 <= seconds <= 8 for seconds in diary.slept)
    assert 3.4 < sum(diary.slept) / 1_000 < 4.6  # 8 standard deviations either way
    assert min(diary.slept) < 1 < 7 < max(diary.slept)


def test_a_wait_passes_on_what_any_stop_aware_thing_says() -> None:
    assert Backoff().wait(Diary(running=True)) is True
    assert Backoff().wait(Diary(running=False)) is False


def test_a_wait_that_took_its_full_time_lets_the_loop_retry() -> None:
    assert Backoff(initial=0.01).wait(Shutdown().watcher()) is True
