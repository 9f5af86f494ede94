"""The examples of docs/examples, run as they stand: the application in its transaction, the kind in an executor."""

import sys
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session

from tenure import client
from tenure.model.kinds import KindSpec
from tenure.model.states import State
from tests.support.databases import Database
from tests.support.executing import run

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


class OldExport(BaseModel):
    """The params of the catalog kind in its first version."""

    catalog: str


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
    for name in ("hello_app", "hello_kind", "celery_app", "catalog_app", "catalog_kind"):
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


def _catalog(name: str, *skus: str) -> Any:
    import catalog_app

    return catalog_app.Catalog(
        name=name, products=[catalog_app.Product(sku=sku, price=Decimal("1.50")) for sku in skus]
    )


def _lines(engine: Engine, task_id: UUID) -> list[str]:
    with engine.connect() as connection:
        query = text("select line from export_lines where export = :t order by position")
        return list(connection.execute(query, {"t": task_id}).scalars())


def test_the_catalog_app_submits_once_per_day_with_deadline_and_labels(app: ModuleType, database: Database) -> None:
    import catalog_app

    catalog_app.Base.metadata.create_all(database.engine)
    made = catalog_app.publish(database.engine, _catalog("office", "pen", "ink", "cap"), date(2030, 1, 2))
    task = _get(database.engine, made.id)
    assert (task["key"], task["labels"]) == ("office 2030-01-02", {"team": "catalog", "day": "2030-01-02"})
    assert (
        timedelta(minutes=119) < task["timestamps"]["deadline"] - task["timestamps"]["created_at"] <= timedelta(hours=2)
    )
    assert run(database, made.id, catalog_app.export) == 1
    assert catalog_app.exported(database.engine, made.id)["result"] == {"lines": 3}
    assert _lines(database.engine, made.id) == ["pen;1.50", "ink;1.50", "cap;1.50"]


def test_the_catalog_app_exports_all_and_meets_the_ones_of_today(app: ModuleType, database: Database) -> None:
    import catalog_app

    catalog_app.Base.metadata.create_all(database.engine)
    day = date(2030, 1, 2)
    first = catalog_app.publish(database.engine, _catalog("office", "pen"), day)
    with Session(database.engine) as session, session.begin():
        session.add(_catalog("garden"))
    made = catalog_app.export_all(database.engine, day)
    assert [one.created for one in made] == [True, False], "garden is new, office has the task of today"
    assert made[1].id == first.id
    assert run(database, made[0].id, catalog_app.export) == 1
    assert _get(database.engine, made[0].id)["result"] == {"lines": 0}


def test_an_export_asked_for_before_the_rename_is_written_as_it_was_meant(app: ModuleType, database: Database) -> None:
    import catalog_app

    catalog_app.Base.metadata.create_all(database.engine)
    with Session(database.engine) as session, session.begin():
        session.add(_catalog("office", "pen"))
        old = KindSpec("export_catalog", params=OldExport)
        ids = [
            client.submit(session, old, {"catalog": name}, initiator=catalog_app.SHOP).id for name in ("office", "x")
        ]
    for task_id in ids:
        assert run(database, task_id, catalog_app.export) == 1
    assert _lines(database.engine, ids[0]) == ["pen,1.50"]
    assert _get(database.engine, ids[1])["error"]["message"] == "there is no catalog 'x'"
