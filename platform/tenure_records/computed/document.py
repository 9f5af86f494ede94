"""JSON text to values with every number exact: int or Decimal, never a float.

Refuses what PostgreSQL's jsonb cannot hold. Of a repeated key the last one counts, as in jsonb.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow, Subnormal
from typing import Final, NoReturn, TypeAlias

import msgspec

from .errors import DocumentTooDeep, InvalidDocument, LoneSurrogate, NulCharacter, NumberOutOfRange
from .limits import MAX_DEPTH

JsonValue: TypeAlias = "bool | int | Decimal | str | list[JsonValue] | dict[str, JsonValue] | None"

# The range of PostgreSQL's numeric: 131,072 digits before the point, 16,383 after it. Beyond, the traps raise.
NUMERIC: Final = Context(
    prec=131_072 + 16_383,
    Emax=131_071,
    Emin=-16_383,
    traps=[InvalidOperation, Overflow, Subnormal, Inexact],
)
_DECODER: Final = msgspec.json.Decoder(float_hook=NUMERIC.create_decimal)
# No number of this range is longer than 800 digits when it is written out.
_SHORT: Final = Context(prec=400, Emax=400, Emin=-400, traps=[InvalidOperation, Overflow, Subnormal, Inexact])
_SHORT_DECODER: Final = msgspec.json.Decoder(float_hook=_SHORT.create_decimal)
# What a double can hold too, so that every reader of JSON gets a number and not infinity or zero.
_NEW: Final = Context(prec=16_383 + 308, Emax=308, Emin=-308, traps=[InvalidOperation, Overflow, Subnormal, Inexact])
_NEW_DECODER: Final = msgspec.json.Decoder(float_hook=_NEW.create_decimal)
_NEW_DIGITS: Final = 309
_LIMIT: Final = 10**_NEW_DIGITS
_TOO_MANY_DIGITS: Final = re.compile(f"[0-9]{{{_NEW_DIGITS + 1}}}")
# One character in thirty: a number of so many digits has nine neighbours that are digits, and few texts have else.
_STRIDE: Final = 30
_SEEMS_LONG: Final = re.compile("[0-9]{9}")
# Python's own bound for reading an int from text; longer ones become Decimal, which has none.
_INT_DIGITS: Final = 4_300
# One opening and one closing bracket per level: no shorter text is too deep.
_SHALLOW: Final = 2 * MAX_DEPTH


def decode(text: str | bytes) -> JsonValue:
    """The value a JSON text holds; bytes are UTF-8.

    Raises InvalidDocument, or one of its kinds: NulCharacter, LoneSurrogate, DocumentTooDeep (200 levels),
    NumberOutOfRange (what PostgreSQL's numeric cannot hold).
    """
    try:
        value: JsonValue = _DECODER.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except DecimalException:
        raise _out_of_range() from None
    except (msgspec.DecodeError, UnicodeError):
        value = _decode_slowly(text)
    return storable(text, value)


def storable(text: str | bytes, value: JsonValue) -> JsonValue:
    """The value of this text, unless it is nested too deep or holds NUL. Raises DocumentTooDeep, NulCharacter."""
    if len(text) > _SHALLOW and _openers(text) > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise _too_deep()
    if _may_hold_nul(text) and any("\0" in string for string in _strings(value)):
        raise NulCharacter(r"the document holds the character \u0000, which PostgreSQL cannot store; remove it")
    return value


def decode_ordinary(text: str) -> JsonValue:
    """`decode` where a number with a point or an exponent has 800 digits at most, written out.

    Raises NumberOutOfRange for a longer one that `decode` may still take, and all that `decode` raises.
    """
    try:
        value: JsonValue = _SHORT_DECODER.decode(text)
    except DecimalException:
        raise NumberOutOfRange("the document holds a number of more than 800 digits") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return decode(text)
    return storable(text, value)


def decode_new(text: str | bytes) -> JsonValue:
    """`decode` for what is to be stored: each number is zero or from 1e-308 to below 1e309, whatever its sign.

    Raises NumberOutOfRange for others, and all that `decode` raises.
    """
    try:
        value: JsonValue = _NEW_DECODER.decode(text)
    except DecimalException:
        decode(text)
        raise _beyond_double() from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = decode(text)
    if len(text) > _NEW_DIGITS and _holds_endless_digits(text) and any(map(_beyond_limit, _scalars(value))):
        raise _beyond_double()
    return storable(text, value)


def _decode_slowly(text: str | bytes) -> JsonValue:
    """Takes what the fast decoder refused: integers of any length; and says what is wrong with the rest."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value: JsonValue = json.loads(
            text, parse_float=NUMERIC.create_decimal, parse_int=_integer, parse_constant=_no_constant
        )
    except RecursionError:
        raise _too_deep() from None
    except DecimalException:
        raise _out_of_range() from None
    except json.JSONDecodeError as error:
        raise InvalidDocument(f"the document is not JSON: {error.msg.lower()} at character {error.pos}") from None
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"the document is not UTF-8 at byte {error.start}") from None
    for string in _strings(value):
        try:
            string.encode()
        except UnicodeEncodeError:
            raise LoneSurrogate("the document holds half a surrogate pair; send the whole character") from None
    return value


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT_DIGITS else NUMERIC.create_decimal(digits)


def _no_constant(name: str) -> NoReturn:
    raise InvalidDocument(f"the document is not JSON: {name} is not a JSON number")


def _openers(text: str | bytes) -> int:
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{")
    return text.count("[") + text.count("{")


def _may_hold_nul(text: str | bytes) -> bool:
    # The single character first: it is found, or not, far faster than the escape.
    if isinstance(text, bytes):
        return b"\\" in text and b"\\u0000" in text
    return "\\" in text and "\\u0000" in text


def _deeper_than(value: JsonValue, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [child for parent in level for child in _children(parent)]
    return any(isinstance(item, list | dict) for item in level)


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _holds_endless_digits(text: str | bytes) -> bool:
    if isinstance(text, bytes):
        text = text.decode()
    return _SEEMS_LONG.search(text[::_STRIDE]) is not None and _TOO_MANY_DIGITS.search(text) is not None


def _beyond_limit(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal) and not -_LIMIT < value < _LIMIT


def _scalars(value: JsonValue) -> Iterator[JsonValue]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | dict):
            waiting.extend(_children(item))
        else:
            yield item


def _strings(value: JsonValue) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
        waiting.extend(_children(item))


def _too_deep() -> DocumentTooDeep:
    return DocumentTooDeep(f"the document is nested more than {MAX_DEPTH} levels deep; flatten it")


def _out_of_range() -> NumberOutOfRange:
    return NumberOutOfRange("the document holds a number that PostgreSQL's numeric cannot hold; send it as a string")


def _beyond_double() -> NumberOutOfRange:
    return NumberOutOfRange("the document holds a number beyond 1e±308; send it as a string")
