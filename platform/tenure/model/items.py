"""Items: what became of single objects under an activity. None for an object that did not change.

Plain values, and the JSON in which they go to the database: bounded, and without what may not be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tenure.model.errors import UsageError, shortened
from tenure.model.faults import expected, sanitized, storable
from tenure.model.requests import holds_nul

NAME: Final = 255  # characters of a type, id or name
CHANGE_BYTES: Final = 64
DOCUMENT_BYTES: Final = 16 * 1024  # of a snapshot, of a tree of outcomes
PAGE: Final = 1000  # items in one statement
PAGE_BYTES: Final = 4 * 1024 * 1024
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that followed from an object's change, and what followed from that. `outcome`: a name to be counted by."""

    outcome: str
    object_type: str | None = None
    object_id: str | None = None
    object_name: str | None = None
    outcomes: Sequence[Outcome] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """What became of one object.

    `change`: added, updated, deleted, or the kind's own word, 1 to 64 bytes. `object_*` and `snapshot` (JSON) are copies:
    they outlive the object. `error`: the type of what went wrong, `message`: in words fit for everybody's eyes. An
    `unhandled` error is a bug: it makes the activity `complete_with_error`.
    """

    change: str
    object_type: str | None = None
    object_id: str | None = None
    object_name: str | None = None
    error: str | None = None
    message: str | None = None
    unhandled: bool = False
    snapshot: Mapping[str, Any] | None = None
    outcomes: Sequence[Outcome] = field(default=())

    @classmethod
    def failed(cls, change: str, error: BaseException, **object_and_snapshot: Any) -> Item:
        """An item for an exception: handled if it is one of Tenure's tree, `Reject` or `Retry`; else unhandled, and its own
        text is not kept."""
        return cls(
            change,
            error=type(error).__name__,
            message=sanitized(error),
            unhandled=not expected(error),
            **object_and_snapshot,
        )


def change_named(name: str, what: str = "change") -> str:
    """A change or an outcome as it is stored: 1 to 64 bytes, on one line. UsageError."""
    fit = storable(name)
    if not 1 <= len(fit.encode()) <= CHANGE_BYTES:
        raise UsageError(f"{what} {shortened(name)!r}: 1 to {CHANGE_BYTES} bytes are allowed")
    return fit


def pages(items: Iterable[Item]) -> Iterator[str]:
    """JSON arrays of at most PAGE items and about PAGE_BYTES. UsageError names the first wrong item, counted from 0."""
    batch: list[bytes] = []
    size = 0
    for index, item in enumerate(items):
        batch.append(_ENCODER.encode(_row(index, item)))
        size += len(batch[-1])
        if len(batch) >= PAGE or size >= PAGE_BYTES:
            yield _array(batch)
            batch, size = [], 0
    if batch:
        yield _array(batch)


def _array(batch: list[bytes]) -> str:
    return (b"[" + b",".join(batch) + b"]").decode()


def _row(index: int, item: Item) -> dict[str, object]:
    if item.error is None and (item.message is not None or item.unhandled):
        raise UsageError(f"item {index}: a message or an unhandled error needs the type of the error")
    row: dict[str, object] = {"change": change_named(item.change, f"item {index}: change")}
    for name, text in (("type", item.object_type), ("id", item.object_id), ("name", item.object_name)):
        if text is not None:
            row[name] = storable(str(text), NAME)
    if item.error is not None:
        row |= {"error": storable(item.error, NAME), "unhandled": item.unhandled}
        row["message"] = None if item.message is None else storable(item.message)
    if item.snapshot is not None:
        row["snapshot"] = _document(index, "snapshot", item.snapshot)
    if item.outcomes:
        row["outcomes"] = _document(index, "outcomes", [_tree(index, one) for one in item.outcomes])
    return row


def _document(index: int, name: str, value: object) -> msgspec.Raw:
    """Its JSON; of one that is too large, how large it was: an audit record must not fail the work it is about."""
    try:
        encoded = _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise UsageError(f"item {index}: its {name} holds something that JSON cannot carry") from None
    if holds_nul(encoded.decode()):
        raise UsageError(f"item {index}: its {name} holds a NUL character, which cannot be stored")
    if len(encoded) > DOCUMENT_BYTES:
        omitted: object = {"omitted_bytes": len(encoded)}
        return msgspec.Raw(_ENCODER.encode([omitted] if name == "outcomes" else omitted))
    return msgspec.Raw(encoded)


def _tree(index: int, one: Outcome) -> dict[str, object]:
    row: dict[str, object] = {"outcome": change_named(one.outcome, f"item {index}: outcome")}
    for name in ("object_type", "object_id", "object_name"):
        text = getattr(one, name)
        if text is not None:
            row[name] = storable(str(text), NAME)
    if one.outcomes:
        row["outcomes"] = [_tree(index, inner) for inner in one.outcomes]
    return row
