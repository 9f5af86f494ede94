"""Housekeeping stepped by `run_once`: what it keeps in order, and that no step stops another."""

import time
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tenure.services.housekeeping import STEPS, Housekeeping, Step
from tenure.settings import Settings
from tenure.store.connect import engine_for
from tenure.store.workers import Boot, register
from tenure_beat.scheduler import SESSION
from tests.support.databases import Database


@pytest.fixture
def settings(database: Database) -> Settings:
    return Settings(database_url=SecretStr(database.url))


def a_worker_unseen_for(database: Database, hours: float) -> UUID:
    boot = Boot(uuid4(), "there", "worker", 1, "0", 1, ["default"], ["probe"])
    with database.engine.begin() as connection:
        register(connection, boot)
        connection.execute(
            text("update workers set last_seen = clock_timestamp() - make_interval(secs => :s) where boot_id = :b"),
            {"s": hours * 3600, "b": boot.boot_id},
        )
    return boot.boot_id


def a_lease_of(database: Database, boot_id: UUID) -> None:
    with database.engine.begin() as connection:
        connection.execute(
            text("""with k as (insert into tasks (id, kind, queue, state, request_hash, initiator_type, initiator_id,
                        initiator_name, available_at, started_at, attempt, activity_id)
                    values (uuidv7(), 'probe', 'default', 'running', sha256(''), 'test', '1', 't', now(), now(), 1, uuidv7())
                    returning id)
                insert into task_leases (task_id, token, worker, pid, kind, queue, attempt, acquired, renewed, expires)
                select id, 1, :worker, 1, 'probe', 'default', 1, now(), now(), now() from k"""),
            {"worker": boot_id},
        )


def workers(database: Database) -> set[UUID]:
    with database.engine.connect() as connection:
        return set(connection.execute(text("select boot_id from workers")).scalars())


def partitions(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(
            connection.execute(
                text("select count(*) from pg_inherits where inhparent = 'task_events'::regclass")
            ).scalar_one()
        )


def test_worker_rows_unseen_for_a_day_are_forgotten_unless_they_hold_a_lease(
    database: Database, settings: Settings
) -> None:
    gone, holding, fresh = (a_worker_unseen_for(database, hours) for hours in (25, 25, 23))
    a_lease_of(database, holding)
    assert gone in workers(database)
    Housekeeping(settings).run_once()
    assert workers(database) == {holding, fresh}


def test_partitions_are_made_ahead_once(database: Database, settings: Settings) -> None:
    made = partitions(database)
    with database.engine.begin() as connection:
        last = connection.execute(
            text("select max(inhrelid::regclass::text) from pg_inherits where inhparent = 'task_events'::regclass")
        ).scalar_one()
        connection.execute(text(f"drop table {last}"))
    Housekeeping(settings).run_once()
    assert partitions(database) == made
    Housekeeping(settings).run_once()
    assert partitions(database) == made


def test_partitions_being_made_elsewhere_are_left_to_it(database: Database) -> None:
    (step,) = (one for one in STEPS if one.name == "partitions")
    with database.engine.begin() as first, database.engine.begin() as second:
        assert step.run(first) == 0
        second.execute(text("set local lock_timeout = 1000"))
        assert step.run(second) == 0


def test_a_failing_step_keeps_no_other_from_running(database: Database, settings: Settings) -> None:
    ran: list[str] = []

    def wrong(connection: Connection) -> int:
        connection.execute(text("select nonsense"))
        return 0

    def killed(connection: Connection) -> int:
        connection.execute(text("select pg_terminate_backend(pg_backend_pid())"))
        return 0

    def right(_: Connection) -> int:
        ran.append("right")
        return 1

    service = Housekeeping(settings, [Step("wrong", wrong), Step("killed", killed), Step("right", right)])
    assert service.run_once() == 60.0
    assert ran == ["right"]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_quiet_step_writes_no_row(database: Database, step: Step) -> None:
    a_worker_unseen_for(database, 1)
    with database.engine.begin() as connection:
        assert step.run(connection) == 0
        # PostgreSQL gives a transaction its id at the first write.
        assert connection.execute(text("select pg_current_xact_id_if_assigned()")).scalar() is None


def test_a_beat_that_stops_inside_a_transaction_does_not_keep_its_rows(database: Database) -> None:
    boot_id = a_worker_unseen_for(database, 1)
    lock = text("select 1 from workers where boot_id = :b for update")
    frozen = engine_for(database.url, application="frozen", options=SESSION).connect()
    frozen.execute(lock, {"b": boot_id})
    began = time.monotonic()
    with database.engine.begin() as other:
        other.execute(lock, {"b": boot_id})
    assert 0.3 < time.monotonic() - began < 3.0
    with pytest.raises(DBAPIError) as lost:
        frozen.execute(text("select 1"))
    # What the loop of a service goes by: it makes a new connection and tries again.
    assert lost.value.connection_invalidated
    frozen.close()
