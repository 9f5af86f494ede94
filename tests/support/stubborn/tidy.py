"""`tidy`: works until it is stopped, then cleans up for a while, and leaves a row when it has."""

import time

from pydantic import BaseModel
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt

TABLE = "create table if not exists cleanups (task_id uuid not null, began timestamptz not null, ended timestamptz not null)"
_INSERT = text(
    "insert into cleanups values (:task_id, clock_timestamp() - make_interval(secs => :s), clock_timestamp())"
)


class Tidy(BaseModel):
    cleanup: float = 0.5  # s


@kind("tidy", params=Tidy, stop_within=5.0)
def tidy(attempt: Attempt, params: Tidy) -> None:
    try:
        while attempt.sleep(60):
            pass
        attempt.check()
    finally:
        time.sleep(params.cleanup)
        with attempt.connection() as connection, connection.begin():
            connection.execute(_INSERT, {"task_id": attempt.task_id, "s": params.cleanup})
