"""Filters on computed fields. One condition is said twice, as SQL and as a predicate, and both give the same objects.

Null never matches a comparison, `ne` included; `null` and `failed` ask for it. A missing value, a null and a failed one
are all null. Strings compare by code point, numbers exactly, objects and arrays only for equality.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument, JsonValue, canonical, decode, encode
from tenure_records.errors import InvalidQuery

MAX_FILTERS: Final = 2
MAX_CHOICES: Final = 100

_COMPARE: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = MappingProxyType(
    {
        "eq": ("=", operator.eq), "ne": ("<>", operator.ne), "lt": ("<", operator.lt), "le": ("<=", operator.le),
        "gt": (">", operator.gt), "ge": (">=", operator.ge),
    }
)  # fmt: skip
_ORDERED: Final = (*_COMPARE, "in")
_OPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "number": _ORDERED, "integer": _ORDERED, "string": (*_ORDERED, "prefix", "contains"),
        "boolean": ("eq", "ne"), "object": ("eq", "ne"), "array": ("eq", "ne"),
    }
)  # fmt: skip
OPS: Final = (*_OPS["string"], "null", "failed")

# A value of another type than the field's is damage, see `sql_sound`; here it only must not end the statement.
# A field's key holds nothing but a-z, 0-9 and _, so it may stand in the text.
_SQL_VALUE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "number": "case when jsonb_typeof(c.values -> '{0}') = 'number' then (c.values -> '{0}')::numeric end",
        "string": """case when jsonb_typeof(c.values -> '{0}') = 'string' then c.values ->> '{0}' end collate "C\"""",
        "boolean": "case when jsonb_typeof(c.values -> '{0}') = 'boolean' then (c.values -> '{0}')::boolean end",
        "object": "case when jsonb_typeof(c.values -> '{0}') = 'object' then c.values -> '{0}' end",
        "array": "case when jsonb_typeof(c.values -> '{0}') = 'array' then c.values -> '{0}' end",
    }
)
SQL_TYPE: Final[Mapping[str, str]] = MappingProxyType(
    {"number": "numeric", "string": "text", "boolean": "boolean", "object": "jsonb", "array": "jsonb"}
)


@dataclass(frozen=True)
class Filter:
    """`op` is one of OPS; `value` is of the field's type, a list of such for `in`, true or false for `null` and `failed`."""

    field: str
    op: str
    value: Any = True


@dataclass(frozen=True)
class Condition:
    """A filter made ready: SQL over the alias `c` with its parameters, and the same of one object's values and errors."""

    sql: str
    parameters: dict[str, object]
    matches: Callable[[Mapping[str, JsonValue], Mapping[str, str]], bool]


def sql_value(field: str, result_type: str) -> str:
    """The SQL expression of a field's value; null where the value is null or not of the type."""
    return f"({_SQL_VALUE[base(result_type)].format(field)})"


def sql_sound(field: str, result_type: str) -> str:
    """The SQL condition that the stored value may be one of this type: else it is damage, and the object is evaluated."""
    # As a CASE, of which the planner knows nothing: it holds of nearly every row, and an IN is taken for one in a hundred.
    return f"case when jsonb_typeof(c.values -> '{field}') in ('{base(result_type)}', 'null') then true else false end"


def base(result_type: str) -> str:
    """The type as comparisons see it: an integer is a number."""
    return "number" if result_type == "integer" else result_type


def condition(given: Filter, types: Mapping[str, str], number: int) -> Condition:
    """The filter over fields of these types; `number` tells its parameters from those of others. Raises InvalidQuery."""
    field, op = given.field, given.op
    if field not in types:
        raise InvalidQuery(
            f"no enabled field {shortened(field)!r}: {'use one of ' + ', '.join(sorted(types)) if types else 'there is none'}"
        )
    if op in ("null", "failed"):
        return _absence(field, op, given.value, sql_value(field, types[field]))
    kind = base(types[field])
    if op not in _OPS[kind]:
        allowed = ", ".join((*_OPS[kind], "null", "failed"))
        raise InvalidQuery(f"{field} is a field of type {types[field]}: {shortened(op)!r} is none of {allowed}")
    value, name = sql_value(field, types[field]), f"value_{number}"
    if op == "in":
        return _choice(field, kind, value, name, given.value)
    wanted = _checked(given.value, kind, field)
    parameter = f"cast(:{name} as {SQL_TYPE[kind]})"
    if kind in ("object", "array"):
        sign, form = _COMPARE[op][0], canonical(wanted)
        return Condition(
            f"{value} {sign} {parameter}", {name: form.decode()},
            lambda values, _: values[field] is not None and (canonical(values[field]) == form) is (op == "eq"),
        )  # fmt: skip
    if op == "prefix":
        return Condition(f"starts_with({value}, {parameter})", {name: wanted}, _text(field, str.startswith, wanted))
    if op == "contains":
        return Condition(f"position({parameter} in {value}) > 0", {name: wanted}, _text(field, _contains, wanted))
    sign, compare = _COMPARE[op]
    return Condition(
        f"{value} {sign} {parameter}", {name: _sent(wanted)},
        lambda values, _: values[field] is not None and compare(values[field], wanted),
    )  # fmt: skip


def _absence(field: str, op: str, wanted: object, value: str) -> Condition:
    if not isinstance(wanted, bool):
        raise InvalidQuery(f"{field} {op}: takes true or false, not {shortened(wanted)!r}")
    if op == "null":
        negation = "" if wanted else "not "
        return Condition(f"{value} is {negation}null", {}, lambda values, _: (values[field] is None) is wanted)
    negation = "not " if wanted else ""
    return Condition(f"(c.errors ->> '{field}') is {negation}null", {}, lambda _, errors: (field in errors) is wanted)


def _choice(field: str, kind: str, value: str, name: str, given: object) -> Condition:
    if not isinstance(given, list | tuple | set | frozenset) or not 1 <= len(given) <= MAX_CHOICES:
        raise InvalidQuery(f"{field} in: takes a list of 1 to {MAX_CHOICES} values")
    wanted = [_checked(one, kind, field) for one in given]
    return Condition(
        f"{value} = any(cast(:{name} as {SQL_TYPE[kind]}[]))", {name: [_sent(one) for one in wanted]},
        lambda values, _: values[field] is not None and values[field] in wanted,
    )  # fmt: skip


def _text(field: str, test: Callable[[str, str], bool], wanted: JsonValue) -> Callable[..., bool]:
    def matches(values: Mapping[str, JsonValue], _: Mapping[str, str]) -> bool:
        value = values[field]
        return isinstance(value, str) and test(value, str(wanted))

    return matches


def _contains(value: str, wanted: str) -> bool:
    return wanted in value


def _sent(value: JsonValue) -> object:
    # A number as text: the driver would write a Decimal of a thousand digits or an exponent its own way.
    return str(value) if type(value) is int or type(value) is Decimal else value


def _checked(value: object, kind: str, field: str) -> JsonValue:
    """The value, exact and of the type. Raises InvalidQuery."""
    fits = {
        "number": isinstance(value, int | float | Decimal) and not isinstance(value, bool), "string": isinstance(value, str),
        "boolean": isinstance(value, bool), "object": isinstance(value, dict), "array": isinstance(value, list),
    }  # fmt: skip
    if not fits[kind]:
        raise InvalidQuery(f"{field}: {shortened(value)!r} is no {kind}")
    try:
        # What jsonb cannot hold, no stored value can be compared with. A float means what it is stored as: its digits.
        if _all_finite(value):
            return decode(encode(value))  # type: ignore[arg-type]
    except (InvalidDocument, ArithmeticError, TypeError, ValueError, RecursionError):
        pass
    raise InvalidQuery(f"{field}: the value cannot be stored as JSON, so no object has it") from None


def _all_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_all_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_all_finite, value))
    return not isinstance(value, float | Decimal) or Decimal(value).is_finite()
