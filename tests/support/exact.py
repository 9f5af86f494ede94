"""Comparing values exactly: numbers as fractions, and true never 1."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any


def as_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_fractions(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_fractions(item) for item in value]
    return Fraction(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


def strictly_equal(left: Any, right: Any) -> bool:
    """Equality that tells true from 1, which Python's == does not."""
    if isinstance(left, dict) and isinstance(right, dict):
        return set(left) == set(right) and all(strictly_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(strictly_equal, left, right))
    return type(left) is type(right) and bool(left == right)
