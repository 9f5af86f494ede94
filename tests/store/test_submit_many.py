"""submit_many: what `submit` writes and refuses, by the thousand; a wrong item is named and nothing is written."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import client
from tenure.client import Item
from tenure.model.errors import (
    ActiveLimitReached,
    InvalidParams,
    KindIsInternal,
    PayloadTooLarge,
    TenureError,
    UsageError,
)
from tenure.model.kinds import KindSpec
from tenure.model.records import Submitted
from tenure.settings import load
from tenure.store.hot import HotSession
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

COUNT = "select count(*) from tasks"
AT = datetime.now(UTC) + timedelta(hours=1)
TABLES = ("tasks", "task_params", "activities", "task_events", "task_hints")
# What cannot be the same for two submissions of the same thing.
_OWN = "id,task_id,activity_id,created_at,available_at,deadline,turn"


def submit_many(database: Database, items: Any, spec: KindSpec = tasks.PLAIN, **options: Any) -> list[Submitted]:
    with database.engine.begin() as connection:
        return client.submit_many(connection, spec, items, **{"initiator": tasks.ADA, **options})


def rows_of(database: Database, made: Submitted) -> dict[str, Any]:
    """Everything written for one task, without what is each task's own."""
    found = {}
    for table in TABLES:
        column = "id" if table == "tasks" else "task_id"
        query = f"""select jsonb_agg(to_jsonb(x) - cast(:own as text[]) - 'idempotency_key')
            from {table} x where {column} = :id"""
        found[table] = tasks.value(database, query, id=made.id, own=_OWN.split(","))
    return found


def test_a_batch_writes_for_each_item_what_a_single_submission_writes(database: Database) -> None:
    options: dict[str, Any] = {
        "labels": {"team": "x", "é": '"'}, "scope": "s", "exclusive": True, "priority": 3, "start_by": AT + timedelta(days=1),
        "deadline": timedelta(days=2),
    }  # fmt: skip
    params = {"a": 1.5, "b": "é\\ \u2028", "c": [None, True], "big": 10**400}
    for at in (None, AT):
        with database.engine.begin() as connection:
            one = client.submit(
                connection, tasks.PLAIN, params, initiator=tasks.ADA, submitter="me", key=f"1 {at}", at=at, **options
            )
        (many,) = submit_many(database, [Item(params, key=f"2 {at}", at=at, **options)], submitter="me")
        assert many.created
        assert rows_of(database, many) == rows_of(database, one)
    assert tasks.value(database, "select count(distinct available_at) from tasks where state = 'scheduled'") == 1
    assert tasks.value(database, "select count(*) from tasks where deadline - created_at between '47h' and '49h'") == 4


def test_thousands_are_answered_in_their_order_and_handed_out_in_it(database: Database, session: HotSession) -> None:
    made = submit_many(database, [{"n": n} for n in range(2345)])
    assert all(one.created for one in made)
    ids = [one.id for one in made]
    assert ids == sorted(ids)
    for table in TABLES:
        assert tasks.value(database, f"select count(*) from {table}") == 2345
    assert tasks.value(database, "select array_agg(task_id order by id) from task_hints") == ids
    assert tasks.claimed(session, ids[2000]).params == '{"n": 2000}'


def test_options_of_the_call_are_those_of_every_item_that_has_none_of_its_own(database: Database) -> None:
    submit_many(database, [None, Item(priority=0, labels={})], priority=5, labels={"a": "b"}, scope="s")
    rows = tasks.value(database, "select array_agg(array[priority::text, labels::text, scope] order by id) from tasks")
    assert rows == [["5", '{"a": "b"}', "s"], ["0", "{}", "s"]]


def test_nothing_to_submit_writes_nothing(database: Database) -> None:
    before = snapshot(database)
    assert submit_many(database, []) == []
    assert changed(before, snapshot(database)) == []


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_known_key_answers_its_task_and_a_conflict_is_said_of_that_item_only(database: Database) -> None:
    first = submit_many(database, [Item({"a": 1}, key="k"), Item({"a": 2}, key="l")])
    again = submit_many(
        database, [Item({"a": 1}, key="k"), Item({"a": 3}, key="l"), Item({"a": 4}, key="m"), Item({"a": 4}, key="m")]
    )
    assert again[0] == Submitted(first[0].id, False)
    assert (again[1].id, again[1].created) == (first[1].id, False)
    assert again[1].conflict == f"idempotency key 'l' belongs to task {first[1].id} with another request"
    assert again[2].created
    assert again[3] == Submitted(again[2].id, False), "the second of two in one batch"
    assert tasks.value(database, COUNT) == 3


def test_a_single_submission_and_a_batch_know_each_others_keys(database: Database) -> None:
    with database.engine.begin() as connection:
        one = client.submit(connection, tasks.PLAIN, {"a": 1}, initiator=tasks.ADA, key="k")
        (many,) = client.submit_many(connection, tasks.PLAIN, [Item({"a": 1}, key="k")], initiator=tasks.ADA)
        (new,) = client.submit_many(connection, tasks.PLAIN, [Item({"a": 1}, key="l")], initiator=tasks.ADA)
        known = client.submit(connection, tasks.PLAIN, {"a": 1}, initiator=tasks.ADA, key="l")
    assert many == Submitted(one.id, False)
    assert known == Submitted(new.id, False)


def test_concurrent_batches_with_the_same_keys_in_any_order_make_each_task_once(database: Database) -> None:
    def attempt() -> list[Submitted]:
        keys = random.sample([f"{n} é" for n in range(40)] + ["K", "k", "Z"], 43)
        return submit_many(database, [Item(key=key) for key in keys])

    answers = together(*[attempt] * 8)
    assert sum(one.created for answer in answers for one in answer) == 43
    assert len({one.id for answer in answers for one in answer}) == 43
    assert tasks.value(database, COUNT) == 43


# -- refusals: the item is named, nothing is written -------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[], Any], type[TenureError], str]] = {
    "params": (lambda: {"rows": "x"}, InvalidParams, "item 1: store.strict: rows"),
    "a NUL": (lambda: {"note": "a\0"}, InvalidParams, "item 1: store.strict: params hold a NUL"),
    "half a pair": (lambda: {"note": "\ud83d"}, InvalidParams, "item 1: store.strict: "),
    "size": (lambda: {"note": "x" * load().params_bytes}, PayloadTooLarge, "item 1: store.strict: params are"),
    "an empty key": (lambda: Item({}, key=""), UsageError, "item 1: idempotency key is 0 bytes"),
    "a label": (lambda: Item({}, labels={"a": "\0"}), UsageError, "item 1: label holds a NUL"),
    "a priority": (lambda: Item({}, priority=40_000), UsageError, "item 1: priority 40000"),
    "a scope": (lambda: Item({}, scope="\0"), UsageError, "item 1: scope holds a NUL"),
    "a time": (lambda: Item({}, at=datetime(2030, 1, 1)), UsageError, "item 1: at 2030-01-01T00:00:00 has no time"),
}


class Strict(tasks.Anything):
    rows: int = 0
    note: str = ""


STRICT = KindSpec("store.strict", params=Strict)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_item_is_named_and_nothing_is_written(database: Database, case: str) -> None:
    wrong, error, said = WRONG[case]
    before = snapshot(database)
    with database.engine.begin() as connection, pytest.raises(error, match=f"^{said}"):
        client.submit_many(connection, STRICT, [None, wrong(), None], initiator=tasks.ADA)
    assert changed(before, snapshot(database)) == []


def test_an_internal_kind_is_refused(database: Database) -> None:
    with pytest.raises(KindIsInternal, match="use its own call"):
        submit_many(database, [None], KindSpec("store.internal", internal="its own call"))


def test_the_active_limit_counts_new_tasks_only_and_names_the_first_too_many(database: Database) -> None:
    with pytest.raises(ActiveLimitReached, match=r"item 5: 5 store\.limited"):
        submit_many(database, [None] * 7, tasks.LIMITED)
    assert tasks.value(database, COUNT) == 0
    made = submit_many(database, [Item(key=str(n)) for n in range(4)], tasks.LIMITED)
    again = submit_many(database, [*(Item(key=str(n)) for n in range(4)), Item(key="n"), Item(key="n")], tasks.LIMITED)
    assert [one.id for one in again[:4]] == [one.id for one in made]
    assert [one.created for one in again] == [False] * 4 + [True, False]
    with pytest.raises(ActiveLimitReached, match="item 1: "):
        submit_many(database, [Item(key="0"), None], tasks.LIMITED)


def test_the_active_limit_is_exact_under_concurrent_batches(database: Database) -> None:
    def attempt() -> int:
        try:
            return len(submit_many(database, [None, None], tasks.LIMITED))
        except ActiveLimitReached:
            return 0

    assert sum(together(*[attempt] * 10)) == 4
    assert tasks.value(database, COUNT) == 4


def test_a_batch_rolled_back_leaves_nothing(database: Database) -> None:
    before = snapshot(database)
    with database.engine.connect() as connection, connection.begin() as transaction:
        client.submit_many(connection, tasks.PLAIN, [{"a": n} for n in range(10)], initiator=tasks.ADA)
        transaction.rollback()
    assert changed(before, snapshot(database)) == []
