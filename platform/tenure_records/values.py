"""Materialised values: written in bulk, and only ever forward, from older to newer data and definitions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from tenure_records.computed import Evaluation, JsonValue, encode


@dataclass(frozen=True, slots=True)
class Value:
    """What to store for one object: the evaluation of its data as of `change_seq`."""

    object_id: int
    change_seq: int
    evaluation: Evaluation


# One string per column: an ARRAY[…] of thousands of literals is parsed as thousands of expressions. JSON text holds no
# line feed of its own (inside strings it is escaped), so it can separate.
_ROWS = """select id, seq, decode(digest, 'hex') as digest, v::jsonb as v, e::jsonb as e
    from unnest(string_to_array(:ids, ',')::bigint[], string_to_array(:seqs, ',')::bigint[],
                string_to_array(:digests, ','), string_to_array(:values, chr(10)), string_to_array(:errors, chr(10)))
         as u (id, seq, digest, v, e)"""
_SET = """evaluation_revision = :revision, change_seq = {0}, source_digest = {1}, values = {2}, errors = {3},
    computed_at = clock_timestamp()"""
# The guard is on the row that is written, so it is decided again after a wait for another writer of that row: newer
# data or newer definitions are never replaced by older ones.
_GUARD = "c.change_seq <= {0} and c.evaluation_revision <= :revision"

_UPDATE = text(f"""update object_computed_data c set {_SET.format("u.seq", "u.digest", "u.v", "u.e")}
    from ({_ROWS}) u
    where c.class_id = :class_id and c.object_id = u.id and c.object_id between :low and :high and {_GUARD.format("u.seq")}""")
_UPSERT = text(f"""insert into object_computed_data as c
        (class_id, object_id, evaluation_revision, change_seq, source_digest, values, errors)
    select :class_id, id, :revision, seq, digest, v, e from ({_ROWS}) u order by id
    on conflict (class_id, object_id) do update
    set {_SET.format("excluded.change_seq", "excluded.source_digest", "excluded.values", "excluded.errors")}
    where {_GUARD.format("excluded.change_seq")}""")
# A read is not under the class lock from its start, so what it evaluated may be of an object that is gone by now.
_REPAIR = text(f"""insert into object_computed_data as c
        (class_id, object_id, evaluation_revision, change_seq, source_digest, values, errors)
    select :class_id, u.id, :revision, u.seq, u.digest, u.v, u.e from ({_ROWS}) u
    join record_objects o on o.class_id = :class_id and o.id = u.id and o.change_seq = u.seq order by u.id
    on conflict (class_id, object_id) do update
    set {_SET.format("excluded.change_seq", "excluded.source_digest", "excluded.values", "excluded.errors")}
    where {_GUARD.format("excluded.change_seq")}""")
_CLEAR = text("""delete from object_computed_data
    where class_id = :class_id and object_id > :after and object_id <= :last""")
_FORGET = text("delete from object_computed_data where class_id = :class_id and object_id = any(:ids)")
_EVICT = text("""delete from object_computed_data c
    using unnest(cast(:ids as bigint[]), cast(:seqs as bigint[]), cast(:revisions as bigint[])) as u (id, seq, revision)
    where c.class_id = :class_id and c.object_id = u.id and c.change_seq = u.seq and c.evaluation_revision = u.revision""")
_SWEEP = text("""delete from object_computed_data c where c.class_id = :class_id
    and (c.evaluation_revision > :revision
         or not exists (select 1 from record_objects o where o.class_id = c.class_id and o.id = c.object_id))""")


def update(connection: Connection, class_id: int, revision: int, values: Sequence[Value]) -> int:
    """Rewrite values that are there already; how many were. What is newer, or gone, stays as it is."""
    return connection.execute(_UPDATE, _columns(class_id, revision, values)).rowcount if values else 0


def upsert(connection: Connection, class_id: int, revision: int, values: Sequence[Value]) -> int:
    """Write values that may not be there yet; how many were written. What is newer stays as it is."""
    return connection.execute(_UPSERT, _columns(class_id, revision, values)).rowcount if values else 0


def repair(connection: Connection, class_id: int, revision: int, values: Sequence[Value]) -> int:
    """`upsert`, for objects that are still there with the data that was evaluated."""
    return connection.execute(_REPAIR, _columns(class_id, revision, values)).rowcount if values else 0


def clear(connection: Connection, class_id: int, after: int, last: int) -> int:
    """Delete the values of the objects after one id, up to another."""
    return connection.execute(_CLEAR, {"class_id": class_id, "after": after, "last": last}).rowcount


def forget(connection: Connection, class_id: int, ids: Sequence[int]) -> int:
    """Delete the values of these objects, in the transaction that deletes the objects."""
    return connection.execute(_FORGET, {"class_id": class_id, "ids": list(ids)}).rowcount


def evict(connection: Connection, class_id: int, seen: Sequence[tuple[int, int, int]]) -> int:
    """Delete values that are still as they were seen: (object id, change_seq, evaluation revision) of each."""
    if not seen:
        return 0
    ids, seqs, revisions = (list(column) for column in zip(*sorted(seen), strict=True))
    columns = {"class_id": class_id, "ids": ids, "seqs": seqs, "revisions": revisions}
    return connection.execute(_EVICT, columns).rowcount


def sweep(connection: Connection, class_id: int, revision: int) -> int:
    """Delete values without an object, as a reindex page that raced the object's deletion leaves, and values of a
    revision above the current one, which nobody can have written. The caller holds the class lock."""
    return connection.execute(_SWEEP, {"class_id": class_id, "revision": revision}).rowcount


def seal(document_digest: str, values: Mapping[str, JsonValue], errors: Mapping[str, str]) -> str:
    """What `source_digest` holds, as 64 hexadecimal digits: it covers the document and the values made of it, so a
    change of either alone shows."""
    return _seal(document_digest, encode(values), encode({**errors}))


def _seal(document_digest: str, values: str, errors: str) -> str:
    return hashlib.sha256(f"{document_digest}\n{values}\n{errors}".encode()).hexdigest()


def _columns(class_id: int, revision: int, values: Sequence[Value]) -> dict[str, object]:
    ordered = sorted(values, key=lambda value: value.object_id)  # the lock order
    made = [encode(value.evaluation.values) for value in ordered]
    codes = [encode({**value.evaluation.errors}) if value.evaluation.errors else "{}" for value in ordered]
    rows = zip(ordered, made, codes, strict=True)
    return {
        "class_id": class_id,
        "revision": revision,
        "low": ordered[0].object_id,
        "high": ordered[-1].object_id,
        "ids": ",".join([str(value.object_id) for value in ordered]),
        "seqs": ",".join([str(value.change_seq) for value in ordered]),
        "digests": ",".join([_seal(value.evaluation.digest, text, errors) for value, text, errors in rows]),
        "values": "\n".join(made),
        "errors": "\n".join(codes),
    }
