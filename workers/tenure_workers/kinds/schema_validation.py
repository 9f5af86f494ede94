"""`records.schema_validation`: judges the objects of a class by a schema revision, batch by batch, resuming where it was."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel
from sqlalchemy import Connection

from tenure.model.kinds import kind
from tenure.model.retry import Reject
from tenure.model.stops import Cancelled
from tenure.runtime.ahead import reading_ahead
from tenure.runtime.attempt import Attempt
from tenure_records import reindex
from tenure_records.giving_way import giving_way
from tenure_records.kinds import SCHEMA_VALIDATION, SchemaValidation
from tenure_records.schemas import scans


class Cursor(BaseModel):
    """The last object id whose evidence is committed, and what was found up to there."""

    after: int = 0
    reused: int = 0
    valid: int = 0
    invalid: int = 0
    uninspectable: int = 0

    def past(self, page: scans.Page) -> Cursor:
        """The cursor after a page."""
        invalid = sum(1 for one in page.others if one.verdict == "invalid")
        return Cursor(
            after=page.last,
            reused=self.reused + page.reused,
            valid=self.valid + len(page.valid),
            invalid=self.invalid + invalid,
            uninspectable=self.uninspectable + len(page.others) - invalid,
        )

    @property
    def counts(self) -> scans.Counts:
        judged = self.valid + self.invalid + self.uninspectable
        return scans.Counts(judged, self.reused, self.valid, self.invalid, self.uninspectable)


@kind(SCHEMA_VALIDATION)
def records_schema_validation(attempt: Attempt, params: SchemaValidation) -> dict[str, int]:
    """Each page commits with its checkpoint, fenced by the lease's token and by the schema revision.

    The end of the task as succeeded publishes what was found, in the same transaction; any other end publishes nothing.
    """
    cursor = attempt.resume(Cursor())
    with attempt.connection() as connection:
        reading = connection.execution_options(isolation_level="AUTOCOMMIT")
        judge = scans.judge_of(reading, params)
        if judge is None:
            if reindex.missing(reading, params.class_id):
                raise Reject(f"class {params.class_name} has been dropped: there is nothing to judge")
            raise _superseded()
        total = attempt.counters.processed + scans.total(reading, params, cursor.after)
        attempt.begin(total=total, phases=["judge", "conclude"])
        attempt.phase("judge", total=total)
        # While a page commits the next is judged, and while a large batch is judged the next is fetched.
        with reading_ahead() as fetching, reading_ahead() as ahead:
            scan = scans.Scan(reading, params, judge, fetching)
            coming = ahead(scan.page, cursor.after, attempt.is_running)
            while (page := coming.result()) is not None:
                coming = ahead(scan.page, page.last, attempt.is_running)
                cursor = giving_way(attempt, partial(_store, attempt, params, page, cursor.past(page)))
                attempt.progress(attempt.counters.processed)
    attempt.phase("conclude")
    with attempt.transaction() as tx:
        if not scans.finish(tx, params, attempt.token, cursor.counts):
            raise _superseded()
    found = cursor.counts
    attempt.summary = (
        f"{attempt.counters.processed} objects of class {params.class_name} by schema revision {params.number}: "
        f"{found.invalid} invalid, {found.uninspectable} uninspectable, {found.reused} judged before"
    )
    return vars(found)


def _store(attempt: Attempt, params: SchemaValidation, page: scans.Page, after: Cursor, tx: Connection) -> Cursor:
    if not scans.store(tx, params, attempt.token, page):
        raise _superseded()
    invalid = sum(1 for one in page.others if one.verdict == "invalid")
    attempt.count(tx, valid=len(page.valid), invalid=invalid, judged_before=page.reused,
                  uninspectable=len(page.others) - invalid)  # fmt: skip
    return attempt.checkpoint(tx, after, processed=page.rows)


def _superseded() -> Cancelled:
    return Cancelled("a newer schema revision or a newer scan superseded this scan")
