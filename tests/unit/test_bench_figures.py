"""What the bench says of its samples."""

import pytest
from bench.figures import Figure, Sample, quantile


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_quantile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert quantile(list(range(100, 0, -1)), share) == value


def test_a_figure_compares_medians() -> None:
    figure = Figure("part", "what", "unit", Sample([1, 30, 20]), "other", Sample([10, 5, 40]))
    assert figure.ratio == 2.0
    assert figure.reached is None, "without an aim there is nothing to reach"


def test_every_aim_of_a_figure_must_be_reached() -> None:
    ours, theirs = Sample([30.0]), Sample([20.0])
    assert Figure("p", "w", "u", ours, "o", theirs, at_least=30, ratio_least=1.5).reached is True
    assert Figure("p", "w", "u", ours, "o", theirs, at_least=30, ratio_least=1.6).reached is False
    assert Figure("p", "w", "u", ours, at_most=29).reached is False
    assert Figure("p", "w", "u", ours, ratio_least=1.0).reached is False, "no comparator, no ratio"
