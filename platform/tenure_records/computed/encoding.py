"""The one canonical form of a JSON value: keys sorted by code point, no space, one spelling per number.

Equal values have equal bytes whatever text they came from: 1, 1.0 and 1e0 are one number. Hashes and stored text
rest on it, so changing it makes every stored digest stale.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from .document import NUMERIC, JsonValue

# Whole numbers of up to so many digits are written out, longer ones with an exponent where they end in zeros:
# written out, the six characters 1e4000 would become four thousand.
_WRITTEN_OUT: Final = 100
# A run of over 100 digits covers four of the positions 0, 25, 50 …: looking at those alone misses none.
_STRIDE: Final = 25
_LONG_RUN: Final = re.compile(rb"[0-9]{4}")


def canonical(value: JsonValue | Mapping[str, JsonValue]) -> bytes:
    """UTF-8 bytes of the canonical form, itself JSON. The value must be as `decode` returns it: no floats."""
    encoded = _ENCODER.encode(value)
    if len(encoded) > _WRITTEN_OUT and _LONG_RUN.search(encoded[::_STRIDE]):
        return _ENCODER.encode(_long_integers_as_decimals(value))
    return encoded


def encode(values: JsonValue | Mapping[str, JsonValue]) -> str:
    """JSON text with exact numbers; equal values give equal text. The canonical form as a string."""
    return canonical(values).decode()


def digest(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """SHA-256 of the canonical form, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _spelling(number: Decimal) -> int | msgspec.Raw:
    text = str(number)
    if "." in text and "E" not in text and text[-1] != "0":
        return msgspec.Raw(text.encode())
    if not number:
        return 0
    if number.adjusted() < _WRITTEN_OUT and NUMERIC.to_integral_value(number) == number:
        return int(number)
    return msgspec.Raw(str(NUMERIC.normalize(number)).encode())


def _long_integers_as_decimals(value: JsonValue | Mapping[str, JsonValue]) -> JsonValue:
    # The encoder spells integers itself; as Decimal a long one gets the same spelling as its equals.
    if isinstance(value, Mapping):
        return {key: _long_integers_as_decimals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_long_integers_as_decimals(item) for item in value]
    if type(value) is int and abs(value) >= 10**_WRITTEN_OUT:
        return Decimal(value)
    return value


_ENCODER: Final = msgspec.json.Encoder(decimal_format=_spelling, order="deterministic")
