"""`platform.retention` in the test's own process: what goes, what is kept and why, and that a dry run says it before."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tenure import client
from tenure.adoption import Adopted, Request, adopt
from tenure.model.errors import IdempotencyConflict
from tenure.retention import RETENTION, Budget
from tenure.store import settings
from tenure_workers.kinds.platform_retention import platform_retention
from tests.support import aged, tasks
from tests.support.databases import Database
from tests.support.executing import run as execute
from tests.support.snapshots import snapshot
from tests.support.tasks import PLAIN, SUCCEEDED


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    """One of its own: months that are made and dropped are not put back by emptying tables."""
    return make_database()


def run(database: Database, **params: Any) -> dict[str, Any]:
    """One retention to its end; its result."""
    task_id = tasks.submit(database, RETENTION, params)
    execute(database, task_id, platform_retention)
    task = tasks.task(database, task_id)
    assert task["state"] == "succeeded", task
    result: dict[str, Any] = task["result"]
    return result


def there(database: Database, *ids: UUID, table: str = "tasks") -> set[UUID]:
    with database.engine.connect() as connection:
        rows = connection.execute(text(f"select id from {table} where id = any(:ids)"), {"ids": list(ids)})
        return set(rows.scalars())


def exists(database: Database, table: str) -> bool:
    return bool(tasks.value(database, "select to_regclass(:name) is not null", name=table))


def count(database: Database, table: str, where: str = "true") -> int:
    return int(tasks.value(database, f"select count(*) from {table} where {where}"))


def test_ended_tasks_go_with_what_hangs_on_them_and_their_activities_stay(database: Database) -> None:
    old, young = aged.ended(database, 700, days=91), aged.ended(database, 3, days=89)
    done = run(database)
    assert (done["drained"], done["rows"]["tasks"]) == (True, 700)
    assert there(database, *old, *young) == set(young)
    assert there(database, *old, *young, table="activities") == {*old, *young}
    for table in ("task_params", "task_results", "task_checkpoints"):
        assert count(database, table, "task_id = any(array(select id from tasks where kind = 'aged'))") == 3
        assert count(database, table, "not exists (select 1 from tasks k where k.id = task_id)") == 0


def test_what_has_not_ended_is_kept_however_old_it_is(database: Database) -> None:
    ids = [tasks.submit(database, PLAIN) for _ in range(3)]
    with tasks.worker(database) as session:
        running = tasks.claimed(session, ids[0])
        tasks.run_sql(
            database,
            "update tasks set created_at = created_at - interval '9 years', available_at = available_at - interval '9 years'",
        )
        tasks.run_sql(database, "update activities set created_at = created_at - interval '9 years'")
        done = run(database)
        assert done["rows"].get("tasks", 0) == done["rows"].get("activities", 0) == 0
        assert there(database, *ids) == there(database, *ids, table="activities") == set(ids)
        assert tasks.ends(session, running.lease, SUCCEEDED)


def _retried(database: Database, old: UUID) -> str:
    again = tasks.submit(database, PLAIN)
    tasks.run_sql(database, "update tasks set retry_of = :old where id = :id", old=old, id=again)
    return f"update tasks set state = 'cancelled', finished_at = clock_timestamp() where id = '{again}'"


def _member(database: Database, old: UUID) -> str:
    execution = uuid4()
    tasks.run_sql(database, EXECUTION, id=execution)
    tasks.run_sql(database, "update tasks set execution_id = :x where id = :id", x=execution, id=old)
    return f"update executions set state = 'succeeded', finished_at = clock_timestamp() where id = '{execution}'"


def _shared(database: Database, old: UUID) -> str:
    activity = uuid4()
    tasks.run_sql(database, GOES_ON, id=activity)
    tasks.run_sql(database, "update tasks set activity_id = :activity where id = :id", activity=activity, id=old)
    return f"update activities set status = 'cancelled', ended_at = clock_timestamp() where id = '{activity}'"


GOES_ON = """insert into activities (id, initiator_type, initiator_id, initiator_name, created_at)
    values (:id, 'test', '1', 'test', clock_timestamp() - interval '500 days')"""


def _rebuild(database: Database, old: UUID) -> str:
    tasks.run_sql(database, REBUILDING, id=old)
    return "update class_computation_state set rebuild_status = 'ready'"


REBUILDING = """with c as (insert into record_classes (name) values ('city') returning id)
    insert into class_computation_state (class_id, rebuild_status, active_task_id) select id, 'rebuilding', :id from c"""
EXECUTION = """insert into executions (id, schedule_id, schedule_name, trigger, due_at, state, plan, initiator_type,
        initiator_id, initiator_name)
    values (:id, :id, 'nightly', 'manual', clock_timestamp(), 'running', '[]', 'test', '1', 'test')"""


@pytest.mark.parametrize("refer", [_retried, _member, _shared, _rebuild])
def test_an_ended_task_is_kept_while_something_that_goes_on_refers_to_it(
    database: Database, refer: Callable[[Database, UUID], str]
) -> None:
    held, free = aged.ended(database, 2, days=100)
    release = refer(database, held)
    assert run(database)["rows"]["tasks"] == 1
    assert there(database, held, free) == {held}
    tasks.run_sql(database, release)
    assert run(database)["rows"]["tasks"] == 1
    assert there(database, held) == set()


def test_an_activity_goes_by_its_own_age_and_never_before_its_task(database: Database) -> None:
    aged.keep(database, settings.KEEP_ACTIVITIES, 30)
    old, kept = aged.ended(database, 4, days=91), aged.ended(database, 4, days=60)
    assert run(database)["rows"] == {"tasks": 4, "activities": 4}
    assert there(database, *old, *kept, table="activities") == set(kept)
    held, *_ = aged.ended(database, 1, days=100)
    release = _retried(database, held)
    assert run(database)["rows"].get("activities", 0) == 0
    assert there(database, held, table="activities") == {held}
    tasks.run_sql(database, release)
    assert run(database)["rows"] == {"tasks": 1, "activities": 1}


def test_an_activity_is_kept_as_long_as_any_task_that_shares_it_and_any_child_that_goes_on(database: Database) -> None:
    shared, member, parent = aged.ended(database, 3, days=400)
    tasks.run_sql(database, "update tasks set activity_id = :shared where id = :id", shared=shared, id=member)
    release = _retried(database, member)
    tasks.run_sql(database, GOES_ON, id=(child := uuid4()))
    tasks.run_sql(database, "update activities set parent_id = :parent where id = :id", parent=parent, id=child)
    assert run(database)["rows"] == {"tasks": 2}
    assert there(database, shared, member, parent, table="activities") == {shared, member, parent}
    tasks.run_sql(database, release)
    tasks.run_sql(
        database, "update activities set status = 'cancelled', ended_at = clock_timestamp() where id = :id", id=child
    )
    assert run(database)["rows"] == {"tasks": 1, "activities": 3}


def test_nought_keeps_for_ever(database: Database) -> None:
    ids = aged.ended(database, 5, days=3000)
    for setting in (settings.KEEP_TASKS, settings.KEEP_EVENTS, settings.KEEP_ATTEMPTS):
        aged.keep(database, setting, 0)
    old = aged.history(database, "task_events", 5, days=3000)
    assert run(database)["rows"] == {}
    assert there(database, *ids) == there(database, *ids, table="activities") == set(ids)
    assert exists(database, old)


def test_an_age_is_read_when_a_run_begins(database: Database) -> None:
    aged.ended(database, 5, days=10)
    assert run(database)["rows"] == {}
    aged.keep(database, settings.KEEP_TASKS, 9.5)
    assert run(database)["rows"]["tasks"] == 5


def _everything(database: Database) -> None:
    """Something of each table that goes, and something that stays."""
    for days in (5, 20, 100, 400):
        aged.ended(database, 40, days=days)
    held = aged.ended(database, 3, days=500)
    _retried(database, held[0])
    _member(database, held[1])
    _shared(database, held[2])
    goes_on = tasks.value(database, "select activity_id from tasks where id = :id", id=held[2])
    for days in (1, 100, 130, 400):
        for parent in ("task_events", "task_attempts"):
            aged.history(database, parent, 30, days=days)
    for owner, days in ((uuid4(), 380), (goes_on, 470), (uuid4(), 480), (goes_on, 20)):
        aged.items(database, owner, 20, days=days)
    tasks.run_sql(
        database,
        """insert into adopted_ids (id, created_at) select gen_random_uuid(), clock_timestamp() - make_interval(days => n)
           from generate_series(1, 20) n""",
    )


@pytest.mark.parametrize(
    "ages", [{}, {"tasks": 10, "activities": 10, "events": 10, "attempts": 2}, {"activities": 300}]
)
def test_a_dry_run_counts_what_a_run_deletes_and_changes_nothing(database: Database, ages: dict[str, float]) -> None:
    for name, days in ages.items():
        aged.keep(database, settings.named(f"retention.{name}_days"), days)
    _everything(database)
    before = snapshot(database)
    said = run(database, dry_run=True)
    after = snapshot(database)
    assert all(set(rows) <= set(after[table]) for table, rows in before.items())
    done = run(database)
    assert said["rows"] == done["rows"]
    assert said["partitions"] == done["partitions"]
    assert (said["dry_run"], done["dry_run"], said["drained"], done["drained"]) == (True, False, True, True)
    assert all(done["rows"].get(table, 0) > 0 for table in ("tasks", "activities", "task_events", "adopted_ids"))
    assert run(database)["rows"] == {}


def test_a_run_without_time_says_what_it_left_and_the_next_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged.ended(database, 50, days=100)
    with monkeypatch.context() as patched:
        patched.setattr(Budget, "read", classmethod(lambda cls, connection: cls(0)))
        done = run(database)
    assert (done["drained"], done["rows"]) == (False, {})
    assert done["left"][:2] == ["adopted_ids", "tasks"]
    assert run(database)["rows"] == {"tasks": 50}


def test_an_adopted_task_leaves_a_tombstone_and_its_message_runs_nothing(database: Database) -> None:
    they = tasks.ADA
    request = Request(task_id=uuid4(), initiator=they, params={})
    with database.engine.begin() as connection:
        assert adopt(connection, PLAIN, request) is Adopted.MADE
    with tasks.worker(database) as session:
        assert tasks.ends(session, tasks.claimed(session, request.task_id).lease, SUCCEEDED)
        own = tasks.submit(database, PLAIN)
        assert tasks.ends(session, tasks.claimed(session, own).lease, SUCCEEDED)
        tasks.run_sql(database, "update tasks set adopted = adopted, created_at = created_at - interval '1 day'")
        aged.keep(database, settings.KEEP_TASKS, 1e-9)
        run(database)
        assert there(database, request.task_id, own) == set()
        assert there(database, request.task_id, own, table="adopted_ids") == {request.task_id}
        with database.engine.begin() as connection:
            assert adopt(connection, PLAIN, request) is Adopted.KNOWN
            with pytest.raises(IdempotencyConflict, match="purged"):
                client.submit(connection, PLAIN, {}, initiator=they, task_id=request.task_id)
        assert session.claim(request.task_id) is None
    assert there(database, request.task_id) == set()


def test_tombstones_outlive_the_visibility_timeout_by_far(database: Database) -> None:
    assert settings.KEEP_TOMBSTONES.least * 86400 >= 8 * 10_800
    tasks.run_sql(
        database,
        """insert into adopted_ids values (gen_random_uuid(), clock_timestamp() - interval '6 days 23 hours'),
           (gen_random_uuid(), clock_timestamp() - interval '7 days 1 hour')""",
    )
    assert run(database)["rows"] == {"adopted_ids": 1}
