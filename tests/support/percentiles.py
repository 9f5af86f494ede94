"""What a long run measured, for its own last line: `make chaos` prints it."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures(name: str, seconds: Sequence[float]) -> str:
    """`name: n, p50, p99, max` in ms."""
    shown = {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "max": max(seconds)}
    return f"{name}: n={len(seconds)} " + " ".join(f"{key}={value * 1000:.0f}ms" for key, value in shown.items())
