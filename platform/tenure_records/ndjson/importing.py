"""Reading an export: line by line, each with its outcome, in batches that commit. Run again it goes on: keys decide.

A bad line stops nothing. What is reported as written or unchanged has been committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from sqlalchemy import Connection

from tenure.model.errors import shortened
from tenure.model.records import Initiator
from tenure_records import classes
from tenure_records.computed import JsonValue
from tenure_records.errors import SchemaViolation
from tenure_records.ndjson import envelope, header
from tenure_records.ndjson.header import Begin
from tenure_records.ndjson.lines import numbered
from tenure_records.ndjson.outcomes import LineRefused, Outcome, refused, violating
from tenure_records.ndjson.seen import Seen
from tenure_records.objects import put_rows

BATCH_LINES: Final = 2_000
BATCH_BYTES: Final = 8 * 1024 * 1024
Told = Callable[[Outcome], None]


@dataclass
class Imported:
    """What an import came to, in lines; `created` of the written are new."""

    lines: int = 0
    written: int = 0
    created: int = 0
    unchanged: int = 0
    refused: int = 0

    def count(self, outcome: Outcome) -> None:
        self.written += outcome.outcome == "written"
        self.created += outcome.created is True
        self.unchanged += outcome.outcome == "unchanged"
        self.refused += outcome.outcome == "refused"


@dataclass
class _Batch:
    """Objects to be written together, by key, with the outcomes that stand already."""

    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    size: int = 0
    known: list[Outcome] = field(default_factory=list)

    def full(self) -> bool:
        return len(self.texts) + len(self.known) >= BATCH_LINES or self.size >= BATCH_BYTES


def import_lines(
    begin: Begin,
    class_name: str,
    lines: BinaryIO,
    *,
    initiator: Initiator,
    told: Told = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import what `export` wrote into the class of that name, made when it is missing.

    `begin` opens a transaction that commits when it is left, such as `engine.begin`. `told` gets every outcome in the
    order of the lines, once it is committed; `progress` the bytes read so far. Raises InvalidClass.
    """
    classes.check_name(class_name)
    return _Import(begin, class_name, initiator, told).run(lines, progress)


class _Import:
    def __init__(self, begin: Begin, class_name: str, initiator: Initiator, told: Told) -> None:
        self._begin = begin
        self._name = class_name
        self._initiator = initiator
        self._told = told
        self._class_id: int | None = None
        self._done = Imported()

    def run(self, lines: BinaryIO, progress: Callable[[int], None]) -> Imported:
        batch, read, first = _Batch(), 0, True
        with Seen() as seen:
            for number, line, length in numbered(lines, envelope.LINE_BYTES):
                read += length
                self._done.lines += 1
                try:
                    value = envelope.parsed(line)
                    if header.MEMBER in value:
                        batch.known.append(self._header(number, value, first=first))
                    else:
                        assert line is not None, "what is too long was refused"
                        self._add(batch, seen, number, *envelope.an_object(line, value))
                except LineRefused as error:
                    batch.known.append(refused(number, error))
                first = False
                if batch.full():
                    self._write(batch)
                    progress(read)
                    batch = _Batch()
        self._write(batch)
        progress(read)
        return self._done

    def _header(self, number: int, value: dict[str, JsonValue], *, first: bool) -> Outcome:
        if not first or len(value) != 1:
            raise LineRefused("the class stands alone in the first line", field=header.MEMBER)
        changed = header.apply(self._begin, self._name, value[header.MEMBER], self._initiator)
        return Outcome(number, "written" if changed else "unchanged")

    def _add(self, batch: _Batch, seen: Seen, number: int, key: str, text: str) -> None:
        if (before := seen.first(key, number)) != number:
            raise LineRefused(f"the key was given in line {before} already", field="key", value=shortened(key, 40))
        batch.texts[key] = text
        batch.numbers[key] = number
        batch.size += len(text)

    def _write(self, batch: _Batch) -> None:
        outcomes = [*batch.known, *self._put(batch)]
        for outcome in sorted(outcomes, key=lambda one: one.line):
            self._done.count(outcome)
            self._told(outcome)

    def _put(self, batch: _Batch) -> list[Outcome]:
        """Write a batch in one transaction; its outcomes, once that has committed."""
        if not batch.texts:
            return []
        outcomes: list[Outcome] = []
        texts = batch.texts
        with self._begin() as connection:
            class_id = self._class(connection)
            try:
                written = put_rows(connection, class_id, texts)
            except SchemaViolation as error:
                # Judged before anything was written: the others go in.
                outcomes = violating(error, batch.numbers)
                texts = {key: text for key, text in texts.items() if key not in error.violations}
                written = put_rows(connection, class_id, texts)
        self._class_id = class_id
        for key in texts:
            revision = written.get(key)
            if revision is None:
                outcomes.append(Outcome(batch.numbers[key], "unchanged", key))
            else:
                outcomes.append(Outcome(batch.numbers[key], "written", key, created=revision == 1))
        return outcomes

    def _class(self, connection: Connection) -> int:
        return self._class_id if self._class_id is not None else classes.ensure_class(connection, self._name).id
