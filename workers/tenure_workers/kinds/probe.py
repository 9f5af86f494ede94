"""`probe`: a task for doctor, for trying things out and for tests: steps of a chosen length, each with a checkpoint."""

from __future__ import annotations

import threading
import time
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


class Probe(BaseModel):
    """`steps` of `seconds` each; step `fail_at` (from 1) raises. Modes: how the body spends its time."""

    model_config = ConfigDict(extra="forbid")

    steps: int = Field(1, ge=0, le=1_000_000)
    seconds: float = Field(0.0, ge=0, le=3600)
    fail_at: int | None = Field(None, ge=1)
    mode: Literal["cooperative", "sql", "busy", "deaf"] = "cooperative"


class Step(BaseModel):
    done: int = 0


@kind(
    "probe",
    params=Probe,
    on_lost="resume",
    on_shutdown="fail",
    keep_params="they hold numbers only, and a probe is tried again by hand",
)
def probe(attempt: Attempt, params: Probe) -> dict[str, int]:
    cursor = attempt.resume(Step())
    attempt.begin(total=params.steps, phases=["steps"])
    attempt.phase("steps", total=params.steps)
    attempt.progress(cursor.done)
    while cursor.done < params.steps:
        _spend(attempt, params)
        if params.fail_at == cursor.done + 1:
            raise ValueError("the probe was told to fail here")
        with attempt.transaction() as tx:
            cursor = attempt.checkpoint(tx, Step(done=cursor.done + 1), processed=1)
        attempt.progress(cursor.done)
    return {"steps": cursor.done}


def _spend(attempt: Attempt, params: Probe) -> None:
    if params.mode == "sql":
        with attempt.connection() as connection:
            connection.execute(text("select pg_sleep(:s)"), {"s": params.seconds})
    elif params.mode == "busy":
        end = time.monotonic() + params.seconds
        while time.monotonic() < end:
            attempt.check()
    elif params.mode == "deaf":
        threading.Event().wait(params.seconds)  # hears no stop: what the ladder is for
    elif params.seconds:
        attempt.sleep(params.seconds)
        attempt.check()
