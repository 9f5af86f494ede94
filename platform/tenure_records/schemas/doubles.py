"""The fast way to read a document: numbers as doubles, where that loses nothing.

Two decimals of at most 15 digits are different doubles if they differ, in the same order, so that a schema whose numbers
are as short says the same of the doubles. Reading them and judging by them takes a third of the time.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

from tenure_records.computed.document import storable
from tenure_records.computed.limits import MAX_DEPTH

from .references import References

_DIGITS: Final = 15
# A run of more digits and points may be a longer number, also before an exponent.
_LONGER: Final = b"0" * (_DIGITS + 1)
# What is nearer to zero than any double would silently become zero. Beyond the largest the decoder refuses.
_TINY: Final = b"e-000"
_OPENER: Final = b"("
_CLASSES: Final = bytes.maketrans(b"0123456789.E[{", b"00000000000e((")
_DECODER: Final = msgspec.json.Decoder()
_NUMERIC: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "enum"}
)


def suits(found: References) -> bool:
    """Whether no keyword of the schema compares with a number of more than 15 digits."""
    for place in found.places.values():
        if isinstance(place.schema, dict):
            waiting = [place.schema[keyword] for keyword in _NUMERIC & place.schema.keys()]
            while waiting:
                value = waiting.pop()
                if isinstance(value, dict):
                    waiting.extend(value.values())
                elif isinstance(value, list):
                    waiting.extend(value)
                elif isinstance(value, int | Decimal) and not _is_short(value):
                    return False
    return True


def read(text: str) -> Any:
    """The value of a JSON text with doubles for its fractions; raises ValueError where one might not be exact.

    Also for a text that is no JSON. Raises InvalidDocument for what cannot be stored.
    """
    classes = text.encode().translate(_CLASSES)
    if _LONGER in classes or _TINY in classes:
        raise ValueError
    value = _DECODER.decode(text)
    # Looking for what cannot be stored costs more than seeing that there can be none.
    return storable(text, value) if "\\" in text or classes.count(_OPENER) > MAX_DEPTH else value


def _is_short(number: int | Decimal) -> bool:
    _, digits, exponent = Decimal(number).as_tuple()
    places = int(exponent)
    return max(len(digits) + max(places, 0), -places) <= _DIGITS
