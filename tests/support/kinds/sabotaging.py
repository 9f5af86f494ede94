"""`sabotaging`: a body that takes away what runs after it, so that its thread leaves without the end of the attempt."""

from typing import NoReturn

from pydantic import BaseModel, ConfigDict

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


class Sabotage(BaseModel):
    """`attempts`: so many of them do it."""

    model_config = ConfigDict(extra="forbid")

    attempts: int = 1


def refuse() -> NoReturn:
    raise LookupError("there is no epilogue")


def work(attempt: Attempt, params: Sabotage) -> None:
    if attempt.number <= params.attempts:
        attempt.close = refuse  # type: ignore[method-assign]


failing = kind("sabotaging", params=Sabotage)(work)
resuming = kind("sabotaging.resumed", params=Sabotage, on_lost="resume", max_attempts=3)(work)
