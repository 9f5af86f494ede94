"""What is wanted of schedules, wherever it is said: in a file, by another app. Pure."""

from tenure.model.definitions.planning import Change, Plan, Present, plan
from tenure.model.definitions.reading import Wanted, read
from tenure.model.definitions.spec import ScheduleSpec, StepSpec
from tenure.model.definitions.taken import Taken
from tenure.model.definitions.writing import document, root, write

__all__ = [
    "Change",
    "Plan",
    "Present",
    "ScheduleSpec",
    "StepSpec",
    "Taken",
    "Wanted",
    "document",
    "plan",
    "read",
    "root",
    "write",
]
