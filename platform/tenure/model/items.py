"""Items: what became of single objects under an activity. None for an object that did not change.

Plain values, and the lines in which they go to the database: bounded, and without what may not be stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import msgspec
from uuid_utils import uuid7

from tenure.model.errors import UsageError, shortened
from tenure.model.faults import expected, sanitized, storable
from tenure.model.requests import holds_nul

NAME: Final = 255  # characters of a type, id or name
CHANGE_BYTES: Final = 64
DOCUMENT_BYTES: Final = 16 * 1024  # of a snapshot, of a tree of outcomes
PAGE: Final = 1000  # items in one statement
PAGE_CHARACTERS: Final = 4 * 1024 * 1024
_FAR: Final = re.compile(
    r"(?<=\d)E[+-]?\d{4,}"
)  # a decimal number that jsonb may refuse; found in a text it does no harm
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


@dataclass
class Sum:
    """What items add up to under one name."""

    objects: int = 0
    errors: int = 0
    unhandled: int = 0


class Page:
    """Items as lines of COPY, with what they add up to: by change, and by the names in their trees of outcomes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.size = 0
        self.changes: dict[str, Sum] = {}
        self.outcomes: Counter[str] = Counter()

    def add(self, index: int, item: Item) -> None:
        """UsageError names the item that is wrong."""
        change = change_named(item.change, f"item {index}: change")
        added = self.changes.setdefault(change, Sum())
        added.objects += 1
        if item.error is not None:
            added.errors += 1
            added.unhandled += item.unhandled
        elif item.message is not None or item.unhandled:
            raise UsageError(f"item {index}: a message or an unhandled error needs the type of the error")
        line = "\t".join((
            str(uuid7()), _field(change), _field(_copied(item.object_type)), _field(_copied(item.object_id)),
            _field(_copied(item.object_name)), _field(None if item.error is None else storable(item.error, NAME)),
            _field(None if item.message is None else storable(item.message)), "t" if item.unhandled else "f",
            _field(None if item.snapshot is None else _document(index, "snapshot", item.snapshot)),
            _field(self._tree(index, item.outcomes) if item.outcomes else None),
        ))  # fmt: skip
        self.lines.append(line)
        self.size += len(line)

    def _tree(self, index: int, outcomes: Sequence[Outcome]) -> str:
        return _document(index, "outcomes", [self._branch(index, one) for one in outcomes])

    def _branch(self, index: int, one: Outcome) -> dict[str, object]:
        name = change_named(one.outcome, f"item {index}: outcome")
        self.outcomes[name] += 1
        row: dict[str, object] = {"outcome": name}
        for part in ("object_type", "object_id", "object_name"):
            text = _copied(getattr(one, part))
            if text is not None:
                row[part] = text
        if one.outcomes:
            row["outcomes"] = [self._branch(index, inner) for inner in one.outcomes]
        return row


def pages(items: Iterable[Item]) -> Iterator[Page]:
    """Pages of at most PAGE items and about PAGE_CHARACTERS. UsageError names the first wrong item, counted from 0."""
    page = Page()
    for index, item in enumerate(items):
        page.add(index, item)
        if len(page.lines) >= PAGE or page.size >= PAGE_CHARACTERS:
            yield page
            page = Page()
    if page.lines:
        yield page


def _copied(text: object) -> str | None:
    """A copy of a type, an id or a name: white space and all, but no more than NAME characters that can be printed."""
    if text is None:
        return None
    copied = text if isinstance(text, str) else str(text)
    if not copied.isprintable():
        copied = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in copied)
    return copied if len(copied) <= NAME else copied[: NAME - 1] + "…"


def _field(text: str | None) -> str:
    """One field of COPY's text format: nothing in ours is a tab or a line break."""
    if text is None:
        return "\\N"
    return text.replace("\\", "\\\\") if "\\" in text else text


def _document(index: int, name: str, value: object) -> str:
    """Its JSON; of one that is too large, how large it was: an audit record must not fail the work it is about."""
    try:
        encoded = _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise UsageError(f"item {index}: its {name} holds something that JSON cannot carry") from None
    if len(encoded) > DOCUMENT_BYTES:
        omitted: object = {"omitted_bytes": len(encoded)}
        encoded = _ENCODER.encode([omitted] if name == "outcomes" else omitted)
    document = encoded.decode()
    if holds_nul(document):
        raise UsageError(f"item {index}: its {name} holds a NUL character, which cannot be stored")
    if _FAR.search(document) and any(map(_far, _decimals(value))):
        raise UsageError(f"item {index}: its {name} holds a number with an exponent beyond a thousand")
    return document


def _far(number: Decimal) -> bool:
    return abs(number.adjusted()) >= 1000


def _decimals(value: object) -> Iterator[Decimal]:
    """The decimal numbers in a document, as its encoder walks it."""
    if isinstance(value, Decimal):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _decimals(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _decimals(one)
