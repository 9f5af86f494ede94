"""Schedules as the text of a file that says the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from tenure.model.definitions.reading import ORIGIN
from tenure.model.definitions.spec import ScheduleSpec, StepSpec
from tenure.model.definitions.trees import resolve_core
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
    text: str = yaml.dump(root(specs, origin), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1000)
    return text


def _group(group: list[StepSpec]) -> Any:
    steps = [_step(step) for step in group]
    return steps[0] if len(steps) == 1 else steps


def _step(step: StepSpec) -> Any:
    made = step.model_dump(exclude_defaults=True)
    if step.deadline is not None:
        made["deadline"] = write_duration(step.deadline)
    return step.kind if set(made) == {"kind"} else made


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Between double quotes where a reader would fold a line break of another alphabet into a space."""
    style = '"' if any(break_ in text for break_ in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
resolve_core(_Dumper)  # beside YAML 1.1's: whatever any reader would take for a number is quoted
