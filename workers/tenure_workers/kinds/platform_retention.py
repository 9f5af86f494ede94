"""`platform.retention`: deletes what is older than the settings say, table after table, batch after batch."""

from __future__ import annotations

from typing import Any

from tenure.model.kinds import kind
from tenure.retention import RETENTION, Retention
from tenure.retention.run import Run
from tenure.runtime.attempt import Attempt


@kind(RETENTION)
def platform_retention(attempt: Attempt, params: Retention) -> dict[str, Any]:
    """A batch is a fenced transaction with its checkpoint. What there is no time for is left to the next run."""
    outcome = Run(attempt, dry_run=params.dry_run).outcome()
    attempt.summary = outcome.sentence()
    return outcome.model_dump()
