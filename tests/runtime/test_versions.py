"""Kinds that change while tasks wait: old params are upgraded, old names are run, what a worker cannot read is left queued."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tenure import client
from tenure.model.errors import ActiveLimitReached, IdempotencyConflict, InvalidKind, InvalidParams
from tenure.model.kinds import KindSpec, kind
from tenure.registry import Registry
from tenure.runtime.attempt import Attempt
from tests.support.databases import Database
from tests.support.slot import TESTER, Bench


class First(BaseModel):
    name: str


class Second(BaseModel):
    names: list[str]


class Third(BaseModel):
    names: list[str]
    polite: bool


def split(params: dict[str, Any]) -> dict[str, Any]:
    return {"names": params["name"].split()}


def politely(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "polite": True}


def body(attempt: Attempt, params: BaseModel) -> dict[str, Any]:
    return params.model_dump()


FIRST = kind("greet", params=First)(body)
SECOND = kind("greet", params=Second, version=2, upgrades={1: split})(body)
THIRD = kind("greet", params=Third, version=3, upgrades={1: split, 2: politely}, keep_params="the test")(body)
RENAMED = kind("people.greet", params=First, aliases=("greet", "hello"), active_limit=3)(body)


@pytest.fixture
def bench(request: pytest.FixtureRequest, database: Database) -> Iterator[Bench]:
    """A worker that knows the kinds the test names, the third version by default."""
    made = Bench(database, *getattr(request, "param", (THIRD,)))
    yield made
    made.close()


def test_params_of_older_versions_reach_the_body_as_its_own(bench: Bench) -> None:
    ids = [
        bench.submit(FIRST, {"name": "Ada Grace"}),
        bench.submit(SECOND, {"names": ["Ada"]}),
        bench.submit(THIRD, {"names": [], "polite": False}),
    ]
    assert bench.run(ids[0]) == 3
    assert [bench.get(one)["result"] for one in ids] == [
        {"names": ["Ada", "Grace"], "polite": True}, {"names": ["Ada"], "polite": True}, {"names": [], "polite": False},
    ]  # fmt: skip


def test_params_that_an_upgrade_cannot_read_fail_the_task_once(bench: Bench) -> None:
    task_id = bench.submit(KindSpec("greet", params=Second), {"names": ["x"]})
    assert bench.run(task_id) == 1
    assert bench.state(task_id) == "failed error"
    assert bench.get(task_id)["error"]["code"] == "KeyError"


@pytest.mark.parametrize("bench", [(FIRST,)], indirect=True)
def test_params_newer_than_a_worker_go_back_until_one_comes_that_reads_them(bench: Bench, database: Database) -> None:
    task_id = bench.submit(THIRD, {"names": ["Ada"], "polite": True})
    bench.run(task_id)
    assert bench.state(task_id) == "queued"
    assert bench.leases() == 0
    task = bench.get(task_id)
    assert (task["attempt"], [(one["how"], one["error_code"]) for one in task["attempts"]]) == (
        0, [("released", "unknown_version")],
    )  # fmt: skip
    assert bench.one("select not_before > clock_timestamp() + interval '5 s' from task_hints"), "no worker spins on it"
    with database.engine.connect() as connection:
        reasons = {one["code"]: one["text"] for one in client.why(connection, task_id)["reasons"]}
    assert "its params are of version 3, the worker that looked knows 1" in reasons["unknown_version"]
    newer = Bench(database, THIRD)
    try:
        assert newer.run(task_id) == 1
        assert newer.state(task_id) == "succeeded"
        assert newer.get(task_id)["attempt"] == 1
    finally:
        newer.close()


@pytest.mark.parametrize("bench", [(RENAMED,)], indirect=True)
def test_a_task_submitted_under_an_old_name_is_run_by_the_kind_that_had_it(bench: Bench) -> None:
    ids = [
        bench.submit(RENAMED, {"name": "Ada"}),
        bench.submit(FIRST, {"name": "Grace"}),
        bench.submit(KindSpec("hello", params=First), {"name": "Edsger"}),
    ]
    assert bench.run(ids[0]) == 3, "one by its message, two by run-on"
    assert [bench.get(one)["result"]["name"] for one in ids] == ["Ada", "Grace", "Edsger"]
    other = bench.submit(FIRST, {"name": "Barbara"})
    assert bench.run(other) == 1
    assert bench.get(other)["kind"] == "greet", "the row keeps the name it was submitted under"


@pytest.mark.parametrize("bench", [(RENAMED,)], indirect=True)
def test_a_renamed_kind_knows_the_keys_and_counts_the_tasks_of_its_old_name(bench: Bench) -> None:
    first = bench.submit(FIRST, {"name": "Ada"}, key="k")
    assert bench.submit(RENAMED, {"name": "Ada"}, key="k") == first
    with pytest.raises(IdempotencyConflict):
        bench.submit(RENAMED, {"name": "Grace"}, key="k")
    with bench.engine.begin() as connection:
        item = client.Item({"name": "Ada"}, key="k")
        assert client.submit_many(connection, RENAMED, [item, item], initiator=TESTER)[1].id == first
    bench.submit(RENAMED, {"name": "Grace"})
    bench.submit(RENAMED, {"name": "Edsger"})
    with pytest.raises(ActiveLimitReached):
        bench.submit(RENAMED, {"name": "Barbara"})


@pytest.mark.parametrize("bench", [(FIRST,)], indirect=True)
def test_a_retry_takes_kept_params_in_the_version_of_today(
    bench: Bench, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = kind("greet", params=First, keep_params="the test")(body)
    task_id = bench.submit(old, {"name": "Ada Grace"})
    bench.run(task_id)
    monkeypatch.setattr("tenure.registry.load", lambda _packages: Registry([THIRD]))
    with database.engine.begin() as connection:
        again = client.retry(connection, task_id, initiator=TESTER).id
    query = "select params, params_version from task_params where task_id = :t"
    assert tuple(bench.first(query, t=again)) == ({"names": ["Ada", "Grace"], "polite": True}, 3)


def test_a_registry_finds_a_kind_by_every_name_and_refuses_one_name_for_two() -> None:
    registry = Registry([RENAMED])
    assert registry.kind("hello") is RENAMED
    assert "greet" in registry
    assert (registry.names, registry.claimable) == (["people.greet"], ["greet", "hello", "people.greet"])
    with pytest.raises(InvalidKind, match="alias greet"):
        Registry([FIRST, RENAMED])


WRONG: dict[str, dict[str, Any]] = {
    "no step": {"version": 3, "upgrades": {1: split}},
    "a gap": {"version": 4, "upgrades": {1: split, 3: politely}},
    "beyond": {"version": 2, "upgrades": {1: split, 2: politely}},
    "zero": {"version": 0},
    "from zero": {"version": 2, "upgrades": {0: split, 1: split}},
    "its own name": {"aliases": ("greet",)},
    "a space": {"aliases": ("a b",)},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_kind_whose_versions_or_names_cannot_be_is_refused_when_declared(case: str) -> None:
    with pytest.raises(InvalidKind, match="kind greet: "):
        KindSpec("greet", **WRONG[case])


def test_a_kind_may_drop_versions_too_old_to_be_read() -> None:
    spec = KindSpec("greet", params=Third, version=3, upgrades={2: politely})
    assert [spec.accepts(version) for version in (1, 2, 3, 4)] == [False, True, True, False]
    with pytest.raises(InvalidParams, match="version 1, known are 2 to 3"):
        spec.upgraded({}, 1)
