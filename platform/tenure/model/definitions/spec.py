"""What somebody wants of a schedule, as files and other apps say it. Pure: no kind is looked up, nothing is written."""

from __future__ import annotations

import math
from datetime import date, time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tenure.model.durations import read_duration
from tenure.model.errors import TenureError
from tenure.model.recurrence import Every, Recurrence, parse_cron
from tenure.model.recurrence.misfire import AT_MOST
from tenure.model.requests import check_labels, check_priority, check_text

DEFAULT_ZONE = "UTC"
DESCRIPTION = 2000  # characters
DEEPEST = 100


def _seconds(value: Any) -> Any:
    """A duration as it may be written, in seconds; numbers are seconds already."""
    if not isinstance(value, str):
        return value
    try:
        return read_duration(value).total_seconds()
    except TenureError as error:
        raise ValueError(str(error)) from None


def _step(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _groups(value: Any) -> Any:
    """A step on its own is a group of one; a list in the list is a group that runs side by side."""
    if not isinstance(value, list):
        return value
    return [[_step(one) for one in item] if isinstance(item, list) else [_step(item)] for item in value]


def _json(value: Any, depth: int = 0) -> Any:
    """TOML's dates and times as ISO text: params are JSON."""
    if depth > DEEPEST:
        raise ValueError(f"params are nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        return {key: _json(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list):
        return [_json(part, depth + 1) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("params hold a number that is not finite, which JSON cannot carry")
    return value.isoformat() if isinstance(value, date | time) else value


Seconds = Annotated[float, BeforeValidator(_seconds)]


class StepSpec(BaseModel):
    """One task of a schedule. What is left out comes from its kind; `deadline` is seconds from its start."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: str = Field(min_length=1)
    params: Annotated[dict[str, Any], BeforeValidator(lambda value: _json(value))] = {}
    on_failure: Literal["inherit", "stop", "continue"] = "inherit"
    queue: str | None = None
    priority: int | None = None
    scope: str | None = None
    exclusive: bool | None = None
    labels: dict[str, str] = {}
    deadline: Annotated[Seconds, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> StepSpec:
        try:
            check_labels(self.labels)
            check_priority(self.priority)
            check_text(queue=self.queue, scope=self.scope)
        except TenureError as error:
            raise ValueError(str(error)) from None
        return self


class ScheduleSpec(BaseModel):
    """A schedule: when it recurs (one of cron with its zone, every, manual), its steps in their groups, and policies.

    `steps` may be left out only where the schedule exists and is built in: its steps are its own.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    description: str = Field(default="", max_length=DESCRIPTION)
    cron: str | None = None
    zone: str | None = None
    every: Seconds | None = None
    manual: bool = False
    steps: Annotated[list[Annotated[list[StepSpec], Field(min_length=1)]], BeforeValidator(_groups)] = []
    on_failure: Literal["stop", "continue"] = "stop"
    overlap: Literal["skip", "queue_one", "allow"] = "skip"
    misfire: Literal["skip", "once", "all"] = "once"
    at_most: int | None = Field(default=None, ge=1, le=AT_MOST)
    enabled: bool = True

    @model_validator(mode="after")
    def _fits(self) -> ScheduleSpec:
        if (self.cron is not None) + (self.every is not None) + self.manual != 1:
            raise ValueError("say when it recurs: one of cron (with zone), every, and manual = true")
        if self.zone is not None and self.cron is None:
            raise ValueError("zone belongs to cron: an interval has none")
        if (self.at_most is None) == (self.misfire == "all"):
            raise ValueError("misfire all needs at_most, how many are caught up; other policies take none")
        try:
            _ = self.recurrence
            check_text(description=self.description)
        except TenureError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def recurrence(self) -> Recurrence | None:
        """None: by hand only."""
        if self.cron is not None:
            return parse_cron(self.cron, self.zone or DEFAULT_ZONE)
        return None if self.every is None else Every(self.every)
