"""What the keywords of one subschema cost at one place of a document, measured with the library and rounded up."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from tenure_records.errors import SchemaRefused

from .bounds import NUMBER_DIGITS
from .patterns import Patterns
from .pointers import pointer
from .references import Path, Place

_RANGES: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_DEPENDENT: Final = frozenset({"dependentRequired", "dependentSchemas", "dependencies"})
# Checking what was evaluated evaluates all of it anew, up to three times for each keyword that asks.
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_ANEW: Final = 4.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Worst cases in nanoseconds: per character, per number that is no short integer, per character of a string.

    `unique` counts evaluations of `uniqueItems`, which may compare each such number with each.
    """

    character: float = 0.0
    number: float = 0.0
    string: float = 0.0
    unique: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.character + other.character,
            self.number + other.number,
            self.string + other.string,
            self.unique + other.unique,
        )


def factor(place: Place) -> float:
    """How often what stands for the same place inside this subschema is evaluated."""
    return float(
        _ANEW ** sum(1 for keyword in _UNEVALUATED if isinstance(place.schema, dict) and keyword in place.schema)
    )


def own(place: Place, patterns: Patterns) -> Cost:
    """The keywords of a subschema without those below it. Raises SchemaRefused for a pattern or a number too large."""
    total = Cost(character=5)
    if isinstance(place.schema, dict):
        for keyword, value in place.schema.items():
            total += _keyword((*place.path, keyword), keyword, value, patterns)
    return total


def _keyword(path: Path, keyword: str, value: Any, patterns: Patterns) -> Cost:
    if keyword == "enum" and isinstance(value, list):
        alike = all(isinstance(item, str) for item in value) or all(type(item) is int for item in value)
        return Cost(10 if alike else 10 + 12 * len(value), 8_000 * sum(_numbers(item, path) for item in value))
    if keyword == "const":
        return Cost(22, 8_000 * _numbers(value, path))
    if keyword in _RANGES:
        return Cost(10, 1_000 * _numbers(value, path))
    if keyword == "multipleOf":
        return Cost(500, 3_000 * _numbers(value, path))
    if keyword == "type":
        return Cost(10, 100)
    if keyword == "uniqueItems" and value is True:
        return Cost(200, 1_000, unique=1)
    if keyword == "pattern" and isinstance(value, str):
        return Cost(10, string=patterns.cost(path, value))
    if keyword == "patternProperties" and isinstance(value, dict):
        return Cost(10 + 15 * len(value), string=sum(patterns.cost((*path, each), each) for each in value))
    if keyword in _DEPENDENT and isinstance(value, dict):
        return Cost(10 + 10 * len(value))
    return Cost(10)


def _numbers(value: Any, path: tuple[str | int, ...]) -> int:
    """How many numbers a value of a keyword holds. Raises SchemaRefused for one that is too long."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, int | Decimal) and not isinstance(item, bool):
            count += 1
            _, digits, exponent = Decimal(item).as_tuple()
            if len(digits) + abs(int(exponent)) > NUMBER_DIGITS:
                raise SchemaRefused(
                    f"the schema is refused at {pointer(path)}: a number has more than {NUMBER_DIGITS} digits"
                )
    return count
