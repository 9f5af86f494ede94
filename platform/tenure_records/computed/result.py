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
SCALAR_BYTES: Final = 400


def conforming(result_type: str, value: JsonValue) -> tuple[JsonValue, int]:
    """The value, not null, in its settled form, and its JSON in bytes at most, see `_bytes_at_most`.

    FieldFailure when the type does not allow it, or it is too large.
    """
    if type(value) is int or type(value) is Decimal:
        if result_type != "number" and result_type != "integer":
            raise FieldFailure(RESULT_TYPE_MISMATCH)
        number = settled(operand(value))
        return whole(number) if result_type == "integer" else (number, 0)
    if type(value) is not _TYPES.get(result_type):
        raise FieldFailure(RESULT_TYPE_MISMATCH)
    return value, _bytes_at_most(value)


def whole(number: JsonValue) -> tuple[JsonValue, int]:
    """A settled number that is to be an integer, and 0: it is no more than a scalar. FieldFailure when it is none."""
    if type(number) is not int:
        raise FieldFailure(NON_INTEGER_RESULT)
    return number, 0


def _bytes_at_most(value: JsonValue) -> int:
    """An upper bound of the JSON in bytes, beyond a scalar's, exact where it matters; FieldFailure past 64 KiB."""
    if type(value) is str:
        bound = len(value) * _BYTES_PER_CHARACTER + 2
        if bound <= MAX_FIELD_OUTPUT_BYTES:
            return bound
    elif type(value) is not dict and type(value) is not list:
        return 0
    size = len(canonical(value))
    if size > MAX_FIELD_OUTPUT_BYTES:
        raise FieldFailure(RESULT_TOO_LARGE)
    return size
