"""What domains plug into the processes, by entry point: services, housekeeping steps, start-up steps, and what they keep.

`tenure.services`: callable(Settings) → Service, one named loop of the worker's main process.
`tenure.housekeeping`: a services.housekeeping.Step, run every minute by beat in a transaction of its own.
`tenure.retention`: a condition (SQL) on an ended task {t}, under which retention keeps it.
`tenure.schedule_sources`: callable(reference, Registry) → model.definitions.Taken, schedules of another scheduler.
`tenure.schedules`: a ScheduleSpec, or several in a sequence, that `tenure migrate` seeds as built-in schedules.
`tenure.startup`: callable(Settings) → None, run once after the gate and before anything is consumed (recover, warm).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from tenure.model.errors import InvalidSettings, shortened


def loaded(group: str) -> list[tuple[str, Any]]:
    """[(name, object)] of a group, by name. Raises InvalidSettings naming the plug-in that cannot be loaded."""
    found = []
    for point in sorted(entry_points(group=group), key=lambda one: one.name):
        try:
            found.append((point.name, point.load()))
        except (ImportError, AttributeError) as error:
            raise InvalidSettings(
                f"plug-in {point.name} of {group} cannot be loaded: {shortened(error, 120)}"
            ) from None
    return found
