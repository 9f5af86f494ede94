"""Holds a value against the declared result type and the output limit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from .decimals import operand, settled
from .document import JsonValue
from .encoding import canonical
from .errors import NON_INTEGER_RESULT, RESULT_TOO_LARGE, RESULT_TYPE_MISMATCH, FieldFailure
from .limits import MAX_FIELD_OUTPUT_BYTES

_TYPES: Final[Mapping[str, type]] = MappingProxyType({"string": str, "boolean": bool, "object": dict, "array": list})
# JSON escapes a character with at most six bytes.
_BYTES_PER_CHARACTER: Final = 6
# No number in range is longer: 309 digits and a sign.
_SCALAR_BYTES: Final = 400


def conforming(value: JsonValue, result_type: str) -> JsonValue:
    """The value in its settled form; null conforms to every type. FieldFailure when the type does not allow it."""
    if value is None:
        return None
    if type(value) is int or type(value) is Decimal:
        if result_type != "number" and result_type != "integer":
            raise FieldFailure(RESULT_TYPE_MISMATCH)
        number = settled(operand(value))
        if result_type == "integer" and type(number) is not int:
            raise FieldFailure(NON_INTEGER_RESULT)
        return number
    if type(value) is not _TYPES.get(result_type):
        raise FieldFailure(RESULT_TYPE_MISMATCH)
    return value


def bytes_at_most(value: JsonValue) -> int:
    """An upper bound of the value's JSON in bytes, exact where it matters; FieldFailure past 64 KiB."""
    if type(value) is str:
        bound = len(value) * _BYTES_PER_CHARACTER + 2
        if bound <= MAX_FIELD_OUTPUT_BYTES:
            return bound
    elif type(value) is not dict and type(value) is not list:
        return _SCALAR_BYTES
    size = len(canonical(value))
    if size > MAX_FIELD_OUTPUT_BYTES:
        raise FieldFailure(RESULT_TOO_LARGE)
    return size
