"""A worker consumes nothing before its database is there and at a schema it knows; what cannot pass is said in one line."""

import signal
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tenure.migrate import migrate
from tenure.store.advisory import MIGRATING
from tests.support.servers import OwnServers
from tests.support.workers import Worker

AT_ONCE_S = 20.0  # the imports of Celery, on a busy machine; a gate that waits does so for 300 s


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers(valkey=False) as own:
        yield own


@pytest.fixture
def empty_database(own: OwnServers) -> Iterator[str]:
    """The URL of a database without any table."""
    engine = create_engine(own.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("create database empty"))
    yield make_url(own.database_url).set(database="empty").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text("drop database empty with (force)"))


def said(worker: Worker) -> list[str]:
    """Its last words: the lines that are not log records, the banner or Celery's warning about root."""
    assert "Traceback" not in worker.text()
    return [line for line in worker.text().splitlines() if line.startswith("tenure: ")]


def test_a_worker_with_a_wrong_password_says_so_and_leaves_at_once(own: OwnServers, module_broker: str) -> None:
    wrong = make_url(own.database_url).set(password="not-the-password").render_as_string(hide_password=False)
    with Worker(wrong, module_broker) as worker:
        assert worker.exit_code(AT_ONCE_S) == 1
        (line,) = said(worker)
        assert "refused the user or password: check TENURE_DATABASE_URL" in line
        assert "not-the-password" not in worker.text()


def test_a_worker_without_its_schema_names_the_command_to_run(empty_database: str, module_broker: str) -> None:
    with Worker(empty_database, module_broker) as worker:
        assert worker.exit_code(AT_ONCE_S) == 1
        (line,) = said(worker)
        assert "run `tenure migrate`" in line


def test_a_wrong_setting_is_one_line_and_exit_code_2(own: OwnServers, module_broker: str) -> None:
    with Worker(own.database_url, module_broker, env={"TENURE_LEASE_SECONDS": "soon"}) as worker:
        assert worker.exit_code(AT_ONCE_S) == 2
        (line,) = said(worker)
        assert "TENURE_LEASE_SECONDS" in line


def test_a_worker_waits_while_somebody_migrates_and_starts_when_it_is_done(
    empty_database: str, module_broker: str
) -> None:
    migrating = create_engine(empty_database, poolclass=NullPool)
    with migrating.connect() as connection:
        connection.execute(text("select pg_advisory_lock(:key)"), {"key": MIGRATING})
        connection.commit()
        with Worker(empty_database, module_broker) as worker:
            worker.wait_for("waiting_for_migration")
            assert not worker.lines("ready")
            assert (worker.home / "health-worker").exists(), "a waiting worker is healthy"
            connection.execute(text("select pg_advisory_unlock(:key)"), {"key": MIGRATING})
            connection.commit()
            migrate(empty_database)
            worker.wait_ready()


def test_a_worker_waits_for_its_database_and_starts_when_it_comes(own: OwnServers, module_broker: str) -> None:
    migrate(own.database_url)
    own.stop_postgres()
    with Worker(own.database_url, module_broker) as worker:
        first = worker.wait_for("waiting_for_database")
        assert first["retry_in"] > 0
        own.start_postgres()
        worker.wait_ready()


def test_a_worker_that_waits_for_its_database_leaves_on_sigterm(own: OwnServers, module_broker: str) -> None:
    own.stop_postgres()
    try:
        with Worker(own.database_url, module_broker) as worker:
            worker.wait_for("waiting_for_database")
            began = time.monotonic()
            worker.signal(signal.SIGTERM)
            assert worker.exit_code() == 0
            assert time.monotonic() - began < 4.0
    finally:
        own.start_postgres()
