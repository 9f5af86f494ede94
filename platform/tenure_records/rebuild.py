"""Rebuilds: whatever makes the values of a class stale creates, in its own transaction, the task that renews them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from tenure import client
from tenure.model.errors import NoSuchTask, TooLate
from tenure.model.records import Initiator, Submitted
from tenure.model.states import State
from tenure_records import classes, locks
from tenure_records.errors import NoSuchClass
from tenure_records.kinds import PAGE_ROWS, REINDEX, Reindex

_PENDING: Final = (State.WAITING.value, State.SCHEDULED.value, State.QUEUED.value)

_BUMP = text("""update class_computation_state set evaluation_revision = evaluation_revision + 1, updated_at = clock_timestamp()
    where class_id = :class_id returning evaluation_revision""")
_ACTIVE = text("""select s.evaluation_revision, t.id, t.state from class_computation_state s
    left join tasks t on t.id = s.active_task_id and t.finished_at is null where s.class_id = :class_id""")
_UPPER = text("select coalesce(max(id), 0) from record_objects where class_id = :class_id")
_MARK = text("""update class_computation_state set rebuild_status = 'rebuilding', active_task_id = :task_id, last_error = null,
        updated_at = clock_timestamp()
    where class_id = :class_id and evaluation_revision = :revision""")
_FAILED = text("""select c.id, c.name from class_computation_state s join record_classes c on c.id = s.class_id
    left join tasks t on t.id = s.active_task_id
    where s.rebuild_status = 'failed'
       or (s.rebuild_status = 'rebuilding' and (t.id is null or (t.finished_at is not null and t.state <> 'cancelled')))
    order by c.id limit :limit""")


def rebuild(connection: Connection, class_name: str, *, initiator: Initiator, page_rows: int = PAGE_ROWS) -> Submitted:
    """Evaluate every object of the class again; a rebuild of the same definitions under way is answered instead.

    `created` of the answer tells which. Raises NoSuchClass.
    """
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    return _again(connection, class_id, class_name, initiator, page_rows)


def invalidate(
    connection: Connection, class_id: int, class_name: str, *, initiator: Initiator
) -> tuple[int, Submitted]:
    """After a change of definitions, under `locks.take`: the new evaluation revision and its reindex task.

    A pending reindex of an older revision is cancelled. A running one finds the revision changed and stops itself.
    """
    _, active, state = _state(connection, class_id)
    revision = connection.execute(_BUMP, {"class_id": class_id}).scalar_one()
    if active is not None and state in _PENDING:
        try:
            client.cancel(connection, active, initiator=initiator, reason="superseded by newer definitions")
        except (TooLate, NoSuchTask):
            pass  # ended meanwhile, or purged: either way it is not in the queue any more
    params = Reindex(class_id=class_id, class_name=class_name, revision=revision, upper=_upper(connection, class_id))
    return revision, _create(connection, params, initiator)


def restart_failed(connection: Connection, *, initiator: Initiator, limit: int = 50) -> list[Submitted]:
    """Start the rebuilds again whose task ended without finishing them; at most `limit` classes. For housekeeping.

    One that somebody cancelled stays cancelled: reads are right without it, and it was a person's decision.
    """
    made = []
    for class_id, name in connection.execute(_FAILED, {"limit": limit}).all():
        if locks.try_take(connection, class_id):
            made.append(_again(connection, class_id, name, initiator, PAGE_ROWS))
    return [submitted for submitted in made if submitted.created]


def _again(connection: Connection, class_id: int, name: str, initiator: Initiator, page_rows: int) -> Submitted:
    revision, active, _ = _state(connection, class_id)
    if active is not None:
        return Submitted(active, False)
    params = Reindex(
        class_id=class_id, class_name=name, revision=revision, upper=_upper(connection, class_id), repair=True,
        page_rows=page_rows,
    )  # fmt: skip
    return _create(connection, params, initiator)


def _create(connection: Connection, params: Reindex, initiator: Initiator) -> Submitted:
    made = client.create(connection, REINDEX, params, initiator=initiator, labels={"class": params.class_name})
    here = {"class_id": params.class_id, "task_id": made.id, "revision": params.revision}
    if connection.execute(_MARK, here).rowcount != 1:
        raise _dropped(params.class_id)
    return made


def _state(connection: Connection, class_id: int) -> tuple[int, UUID | None, str | None]:
    row = connection.execute(_ACTIVE, {"class_id": class_id}).first()
    if row is None:
        raise _dropped(class_id)
    return row[0], row[1], row[2]


def _upper(connection: Connection, class_id: int) -> int:
    # Exact under the exclusive class lock: nobody has an uncommitted object of this class.
    return int(connection.execute(_UPPER, {"class_id": class_id}).scalar_one())


def _dropped(class_id: int) -> NoSuchClass:
    return NoSuchClass(f"class {class_id} has been dropped")
