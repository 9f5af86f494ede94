"""The closed catalogue of operations, version 1. Adding, renaming or reinterpreting one needs a new semantics version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from .decimals import Number, mean, operand, settled, total
from .document import JsonValue
from .equality import equal
from .meter import Meter

Values: TypeAlias = list[JsonValue]
"""What the paths lead to, in order; None where it is missing or null."""

_NUMERIC: Final = frozenset({"number", "integer"})
RESULT_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array"})


@dataclass(frozen=True)
class Rule:
    """What an operation does, the result types it may be declared with, and its least number of paths.

    What it gives: anything it finds; or settled numbers, see `decimals`; or else always a value of the one declared type.
    """

    run: Callable[[Values, Meter], JsonValue]
    result_types: frozenset[str]
    least_paths: int = 1
    gives_any: bool = False
    gives_numbers: bool = False
    compares: bool = False


def _first_non_null(values: Values, _: Meter) -> JsonValue:
    return next((value for value in values if value is not None), None)


def _sum(values: Values, _: Meter) -> JsonValue:
    numbers = _numbers(values)
    return total(numbers) if numbers else None


def _average(values: Values, _: Meter) -> JsonValue:
    numbers = _numbers(values)
    return mean(numbers) if numbers else None


def _min(values: Values, _: Meter) -> JsonValue:
    numbers = _numbers(values)
    return settled(min(numbers)) if numbers else None


def _max(values: Values, _: Meter) -> JsonValue:
    numbers = _numbers(values)
    return settled(max(numbers)) if numbers else None


def _all_present(values: Values, _: Meter) -> JsonValue:
    return None not in values


def _any_present(values: Values, _: Meter) -> JsonValue:
    return values.count(None) < len(values)


def _count_present(values: Values, _: Meter) -> JsonValue:
    return len(values) - values.count(None)


def _all_present_and_equal(values: Values, meter: Meter) -> JsonValue:
    if None in values:
        return False
    return all(equal(values[0], value, meter) for value in values[1:])


def _numbers(values: Values) -> list[Number]:
    return [operand(value) for value in values if value is not None]


CATALOGUE: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "first_non_null": Rule(_first_non_null, RESULT_TYPES, gives_any=True),
        "sum": Rule(_sum, _NUMERIC, gives_numbers=True),
        "average": Rule(_average, _NUMERIC, gives_numbers=True),
        "min": Rule(_min, _NUMERIC, gives_numbers=True),
        "max": Rule(_max, _NUMERIC, gives_numbers=True),
        "all_present": Rule(_all_present, frozenset({"boolean"})),
        "any_present": Rule(_any_present, frozenset({"boolean"})),
        "count_present": Rule(_count_present, frozenset({"integer"})),
        "all_present_and_equal": Rule(_all_present_and_equal, frozenset({"boolean"}), least_paths=2, compares=True),
    }
)
