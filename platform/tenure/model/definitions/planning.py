"""What must happen for the schedules that are there to become those that are wanted. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenure.model.definitions.reading import Wanted
from tenure.model.definitions.spec import DEFAULT_ZONE, ScheduleSpec, StepSpec
from tenure.model.durations import write_duration
from tenure.model.errors import ScheduleInvalid, ScheduleKept, shortened


@dataclass(frozen=True)
class Present:
    """A schedule that is there. `origin`: who keeps it; empty: it was made by hand."""

    spec: ScheduleSpec
    origin: str
    built_in: bool
    revision: int


@dataclass(frozen=True)
class Change:
    """One field, as it is and as it is to be, in words."""

    field: str
    before: str
    after: str


@dataclass(frozen=True)
class Changed:
    spec: ScheduleSpec
    changes: tuple[Change, ...]
    present: Present


@dataclass(frozen=True)
class Plan:
    """By name, ascending. `left`: the origin's own schedules that are wanted no more, but are not pruned."""

    origin: str
    added: tuple[ScheduleSpec, ...]
    changed: tuple[Changed, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def does_nothing(self) -> bool:
        return not (self.added or self.changed or self.removed)


def plan(wanted: Wanted, present: Mapping[str, Present], *, prune: bool = False, take: bool = False) -> Plan:
    """Compare by name. Only what its own origin made is ever removed, and nothing that is built in.

    Raises ScheduleKept where another origin keeps a schedule of that name (`take`: it is this one's from then on), and
    ScheduleInvalid for a schedule without steps that is not built in.
    """
    added: list[ScheduleSpec] = []
    changed: list[Changed] = []
    unchanged: list[str] = []
    for spec in sorted(wanted.specs, key=lambda one: one.name):
        known = present.get(spec.name)
        spec = _whole(spec, known)
        if known is None:
            added.append(spec)
            continue
        _check_keeper(spec.name, known, wanted.origin, take)
        changes = tuple(differences(known.spec, spec))
        if take and known.origin not in ("", wanted.origin):
            changes += (Change("kept by", known.origin, wanted.origin),)
        if changes:
            changed.append(Changed(spec, changes, known))
        else:
            unchanged.append(spec.name)
    gone = sorted(_no_longer(wanted, present))
    return Plan(
        wanted.origin, tuple(added), tuple(changed), tuple(gone if prune else ()), tuple(unchanged),
        tuple(() if prune else gone),
    )  # fmt: skip


def _whole(spec: ScheduleSpec, known: Present | None) -> ScheduleSpec:
    if spec.steps:
        return spec
    if known is None or not known.built_in:
        raise ScheduleInvalid(f"schedule {shortened(spec.name)}: give its steps, at least one")
    own = known.spec
    return spec.model_copy(update={"steps": own.steps, "description": spec.description or own.description})


def _check_keeper(name: str, known: Present, origin: str, take: bool) -> None:
    if known.origin not in ("", origin) and not take:
        raise ScheduleKept(
            f"schedule {shortened(name)} is kept by {shortened(known.origin)!r}, not by {shortened(origin)!r}: "
            "take it out there first, or say --take"
        )


def _no_longer(wanted: Wanted, present: Mapping[str, Present]) -> Iterator[str]:
    names = {spec.name for spec in wanted.specs}
    for name, known in present.items():
        if known.origin == wanted.origin and not known.built_in and name not in names:
            yield name


def differences(before: ScheduleSpec, after: ScheduleSpec) -> Iterator[Change]:
    """What differs, field by field; steps one by one where their kinds and groups are the same."""
    yield from _difference("recurs", said_recurrence(before), said_recurrence(after))
    for name in ("description", "overlap", "misfire", "at_most", "on_failure", "enabled"):
        yield from _difference(name, getattr(before, name), getattr(after, name))
    if said_steps(before) != said_steps(after):
        yield Change("steps", said_steps(before), said_steps(after))
        return
    for at, (old, new) in enumerate(zip(before.steps, after.steps, strict=True), 1):
        for beside, pair in enumerate(zip(old, new, strict=True), 1):
            yield from _of_step(f"step {at}" if len(old) == 1 else f"step {at}.{beside}", *pair)


def _of_step(number: str, before: StepSpec, after: StepSpec) -> Iterator[Change]:
    for name in StepSpec.model_fields:
        yield from _difference(f"{number} {name}", getattr(before, name), getattr(after, name))


def _difference(name: str, before: Any, after: Any) -> Iterator[Change]:
    if before != after:
        yield Change(name, _said(before), _said(after))


def _said(value: Any) -> str:
    if value is None:
        return "none"
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def said_recurrence(spec: ScheduleSpec) -> str:
    """In a few words: `30 2 * * * Europe/Oslo`, `every 90s`, `by hand`. Also of what is not understood here any more."""
    if spec.cron is not None:
        return f"{' '.join(spec.cron.split())} {spec.zone or DEFAULT_ZONE}"
    return "by hand" if spec.every is None else f"every {write_duration(spec.every)}"


def said_steps(spec: ScheduleSpec) -> str:
    """Kinds in their order: `a > b + c`."""
    return " > ".join(" + ".join(step.kind for step in group) for group in spec.steps)
