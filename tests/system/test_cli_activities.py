"""`tenure activities list` and `show`: who set what in motion, what came of it, and what it set in motion itself."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure import client
from tenure.model.kinds import kind
from tenure.model.records import Initiator
from tenure.runtime.attempt import Attempt
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.kinds.count import COUNT
from tests.support.slot import Bench

ADA, BOB = Initiator("user", "1815", "ada"), Initiator("api_key", "k-7", "bob")


@pytest.fixture
def tenure(tmp_path: Path, database: Database, broker_url: str) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)


def submitted(database: Database, initiator: Initiator, **options: Any) -> str:
    with database.engine.begin() as connection:
        return str(client.submit(connection, COUNT, {"rows": 3}, initiator=initiator, **options).id)


def write(database: Database, statement: str, **values: Any) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(statement), values)


def ids(tenure: Tenure, *options: str) -> list[str]:
    return [row["id"] for row in tenure.json("activities", "list", *options)]


def test_a_list_is_filtered_by_who_what_when_and_how_it_ended(tenure: Tenure, database: Database) -> None:
    old, mine, theirs = (submitted(database, who) for who in (ADA, ADA, BOB))
    age = "update activities set created_at = created_at - interval '3 hours' where id = :id"
    write(database, age, id=old)
    write(
        database,
        "update activities set target_type = 'class', target_id = '7', target_name = 'city' where id = :id",
        id=theirs,
    )
    with database.engine.begin() as connection:
        client.cancel(connection, UUID(mine), initiator=ADA)
    assert ids(tenure) == [theirs, mine, old]
    for who in ("ada", "1815", "user:ada"):
        assert ids(tenure, "--initiator", who) == [mine, old]
    assert ids(tenure, "--initiator", "ad") == []
    for what in ("city", "7", "class:city"):
        assert ids(tenure, "--target", what) == [theirs]
    assert ids(tenure, "--target", "tests.count") == [mine, old]
    assert ids(tenure, "--since", "2h") == [theirs, mine]
    assert ids(tenure, "--since", "2020-01-01T00:00:00Z") == [theirs, mine, old]
    assert ids(tenure, "--since", "2999-01-01T00:00:00Z") == []
    assert ids(tenure, "--status", "cancelled") == [mine]
    assert ids(tenure, "--initiator", "ada", "--limit", "1", "--before", mine) == [old]


def narrated(attempt: Attempt, params: object) -> None:
    attempt.begin(phases=["import/users", "settle"])
    attempt.phase("import/users", total=10)
    attempt.phase("import/connector: fetch")
    attempt.progress(7, message="page 2")
    attempt.phase("settle")
    raise ValueError("broken")


def test_show_tells_times_phases_and_children(tenure: Tenure, database: Database) -> None:
    narrating = kind("narrated")(narrated)
    bench = Bench(database, narrating, run_on_tasks=1)
    try:
        task = bench.submit(narrating)
        bench.run(task)
    finally:
        bench.close()
    children = [submitted(database, ADA) for _ in range(3)]
    write(database, "update activities set parent_id = :p where id = any(cast(:ids as uuid[]))", p=task, ids=children)
    with database.engine.begin() as connection:
        client.cancel(connection, UUID(children[1]), initiator=ADA)

    found = tenure.json("activities", "show", str(task))
    assert [(one["path"], one["status"], one["done"]) for one in found["phases"]] == [
        ("import", "completed", None), ("import/users", "completed", None), ("import/connector: fetch", "completed", 7),
        ("settle", "failed", None),
    ]  # fmt: skip
    assert found["children"]["counts"] == {"cancelled": 1, "in_progress": 2}
    assert [one["id"] for one in found["children"]["first"]] == children
    assert tenure.json("activities", "show", children[0])["parent_id"] == str(task)

    page = tenure.line("activities", "show", str(task))
    assert "status      failed" in page
    assert "run time" in page
    lines = {line.split("  ")[0].strip() or line.strip().split("  ")[0]: line for line in page.splitlines()}
    assert "page 2" in lines["connector: fetch"]
    assert "failed" in lines["settle"]
    assert "children: 1 cancelled, 2 in_progress" in page
    assert "Traceback" not in page


def test_items_in_error_are_shown_before_all_others(tenure: Tenure, database: Database) -> None:
    made = submitted(database, ADA)
    insert = """insert into activity_items (activity_id, source_id, change, object_name, error_code, error_message)
        values (:a, :a, 'updated', :name, :code, :code)"""
    for name, code in (("first", None), ("second", "refused"), ("third", None)):
        write(database, insert, a=made, name=name, code=code)
    assert [one["object_name"] for one in tenure.json("activities", "show", made, "--items", "2")["items"]] == [
        "second", "first",
    ]  # fmt: skip
