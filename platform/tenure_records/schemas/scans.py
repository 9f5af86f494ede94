"""The steps of a scan: read a batch, judge it, store it. The kind `records.schema_validation` strings them together.

A batch is read and judged without any lock or transaction. What makes that safe is at the store: evidence names the
change_seq that was judged, never replaces newer evidence, and counts only for an object that is still at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, text

from tenure_records import locks
from tenure_records.kinds import SchemaValidation
from tenure_records.schemas import evidence
from tenure_records.schemas.judge import Judge, compile_schema
from tenure_records.schemas.revisions import text_of
from tenure_records.schemas.writing import judge_text

# Batches that share one commit: a commit costs as much as some hundred rows.
PAGE_ROWS: Final = 4_096
PAGE_SECONDS: Final = 0.25

# `taken` is what the batch would hold up to and with this row. The first row is always taken. A text that is too long is
# measured over there and never sent; one that published evidence is about is not even unpacked.
_BATCH = """select id, change_seq, size, case when size <= :object_bytes then body end from (
        select id, change_seq, body, octet_length(body) as size, row_number() over w as nth,
            sum(case when octet_length(body) <= :object_bytes then octet_length(body) else 0 end) over w as taken
        from ({rows}) o window w as (order by id rows unbounded preceding)) b
    where taken <= :batch_bytes or nth = 1 order by id"""
_FRESH = text(_BATCH.format(rows="""select o.id, o.change_seq, o.data::text as body from record_objects o
        where o.class_id = :class_id and o.id > :after and o.id <= :upper order by o.id limit :rows"""))  # fmt: skip
_AGAIN = text(_BATCH.format(rows="""select o.id, o.change_seq,
            case when e.change_seq = o.change_seq and (e.scan_id is null or s.published_at is not null) then null
                 else o.data::text end as body
        from record_objects o
        left join schema_evidence e on e.schema_id = :schema_id and e.object_id = o.id
        left join schema_scans s on s.id = e.scan_id
        where o.class_id = :class_id and o.id > :after and o.id <= :upper order by o.id limit :rows"""))  # fmt: skip
_TOTAL = text("select count(*) from record_objects where class_id = :class_id and id > :after and id <= :upper")
_ANY = text("select exists (select 1 from schema_evidence where schema_id = :schema_id)")
_MINE = text("select 1 from schema_revisions where id = :schema_id and status <> 'retired' and scan_id = :scan_id")
_FINISH = text("""update schema_scans s set token = :token, judged = :judged, reused = :reused, valid = :valid,
        invalid = :invalid, uninspectable = :uninspectable
    where s.id = :scan_id and s.published_at is null and exists (
        select 1 from schema_revisions r where r.id = s.schema_id and r.status <> 'retired' and r.scan_id = s.id)""")


@dataclass
class Counts:
    """What a scan has found so far; `reused` objects had published evidence already."""

    judged: int = 0
    reused: int = 0
    valid: int = 0
    invalid: int = 0
    uninspectable: int = 0


@dataclass
class Page:
    """Judged batches that are stored together; `last` is the last id read."""

    last: int
    rows: int = 0
    reused: int = 0
    valid: list[tuple[int, int]] = field(default_factory=list)
    others: list[evidence.Judged] = field(default_factory=list)


class Scan:
    """Reads and judges the objects of one scan, in order, on a connection that only reads."""

    def __init__(self, connection: Connection, params: SchemaValidation, judge: Judge) -> None:
        self._connection = connection
        self._params = params
        self._judge = judge
        self._rows = params.batch_rows
        # Without any evidence there is none to look up, object by object. What writers add meanwhile is judged once more.
        self._statement = _AGAIN if connection.execute(_ANY, {"schema_id": params.schema_id}).scalar_one() else _FRESH

    def page(self, after: int, go_on: Callable[[], bool]) -> Page | None:
        """The batches after an id, judged: as many as fit into one commit, fewer once `go_on` says no; None for none."""
        page = Page(after)
        end = time.monotonic() + PAGE_SECONDS
        while page.rows < PAGE_ROWS and self._batch(page) and go_on() and time.monotonic() < end:
            pass
        return page if page.rows else None

    def _batch(self, page: Page) -> bool:
        """Read and judge one batch into the page. False: there is nothing left."""
        params = self._params
        here = {
            "class_id": params.class_id, "schema_id": params.schema_id, "after": page.last, "upper": params.upper,
            "rows": self._rows, "object_bytes": params.object_bytes, "batch_bytes": params.batch_bytes,
        }  # fmt: skip
        found = self._connection.execute(self._statement, here).all()
        if not found:
            return False
        taken = 0
        for object_id, change_seq, size, body in found:
            if body is not None:
                taken += size
                verdict, findings = judge_text(self._judge, body)
                if verdict == "valid":
                    page.valid.append((object_id, change_seq))
                else:
                    page.others.append(evidence.Judged(object_id, change_seq, verdict, findings))
            elif size is not None:
                page.others.append(evidence.Judged(object_id, change_seq, "uninspectable"))
            else:
                page.reused += 1
        page.last = found[-1][0]
        page.rows += len(found)
        # What does not fit is unpacked for nothing, so the next batch asks for what fitted, and a little more.
        fitting = len(found) * params.batch_bytes // max(taken, 1)
        self._rows = max(1, min(params.batch_rows, fitting + 1))
        return True


def total(connection: Connection, params: SchemaValidation, after: int) -> int:
    """How many objects are left to look at after an id."""
    here = {"class_id": params.class_id, "after": after, "upper": params.upper}
    return int(connection.execute(_TOTAL, here).scalar_one())


def judge_of(connection: Connection, params: SchemaValidation) -> Judge | None:
    """What to judge by; None when the scan has been superseded, or its class dropped."""
    body = text_of(connection, params.schema_id)
    return compile_schema(body) if body is not None and is_mine(connection, params) else None


def is_mine(connection: Connection, params: SchemaValidation) -> bool:
    """Whether the revision is still open, and this scan its newest."""
    here = {"schema_id": params.schema_id, "scan_id": params.scan_id}
    return connection.execute(_MINE, here).first() is not None


def store(connection: Connection, params: SchemaValidation, token: int, page: Page) -> bool:
    """Write one page in the caller's fenced transaction. False: superseded, and nothing was written."""
    locks.share(connection, params.class_id)
    if not is_mine(connection, params):
        return False
    evidence.write(connection, params.schema_id, page.valid, page.others, scan_id=params.scan_id, token=token)
    return True


def finish(connection: Connection, params: SchemaValidation, token: int, counts: Counts) -> bool:
    """The last step before the end that publishes: the counts, and that all was looked at. False: superseded."""
    locks.share(connection, params.class_id)
    here = {"scan_id": params.scan_id, "token": token, **vars(counts)}
    return connection.execute(_FINISH, here).rowcount == 1
