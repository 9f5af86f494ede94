"""The steps of a scan: read a batch, judge it, store it. The kind `records.schema_validation` strings them together.

A batch is read and judged without any lock or transaction. What makes that safe is at the store: evidence names the
change_seq that was judged, never replaces newer evidence, and counts only for an object that is still at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

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
# The slowest documents take most of a second each, and a stop is not to wait for a batch of them.
LOOK_SECONDS: Final = 0.1
# A smaller batch is fetched sooner than another thread could be asked to.
LARGE_BATCH: Final = 64 * 1024

# `taken` is what the batch would hold up to and with this row. The first row is always taken. A text that is too long is
# measured over there and never sent; one that published evidence is about is not even unpacked.
_BATCH = """prepare scan_batch (integer, integer, bigint, bigint, integer, bigint, bigint) as
    select id, change_seq, size, case when size <= $6 then body end from (
        select id, change_seq, body, octet_length(body) as size, row_number() over w as nth,
            sum(case when octet_length(body) <= $6 then octet_length(body) else 0 end) over w as taken
        from (select o.id, o.change_seq, {body} as body from record_objects o {evidence}
              where o.class_id = $1 and o.id > $3 and o.id <= $4 order by o.id limit $5) o
        window w as (order by id rows unbounded preceding)) b
    where taken <= $7 or nth = 1 and $2 > 0 order by id"""
_FRESH = _BATCH.format(body="o.data::text", evidence="")
_AGAIN = _BATCH.format(
    body="""case when e.change_seq = o.change_seq and (e.scan_id is null or s.published_at is not null) then null
                else o.data::text end""",
    evidence="""left join schema_evidence e on e.schema_id = $2 and e.object_id = o.id
            left join schema_scans s on s.id = e.scan_id""",
)
_EXECUTE = "execute scan_batch (%s, %s, %s, %s, %s, %s, %s)"
_TOTAL = text("select count(*) from record_objects where class_id = :class_id and id > :after and id <= :upper")
_PREPARED = text("select exists (select 1 from pg_prepared_statements where name = 'scan_batch')")
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


Row = tuple[int, int, int | None, str | None]


class Scan:
    """Reads and judges the objects of one scan, in order, on an autocommit connection that is its own.

    `ahead` fetches the next batch while a large one is judged: PostgreSQL unpacks as long as Python judges.
    """

    def __init__(
        self, connection: Connection, params: SchemaValidation, judge: Judge, ahead: Callable[..., Future[Any]]
    ) -> None:
        self._connection = connection
        self._params = params
        self._judge = judge
        self._ahead = ahead
        self._rows = params.batch_rows
        self._coming: Future[Any] | None = None
        # Without any evidence there is none to look up, object by object. What writers add meanwhile is judged once more.
        known = connection.execute(_ANY, {"schema_id": params.schema_id}).scalar_one()
        if connection.execute(_PREPARED).scalar_one():
            connection.exec_driver_sql("deallocate scan_batch")  # an attempt before this one, in the same session
        connection.exec_driver_sql(_AGAIN if known else _FRESH)

    def page(self, after: int, go_on: Callable[[], bool]) -> Page | None:
        """The batches after an id, judged: as many as fit into one commit, fewer once `go_on` says no; None for none.

        Called again, it goes on after the last page it answered.
        """
        page = Page(after)
        end = time.monotonic() + PAGE_SECONDS
        while page.rows < PAGE_ROWS and self._batch(page, go_on) and go_on() and time.monotonic() < end:
            pass
        return page if page.rows else None

    def _batch(self, page: Page, go_on: Callable[[], bool]) -> bool:
        """Judge one batch into the page, while the next one comes. False: there is nothing left, or it was broken off."""
        found: list[Row] = self._fetch(page.last) if self._coming is None else self._coming.result()
        if not found:
            return False
        # What does not fit is unpacked for nothing, so the next batch asks for what fitted, and a little more.
        taken = sum(size for _, _, size, body in found if size is not None and body is not None)
        self._rows = max(1, min(self._params.batch_rows, len(found) * self._params.batch_bytes // max(taken, 1) + 1))
        self._coming = self._ahead(self._fetch, found[-1][0]) if taken > LARGE_BATCH else None
        judged = self._judge_all(found, page, go_on)
        page.last = found[judged - 1][0]
        page.rows += judged
        if judged < len(found) and self._coming is not None:
            self._coming.result()
            self._coming = None  # it comes after rows that were not judged
        return judged == len(found)

    def _fetch(self, after: int) -> list[Row]:
        params = self._params
        here = (
            params.class_id,
            params.schema_id,
            after,
            params.upper,
            self._rows,
            params.object_bytes,
            params.batch_bytes,
        )
        return [tuple(row) for row in self._connection.exec_driver_sql(_EXECUTE, here)]

    def _judge_all(self, found: list[Row], page: Page, go_on: Callable[[], bool]) -> int:
        """How many were judged: all, or fewer when `go_on` said no, but one."""
        look = time.monotonic() + LOOK_SECONDS
        for number, (object_id, change_seq, size, body) in enumerate(found):
            if number and time.monotonic() > look:
                if not go_on():
                    return number
                look = time.monotonic() + LOOK_SECONDS
            if body is not None:
                verdict, findings = judge_text(self._judge, body)
                if verdict == "valid":
                    page.valid.append((object_id, change_seq))
                else:
                    page.others.append(evidence.Judged(object_id, change_seq, verdict, findings))
            elif size is not None:
                page.others.append(evidence.Judged(object_id, change_seq, "uninspectable"))
            else:
                page.reused += 1
        return len(found)


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
