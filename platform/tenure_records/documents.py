"""What may be stored as an object: a key and a JSON object, checked before anything reaches the database."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument, JsonValue, decode_new
from tenure_records.errors import InvalidKey, InvalidObject

KEY_BYTES: Final = 255
OBJECT_BYTES: Final = 16 * 1024 * 1024
Data: TypeAlias = "Mapping[str, Any] | str | bytes"

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_BLANK: Final = b" \t\r\n"
_NESTED: Final = (dict, list)
# PostgreSQL writes numbers out: 1e300 takes five characters here and 301 there. Shorter texts stay far below the limit.
WRITTEN_BYTES: Final = 4 * OBJECT_BYTES
_MAY_GROW: Final = WRITTEN_BYTES // 80
_EXPONENT: Final = re.compile(r"[0-9][eE]\+?[0-9]")
# Past this, or with such an exponent, PostgreSQL may write the data so much longer than it was given (1e9 becomes ten
# digits, every comma a space more) that it crosses a limit of the evaluator. Then its own text is what is evaluated.
_PLAIN_CHARACTERS: Final = 32 * 1024
_LONG_EXPONENT: Final = re.compile(r"[0-9][eE]\+?[0-9]{3}")


def checked_key(key: object) -> str:
    """A key as it is stored; whole numbers are taken as their digits. Raises InvalidKey with the reason."""
    if type(key) is int:
        key = str(key)
    if not isinstance(key, str):
        raise InvalidKey(f"the key must be a string or a whole number, not {_kind(key)}")
    if not key.strip():
        raise InvalidKey("the key is blank")
    if _CONTROL.search(key):
        raise InvalidKey(f"the key {shortened(key.encode('unicode_escape').decode())!r} holds a control character")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidKey("the key holds half a surrogate pair; send the whole character") from None
    if size > KEY_BYTES:
        raise InvalidKey(f"the key {shortened(key, 30)!r} is {size} bytes long, at most {KEY_BYTES} are allowed")
    return key


def checked_text(data: Data) -> str:
    """The data as one line of JSON text. Raises InvalidObject with the reason; the data itself is never shown.

    Refused are what PostgreSQL cannot store, numbers beyond 1e±308, more than 200 levels, a member named twice, and more
    than 16 MiB as given or 64 MiB with the numbers written out.
    """
    given = data if isinstance(data, str | bytes) else _encoded(data)
    if len(given) > OBJECT_BYTES:
        raise InvalidObject(f"the object is larger than {OBJECT_BYTES} bytes")
    text, value = checked_json(given, own=given is not data)
    if not isinstance(value, dict):
        raise InvalidObject("the data must be a JSON object")
    return text


def checked_json(given: str | bytes, *, own: bool = False) -> tuple[str, JsonValue]:
    """JSON that may be stored, as one line of text, and its value. Raises InvalidObject with the reason.

    `own` says that it was encoded here, so that no member is named twice.
    """
    try:
        value = decode_new(given)
    except InvalidDocument as error:
        raise InvalidObject(str(error)) from None
    text = given if isinstance(given, str) else given.decode()
    if not own and repeats_a_member(given.encode() if isinstance(given, str) else given, value):
        raise InvalidObject("an object names the same member twice")
    check_written(text, value)
    return one_line(text), value


def check_written(text: str, value: JsonValue) -> None:
    """Raises InvalidObject for what PostgreSQL would write too long, though it is given short."""
    if len(text) > _MAY_GROW and _growth(text, value) > WRITTEN_BYTES - len(text):
        raise InvalidObject(f"with its numbers written out the object is larger than {WRITTEN_BYTES} bytes")


def _growth(text: str, value: JsonValue) -> int:
    if not _EXPONENT.search(text):
        return 0
    waiting, digits = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, Decimal):
            digits += max(0, int(item.as_tuple().exponent))
    return digits


def one_line(text: str) -> str:
    """Valid JSON without line breaks: in a string they are escaped, so each one found is white space."""
    return text.replace("\n", " ").replace("\r", " ") if "\n" in text or "\r" in text else text


def stored_text_decides(text: str) -> bool:
    """Whether values must be computed from what PostgreSQL makes of this text, because the lengths may differ much."""
    return len(text) > _PLAIN_CHARACTERS or _LONG_EXPONENT.search(text) is not None


def repeats_a_member(text: bytes, value: object) -> bool:
    """Whether an object in this valid JSON text names a member twice, which decoding silently resolves."""
    # Each member has a quote and a colon in the text, so as many as there are members means that none was lost.
    return text.translate(None, _BLANK).count(b'":') != _members(value) and _repeats(text)


def _repeats(text: bytes) -> bool:
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) != len(pairs)

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found


def _members(value: object) -> int:
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            count += len(item)
            waiting.extend([below for below in item.values() if below.__class__ in _NESTED])
        elif isinstance(item, list):
            waiting.extend([below for below in item if below.__class__ in _NESTED])
    return count


def _encoded(data: Mapping[str, Any]) -> bytes:
    if not isinstance(data, Mapping):
        raise InvalidObject(f"the data must be a JSON object, not {_kind(data)}")
    try:
        encoded = _ENCODER.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidObject("the data holds something that JSON cannot carry, or is nested too deep") from None
    _check_plain(data)
    return encoded


def _check_plain(value: object) -> None:
    """Refuse what the encoder would turn into something else without a word: NaN into null, a set into a list."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif (isinstance(item, float) and not math.isfinite(item)) or (
            isinstance(item, Decimal) and not item.is_finite()
        ):
            raise InvalidObject("the data holds a number that is not finite, which JSON cannot carry")
        elif not isinstance(item, str | bool | int | float | Decimal | None):
            raise InvalidObject(f"the data holds a {shortened(type(item).__name__)}, which JSON cannot carry")


def _kind(value: object) -> str:
    names: dict[type, str] = {bool: "true or false", type(None): "null", dict: "an object", list: "a list"}
    return names.get(type(value), "a number" if isinstance(value, float | int | Decimal) else "something else")
