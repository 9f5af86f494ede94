"""One run of `records.retention`: class after class, then the evidence of retired schemas, within one time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel
from sqlalchemy import Connection

from tenure.retention import Budget, drain
from tenure.retention.batches import Done
from tenure.store import settings
from tenure.store.retention.cutoffs import before
from tenure_records.kinds import RecordsRetention
from tenure_records.retention import pages, policy
from tenure_records.retention.policy import Policy

if TYPE_CHECKING:
    from tenure.runtime.attempt import Attempt

EVIDENCE = "schema_evidence"


class Cursor(BaseModel):
    """The class (or retired schema) in hand and the last object id looked at; `rows` deleted so far, by class.

    `evidence_after` is of the schema. `newest_from`: the lowest id of the `kept` objects made last, when the class was begun.
    """

    class_id: int = 0
    schema_id: int = 0
    after: int = 0
    newest_from: int | None = None
    kept: int | None = None
    evidence_after: int = 0
    rows: dict[str, int] = {}
    evidence: int = 0


class Outcome(BaseModel):
    """What a run came to. `left`: classes with more to go, for the next run."""

    dry_run: bool
    drained: bool
    rows: dict[str, int]
    evidence: int
    left: list[str]

    def sentence(self) -> str:
        """For the task's summary."""
        parts = ", ".join(f"{rows} of {name}" for name, rows in self.rows.items()) or "no objects"
        old = f", {self.evidence} rows of evidence" if self.evidence else ""
        rest = f"; not finished: {', '.join(self.left)}" if self.left else ""
        return f"{'would go' if self.dry_run else 'deleted'}: {parts}{old}{rest}"


class Run:
    """The state of one attempt. `cursor` is what its last checkpoint says."""

    def __init__(self, attempt: Attempt, params: RecordsRetention) -> None:
        self._attempt = attempt
        self._params = params
        self.cursor = attempt.resume(Cursor())

    def outcome(self) -> Outcome:
        """Run all that is left. Raises NoSuchClass, and the stop there is, between batches."""
        everything = self._params.class_name is None
        self._attempt.begin(phases=["objects", "evidence"] if everything else ["objects"])
        with self._attempt.connection() as connection:
            reading = connection.execution_options(isolation_level="AUTOCOMMIT")
            budget = Budget.read(reading)
            self._attempt.phase("objects")
            left = [one.class_name for one in self._policies(reading) if not self._class(reading, budget, one)]
            if everything:
                self._attempt.phase("evidence")
                left += [] if self._evidence(reading, budget) else [EVIDENCE]
        return Outcome(
            dry_run=self._params.dry_run, drained=not left, rows=self.cursor.rows, evidence=self.cursor.evidence,
            left=left,
        )  # fmt: skip

    def _policies(self, connection: Connection) -> list[Policy]:
        name = self._params.class_name
        if name is None:
            return policy.bounded(connection, self.cursor.class_id)
        found = policy.get_retention(connection, name)
        return [] if found.keep_days is None and found.keep_newest is None else [found]

    def _class(self, reading: Connection, budget: Budget, one: Policy) -> bool:
        if not budget.left():
            return False
        if self.cursor.class_id != one.class_id or self.cursor.newest_from is None:
            kept = one.keep_newest
            first = 0 if kept is None else pages.newest_from(reading, one.class_id, kept)
            fresh = {"class_id": one.class_id, "after": 0, "newest_from": first, "kept": kept}
            self.cursor = self.cursor.model_copy(update=fresh)
        first, kept = self.cursor.newest_from or 0, self.cursor.kept

        def batch(tx: Connection, rows: int) -> Done | None:
            page = pages.objects(tx, one.class_id, kept, first, self.cursor.after, rows, dry_run=self._params.dry_run)
            if page is None:
                return None
            counted = self.cursor.rows
            if page.gone:
                counted = {**counted, one.class_name: counted.get(one.class_name, 0) + page.gone}
            return Done(page.seen, page.gone, self.cursor.model_copy(update={"after": page.after, "rows": counted}))

        return drain(self._attempt, budget, batch, self._keep)

    def _evidence(self, reading: Connection, budget: Budget) -> bool:
        old = before(reading, settings.KEEP_EVIDENCE)
        if old is None:
            return True
        return all(self._schema(budget, schema_id) for schema_id in pages.retired(reading, old, self.cursor.schema_id))

    def _schema(self, budget: Budget, schema_id: int) -> bool:
        if self.cursor.schema_id != schema_id:
            self.cursor = self.cursor.model_copy(update={"schema_id": schema_id, "evidence_after": 0})

        def batch(tx: Connection, rows: int) -> Done | None:
            page = pages.retired_evidence(tx, schema_id, self.cursor.evidence_after, rows, dry_run=self._params.dry_run)
            if page is None:
                return None
            moved = {"evidence_after": page.after, "evidence": self.cursor.evidence + page.gone}
            return Done(page.seen, page.gone, self.cursor.model_copy(update=moved))

        return drain(self._attempt, budget, batch, self._keep)

    def _keep(self, cursor: Cursor) -> None:
        self.cursor = cursor
