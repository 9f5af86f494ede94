"""`records.retention`: deletes the objects that their class does not keep any longer, and old evidence, in batches."""

from __future__ import annotations

from typing import Any

from tenure.model.kinds import kind
from tenure.model.retry import Reject
from tenure.runtime.attempt import Attempt
from tenure_records.errors import NoSuchClass
from tenure_records.kinds import RECORDS_RETENTION, RecordsRetention
from tenure_records.retention.run import Run


@kind(RECORDS_RETENTION)
def records_retention(attempt: Attempt, params: RecordsRetention) -> dict[str, Any]:
    """A batch is a fenced transaction with its checkpoint. What there is no time for is left to the next run."""
    try:
        outcome = Run(attempt, params).outcome()
    except NoSuchClass as error:
        raise Reject(str(error)) from None
    attempt.summary = outcome.sentence()
    return outcome.model_dump()
