"""Retention with real processes: a purged task's message comes again, and a worker dies in the middle of a run."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

from celery import Celery

from tenure import client
from tenure.retention import RETENTION
from tenure.store import settings
from tests.support import aged
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.submitted import Tasks, scaled
from tests.support.tasks import ADA
from tests.support.until import until
from tests.support.workers import Worker

SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1", "TENURE_REAP_SECONDS": "1"}


def test_a_foreign_message_that_comes_again_after_the_purge_runs_nothing(
    database: Database, make_broker_url: Callable[[], str], tmp_path: Path
) -> None:
    broker, tasks, own = make_broker_url(), Tasks(database.engine), str(uuid4())
    tenure = Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker)
    aged.keep(database, settings.KEEP_TASKS, 1e-9)
    with (
        Worker(database.url, broker, queues="default,celery") as worker,
        Celery("elsewhere", broker=broker, set_as_current=False) as foreign,
    ):
        worker.wait_ready()
        foreign.send_task("ledger", kwargs={"steps": 3}, task_id=own)
        until(lambda: tasks.rows("select 1 from tasks where id = :id and state = 'succeeded'", id=own), 15)
        assert tasks.one("select count(*) from ledger where task_id = :id", id=own) == 3
        purge = tenure.line("retention", "run", "--wait").splitlines()
        assert purge[-1].startswith("deleted: 1 tasks"), purge
        assert tasks.rows("select 1 from tasks where id = :id", id=own) == []
        foreign.send_task("ledger", kwargs={"steps": 3}, task_id=own)
        # Messages of a queue are taken in order: once this one has run, that one was looked at.
        after = foreign.send_task("ledger", kwargs={"steps": 1}).id
        until(lambda: tasks.rows("select 1 from tasks where id = :id and state = 'succeeded'", id=after), 15)
        until(lambda: _idle(foreign), 10)
    assert tasks.rows("select 1 from tasks where id = :id", id=own) == []
    assert tasks.one("select count(*) from ledger where task_id = :id", id=own) == 3
    assert tasks.one("select count(*) from adopted_ids") == 1


def _idle(app: Celery) -> bool:
    """Whether no message is left, waiting or in hand."""
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        return client.llen("celery") + client.llen("default") + client.hlen("unacked") == 0


def test_a_run_whose_worker_is_killed_goes_on_elsewhere_and_counts_every_row_once(
    database: Database, make_broker_url: Callable[[], str]
) -> None:
    number, broker, tasks = scaled(4_000, 200_000), make_broker_url(), Tasks(database.engine)
    aged.ended(database, number, days=400)
    aged.history(database, "task_events", 3_000, days=200)
    # Slower than any machine would be, so that there is a middle.
    with tasks.engine.begin() as connection:
        connection.exec_driver_sql(
            f"""create function slow() returns trigger language plpgsql as $$
            begin perform pg_sleep(0.001); return old; end $$;
            create trigger slow before delete on tasks for each row
            when (hashtext(old.id::text) %% {number // 2_000} = 0) execute function slow()"""
        )
    with (
        Worker(database.url, broker, name="a", env=SHORT_LEASE, concurrency=1) as a,
        Worker(database.url, broker, name="b", env=SHORT_LEASE, concurrency=1) as b,
    ):
        a.wait_ready()
        b.wait_ready()
        with tasks.engine.begin() as connection:
            task_id = client.submit(connection, RETENTION, {}, initiator=ADA).id
        node = until(
            lambda: tasks.rows(
                """select w.node from task_checkpoints c join task_leases l using (task_id)
                    join workers w on w.boot_id = l.worker where c.task_id = :id and c.processed > 0""",
                id=task_id,
            ),
            30,
        )[0][0]
        (a if node.startswith("a@") else b).kill()
        before = tasks.one("select processed from task_checkpoints where task_id = :id", id=task_id)
        tasks.wait_ended([task_id], 90, watch=[a, b])
    assert 0 < before < number, "killed too late for this test to say anything"
    assert tasks.states([task_id]) == {"succeeded": 1}
    result = tasks.one("select result from task_results where task_id = :id", id=task_id)
    assert result["rows"] == {"tasks": number, "activities": number, "task_events": 3_000}
    assert result["partitions"] == {"task_events": 1}
    assert tasks.one("select count(*) from tasks") == 1
    assert [
        row[0] for row in tasks.rows("select how from task_attempts where task_id = :id order by attempt", id=task_id)
    ] == [
        "lost",
        "succeeded",
    ]


def test_a_cancel_ends_a_run_between_two_batches_and_the_next_takes_the_rest(
    database: Database, make_broker_url: Callable[[], str]
) -> None:
    number, broker, tasks = scaled(3_000, 30_000), make_broker_url(), Tasks(database.engine)
    aged.ended(database, number, days=100)
    with tasks.engine.begin() as connection:
        connection.exec_driver_sql(
            """create function slow() returns trigger language plpgsql as $$
            begin perform pg_sleep(0.002); return old; end $$;
            create trigger slow before delete on tasks for each row execute function slow()"""
        )
    with Worker(database.url, broker, concurrency=1) as worker:
        worker.wait_ready()
        first, second = (_submitted(tasks) for _ in range(2))
        until(lambda: tasks.rows("select 1 from task_checkpoints where task_id = :id and processed > 0", id=first), 30)
        with tasks.engine.begin() as connection:
            client.cancel(connection, first, initiator=ADA)
        tasks.wait_ended([first], 15, watch=[worker])
        with tasks.engine.begin() as connection:
            connection.exec_driver_sql("drop function slow() cascade")
        tasks.wait_ended([second], 60, watch=[worker])
    assert tasks.states([first, second]) == {"cancelled": 1, "succeeded": 1}
    counted = tasks.one("select processed from task_checkpoints where task_id = :id", id=first)
    rest = tasks.one("select result -> 'rows' -> 'tasks' from task_results where task_id = :id", id=second)
    assert 0 < counted < number
    assert counted + rest == number
    assert tasks.one("select count(*) from tasks where kind = 'aged'") == 0


def _submitted(tasks: Tasks) -> UUID:
    with tasks.engine.begin() as connection:
        return client.submit(connection, RETENTION, {}, initiator=ADA).id
