"""Bodies that do nothing: what is measured is the platform around them."""

from __future__ import annotations

from tenure.model.kinds import NoParams, kind
from tenure.runtime.attempt import Attempt

QUEUE = "bench"


@kind("bench.noop", queue=QUEUE)
def noop(attempt: Attempt, params: NoParams) -> None:
    """One claim and one end per task."""


@kind("bench.tiny", queue=QUEUE, tiny=True, on_lost="resume")
def tiny(attempt: Attempt, params: NoParams) -> None:
    """Claimed and ended eight to a statement."""
