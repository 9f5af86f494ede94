"""What can be followed to its end: a task, or an activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from tenure.cli.measured import Snapshot
from tenure.cli.output import plain
from tenure.model.errors import NoSuchTask, Refused, TenureError
from tenure.model.states import TERMINAL, State

if TYPE_CHECKING:
    from sqlalchemy import Connection

TIMED_OUT = 3
_ENDED = frozenset(TERMINAL)


class Followed(Protocol):
    """Read again and again until `ended`; then `sentence` and `exit_code` say how."""

    def read(self, connection: Connection) -> Snapshot | None: ...
    def missing(self) -> TenureError: ...
    def ended(self, seen: Snapshot) -> bool: ...
    def exit_code(self, seen: Snapshot) -> int: ...
    def sentence(self, seen: Snapshot) -> str: ...
    def title(self, seen: Snapshot) -> str: ...
    def whole(self, connection: Connection) -> Any: ...


class FollowedTask:
    """Exit code 0 when it succeeded, 1 when it ended otherwise, 3 when it has not ended."""

    def __init__(self, task_id: UUID) -> None:
        self._id = task_id

    def read(self, connection: Connection) -> Snapshot | None:
        from tenure.store import progress

        return progress.read(connection, self._id)

    def missing(self) -> TenureError:
        return NoSuchTask(f"no task {self._id}")

    def ended(self, seen: Snapshot) -> bool:
        return State(seen["state"]) in _ENDED

    def exit_code(self, seen: Snapshot) -> int:
        if not self.ended(seen):
            return TIMED_OUT
        return 0 if State(seen["state"]) is State.SUCCEEDED else 1

    def sentence(self, seen: Snapshot) -> str:
        outcome = f" ({seen['outcome']})" if seen["outcome"] else ""
        error = f": {plain(seen['error_message'])}" if seen["error_message"] else ""
        return f"{seen['state']}{outcome}{error}"

    def title(self, seen: Snapshot) -> str:
        return f"{plain(seen['kind'])}  {seen['state']}{_attempt(seen)}"

    def whole(self, connection: Connection) -> Any:
        from tenure import client

        return client.get(connection, self._id)


class FollowedActivity:
    """Exit code 0 when it is complete, with or without a warning; 1 when it ended otherwise."""

    def __init__(self, activity_id: UUID) -> None:
        self._id = activity_id

    def read(self, connection: Connection) -> Snapshot | None:
        from tenure.store import progress

        return progress.read_activity(connection, self._id)

    def missing(self) -> TenureError:
        return Refused(f"no activity {self._id}")

    def ended(self, seen: Snapshot) -> bool:
        return bool(seen["status"] != "in_progress")

    def exit_code(self, seen: Snapshot) -> int:
        if not self.ended(seen):
            return TIMED_OUT
        return 0 if seen["status"] in ("complete", "complete_with_warning") else 1

    def sentence(self, seen: Snapshot) -> str:
        message = f": {plain(seen['message'])}" if seen["message"] else ""
        return f"{seen['status']}{message}"

    def title(self, seen: Snapshot) -> str:
        target = plain(seen["target_name"] or seen["target_type"] or "activity")
        state = f", {seen['task_state']}" if seen["task_state"] and not self.ended(seen) else ""
        return f"{target}  {seen['status']}{state}{_attempt(seen)}"

    def whole(self, connection: Connection) -> Any:
        from tenure.store import activity_reads

        return activity_reads.one(connection, self._id)


def _attempt(seen: Snapshot) -> str:
    if not seen["attempt"]:
        return ""
    token = f", token {seen['token']}" if seen["token"] else ""
    return f", attempt {seen['attempt']} of {seen['max_attempts']}{token}"
