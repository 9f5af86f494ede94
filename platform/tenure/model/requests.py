"""What may be said in a request: pure checks, so that what PostgreSQL would refuse is one clear error before any SQL."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from tenure.model import initiators
from tenure.model.errors import InvalidParams, PayloadTooLarge, UsageError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator

LABELS = 32
LABEL_KEY_BYTES = 64
LABEL_VALUE_BYTES = 256
NAME_BYTES = 255  # of a key, a submitter, a scope, a part of an initiator; the first two are one index entry together
FARTHEST = timedelta(days=36_525)
# An escaped NUL, as opposed to a backslash that is itself escaped and happens to stand before "u0000".
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(document: str) -> bool:
    """Whether JSON text holds a NUL character, which jsonb cannot store."""
    return "\\u0000" in document and _NUL.search(document) is not None


def finite(value: Any) -> bool:
    """Whether no NaN and no infinity is anywhere in a model's dump."""
    if isinstance(value, float | Decimal):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(finite(part) for pair in value.items() for part in pair)
    return not isinstance(value, list | tuple | set | frozenset) or all(finite(part) for part in value)


def check_text(**texts: str | None) -> None:
    """Refuse text that PostgreSQL cannot store, by the name it was given under. UsageError."""
    for name, text in texts.items():
        reason = unstorable(text) if text is not None else None
        if reason is not None:
            raise UsageError(f"{name.replace('_', ' ')} holds {reason}, which cannot be stored")


def unstorable(text: str) -> str | None:
    """What PostgreSQL refuses in this text, or None."""
    if "\0" in text:
        return "a NUL character"
    return None if text.isascii() or not _surrogates(text) else "half of a surrogate pair"


def storable(text: str | None) -> str | None:
    """The text with what PostgreSQL refuses replaced: for messages that must be written whatever they hold."""
    if text is None or unstorable(text) is None:
        return text
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def check_name(name: str, text: str, shortest: int = 0) -> None:
    check_text(**{name: text})
    size = len(text.encode())
    if not shortest <= size <= NAME_BYTES:
        raise UsageError(f"{name.replace('_', ' ')} is {size} bytes: {shortest} to {NAME_BYTES} are allowed")


def check_labels(labels: Mapping[str, str] | None) -> None:
    """At most LABELS, text to text, of at most LABEL_KEY_BYTES and LABEL_VALUE_BYTES. UsageError."""
    pairs = list((labels or {}).items())
    if len(pairs) > LABELS or not all(isinstance(part, str) for pair in pairs for part in pair):
        raise UsageError(f"labels: at most {LABELS}, text to text")
    for pair in pairs:
        for part, most in zip(pair, (LABEL_KEY_BYTES, LABEL_VALUE_BYTES), strict=True):
            check_text(label=part)
            if len(part.encode()) > most:
                said = f"{LABEL_KEY_BYTES} bytes for a name and {LABEL_VALUE_BYTES} for its value are allowed"
                raise UsageError(f"label {shortened(pair[0])!r}: {said}")


def check_initiator(initiator: Initiator) -> None:
    """UsageError unless it fits the matrix of `tenure.model.initiators` and can be stored."""
    initiators.check(initiator)
    for part in ("id", "name"):
        check_name(f"initiator_{part}", getattr(initiator, part))


# What reads back on every client: PostgreSQL stores years that Python cannot say.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


def _utc(time: datetime) -> datetime:
    """The time in UTC; the end of time it lies beyond, where that has no name."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if time.year > 5000 else datetime.min.replace(tzinfo=UTC)


def check_times(**times: datetime | timedelta | None) -> None:
    """Refuse moments without a zone (whose would it be?) and durations nobody means. UsageError."""
    for name, time in times.items():
        if isinstance(time, datetime) and time.utcoffset() is not None and not _FIRST <= _utc(time) <= _LAST:
            raise UsageError(f"{name} {shortened(time)}: a time between the years 1970 and 9998 is needed")
        if isinstance(time, datetime) and time.utcoffset() is None:
            raise UsageError(f"{name} {time.isoformat()} has no time zone: give one, UTC for example")
        if isinstance(time, timedelta) and abs(time) > FARTHEST:
            raise UsageError(f"{name} is more than 100 years away")


def check_priority(priority: int | None) -> None:
    if priority is not None and not -32768 <= priority <= 32767:
        raise UsageError(f"priority {shortened(priority)} does not fit 16 bits")


def encode(spec: KindSpec, params: Mapping[str, Any] | BaseModel, limit: int) -> str:
    """Validated params as canonical JSON: defaults filled in, keys sorted, so equal requests hash equal.

    Raises InvalidParams, and PayloadTooLarge above `limit` bytes.
    """
    model = spec.validate(params)
    try:
        text = json.dumps(
            model.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        size = len(text.encode())
    except (ValueError, RecursionError):
        raise InvalidParams(f"{spec.name}: params hold a number, text or depth that JSON cannot carry") from None
    # A model's own dump turns them into null, and the body would never know.
    if "null" in text and not finite(model.model_dump()):
        raise InvalidParams(f"{spec.name}: params hold a number that is not finite, which JSON cannot carry")
    if holds_nul(text):
        raise InvalidParams(f"{spec.name}: params hold a NUL character, which cannot be stored")
    if size > limit:
        raise PayloadTooLarge(f"{spec.name}: params are {size} bytes, the limit is {limit} (TENURE_PARAMS_BYTES)")
    return text
