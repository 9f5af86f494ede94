"""History goes by whole months, beside everybody else; what is half done is finished, what is somebody else's is left."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tenure.retention import months
from tenure.store import settings
from tenure.store.retention import history
from tests.runtime.test_platform_retention import count, exists, run
from tests.support import aged, tasks
from tests.support.databases import Database
from tests.support.tasks import PLAIN, SUCCEEDED


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    """One of its own: months that are made and dropped are not put back by emptying tables."""
    return make_database()


def dropped(database: Database) -> dict[str, Any]:
    done = run(database)
    return {**done["rows"], **{f"{name} whole": parts for name, parts in done["partitions"].items()}}


@pytest.mark.parametrize("parent", ["task_events", "task_attempts"])
def test_a_month_older_than_the_age_is_dropped_whole_and_its_rows_are_counted(database: Database, parent: str) -> None:
    old, young = aged.history(database, parent, 700, days=130), aged.history(database, parent, 5, days=80)
    assert dropped(database) == {parent: 700, f"{parent} whole": 1}
    assert not exists(database, old)
    assert count(database, young) == 5


def test_an_age_below_a_month_is_kept_by_rows(database: Database) -> None:
    aged.keep(database, settings.KEEP_EVENTS, 0.5)
    aged.history(database, "task_events", 600, days=1)
    before = count(database, "task_events")
    assert dropped(database)["task_events"] == 600
    assert count(database, "task_events") < before
    assert count(database, "task_events", "created_at < clock_timestamp() - interval '12 hours'") == 0


def test_the_month_of_an_attempt_that_still_runs_is_kept_and_its_end_is_accepted(database: Database) -> None:
    old = aged.history(database, "task_attempts", 5, days=130)
    older = aged.history(database, "task_attempts", 5, days=190)
    with tasks.worker(database) as session:
        claimed = tasks.claimed(session, tasks.submit(database, PLAIN))
        tasks.run_sql(
            database,
            "update task_leases set acquired = acquired - interval '130 days' where task_id = :id",
            id=claimed.lease.task_id,
        )
        assert dropped(database) == {"task_attempts": 10, "task_attempts whole": 1}
        assert (exists(database, old), exists(database, older)) == (True, False)
        assert tasks.ends(session, claimed.lease, SUCCEEDED)
    assert dropped(database) == {"task_attempts": 1, "task_attempts whole": 1}


def test_a_month_that_was_half_detached_is_finished_with(database: Database) -> None:
    pending = aged.history(database, "task_events", 7, days=130)
    detached = aged.history(database, "task_events", 8, days=170)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name in (detached, pending):
            history.mark(connection, name)
        history.detach(connection, "task_events", detached)
        with database.engine.begin() as reader:
            reader.execute(text("select count(*) from task_events"))
            connection.execute(text("set lock_timeout = 50"))
            with pytest.raises(OperationalError, match="lock timeout"):
                history.detach(connection, "task_events", pending)
            connection.execute(text("reset lock_timeout"))
        assert [(one.name, one.pending) for one in history.marked(connection, "task_events")] == [
            (detached, False),
            (pending, True),
        ]
    assert dropped(database) == {"task_events": 15, "task_events whole": 2}
    assert not exists(database, pending)
    assert not exists(database, detached)


def test_a_transaction_in_the_way_is_waited_for_shortly_and_the_next_run_finishes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(months, "_PAUSE", 0.01)
    old = aged.history(database, "task_events", 7, days=130)
    aged.history(database, "task_events", 9, days=170)
    with database.engine.begin() as reader:
        reader.execute(text("select count(*) from task_events"))
        done = run(database)
        assert (done["drained"], done["left"], len(done["waiting"])) == (False, ["task_events"], 1)
        # Everybody else goes on meanwhile.
        tasks.submit(database, PLAIN)
    assert dropped(database) == {"task_events": 16, "task_events whole": 2}
    assert not exists(database, old)


def test_a_month_that_somebody_detached_to_keep_it_is_left_alone(database: Database) -> None:
    mine = aged.history(database, "task_events", 7, days=130)
    tasks.run_sql(database, f"alter table task_events detach partition {mine}")
    assert dropped(database) == {}
    assert count(database, mine) == 7


def test_while_another_makes_or_drops_partitions_this_one_leaves_them_to_it(database: Database) -> None:
    aged.history(database, "task_events", 7, days=130)
    with database.engine.begin() as other:
        other.execute(text("select pg_advisory_xact_lock(:key)"), {"key": 0x7E11_0004})
        done = run(database)
        assert (done["drained"], done["waiting"]) == (False, ["task_events"])
    assert dropped(database) == {"task_events": 7, "task_events whole": 1}


def test_items_are_kept_as_long_as_their_activity(database: Database) -> None:
    kept, *_ = aged.ended(database, 1, days=300)
    gone = aged.ended(database, 1, days=450)[0]
    both = aged.items(database, kept, 5, days=440)
    aged.items(database, gone, 6, days=440)
    alone = aged.items(database, gone, 7, days=490)
    tasks.run_sql(
        database, "update activities set created_at = created_at - interval '150 days' where id = :id", id=kept
    )
    assert dropped(database) == {"tasks": 2, "activities": 1, "activity_items": 13, "activity_items whole": 1}
    assert not exists(database, alone)
    assert count(database, both) == 5
