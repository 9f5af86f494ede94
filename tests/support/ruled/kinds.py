"""Short bodies under rules: at most two, one in each scope, and without a rule of their own."""

from pydantic import BaseModel, ConfigDict

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


class Pause(BaseModel):
    """How long the body takes, s."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = 0.0


def work(attempt: Attempt, params: Pause) -> None:
    attempt.sleep(params.seconds)
    attempt.check()


two = kind("ruled.two", params=Pause, on_lost="resume", limit=2)(work)
each = kind("ruled.each", params=Pause, on_lost="resume", scope_limit=1)(work)
free = kind("ruled.free", params=Pause, on_lost="resume")(work)
