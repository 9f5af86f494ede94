"""Writing objects: each write materialises the computed values in the same transaction, under the shared class lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, text

from tenure.model.errors import shortened
from tenure_records import classes, locks, scope, values
from tenure_records.documents import Data, checked_key, checked_text, stored_text_decides
from tenure_records.errors import InvalidKey, NoSuchObject, RevisionConflict
from tenure_records.schemas import evidence, writing

_RETURNED = "id, key, revision, change_seq"
_ROWS = "unnest(string_to_array(:keys, chr(10)), string_to_array(:texts, chr(10))) as u (k, d)"
# Equal data is no change: no new revision, no new change_seq, nothing to evaluate.
_CHANGE = (
    "data = {0}, revision = o.revision + 1, change_seq = nextval('record_change_seq'), updated_at = clock_timestamp()"
)

# By id before anything is written, as everybody who locks several objects does.
_LOCK = text("""select id from record_objects where class_id = :class_id and key = any(string_to_array(:keys, chr(10)))
    order by id for no key update""")
_UPSERT = text(f"""insert into record_objects as o (class_id, key, data)
    select :class_id, k, d::jsonb from {_ROWS} order by k
    on conflict (class_id, key) do update set {_CHANGE.format("excluded.data")}
    where o.data is distinct from excluded.data returning {_RETURNED}""")
_INSERT = text(f"""insert into record_objects (class_id, key, data) values (:class_id, :key, cast(:text as jsonb))
    on conflict (class_id, key) do nothing returning {_RETURNED}""")
_REPLACE = text(f"""update record_objects o set {_CHANGE.format("cast(:text as jsonb)")}
    where class_id = :class_id and key = :key and revision = :revision
      and data is distinct from cast(:text as jsonb) returning {_RETURNED}""")
_ONE = text(f"select {_RETURNED} from record_objects where class_id = :class_id and key = :key")
_TEXTS = text("""select key, data::text as data from record_objects
    where class_id = :class_id and key = any(string_to_array(:keys, chr(10)))""")
_DELETE = text("""delete from record_objects where class_id = :class_id and key = :key
    and (cast(:revision as integer) is null or revision = :revision) returning id""")


@dataclass(frozen=True)
class Stored:
    """One object after a write. `changed` is False when the data was equal to what is stored."""

    id: int
    key: str
    revision: int
    change_seq: int
    changed: bool


@dataclass(frozen=True)
class Put:
    """Counts of one bulk write. `invalid`: how many of the written do not fit the advisory schema of the class."""

    created: int
    changed: int
    unchanged: int
    invalid: int = 0

    def __add__(self, other: Put) -> Put:
        return Put(
            self.created + other.created,
            self.changed + other.changed,
            self.unchanged + other.unchanged,
            self.invalid + other.invalid,
        )


def put_object(connection: Connection, class_name: str, key: str, data: Data, *, revision: int | None = None) -> Stored:
    """Create or replace one object. `revision` is the one expected: 0 for "must be new"; None takes any.

    Raises NoSuchClass, InvalidKey, InvalidObject, RevisionConflict, SchemaViolation.
    """
    key, body = checked_key(key), checked_text(data)
    class_id = classes.class_id(connection, class_name)
    locks.share(connection, class_id)
    admitted = writing.admit(connection, class_id, {key: body})
    here = {"class_id": class_id, "key": key, "text": body, "revision": revision}
    if revision is None:
        row = connection.execute(_UPSERT, {"class_id": class_id, "keys": key, "texts": body}).first()
    else:
        row = connection.execute(_REPLACE if revision else _INSERT, here).first()
    if row is not None:
        _materialise(connection, class_id, [row], {key: body})
        writing.record(connection, admitted, [row])
        return Stored(row.id, row.key, row.revision, row.change_seq, True)
    found = connection.execute(_ONE, here).first()
    if found is None or (revision is not None and found.revision != revision):
        raise _conflict(key, revision, found)
    return Stored(found.id, found.key, found.revision, found.change_seq, False)


def put_objects(connection: Connection, class_name: str, items: Iterable[tuple[str, Data]]) -> Put:
    """Create or replace many objects in one statement; all or none. Give at most a few thousand at a time.

    Raises NoSuchClass, InvalidObject, InvalidKey (also for a key given twice), SchemaViolation.
    """
    texts: dict[str, str] = {}
    for given, data in items:
        key = checked_key(given)
        if key in texts:
            raise InvalidKey(f"the key {shortened(key)!r} is given twice")
        texts[key] = checked_text(data)
    return put_checked(connection, classes.class_id(connection, class_name), texts)


def put_checked(connection: Connection, class_id: int, texts: Mapping[str, str]) -> Put:
    """`put_objects` of keys and one-line texts that were checked before."""
    rows, admitted = _put(connection, class_id, texts)
    created = sum(1 for row in rows if row.revision == 1)
    invalid = sum(1 for row in rows if admitted.against_advice(row.key))
    return Put(created, len(rows) - created, len(texts) - len(rows), invalid)


def put_rows(connection: Connection, class_id: int, texts: Mapping[str, str]) -> dict[str, int]:
    """`put_checked`, answering the new revision of each object that was written, by key; 1 for a new one."""
    rows, _ = _put(connection, class_id, texts)
    return {row.key: row.revision for row in rows}


def _put(
    connection: Connection, class_id: int, texts: Mapping[str, str]
) -> tuple[Sequence[Row[tuple[int, str, int, int]]], writing.Admitted]:
    if not texts:
        return (), writing.Admitted()
    locks.share(connection, class_id)
    admitted = writing.admit(connection, class_id, texts)
    columns = {"class_id": class_id, "keys": "\n".join(texts), "texts": "\n".join(texts.values())}
    connection.execute(_LOCK, columns)
    rows = connection.execute(_UPSERT, columns).all()
    _materialise(connection, class_id, rows, texts)
    writing.record(connection, admitted, rows)
    return rows, admitted


def _materialise(
    connection: Connection, class_id: int, rows: Sequence[Row[tuple[int, str, int, int]]], texts: Mapping[str, str]
) -> None:
    now = scope.current(connection, class_id)
    if now.empty or not rows:
        return
    evaluate = now.evaluator.evaluate
    unsure = [row.key for row in rows if stored_text_decides(texts[row.key])]
    if unsure:
        found = connection.execute(_TEXTS, {"class_id": class_id, "keys": "\n".join(unsure)})
        texts = {**texts, **{row.key: row.data for row in found}}
    done = [values.Value(row.id, row.change_seq, evaluate(texts[row.key])) for row in rows]
    values.upsert(connection, class_id, now.revision, done)


def delete_object(connection: Connection, class_name: str, key: str, *, revision: int | None = None) -> None:
    """Delete one object with its values. Raises NoSuchClass, NoSuchObject, RevisionConflict."""
    class_id = classes.class_id(connection, class_name)
    locks.share(connection, class_id)
    here = {"class_id": class_id, "key": key, "revision": revision}
    gone = connection.execute(_DELETE, here).scalar()
    if gone is None:
        found = None if revision is None else connection.execute(_ONE, here).first()
        if found is None:
            raise NoSuchObject(f"no object {shortened(key)!r} in class {shortened(class_name)!r}")
        raise _conflict(key, revision, found)
    values.forget(connection, class_id, [gone])
    evidence.forget(connection, class_id, [gone])


def _conflict(key: str, expected: int | None, found: Row[tuple[int, str, int, int]] | None) -> RevisionConflict:
    stands = "does not exist" if found is None else f"is at revision {found.revision}"
    return RevisionConflict(f"object {shortened(key)!r} {stands}, not at {expected}: read it again")
