"""Every verb by its real function, and a task in every state, put there by the verbs themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenure import client
from tenure.model.errors import TooLate
from tenure.model.kinds import KindSpec
from tenure.model.records import Lease
from tenure.model.states import TERMINAL, State
from tenure.store import leases
from tenure.store.advance import advance
from tenure.store.hot import HotSession
from tenure.store.transitions import due, recover
from tenure.store.transitions.reject import reject
from tests.support import tasks
from tests.support.databases import Database

KEY = "the one key"
TOKEN_OF_NOBODY = 1 << 40


@dataclass(frozen=True)
class Scene:
    """A task in some state, with the lease it has, had, or never had."""

    database: Database
    session: HotSession
    id: UUID
    lease: Lease
    spec: KindSpec


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def arrange(database: Database, session: HotSession, state: State) -> Scene:
    """A new task in `state`."""
    spec = tasks.PLANNED if state is State.VALIDATING else tasks.PLAIN
    at = later() if state in (State.SCHEDULED, State.WAITING) else None
    task_id = tasks.submit(database, spec, key=KEY, at=at)
    lease = Lease(task_id, TOKEN_OF_NOBODY, session.holder)
    if state is State.WAITING:
        tasks.run_sql(database, _WAITS, id=task_id, before=GROUP_BEFORE)
    if state not in (State.WAITING, State.SCHEDULED, State.QUEUED, State.CANCELLED):
        lease = tasks.claimed(session, task_id).lease
    endings = {
        State.SUCCEEDED: tasks.SUCCEEDED,
        State.PARTIALLY_SUCCEEDED: tasks.PARTIALLY,
        State.FAILED: tasks.FAILED,
    }
    if state in endings:
        assert tasks.ends(session, lease, endings[state])
    if state is State.CANCELLED:
        tasks.cancel(database, task_id)
    assert tasks.state(database, task_id) == state
    return Scene(database, session, task_id, lease, spec)


# A task of the second group of an execution, and an activity that says that the first has not ended.
GROUP_BEFORE = UUID(int=1)
_WAITS = """with
    x as (insert into executions (id, schedule_id, schedule_name, trigger, due_at, state, plan, initiator_type, initiator_id,
              initiator_name)
          values (:id, :id, 'nightly', 'due', clock_timestamp(), 'running', jsonb_build_array(
              jsonb_build_array(jsonb_build_object('task_id', cast(:before as uuid), 'kind', 'store.plain', 'on_failure', 'stop', 'deadline_seconds', null)),
              jsonb_build_array(jsonb_build_object('task_id', cast(:id as uuid), 'kind', 'store.plain', 'on_failure', 'stop', 'deadline_seconds', null))),
              'test', '1', 'test')),
    a as (insert into activities (id, initiator_type, initiator_id, initiator_name) values (:before, 'test', '1', 'test'))
    update tasks set state = 'waiting', execution_id = :id, step_index = 1 where id = :id"""


def favour(scene: Scene, verb: str) -> None:
    """Let the time be right for a verb that waits for one, so that only the state can refuse it."""
    age = {
        "promote": "update tasks set available_at = clock_timestamp() - interval '1 s' where id = :id",
        "expire": "update tasks set start_by = clock_timestamp() - interval '1 s' where id = :id",
        "recover": "update task_leases set expires = clock_timestamp() - interval '1 s' where task_id = :id",
    }
    if verb in age:
        tasks.run_sql(scene.database, age[verb], id=scene.id)
    # By its end, or because retention has taken it.
    tasks.run_sql(scene.database, "delete from activities where id = :id", id=GROUP_BEFORE)
    if verb == "acknowledge_cancel" and tasks.state(scene.database, scene.id) not in TERMINAL:
        ask = "insert into task_stops (task_id, asked_by) values (:id, 'user:ada')"
        tasks.run_sql(scene.database, ask, id=scene.id)


def _submit(scene: Scene) -> bool:
    with scene.database.engine.begin() as connection:
        return client.submit(connection, scene.spec, initiator=tasks.ADA, key=KEY).created


def _sweep(step: Callable[..., list[object]], **options: int) -> Callable[[Scene], bool]:
    def act(scene: Scene) -> bool:
        with scene.database.engine.begin() as connection:
            return bool(step(connection, **options))

    return act


def _promote(scene: Scene) -> bool:
    """By the sweep that goes by time, or by an advance of its execution, which goes by the groups before."""
    if _sweep(due.promote)(scene):
        return True
    with scene.database.engine.begin() as connection:
        moved = advance(connection, scene.id)
        return moved is not None and moved.queued == 1


def _end(how: tasks.Ended) -> Callable[[Scene], bool]:
    return lambda scene: tasks.ends(scene.session, scene.lease, how)


def _reject(scene: Scene) -> bool:
    # Whoever adopts has no lease, whoever holds one has claimed: which of the two asks depends on the state.
    if tasks.state(scene.database, scene.id) in (State.VALIDATING, State.RUNNING):
        return tasks.ends(scene.session, scene.lease, tasks.REJECTED)
    with scene.database.engine.begin() as connection:
        unclaimed = reject(connection, scene.id, reason="no such field")
    return unclaimed or tasks.ends(scene.session, scene.lease, tasks.REJECTED)


def _checkpoint(scene: Scene) -> bool:
    with scene.database.engine.connect() as connection, connection.begin() as page:
        done = tasks.checkpoint(connection, scene.lease) and leases.fence(connection, scene.lease)
        if not done:
            page.rollback()
        return done


def _request_cancel(scene: Scene) -> bool:
    try:
        tasks.cancel(scene.database, scene.id)
    except TooLate:
        return False
    return True


def _acknowledge(scene: Scene) -> bool:
    """By the holder, if there is one; else by the sweep, for a request nobody is left to acknowledge."""
    return tasks.ends(scene.session, scene.lease, tasks.CANCELLED) or _sweep(due.cancel_asked)(scene)


ACTS: dict[str, Callable[[Scene], bool]] = {
    "submit": _submit,
    "promote": _promote,
    "claim": lambda scene: scene.session.claim(scene.id) is not None,
    "begin": lambda scene: scene.session.begin(scene.lease),
    "reject": _reject,
    "checkpoint": _checkpoint,
    "succeed": _end(tasks.SUCCEEDED),
    "partially_succeed": _end(tasks.PARTIALLY),
    "fail": _end(tasks.FAILED),
    "retry_later": lambda scene: scene.session.retry_later(scene.lease, tasks.AGAIN),
    "release": lambda scene: scene.session.release(scene.lease),
    "request_cancel": _request_cancel,
    "acknowledge_cancel": _acknowledge,
    "recover": _sweep(recover.recover_expired, crash_bound=3),
    "expire": _sweep(due.expire),
}
