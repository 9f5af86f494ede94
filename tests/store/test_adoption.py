"""adopt: the same message any number of times is one task; what cannot be run is a rejected task that names the field."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from tenure import client
from tenure.adoption import Adopted, Request, adopt
from tenure.model.errors import IdempotencyConflict, UsageError
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.store.hot import HotSession
from tenure_celery.calls import OPTIONS
from tenure_celery.foreign import Foreign, request_of
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


LARGE: list[tuple[dict[str, Any], str]] = [
    ({"labels": {"a": "b" * 257}}, "label 'a': 64 bytes for a name and 256 for its value"),
    ({"labels": {"é" * 33: "b"}}, "64 bytes for a name"),
    ({"scope": "s" * 5_000_000}, "scope is 5000000 bytes: 1 to 255"),
    ({"key": "k" * 256}, "key is 256 bytes"),
    ({"submitter": "k" * 256}, "submitter is 256 bytes"),
    ({"initiator": {"type": "user", "id": "i" * 256, "name": "n"}}, "initiator id is 256 bytes"),
]


@pytest.mark.parametrize(("options", "said"), LARGE, ids=[said for _, said in LARGE])
def test_what_is_too_large_in_a_message_is_rejected_and_not_stored(
    database: Database, options: dict[str, Any], said: str
) -> None:
    message = Foreign(str(uuid4()), {OPTIONS: options}, None, ([], {}, {}))
    with database.engine.begin() as connection:
        assert adopt(connection, STRICT, request_of(STRICT, message, larger_first=False)) is Adopted.REJECTED
    task = tasks.task(database, UUID(message.id))
    assert said in task["error"]["message"]
    assert len(str(task)) < 5_000


@pytest.mark.parametrize(("options", "said"), LARGE, ids=[said for _, said in LARGE])
def test_what_is_too_large_is_refused_in_any_submission(database: Database, options: dict[str, Any], said: str) -> None:
    given = {"initiator": THEY, **options}
    given["initiator"] = Initiator(**given["initiator"]) if isinstance(given["initiator"], dict) else THEY
    with database.engine.begin() as connection, pytest.raises(UsageError, match=re.escape(said)):
        client.submit(connection, STRICT, {}, **given)


def test_the_largest_labels_and_names_are_stored(database: Database) -> None:
    with database.engine.begin() as connection:
        made = client.submit(
            connection, STRICT, {}, initiator=THEY, labels={"a" * 64: "b" * 256}, scope="s" * 255, key="k" * 255
        )
    assert tasks.task(database, made.id)["labels"] == {"a" * 64: "b" * 256}


@pytest.mark.parametrize("options", [{}, {"initiator": {"type": "user", "id": "1", "name": "root"}}])
def test_a_message_cannot_name_the_type_of_its_initiator(database: Database, options: dict[str, Any]) -> None:
    message = Foreign(str(uuid4()), {"origin": "gen1@there", OPTIONS: options}, None, ([], {}, {}))
    with database.engine.begin() as connection:
        assert adopt(connection, STRICT, request_of(STRICT, message, larger_first=False)) is Adopted.MADE
    named = tasks.task(database, UUID(message.id))["initiator"]
    assert named["type"] == "celery"
    assert named["name"] == ("root" if options else "there")


def test_a_message_of_nobody_is_its_senders(database: Database) -> None:
    header = {"initiator": {"type": "anonymous", "id": "", "name": "Anonymous"}}
    message = Foreign(str(uuid4()), {"origin": "gen1@there", OPTIONS: header}, None, ([], {}, {}))
    with database.engine.begin() as connection:
        assert adopt(connection, STRICT, request_of(STRICT, message, larger_first=False)) is Adopted.MADE
    named = tasks.task(database, UUID(message.id))["initiator"]
    assert named == {"type": "celery", "id": "gen1@there", "name": "Anonymous"}
