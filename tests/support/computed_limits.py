"""The limits of computed fields as a model: the oracle, with work counted and sizes measured the plain way.

Work is one unit for each token of a field's paths, charged before it is read, and one for each pair of values that a
comparison looks at. Numbers must be whole here, so that their spelling is no question.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.support import computed_oracle
from tests.support.computed_oracle import MISSING


@dataclass(frozen=True)
class Bounds:
    input_bytes: int
    depth: int
    field_nodes: int
    scope_work: int
    field_bytes: int
    scope_bytes: int


def evaluate_within(bounds: Bounds, text: str, fields: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """What `computed_oracle.evaluate` says, within bounds. Fields are charged in the order of their keys."""

    def all_fail(code: str) -> tuple[dict[str, Any], dict[str, str]]:
        return dict.fromkeys(f["key"] for f in fields), dict.fromkeys((f["key"] for f in fields), code)

    if len(text.encode()) > bounds.input_bytes:
        return all_fail("input_too_large")
    document = json.loads(text, parse_int=Fraction, parse_float=Fraction)
    if depth(document) > bounds.depth:
        return all_fail("evaluation_limit_exceeded")
    values, codes = computed_oracle.evaluate(text, fields)
    spent = 0
    for field in sorted(fields, key=lambda field: str(field["key"])):
        key, operation = field["key"], field["operation"]
        paths = operation["paths"]
        tokens = sum(path.count("/") for path in paths)
        pairs = _pairs(document, paths) if operation["op"] == "all_present_and_equal" else 0
        # A field stops at the first unit it may not use; the scope is charged for that one too.
        if spent + tokens > bounds.scope_work:
            spent += tokens
            values[key], codes[key] = None, "evaluation_limit_exceeded"
            continue
        allowed = min(bounds.field_nodes - tokens, bounds.scope_work - spent - tokens)
        spent += tokens + min(pairs, allowed + 1)
        if pairs > allowed:
            values[key], codes[key] = None, "evaluation_limit_exceeded"
        elif key not in codes and size(values[key]) > bounds.field_bytes:
            values[key], codes[key] = None, "result_too_large"
    if size({"values": values, "errors": codes}) > bounds.scope_bytes:
        return all_fail("result_too_large")
    return values, codes


def size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda number: int(number))
    return len(text.encode())


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max((depth(item) for item in inner), default=0)
    return 0


def _pairs(document: Any, paths: list[str]) -> int:
    """How many pairs are looked at: the first value with each of the others, to the first difference."""
    found = [computed_oracle.resolve(document, path) for path in paths]
    if any(value is MISSING or value is None for value in found):
        return 0
    looked = 0
    for other in found[1:]:
        count, equal = _compare(found[0], other)
        looked += count
        if not equal:
            break
    return looked


def _compare(left: Any, right: Any) -> tuple[int, bool]:
    if type(left) is not type(right):
        return 1, False
    if isinstance(left, dict):
        if set(left) != set(right):
            return 1, False
        pairs = [(left[name], right[name]) for name in sorted(left)]
    elif isinstance(left, list):
        if len(left) != len(right):
            return 1, False
        pairs = [(left[at], right[at]) for at in range(len(left))]
    else:
        return 1, bool(left == right)
    looked = 1
    for one, other in pairs:
        count, equal = _compare(one, other)
        looked += count
        if not equal:
            return looked, False
    return looked, True
