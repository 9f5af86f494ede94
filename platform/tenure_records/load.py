"""Loading newline-delimited JSON. Every line that cannot be an object is named with its number and the reason.

`skip` loads the rest, a batch per transaction; `abort` loads all or nothing, in one transaction. Bodies of lines never
appear in a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Literal

from sqlalchemy import Connection

from tenure.model.errors import shortened
from tenure_records import classes
from tenure_records.documents import checked_json, checked_key
from tenure_records.errors import InvalidKey, InvalidObject, SchemaViolation
from tenure_records.ndjson.lines import numbered
from tenure_records.objects import Put, put_checked
from tenure_records.schemas.writing import described

LINE_BYTES: Final = 1024 * 1024
BATCH_LINES: Final = 2_000
BATCH_BYTES: Final = 8 * 1024 * 1024
SHOWN_ERRORS: Final = 100

Begin = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class LineError:
    """One line that was not loaded, and why."""

    line: int
    reason: str


@dataclass
class Loaded:
    """What a load came to. `refused` counts all bad lines, `errors` holds the first hundred."""

    put: Put = field(default_factory=lambda: Put(0, 0, 0))
    lines: int = 0
    refused: int = 0
    errors: list[LineError] = field(default_factory=list)
    rolled_back: bool = False

    def refuse(self, line: int, reason: str) -> None:
        self.refused += 1
        if len(self.errors) < SHOWN_ERRORS:
            self.errors.append(LineError(line, reason))


def load(
    begin: Begin,
    class_name: str,
    lines: BinaryIO,
    *,
    key: str = "key",
    on_error: Literal["skip", "abort"] = "abort",
    create: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Loaded:
    """Load objects, the member `key` of each being its key, into a class that exists.

    With `create` a missing class is made in the transaction of the first objects: where nothing is loaded, none is left.

    `begin` opens a transaction that commits when it is left, such as `engine.begin`. `progress` is told the bytes read
    so far. Blank lines are passed over. Of two lines with one key the second is refused. Raises NoSuchClass,
    with `create` InvalidClass.
    """
    class_id: int | None = None
    if create:
        classes.check_name(class_name)
    else:
        with begin() as connection:
            class_id = classes.class_id(connection, class_name)
    result = Loaded()
    seen: dict[str, int] = {}

    def put(connection: Connection, batch: dict[str, str]) -> None:
        nonlocal class_id
        if class_id is None:
            class_id = classes.ensure_class(connection, class_name).id
        try:
            result.put += put_checked(connection, class_id, batch)
        except SchemaViolation as error:
            # Judged before anything was written, so the others may still go in.
            for name, findings in error.violations.items():
                result.refuse(seen[name], f"the object does not fit the schema {described(findings)}")
            result.errors.sort(key=lambda error: error.line)
            if on_error == "skip":
                fitting = {name: text for name, text in batch.items() if name not in error.violations}
                result.put += put_checked(connection, class_id, fitting)

    batches = _batches(lines, key, seen, result, progress)
    if on_error == "skip":
        for batch in batches:
            with begin() as connection:
                put(connection, batch)
        return result
    try:
        with begin() as connection:
            for batch in batches:
                # After the first bad line nothing is written any more; the rest is read for its own bad lines.
                if not result.refused:
                    put(connection, batch)
            if result.refused:
                raise _Refused
    except _Refused:
        result.put = Put(0, 0, 0)
        result.rolled_back = True
    return result


class _Refused(Exception):
    """Leaves the transaction of `abort` by rolling it back."""


def _batches(
    lines: BinaryIO, key: str, seen: dict[str, int], result: Loaded, progress: Callable[[int], None]
) -> Iterator[dict[str, str]]:
    batch: dict[str, str] = {}
    size = done = 0
    for number, line, length in numbered(lines, LINE_BYTES):
        done += length
        result.lines += 1
        try:
            name, text = _parsed(line, key)
            if (first := seen.setdefault(name, number)) != number:
                raise InvalidKey(f"the key {shortened(name, 30)!r} was given in line {first} already")
        except (InvalidKey, InvalidObject) as error:
            result.refuse(number, str(error))
            continue
        batch[name] = text
        size += length
        if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            progress(done)
            batch, size = {}, 0
    if batch:
        yield batch
    progress(done)


def _parsed(line: bytes | None, key: str) -> tuple[str, str]:
    if line is None:
        raise InvalidObject(f"the line is longer than {LINE_BYTES} bytes")
    if b"\0" in line:
        raise InvalidObject("the line holds a NUL byte; remove it")
    text, value = checked_json(line)
    if not isinstance(value, dict):
        raise InvalidObject("the line is no JSON object")
    if value.get(key) is None:
        raise InvalidKey(f"the member {shortened(key, 30)!r}, which is to be the key, is missing")
    return checked_key(value[key]), text
