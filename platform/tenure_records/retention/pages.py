"""Pages of a retention of records: objects of a class by id, and evidence of retired schemas.

Values and evidence of an object go in the transaction in which it goes, under the shared class lock, as for any delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from tenure_records import locks, values
from tenure_records.schemas import evidence

_COUNTED_AT_ONCE: Final = 20_000

# Decided on the class's row as it is now: whoever keeps more in mid-run is heeded at once. `newest_from` was counted for
# `kept` objects: where more are kept by now, nothing goes for their sake in this run.
_DUE = """(o.updated_at < clock_timestamp() - c.keep_days * interval '1 day'
           or (c.keep_newest <= cast(:kept as bigint) and o.id < :newest_from))"""
_PAGE = """with page as materialized (select o.ctid as place, o.id from record_objects o
        where o.class_id = :class_id and o.id > :after order by o.id limit :rows),
    free as materialized (select o.ctid as place, o.id from record_objects o cross join record_classes c
        where o.ctid = any(array(select place from page)) and c.id = :class_id and {due} order by o.id {locking})
    {deleting}
    select (select count(*) from page), (select max(id) from page), coalesce((select array_agg(id) from {answer}), '{{}}')"""
_DELETE = text(
    _PAGE.format(
        due=_DUE,
        locking="for update of o skip locked",
        deleting=", gone as (delete from record_objects o where o.ctid = any(array(select place from free)) returning o.id)",
        answer="gone",
    )
)
_COUNT = text(_PAGE.format(due=_DUE, locking="", deleting="", answer="free"))
_NEWEST = text("""select count(*), min(id) from (select id from record_objects
    where class_id = :class_id and id < :below order by id desc limit :rows) newest""")

_RETIRED = """with page as materialized (select e.ctid as place, e.object_id from schema_evidence e
        where (e.schema_id, e.object_id) > (:schema_id, :object_id) and e.schema_id = :schema_id
        order by e.schema_id, e.object_id limit :rows){deleting}
    select (select count(*) from page), (select max(object_id) from page), (select count(*) from {answer})"""
_GONE = ", gone as (delete from schema_evidence e where e.ctid = any(array(select place from page)) returning 1)"
_DELETE_EVIDENCE = text(_RETIRED.format(deleting=_GONE, answer="gone"))
_COUNT_EVIDENCE = text(_RETIRED.format(deleting="", answer="page"))
_SCHEMAS = text("""select r.id from schema_revisions r where r.status = 'retired' and r.retired_at < :before
    and r.id >= :after and exists (select 1 from schema_evidence e where e.schema_id = r.id) order by r.id""")


@dataclass(frozen=True)
class Page:
    """`seen` rows were looked at up to the id `after`; `gone` were deleted, or counted."""

    seen: int
    gone: int
    after: int


def newest_from(connection: Connection, class_id: int, kept: int) -> int:
    """The lowest id of the `kept` objects made last; what is below it may go. In steps that take little each."""
    below, left = 2**63 - 1, kept
    while left:
        rows = min(left, _COUNTED_AT_ONCE)
        found, lowest = connection.execute(_NEWEST, {"class_id": class_id, "below": below, "rows": rows}).one()
        if found < rows:
            return 0
        below, left = lowest, left - found
    return below


def objects(
    connection: Connection, class_id: int, kept: int | None, newest_from: int, after: int, rows: int, *, dry_run: bool
) -> Page | None:
    """Delete (in a dry run: count) what is due of the next `rows` objects; None at the end of the class.

    `newest_from` is what `newest_from` answered for `kept` objects."""
    if not dry_run:
        locks.share(connection, class_id)
    here = {"class_id": class_id, "kept": kept, "newest_from": newest_from, "after": after, "rows": rows}
    seen, last, ids = connection.execute(_COUNT if dry_run else _DELETE, here).one()
    if not seen:
        return None
    if ids and not dry_run:
        values.forget(connection, class_id, sorted(ids))
        evidence.forget(connection, class_id, sorted(ids))
    return Page(seen, len(ids), last)


def retired(connection: Connection, before: datetime, after: int) -> list[int]:
    """Schema revisions with evidence that were retired before then, from an id on."""
    return list(connection.execute(_SCHEMAS, {"before": before, "after": after}).scalars())


def retired_evidence(connection: Connection, schema_id: int, after: int, rows: int, *, dry_run: bool) -> Page | None:
    """Delete (in a dry run: count) the next `rows` rows of evidence of a retired schema; None at its end."""
    here = {"schema_id": schema_id, "object_id": after, "rows": rows}
    seen, last, gone = connection.execute(_COUNT_EVIDENCE if dry_run else _DELETE_EVIDENCE, here).one()
    return Page(seen, gone, last) if seen else None
