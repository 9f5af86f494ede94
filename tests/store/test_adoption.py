"""adopt: the same message any number of times is one task; what cannot be run is a rejected task that names the field."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from tenure import client
from tenure.adoption import Adopted, Request, adopt
from tenure.model.errors import IdempotencyConflict
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.store.hot import HotSession
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

THEY = Initiator("celery", "gen1@there", "there")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rows: int = 1
    name: str = ""

    @field_validator("name")
    @classmethod
    def _own(cls, value: str) -> str:
        if value.startswith("bad"):
            raise ValueError(f"{value} is not a name")
        return value


STRICT = KindSpec("store.strict", params=Strict, keep_params="a test looks at them")
INTERNAL = KindSpec("store.internal", internal="domain.rebuild()")
SINGLE = KindSpec("store.adopted_single", params=Strict, active_limit=1)


def take(database: Database, params: Any = None, spec: KindSpec = STRICT, **request: Any) -> tuple[Adopted, UUID]:
    asked = Request(**{"task_id": uuid4(), "initiator": THEY, "params": params or {}, **request})
    with database.engine.begin() as connection:
        return adopt(connection, spec, asked), asked.task_id


def test_a_message_becomes_a_task_under_its_own_id_and_without_a_hint(database: Database) -> None:
    became, task_id = take(database, {"rows": 3}, labels={"a": "b"}, priority=4)
    task = tasks.task(database, task_id)
    assert (became, task["id"], task["state"]) == (Adopted.MADE, task_id, "queued")
    assert task["initiator"] == {"type": "celery", "id": "gen1@there", "name": "there"}
    assert (task["labels"], task["priority"]) == ({"a": "b"}, 4)
    assert tasks.value(database, "select params from task_params where task_id = :t", t=task_id) == {
        "name": "",
        "rows": 3,
    }
    assert tasks.value(database, "select count(*) from task_hints") == 0
    assert [(m["verb"], m["note"]) for m in task["history"]] == [("submit", "adopted")]


def test_a_message_for_later_is_scheduled(database: Database) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    _, task_id = take(database, at=later, start_by=later + timedelta(hours=1))
    assert tasks.state(database, task_id) == "scheduled"
    assert tasks.task(database, task_id)["timestamps"]["available_at"] == later


def test_the_same_message_again_changes_nothing(database: Database, session: HotSession) -> None:
    _, task_id = take(database, spec=tasks.PLAIN)
    assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
    before = snapshot(database)
    assert take(database, spec=tasks.PLAIN, task_id=task_id) == (Adopted.KNOWN, task_id)
    assert changed(before, snapshot(database)) == []


@pytest.mark.parametrize("params", [{"rows": 2}, {"rows": "many"}])
def test_fifty_deliveries_at_once_make_one_task(database: Database, params: dict[str, Any]) -> None:
    task_id = uuid4()
    answers = together(*[lambda: take(database, params, task_id=task_id)[0]] * 50)
    assert sorted(answers).count(Adopted.KNOWN) == 49
    assert tasks.value(database, "select count(*) from tasks") == 1


def test_an_id_whose_task_was_purged_makes_no_task_again(database: Database) -> None:
    task_id = uuid4()
    tasks.run_sql(database, "insert into adopted_ids (id) values (:id)", id=task_id)
    assert take(database, task_id=task_id)[0] is Adopted.KNOWN
    assert tasks.value(database, "select count(*) from tasks") == 0
    with database.engine.begin() as connection, pytest.raises(IdempotencyConflict, match="purged"):
        client.submit(connection, tasks.PLAIN, initiator=tasks.ADA, task_id=task_id)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"rows": "canary"}, "store.strict: rows: Input should be a valid integer"),
        ({"colour": "canary"}, "store.strict: colour: Extra inputs are not permitted"),
        ({"name": "bad canary"}, "store.strict: name: refused by the kind's own check"),
        ({"name": "canary\0"}, "NUL character"),
    ],
)
def test_bad_params_end_rejected_with_the_field_named_and_no_value(
    database: Database, params: dict[str, Any], said: str
) -> None:
    became, task_id = take(database, params)
    task = tasks.task(database, task_id)
    assert (became, task["state"], task["outcome"]) == (Adopted.REJECTED, "failed", "rejected")
    assert said in task["error"]["message"]
    assert "canary" not in str(task)
    assert tasks.value(database, "select count(*) from task_params") == 0
    assert task["timestamps"]["redacted_at"] is not None
    assert [m["verb"] for m in task["history"]] == ["submit", "reject"]
    assert tasks.value(database, "select status from activities where id = :t", t=task_id) == "failed"


def test_a_refusal_known_before_is_the_reason(database: Database) -> None:
    _, task_id = take(database, refusal="store.strict: chord is not supported")
    assert tasks.task(database, task_id)["error"] == {
        "code": "rejected",
        "message": "store.strict: chord is not supported",
    }


def test_an_internal_kind_and_a_limit_are_refused_as_in_submit(database: Database) -> None:
    _, task_id = take(database, spec=INTERNAL)
    assert "domain.rebuild()" in tasks.task(database, task_id)["error"]["message"]
    take(database, spec=SINGLE)
    became, second = take(database, spec=SINGLE)
    assert became is Adopted.REJECTED
    assert "active already" in tasks.task(database, second)["error"]["message"]


def test_a_key_that_belongs_to_another_task_names_it(database: Database) -> None:
    _, first = take(database, key="k")
    became, second = take(database, key="k")
    assert became is Adopted.REJECTED
    assert str(first) in tasks.task(database, second)["error"]["message"]


def test_the_same_task_id_and_request_answer_the_same_task(database: Database) -> None:
    task_id = uuid4()

    def submit(params: dict[str, Any]) -> Submitted:
        with database.engine.begin() as connection:
            return client.submit(connection, tasks.PLAIN, params, initiator=tasks.ADA, task_id=task_id)

    assert submit({"a": 1}) == Submitted(task_id, created=True)
    assert submit({"a": 1}) == Submitted(task_id, created=False)
    with pytest.raises(IdempotencyConflict, match=f"task id {task_id} belongs"):
        submit({"a": 2})
    assert tasks.value(database, "select count(*) from task_hints") == 1
