"""Kinds that schedules of tests run as steps: TENURE_KINDS=tests.support.steps."""

from pydantic import BaseModel, ConfigDict, model_validator

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


@kind("step.ok", params=Anything, priority=2)
def ok(attempt: Attempt, params: Anything) -> None:
    """Succeeds."""


@kind("step.fails", params=Anything)
def fails(attempt: Attempt, params: Anything) -> None:
    raise RuntimeError("it broke")


@kind("step.number", params=Number)
def number(attempt: Attempt, params: Number) -> None:
    """Takes a number and nothing else."""


class Odd(BaseModel):
    """A model whose own check has a bug."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _check(cls, values: dict[str, object]) -> object:
        return values["no such thing"]


@kind("step.odd", params=Odd)
def odd(attempt: Attempt, params: Odd) -> None:
    """Never submitted."""


@kind("step.limited", params=Anything, active_limit=1)
def limited(attempt: Attempt, params: Anything) -> None:
    """One of a submitter at a time."""


@kind("step.inner", params=Anything, internal="step.outer()")
def inner(attempt: Attempt, params: Anything) -> None:
    """Only for domains."""
