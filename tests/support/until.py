"""Waiting on a condition, never on a guess."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], timeout: float = 10.0, *, pace: float = 0.02) -> T:
    """The first true result of `condition`; fails the test when there is none within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {condition}"
        time.sleep(pace)
    return result
