"""Schedules as the text of a file that says the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenure.model.definitions.reading import ORIGIN
from tenure.model.definitions.spec import ScheduleSpec, StepSpec
from tenure.model.durations import write_duration


def document(spec: ScheduleSpec) -> dict[str, Any]:
    """Its table in a file, without its name: what is as it would be anyhow is left out."""
    made = spec.model_dump(exclude={"name", "steps"}, exclude_defaults=True)
    if spec.every is not None:
        made["every"] = write_duration(spec.every)
    if spec.steps:
        made["steps"] = [_group(group) for group in spec.steps]
    return made


def root(specs: Iterable[ScheduleSpec], origin: str | None = None) -> dict[str, Any]:
    """All of a file, in the order of names."""
    made: dict[str, Any] = {} if origin in (None, ORIGIN) else {"origin": origin}
    return {**made, "schedules": {spec.name: document(spec) for spec in sorted(specs, key=lambda one: one.name)}}


def write(specs: Iterable[ScheduleSpec], origin: str | None = None) -> str:
    """YAML that `read` answers the same specs for."""
    from tenure.model.definitions.yamls import write_yaml  # many processes know schedules, few write them

    return write_yaml(root(specs, origin))


def _group(group: list[StepSpec]) -> Any:
    steps = [_step(step) for step in group]
    return steps[0] if len(steps) == 1 else steps


def _step(step: StepSpec) -> Any:
    made = step.model_dump(exclude_defaults=True)
    if step.deadline is not None:
        made["deadline"] = write_duration(step.deadline)
    return step.kind if set(made) == {"kind"} else made
