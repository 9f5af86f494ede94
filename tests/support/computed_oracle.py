"""A naive evaluator of computed fields, written from the rules alone with fractions: slow, plain, independent.

Knows nothing of the product's code and none of its limits on size or work; tests compare the two.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

MISSING = object()


class Failed(Exception):
    pass


def evaluate(text: str, definitions: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values (numbers as Fraction) and codes by key."""
    document = json.loads(text, parse_int=Fraction, parse_float=Fraction)
    values: dict[str, Any] = {}
    codes: dict[str, str] = {}
    for definition in definitions:
        values[definition["key"]] = None
        try:
            value = operate(definition["operation"]["op"], definition["operation"]["paths"], document)
            values[definition["key"]] = typed(value, definition["result_type"])
        except Failed as failure:
            codes[definition["key"]] = str(failure)
    return values, codes


def operate(op: str, paths: list[str], document: Any) -> Any:
    found = [resolve(document, path) for path in paths]
    present = [value for value in found if value is not MISSING and value is not None]
    if op == "first_non_null":
        return present[0] if present else None
    if op == "all_present":
        return len(present) == len(found)
    if op == "any_present":
        return len(present) > 0
    if op == "count_present":
        return Fraction(len(present))
    if op == "all_present_and_equal":
        if len(present) < len(found):
            return False
        return all(same(present[0], other) for other in present[1:])
    for value in present:
        number(value)
    if not present:
        return None
    if op == "sum":
        return rounded(sum(present, Fraction(0)))
    if op == "average":
        return rounded(sum(present, Fraction(0)) / len(present))
    return min(present) if op == "min" else max(present)


def resolve(document: Any, pointer: str) -> Any:
    if pointer == "":
        return document
    for raw in pointer.split("/")[1:]:
        token = ""
        position = 0
        while position < len(raw):
            if raw[position] == "~":
                token += {"0": "~", "1": "/"}[raw[position + 1]]
                position += 1
            else:
                token += raw[position]
            position += 1
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and token in {str(index) for index in range(len(document))}:
            document = document[int(token)]
        else:
            return MISSING
    return document


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return number(left) == number(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(key in right and same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(same(left[index], right[index]) for index in range(len(left)))
    return bool(left == right)


def number(value: Any) -> Fraction:
    if not isinstance(value, Fraction):
        raise Failed("non_numeric_operand")
    if rounded(value) != value:
        raise Failed("numeric_out_of_range")
    return value


def rounded(value: Fraction) -> Fraction:
    """To 34 significant digits, half to even; Fraction's round() is exact and half to even."""
    if value == 0:
        return value
    result = Fraction(10) ** (exponent(value) - 33)
    result *= round(value / result)
    if not -308 <= exponent(result) <= 308:
        raise Failed("numeric_out_of_range")
    return result


def exponent(value: Fraction) -> int:
    """The power of ten of the first significant digit."""
    size = abs(value)
    guess = len(str(size.numerator)) - len(str(size.denominator))
    while Fraction(10) ** guess > size:
        guess -= 1
    while Fraction(10) ** (guess + 1) <= size:
        guess += 1
    return guess


def typed(value: Any, result_type: str) -> Any:
    if value is None:
        return None
    python = {"string": str, "number": Fraction, "integer": Fraction, "boolean": bool, "object": dict, "array": list}
    if not isinstance(value, python[result_type]):
        raise Failed("result_type_mismatch")
    if isinstance(value, Fraction):
        number(value)
        if result_type == "integer" and value.denominator != 1:
            raise Failed("non_integer_result")
    return value
