"""What recurs without anybody having added it: schedules that `tenure migrate` seeds, and what beat itself does.

A domain adds its own by the entry point `tenure.schedules`: a ScheduleSpec, or several in a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from tenure import plugins, schedules
from tenure.model.definitions import ScheduleSpec, StepSpec
from tenure.model.errors import InvalidSettings, shortened
from tenure.model.initiators import SYSTEM
from tenure.retention import RETENTION
from tenure.services import housekeeping, net, reaper


@dataclass(frozen=True)
class BeatService:
    """A loop of every beat, plain SQL and no task: it works with all workers busy, with none, and without the broker."""

    name: str
    every: float  # s
    description: str


SERVICES = (
    BeatService("recovery", reaper.BEAT_PACE, "Settles expired leases, due and late tasks."),
    BeatService("safety_net", net.PACE, "Moves on executions that stand still."),
    BeatService(
        "housekeeping", housekeeping.PACE, "Partitions ahead, rows of processes long gone, the domains' own steps."
    ),
)
# An interval: it counts from when the database was made, so that not all deployments delete at the same minute.
SCHEDULES = (
    ScheduleSpec(
        name=RETENTION.name,
        description="Deletes what is older than the settings retention.* say.",
        every=3600.0,
        steps=[[StepSpec(kind=RETENTION.name)]],
    ),
)


def declared() -> list[ScheduleSpec]:
    """The built-in schedules of the kernel and of the installed domains. Raises InvalidSettings for one that is none."""
    return [*SCHEDULES, *(spec for name, value in plugins.loaded("tenure.schedules") for spec in _specs(name, value))]


def _specs(name: str, value: object) -> Iterator[ScheduleSpec]:
    for spec in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(spec, ScheduleSpec):
            raise InvalidSettings(f"plug-in {shortened(name)} of tenure.schedules holds no ScheduleSpec")
        yield spec


def seed(connection: Connection) -> int:
    """Add the built-in schedules that are not there, and bring the steps of those that are to what the code says; how
    many were written. What an operator set of them (time, policies, pause) stays. Safe to run again."""
    log = structlog.get_logger("tenure.migrate")
    present = {one.name: one for one in schedules.listing(connection)}
    written = 0
    for spec in declared():
        found = present.get(spec.name)
        if found is None:
            schedules.add(connection, spec, initiator=SYSTEM, built_in=True)
        elif not found.built_in:
            log.warning("name_taken", schedule=spec.name, said="somebody's own schedule has the name of a built-in one")
            continue
        elif found.spec.steps == spec.steps:
            continue
        else:
            schedules.reseed(connection, found, spec, initiator=SYSTEM)
        written += 1
    return written
