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
from .pointer import Steps, follow

Paths: TypeAlias = tuple[Steps, ...]
Run: TypeAlias = Callable[[JsonValue, Paths, Meter], JsonValue]

_NUMERIC: Final = frozenset({"number", "integer"})
RESULT_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array"})


@dataclass(frozen=True)
class Rule:
    """What an operation does, the result types it may be declared with, and its least number of paths."""

    run: Run
    result_types: frozenset[str]
    least_paths: int = 1


def _first_non_null(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    for steps in paths:
        value = follow(document, steps)
        if value is not None:
            return value
    return None


def _numbers(document: JsonValue, paths: Paths) -> list[Number]:
    numbers = []
    for steps in paths:
        value = follow(document, steps)
        if value is not None:
            numbers.append(operand(value))
    return numbers


def _sum(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    numbers = _numbers(document, paths)
    return total(numbers) if numbers else None


def _average(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    numbers = _numbers(document, paths)
    return mean(numbers) if numbers else None


def _min(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    numbers = _numbers(document, paths)
    return settled(min(numbers)) if numbers else None


def _max(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    numbers = _numbers(document, paths)
    return settled(max(numbers)) if numbers else None


def _all_present(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    return all(follow(document, steps) is not None for steps in paths)


def _any_present(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    return any(follow(document, steps) is not None for steps in paths)


def _count_present(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    return sum(follow(document, steps) is not None for steps in paths)


def _all_present_and_equal(document: JsonValue, paths: Paths, meter: Meter) -> JsonValue:
    values = [follow(document, steps) for steps in paths]
    if any(value is None for value in values):
        return False
    return all(equal(values[0], value, meter) for value in values[1:])


CATALOGUE: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "first_non_null": Rule(_first_non_null, RESULT_TYPES),
        "sum": Rule(_sum, _NUMERIC),
        "average": Rule(_average, _NUMERIC),
        "min": Rule(_min, _NUMERIC),
        "max": Rule(_max, _NUMERIC),
        "all_present": Rule(_all_present, frozenset({"boolean"})),
        "any_present": Rule(_any_present, frozenset({"boolean"})),
        "count_present": Rule(_count_present, frozenset({"integer"})),
        "all_present_and_equal": Rule(_all_present_and_equal, frozenset({"boolean"}), least_paths=2),
    }
)
