"""Recursive equality of JSON values: numbers by value, key order free, array order kept, a boolean is no number.

Members are compared in the order of their names. In the order of the text, two spellings of one document could come to
different ends: a limit or a number out of range may lie before the first difference in one and behind it in the other.
"""

from __future__ import annotations

from decimal import Decimal

from .decimals import operand
from .document import JsonValue
from .meter import Meter


def equal(left: JsonValue, right: JsonValue, meter: Meter) -> bool:
    """Whether the two are equal; each compared pair is charged. FieldFailure when a compared number is out of range."""
    meter.visit()
    kind = type(left)
    if kind is int or kind is Decimal:
        if type(right) is not int and type(right) is not Decimal:
            return False
        return operand(left) == operand(right)
    if kind is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[name], right[name], meter) for name in sorted(left))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(one, other, meter) for one, other in zip(left, right, strict=True))
    return left == right
