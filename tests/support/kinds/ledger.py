"""`ledger`: leaves one row per step, in the transaction of its checkpoint, so that SQL can tell what was done twice.

The table is the test's; it has no key, because a doubled effect must be seen, not refused.
"""

from pydantic import BaseModel, ConfigDict
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt

TABLE = """create table if not exists ledger (id bigint generated always as identity primary key,
    task_id uuid not null, step integer not null, token bigint not null)"""
_INSERT = text("insert into ledger (task_id, step, token) values (:task_id, :step, :token)")


class Ledger(BaseModel):
    """`steps` rows, `seconds` of sleep before each."""

    model_config = ConfigDict(extra="forbid")

    steps: int = 1
    seconds: float = 0.0


class Step(BaseModel):
    done: int = 0


def work(attempt: Attempt, params: Ledger) -> dict[str, int]:
    cursor = attempt.resume(Step())
    attempt.begin(total=params.steps)
    while cursor.done < params.steps:
        attempt.sleep(params.seconds)
        attempt.check()
        with attempt.transaction() as tx:
            step = cursor.done + 1
            tx.execute(_INSERT, {"task_id": attempt.task_id, "step": step, "token": attempt.token})
            cursor = attempt.checkpoint(tx, Step(done=step), processed=1)
    return {"steps": cursor.done}


ledger = kind("ledger", params=Ledger, on_lost="resume")(work)
handed_on = kind("ledger.handed_on", params=Ledger, on_lost="resume", on_shutdown="release")(work)
tiny = kind("ledger.tiny", params=Ledger, on_lost="resume", tiny=True)(work)
