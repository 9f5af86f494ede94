"""The database's own backstop: SQL written by hand is refused, too."""

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from tenure.model.states import TERMINAL, State
from tenure.store.hot import HotSession
from tests.store.verbs import arrange
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot

ENDED = sorted(TERMINAL)


def _refused(database: Database, statement: str, **values: object) -> str:
    """The name of what refused it, after a look that nothing changed."""
    before = snapshot(database)
    with pytest.raises(DBAPIError) as refusal:
        tasks.run_sql(database, statement, **values)
    assert changed(before, snapshot(database)) == []
    assert isinstance(refusal.value, IntegrityError), refusal.value
    return str(refusal.value.orig.diag.constraint_name or refusal.value.orig.diag.message_primary)


@pytest.mark.parametrize("state", ENDED)
def test_nothing_leaves_a_terminal_state_by_hand(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    for target in State:
        if target is state:
            continue
        outcome = "'error'" if target is State.FAILED else "null"
        finished = "finished_at" if target in TERMINAL else "null"
        move = f"update tasks set state = '{target}', outcome = {outcome}, finished_at = {finished}, attempt = 1, started_at = clock_timestamp() where id = :id"
        assert "nothing leaves a terminal state" in _refused(database, move, id=scene.id)


@pytest.mark.parametrize("state", ENDED)
def test_when_and_why_a_task_ended_stays_as_written(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    moves = ["finished_at = clock_timestamp() + interval '1 s'"]
    if state is State.FAILED:
        moves.append("outcome = 'worker_lost'")
    for move in moves:
        assert "nothing leaves" in _refused(database, f"update tasks set {move} where id = :id", id=scene.id)


@pytest.mark.parametrize("state", ENDED)
def test_an_ended_task_may_still_be_redacted(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    redact = "update tasks set summary = null, redacted_at = clock_timestamp() where id = :id"
    assert tasks.run_sql(database, redact, id=scene.id) == 1


TASKS = {
    "failed without an outcome": (
        State.RUNNING, "state = 'failed', finished_at = clock_timestamp()", "tasks_failed_has_outcome"),
    "an outcome without failure": (State.RUNNING, "outcome = 'error'", "tasks_failed_has_outcome"),
    "succeeded with an outcome": (
        State.RUNNING, "state = 'succeeded', outcome = 'error', finished_at = clock_timestamp()", "tasks_failed_has_outcome"),
    "an unknown outcome": (
        State.RUNNING, "state = 'failed', outcome = 'bored', finished_at = clock_timestamp()", "tasks_outcome_check"),
    "ended without a time": (State.RUNNING, "state = 'succeeded'", "tasks_terminal_has_finished"),
    "a time without an end": (State.RUNNING, "finished_at = clock_timestamp()", "tasks_terminal_has_finished"),
    "running without an attempt": (State.RUNNING, "attempt = 0", "tasks_active_has_attempt"),
    "running a queued task by hand": (State.QUEUED, "state = 'running'", "tasks_active_has_"),
    "validating a queued task by hand": (State.QUEUED, "state = 'validating'", "tasks_active_has_"),
    "running without a start": (State.RUNNING, "started_at = null", "tasks_active_has_started"),
    "a state that is none": (State.QUEUED, "state = 'paused'", "tasks_state_check"),
    "no state at all": (State.QUEUED, "state = null", 'null value in column "state"'),
    "a negative attempt": (State.QUEUED, "attempt = -1", "tasks_attempt_check"),
    "negative crashes": (State.QUEUED, "crashes = -1", "tasks_crashes_check"),
    "no attempt allowed": (State.QUEUED, "max_attempts = 0", "tasks_max_attempts_check"),
    "a run limit of nothing": (State.QUEUED, "run_limit = interval '0'", "tasks_run_limit_check"),
    "an empty key": (State.QUEUED, "idempotency_key = ''", "tasks_idempotency_key_check"),
    "a key of 256 bytes": (State.QUEUED, "idempotency_key = repeat('é', 128)", "tasks_idempotency_key_check"),
    "a hash that is none": (State.QUEUED, "request_hash = 'short'", "tasks_request_hash_check"),
    "an initiator without a name": (State.QUEUED, "initiator_name = ''", "tasks_initiator"),
    "labels that are no object": (State.QUEUED, "labels = '[]'", "tasks_labels_check"),
    "a fate nobody knows": (State.QUEUED, "on_lost = 'shrug'", "tasks_on_lost_check"),
}  # fmt: skip


@pytest.mark.parametrize("case", TASKS)
def test_a_task_row_that_cannot_be_is_refused(database: Database, session: HotSession, case: str) -> None:
    state, change, by = TASKS[case]
    scene = arrange(database, session, state)
    assert by in _refused(database, f"update tasks set {change} where id = :id", id=scene.id)


COLUMNS = ("token", "worker", "pid", "kind", "queue", "attempt", "acquired", "renewed", "expires")


@pytest.mark.parametrize("column", COLUMNS)
def test_a_lease_with_a_part_missing_is_refused(database: Database, session: HotSession, column: str) -> None:
    scene = arrange(database, session, State.RUNNING)
    missing = _refused(database, f"update task_leases set {column} = null where task_id = :id", id=scene.id)
    assert f'null value in column "{column}"' in missing


def test_a_second_lease_on_a_task_is_refused(database: Database, session: HotSession) -> None:
    scene = arrange(database, session, State.RUNNING)
    again = "insert into task_leases select (jsonb_populate_record(l, '{\"token\": 999999999}')).* from task_leases l"
    assert _refused(database, again) == "task_leases_pkey"
    assert tasks.ends(session, scene.lease, tasks.SUCCEEDED)


def test_a_leased_task_cannot_be_deleted(database: Database, session: HotSession) -> None:
    scene = arrange(database, session, State.RUNNING)
    assert _refused(database, "delete from tasks where id = :id", id=scene.id) == "task_leases_task_id_fkey"


@pytest.mark.parametrize("counter", ["sequence", "total", "processed", "succeeded", "failed"])
def test_a_counter_below_zero_is_refused(database: Database, session: HotSession, counter: str) -> None:
    scene = arrange(database, session, State.RUNNING)
    with database.engine.begin() as connection:
        assert tasks.checkpoint(connection, scene.lease)
    refused = _refused(database, f"update task_checkpoints set {counter} = -1")
    assert refused == f"task_checkpoints_{counter}_check"


def test_an_activity_ends_once_and_with_a_time(database: Database, session: HotSession) -> None:
    arrange(database, session, State.RUNNING)
    assert _refused(database, "update activities set status = 'failed'") == "activities_ended"
    assert _refused(database, "update activities set ended_at = clock_timestamp()") == "activities_ended"
    over = "update activities set status = 'complete', ended_at = clock_timestamp(), executed_at = clock_timestamp()"
    assert tasks.run_sql(database, over) == 1
    assert "has ended as complete" in _refused(database, "update activities set status = 'failed'")
    assert "has ended as complete" in _refused(database, "update activities set ended_at = clock_timestamp()")


@pytest.mark.parametrize("status", ["complete", "complete_with_warning", "complete_with_error"])
def test_an_activity_is_not_complete_without_having_run(database: Database, session: HotSession, status: str) -> None:
    arrange(database, session, State.QUEUED)
    ended = "update activities set ended_at = clock_timestamp(), status = :status"
    assert _refused(database, ended, status=status) == "activities_status"


def test_an_item_of_no_error_has_no_message_and_is_not_unhandled(database: Database, session: HotSession) -> None:
    arrange(database, session, State.RUNNING)
    item = "insert into activity_items (activity_id, source_id, change, {}) select id, id, 'added', {} from activities"
    assert _refused(database, item.format("error_message", "'odd'")) == "activity_items_error"
    assert _refused(database, item.format("unhandled", "true")) == "activity_items_error"
