"""A line of an export: the class at the top, then {"key": …, "data": …} for each object. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument, JsonValue, NumberOutOfRange, decode, decode_new
from tenure_records.documents import WRITTEN_BYTES, check_written, checked_key, one_line, repeats_a_member
from tenure_records.errors import InvalidKey, InvalidObject
from tenure_records.ndjson.outcomes import LineRefused

# What is stored is written with spaces and with its numbers written out: longer than it may be given elsewhere.
LINE_BYTES: Final = WRITTEN_BYTES + 64 * 1024
CLASS: Final = "class"
_MEMBERS: Final = ("key", "data", "computed")


class _Raw(msgspec.Struct):
    data: msgspec.Raw


_DATA: Final = msgspec.json.Decoder(_Raw)


def parsed(line: bytes | None) -> dict[str, JsonValue]:
    """The members of a line. Raises LineRefused."""
    if line is None:
        raise LineRefused(f"the line is longer than {LINE_BYTES} bytes")
    if b"\0" in line:
        raise LineRefused("the line holds a NUL byte; remove it")
    try:
        value = _value(line)
    except InvalidDocument as error:
        raise LineRefused(str(error)) from None
    if not isinstance(value, dict):
        raise LineRefused("the line is no JSON object")
    if repeats_a_member(line, value):
        raise LineRefused("an object names the same member twice")
    return value


def _value(line: bytes) -> JsonValue:
    try:
        return decode_new(line)
    except NumberOutOfRange:
        # A schema may name numbers that no object may hold.
        value = decode(line)
        if isinstance(value, dict) and CLASS in value:
            return value
        raise


def an_object(line: bytes, value: dict[str, JsonValue]) -> tuple[str, str]:
    """(key, one line of JSON text) of a parsed line; what was computed is passed over. Raises LineRefused."""
    for name in value:
        if name not in _MEMBERS:
            raise LineRefused(
                f"the member {shortened(name, 30)!r} is unknown: an object is key and data, as export writes it",
                field=shortened(name, 30),
            )
    if value.get("key") is None:
        raise LineRefused("the key is missing", field="key")
    if "data" not in value:
        raise LineRefused("the data is missing", field="data")
    try:
        key = checked_key(value["key"])
    except InvalidKey as error:
        raise LineRefused(str(error), field="key", value=shortened(_shown(value["key"]), 40)) from None
    if not isinstance(value["data"], dict):
        raise LineRefused("the data must be a JSON object", field="data")
    text = bytes(_DATA.decode(line).data).decode()
    try:
        check_written(text, value["data"])
    except InvalidObject as error:
        raise LineRefused(str(error), field="data") from None
    return key, one_line(text)


def _shown(value: Any) -> str:
    return str(value).encode("unicode_escape").decode()
