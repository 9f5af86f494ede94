"""Tasks as a test submits them and as SQL tells of them afterwards."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from tenure import client
from tenure.model.kinds import Kind
from tenure.model.records import Initiator
from tests.support.kinds.ledger import TABLE
from tests.support.until import until
from tests.support.workers import Worker

TESTER = Initiator("test", "1", "tester")
FULL = os.environ.get("TENURE_TEST_SCALE") == "full"

_DONE = (
    """select count(*) filter (where state in ('succeeded','partially_succeeded','failed','cancelled')) from tasks"""
)
_TWICE = "select task_id, step, count(*) from ledger group by 1, 2 having count(*) > 1"
_FALLING = """select task_id from (select task_id, token < lag(token) over (partition by task_id order by step) as falls
    from ledger) x where falls"""


def scaled(short: int, full: int) -> int:
    """A count: short in `make test`, full in `make chaos`."""
    return full if FULL else short


class Tasks:
    """The tasks of one database. Every read is a statement of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        with engine.begin() as connection:
            connection.execute(text(TABLE))

    def submit(self, kind: Kind, count: int = 1, **params: Any) -> list[UUID]:
        """That many tasks with these params, in one transaction."""
        with self.engine.begin() as connection:
            return [client.submit(connection, kind, params, initiator=TESTER).id for _ in range(count)]

    def rows(self, statement: str, **values: Any) -> list[Any]:
        with self.engine.begin() as connection:
            return list(connection.execute(text(statement), values).all())

    def one(self, statement: str, **values: Any) -> Any:
        return self.rows(statement, **values)[0][0]

    def ended(self) -> int:
        return int(self.one(_DONE))

    def wait_ended(self, ids: Sequence[UUID], timeout: float, *, watch: Sequence[Worker] = ()) -> None:
        """Until all of these are terminal; a failure shows which are not, and the logs' ends."""
        statement = "select id, state, attempt from tasks where id = any(:ids) and finished_at is null"
        try:
            until(lambda: not self.rows(statement, ids=list(ids)), timeout, pace=0.1)
        except AssertionError:
            left = [(str(row[0]), *row[1:]) for row in self.rows(statement, ids=list(ids))]
            logs = "\n".join(worker.text()[-3000:] for worker in watch)
            raise AssertionError(f"{len(left)} of {len(ids)} not ended in {timeout:g} s: {left[:5]}\n{logs}") from None

    def states(self, ids: Sequence[UUID]) -> Counter[str]:
        """How many are in each state; failed ones as `failed <outcome>`."""
        rows = self.rows("select concat_ws(' ', state, outcome) from tasks where id = any(:ids)", ids=list(ids))
        return Counter(row[0] for row in rows)

    def history(self, task_id: UUID) -> list[tuple[str, int | None]]:
        """(verb, token) of each event, oldest first."""
        rows = self.rows("select verb, token from task_events where task_id = :id order by created_at, id", id=task_id)
        return [(row[0], row[1]) for row in rows]

    def leases(self) -> int:
        return int(self.one("select count(*) from task_leases"))

    def assert_exactly_once(self, ids: Sequence[UUID], steps: int) -> None:
        """All succeeded; each step of each left one effect; tokens rose; no lease and no hint is left."""
        assert self.states(ids) == {"succeeded": len(ids)}
        found = self.rows(
            "select task_id, count(distinct step) from ledger where task_id = any(:ids) group by 1", ids=ids
        )
        assert {row[0]: row[1] for row in found} == dict.fromkeys(ids, steps)
        assert self.rows(_TWICE) == []
        assert self.rows(_FALLING) == []
        assert self.leases() == 0
        # A hint of an ended task is published once more and refused by the claim: gone in a moment.
        until(lambda: self.one("select count(*) from task_hints") == 0, 10)
