"""`records.reindex`: evaluates the computed fields of a class again, page by page, resuming where it was."""

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
from tenure_records.kinds import REINDEX, Reindex
from tenure_records.scope import Scope

NAMED = 1000  # objects with errors that get an item; the rest is counted


class Cursor(BaseModel):
    """The last object id whose values are committed, and how many objects have an item."""

    after: int = 0
    named: int = 0


@kind(REINDEX)
def records_reindex(attempt: Attempt, params: Reindex) -> None:
    """Each page commits with its checkpoint, fenced by the lease's token and by the class's evaluation revision.

    A rebuild that a newer one has superseded ends itself as cancelled; it never marks the class.
    """
    cursor = attempt.resume(Cursor())
    with attempt.connection() as connection:
        reading = connection.execution_options(isolation_level="AUTOCOMMIT")
        scope = reindex.definitions(reading, params, attempt.task_id)
        if scope is None:
            if reindex.missing(reading, params.class_id):
                raise Reject(f"class {params.class_name} has been dropped: there is nothing to evaluate")
            raise _superseded()
        total = attempt.counters.processed + reindex.total(reading, params, cursor.after)
        attempt.begin(total=total, phases=["evaluate", "publish"])
        attempt.phase("evaluate", total=total)
        # While a page commits, the next is read and evaluated: PostgreSQL and Python work side by side.
        with reading_ahead() as ahead:
            coming = ahead(reindex.read, reading, params, scope, cursor.after, reindex.next_rows(params, None))
            while (page := coming.result()) is not None:
                coming = ahead(reindex.read, reading, params, scope, page.last, reindex.next_rows(params, page))
                cursor = giving_way(attempt, partial(_store, attempt, params, scope, cursor, page))
                attempt.progress(attempt.counters.processed)
    attempt.phase("publish")
    with attempt.transaction() as tx:
        if not reindex.finish(tx, params, attempt.task_id):
            raise _superseded()
    attempt.summary = f"{attempt.counters.processed} objects of class {params.class_name} evaluated"


def _store(attempt: Attempt, params: Reindex, by: Scope, last: Cursor, page: reindex.Page, tx: Connection) -> Cursor:
    if not reindex.store(tx, params, attempt.task_id, by, last.after, page):
        raise _superseded()
    found = reindex.items(page, params.class_name, NAMED - last.named)
    wrong = reindex.with_errors(page)
    attempt.items(tx, found)
    attempt.count(tx, evaluated=page.rows - wrong, evaluated_with_errors=wrong - len(found))
    after = Cursor(after=page.last, named=last.named + len(found))
    return attempt.checkpoint(tx, after, processed=page.rows)


def _superseded() -> Cancelled:
    return Cancelled("a newer change of the class superseded this reindex")
