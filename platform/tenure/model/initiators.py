"""Who may be named as the one who asked: one matrix, for tasks and activities; the database holds it too.

| type | id | what it is |
| --- | --- | --- |
| user | needed | a person |
| api_key | needed | a program, by the key it came with |
| service | needed | an application in its own name |
| schedule | needed | a schedule, when its time came |
| celery | needed | whoever sent a Celery message: only the broker vouches for it |
| test | needed | a test |
| system | may be blank | Tenure itself |
| anonymous | must be blank | nobody who was identified |

The name is never blank.
"""

from __future__ import annotations

from typing import Final

from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator

NEEDS_ID: Final = ("user", "api_key", "service", "schedule", "celery", "test")
TYPES: Final = (*NEEDS_ID, "system", "anonymous")
SYSTEM: Final = Initiator("system", "", "Tenure")


def refusal(initiator: Initiator) -> str | None:
    """Why this is no initiator, in a sentence; None when it is one."""
    if not all(isinstance(part, str) for part in (initiator.type, initiator.id, initiator.name)):
        return "initiator: type, id and name are texts"
    if initiator.type not in TYPES:
        given = f"not {shortened(initiator.type)!r}" if initiator.type else "and none was given"
        return f"initiator: type is one of {', '.join(TYPES)}, {given}"
    if not initiator.name.strip():
        return f"initiator: a {initiator.type} needs a name"
    if initiator.type in NEEDS_ID and not initiator.id.strip():
        return f"initiator: a {initiator.type} needs an id"
    if initiator.type == "anonymous" and initiator.id:
        return "initiator: whoever is anonymous has no id"
    return None


def check(initiator: Initiator) -> None:
    """UsageError unless the initiator fits the matrix."""
    said = refusal(initiator)
    if said is not None:
        raise UsageError(said)
