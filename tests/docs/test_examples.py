"""The examples of docs/examples, run as they stand: the application in its transaction, the kind in an executor."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, event, text

from tenure import client
from tenure.model.states import State
from tests.support.databases import Database
from tests.support.executing import run

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NAMES = ["Ada", "Grace", "Edsger"]


@pytest.fixture
def app(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example application, its table made."""
    monkeypatch.setenv("TENURE_DATABASE_URL", database.url)
    monkeypatch.delenv("TENURE_BROKER_URL", raising=False)  # submitting needs none
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import hello_app  # found through the path just added

    hello_app.Base.metadata.create_all(database.engine)
    yield hello_app
    for name in ("hello_app", "hello_kind", "celery_app"):
        sys.modules.pop(name, None)


def _tasks(engine: Engine) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return client.tasks(connection)


def _get(engine: Engine, task_id: UUID) -> dict[str, Any]:
    with engine.connect() as connection:
        return client.get(connection, task_id)


def test_the_hello_kind_greets_page_by_page(app: ModuleType, database: Database) -> None:
    task_id = app.invite(database.engine, NAMES)
    assert run(database, task_id, app.hello) == 1
    task = _get(database.engine, task_id)
    assert (task["state"], task["result"]) == (State.SUCCEEDED, {"greeted": 3})
    assert task["checkpoint"]["sequence"] == 2, "three guests are two pages of two"
    with database.engine.connect() as connection:
        greetings = connection.execute(text("select greeting from guests order by id")).scalars().all()
    assert greetings == [f"Welcome, {name}!" for name in NAMES]


def test_a_rolled_back_submission_leaves_neither_rows_nor_a_task(app: ModuleType, database: Database) -> None:
    def refuse(connection: Any) -> None:
        raise ConnectionError("the application fails just before its commit")

    event.listen(database.engine, "commit", refuse)
    with pytest.raises(ConnectionError):
        app.invite(database.engine, NAMES)
    event.remove(database.engine, "commit", refuse)
    assert _tasks(database.engine) == []
    with database.engine.connect() as connection:
        assert connection.execute(text("select count(*) from guests")).scalar() == 0


def test_a_committed_submission_is_queued_without_a_broker(app: ModuleType, database: Database) -> None:
    task_id = app.invite(database.engine, NAMES)
    assert [(t["id"], t["state"]) for t in _tasks(database.engine)] == [(task_id, State.QUEUED)]


def test_the_celery_app_submits_with_its_rows_and_gets_the_result(app: ModuleType, database: Database) -> None:
    import celery_app

    task_id = celery_app.invite(database.engine, NAMES)
    assert run(database, UUID(task_id), app.hello) == 1
    assert celery_app.greeted(task_id) == 3
    celery_app.app.close()
