"""`records.revalidation`: asks for a scan of every class with an active schema; the scans are tasks of their own."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tenure.model.kinds import NoParams, kind
from tenure.runtime.attempt import Attempt
from tenure_records.kinds import RECORDS_REVALIDATION
from tenure_records.schemas import revalidating


class Cursor(BaseModel):
    """The last class that was asked for, and how many scans that made."""

    after: int = 0
    asked: int = 0


@kind(RECORDS_REVALIDATION)
def records_revalidation(attempt: Attempt, _: NoParams) -> dict[str, Any]:
    """Each scan is asked for in the transaction of the checkpoint that says so: none twice."""
    cursor = attempt.resume(Cursor())
    with attempt.connection() as connection:
        classes = revalidating.with_active_schema(connection, cursor.after)
    attempt.begin(total=attempt.counters.processed + len(classes))
    for class_id, name in classes:
        with attempt.transaction() as tx:
            asked = cursor.asked + revalidating.ask(tx, name)
            cursor = attempt.checkpoint(tx, Cursor(after=class_id, asked=asked), processed=1)
    attempt.summary = f"{cursor.asked} scans asked for"
    return {"asked": cursor.asked}
