"""The app that submits: delay, apply_async, signatures, groups and send_task make rows, and no broker is there to need."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import celery.exceptions
import pytest
import redis
from celery import chain, chord, group
from pydantic import BaseModel, ConfigDict
from sqlalchemy import text
from sqlalchemy.orm import Session

from tenure.model.errors import IdempotencyConflict, InvalidParams, KindIsInternal, UnknownKind, UsageError
from tenure.model.kinds import Kind, KindSpec, kind
from tenure.model.records import Initiator
from tenure.runtime.attempt import Attempt
from tenure.settings import Settings
from tenure_celery.app import TenureCelery
from tenure_celery.errors import TaskFailed, UnsupportedByTenure
from tenure_celery.ids import row_id
from tests.support.databases import Database
from tests.support.slot import Bench, Step


class Export(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rows: int = 1
    fail: bool = False


@kind("front.export", params=Export, queue="bulk", priority=10)
def export(attempt: Attempt, params: Export) -> dict[str, int]:
    attempt.begin(total=params.rows)
    if params.fail:
        raise ValueError("canary-7")
    with attempt.transaction() as tx:
        attempt.checkpoint(tx, Step(done=params.rows), processed=params.rows)
    return {"rows": params.rows}


ELSEWHERE = KindSpec("front.elsewhere", params=Export)
INTERNAL = KindSpec("front.internal", internal="domain.rebuild()")
# A port where nothing listens: whatever needed a broker would fail.
NOWHERE = "redis://127.0.0.1:1/0"

MakeBench = Callable[..., Bench]


@pytest.fixture
def app(database: Database) -> Iterator[TenureCelery]:
    settings = Settings(database_url=database.url)  # type: ignore[arg-type]
    made = TenureCelery(
        "shop", kinds=[export, ELSEWHERE, INTERNAL], settings=settings, broker=NOWHERE, set_as_current=False
    )
    yield made
    made.close()


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench(export)


def rows(database: Database) -> list[Any]:
    with database.engine.connect() as connection:
        return list(connection.execute(text("select * from tasks order by created_at")).all())


def params(database: Database, task_id: str) -> Any:
    with database.engine.connect() as connection:
        return connection.execute(text("select params from task_params where task_id = :t"), {"t": task_id}).scalar()


# -- the ways in -------------------------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[TenureCelery], Any]] = {
    "delay": lambda app: app.kinds["front.export"].delay(rows=3),
    "apply_async": lambda app: app.tasks["front.export"].apply_async(kwargs={"rows": 3}),
    "s": lambda app: app.kinds["front.export"].s(rows=3).delay(),
    "si": lambda app: app.kinds["front.export"].si(rows=3).apply_async(),
    "signature": lambda app: app.signature("front.export", kwargs={"rows": 3}).apply_async(),
    "group": lambda app: group(app.kinds["front.export"].s(rows=3)).apply_async().results[0],
    "send_task": lambda app: app.send_task("front.export", kwargs={"rows": 3}),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_in_makes_a_row_of_that_id(app: TenureCelery, database: Database, way: str) -> None:
    result = WAYS[way](app)
    (row,) = rows(database)
    assert (str(row.id), row.kind, row.queue, row.state, row.priority) == (
        result.id,
        "front.export",
        "bulk",
        "queued",
        10,
    )
    assert (row.initiator_type, row.initiator_name) == ("celery", "shop")
    assert row.initiator_id.startswith("gen")
    assert params(database, result.id) == {"fail": False, "rows": 3}


def test_a_group_is_a_row_for_each_member(app: TenureCelery, database: Database) -> None:
    one = app.kinds["front.export"]
    result = group(one.s(rows=n) for n in range(3)).apply_async()
    assert {row.id for row in rows(database)} == {UUID(member.id) for member in result.results}


def test_a_spec_without_a_body_can_be_submitted_but_not_run(app: TenureCelery, database: Database) -> None:
    assert app.kinds["front.elsewhere"].delay().id == str(rows(database)[0].id)
    with pytest.raises(UnsupportedByTenure, match="runs in a Tenure worker"):
        app.kinds["front.elsewhere"](rows=1)


def test_the_kinds_of_an_app_are_a_mapping(app: TenureCelery) -> None:
    assert list(app.kinds) == ["front.elsewhere", "front.export", "front.internal"]
    assert len(app.kinds) == 3
    assert "celery.group" not in app.kinds
    with pytest.raises(UnknownKind, match=r"front\.exprot.*front\.export"):
        app.kinds["front.exprot"]


@pytest.mark.parametrize("how", ["session", "connection"])
def test_a_submission_in_the_callers_transaction_is_rolled_back_with_it(
    app: TenureCelery, database: Database, how: str
) -> None:
    one = app.kinds["front.export"]
    with Session(database.engine) as session:
        given = session if how == "session" else session.connection()
        group(one.s(rows=1), one.s(rows=2)).apply_async(**{how: given})
        app.send_task("front.export", **{how: given})
        assert rows(database) == []
        session.rollback()
    assert rows(database) == []
    with Session(database.engine) as session, session.begin():
        one.apply_async(kwargs={"rows": 1}, **{how: session if how == "session" else session.connection()})
    assert len(rows(database)) == 1


def test_a_name_that_is_no_kind_and_a_hint_go_to_the_broker(
    app: TenureCelery, database: Database, broker_url: str
) -> None:
    app.conf.broker_url = broker_url
    app.send_task("other.task", args=[1])
    app.send_task("front.export", headers={"x-tenure": "hint"})
    with redis.Redis.from_url(broker_url) as broker:
        assert broker.llen("celery") == 2
    with Session(database.engine) as session, pytest.raises(UnknownKind, match="other"):
        app.send_task("other.task", session=session)
    assert rows(database) == []


# -- options -----------------------------------------------------------------------------------------------------------


def test_countdown_and_eta_schedule_by_the_databases_clock(app: TenureCelery, database: Database) -> None:
    one = app.kinds["front.export"]
    one.apply_async(countdown=60, expires=120)
    one.apply_async(eta=datetime.now(UTC) + timedelta(seconds=60))
    one.apply_async(eta=datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=60))
    found = rows(database)
    assert [row.state for row in found] == ["scheduled"] * 3
    assert all(55 < (row.available_at - row.created_at).total_seconds() < 65 for row in found)
    assert 115 < (found[0].start_by - found[0].created_at).total_seconds() < 125


def test_the_smaller_priority_of_redis_goes_first(app: TenureCelery, database: Database) -> None:
    for given in (0, 9):
        app.kinds["front.export"].apply_async(priority=given)
    assert [row.priority for row in rows(database)] == [10, 1]
    app.conf.broker_url = "amqp://"
    app.kinds["front.export"].apply_async(priority=9)
    assert rows(database)[-1].priority == 19


def test_a_task_id_is_honoured_and_one_that_is_no_uuid_keeps_its_text_as_a_label(
    app: TenureCelery, database: Database
) -> None:
    one, own = app.kinds["front.export"], str(uuid4())
    assert one.apply_async(task_id=own).id == own
    result = one.apply_async(task_id="order-42", labels={"shop": "north"})
    again = one.apply_async(task_id="order-42")
    found = rows(database)
    assert [row.id for row in found] == [UUID(own), row_id("order-42")]
    assert found[1].labels == {"celery_id": "order-42", "shop": "north"}
    assert result.id == again.id == "order-42"
    assert app.AsyncResult("order-42").state == "PENDING"
    assert app.AsyncResult("order-42").exists()
    assert not app.AsyncResult("order-43").exists()
    with pytest.raises(IdempotencyConflict, match="task id"):
        one.apply_async(kwargs={"rows": 2}, task_id="order-42")


def test_key_initiator_and_deadline_come_as_options_or_in_the_header(app: TenureCelery, database: Database) -> None:
    one, me = app.kinds["front.export"], Initiator("user", "7", "ada")
    first = one.apply_async(key="k", submitter="north", initiator=me, deadline=timedelta(minutes=1), scope="s")
    said = {"key": "k", "submitter": "north", "initiator": {"type": "user", "id": "7", "name": "ada"}, "deadline": 60}
    assert one.apply_async(headers={"x-tenure-options": said}).id == first.id
    (row,) = rows(database)
    assert (row.initiator_type, row.initiator_id, row.initiator_name) == ("user", "7", "ada")
    assert (row.scope, row.deadline is not None) == ("s", True)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"args": [1]}, "args: positional"),
    ({"link": "sig"}, "link is not supported"),
    ({"link_error": "sig"}, "link_error is not supported"),
    ({"time_limit": 5}, "time_limit is not supported.*run_limit"),
    ({"queue": "other"}, "queue: its queue is 'bulk'"),
    ({"priority": 10}, "priority 10"),
    ({"eta": "soon"}, "eta: give seconds"),
    ({"countdown": 1e300}, "100 years"),
    ({"lables": {}}, "lables is no option"),
    ({"labels": {"a": 1}}, "text to text"),
    ({"headers": {"x-tenure-options": {"kee": "k"}}}, "'kee' is unknown"),
    ({"initiator": {"type": "user"}}, "initiator: give type, id and name"),
    ({"session": "mine"}, "SQLAlchemy"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_a_durable_task_cannot_have_is_refused_by_name(
    app: TenureCelery, database: Database, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        app.send_task("front.export", **options)
    assert rows(database) == []


def test_chains_and_chords_are_refused_before_anything_is_sent(app: TenureCelery, database: Database) -> None:
    one = app.kinds["front.export"]
    for canvas in (chain(one.s(), one.s()), chord([one.s(), one.s()], one.s()), group(one.s(), one.s()) | one.s()):
        with pytest.raises(UnsupportedByTenure):
            canvas.apply_async()
    assert rows(database) == []


def test_params_are_typed_and_internal_kinds_refused(app: TenureCelery, database: Database) -> None:
    with pytest.raises(InvalidParams, match=r"front\.export: rows"):
        app.kinds["front.export"].delay(rows="many")
    with pytest.raises(KindIsInternal, match=r"domain\.rebuild"):
        app.kinds["front.internal"].delay()
    assert rows(database) == []
    app.kinds["front.export"].apply_async(kwargs={"rows": "7"}, queue="bulk", serializer="json")
    assert params(database, str(rows(database)[0].id)) == {"fail": False, "rows": 7}


# -- results -----------------------------------------------------------------------------------------------------------


def test_get_returns_the_typed_result_soon_after_the_end(app: TenureCelery, bench: Bench) -> None:
    result = app.kinds["front.export"].delay(rows=4)
    assert (result.state, result.ready(), result.info) == ("PENDING", False, None)
    thread = threading.Timer(0.05, bench.run, [UUID(result.id)])
    thread.start()
    assert result.get(timeout=30) == {"rows": 4}
    assert (result.state, result.result, result.successful()) == ("SUCCESS", {"rows": 4}, True)
    assert (result.name, result.queue, result.retries) == ("front.export", "bulk", 0)
    assert result.date_done is not None
    thread.join()
    result.forget()
    assert app.AsyncResult(result.id).get() == {"rows": 4}


def test_a_failed_task_raises_the_sanitized_error(app: TenureCelery, bench: Bench) -> None:
    result = app.kinds["front.export"].delay(fail=True)
    bench.run(UUID(result.id))
    with pytest.raises(TaskFailed, match=r"front\.export: error: unexpected ValueError") as failed:
        result.get(timeout=30)
    assert (str(failed.value.task_id), failed.value.outcome, failed.value.code) == (result.id, "error", "ValueError")
    assert "canary" not in str(failed.value)
    assert result.state == "FAILURE"
    assert isinstance(result.get(propagate=False), TaskFailed)


def test_info_counts_while_it_runs(app: TenureCelery, make_bench: MakeBench) -> None:
    saved, go = threading.Event(), threading.Event()

    def body(attempt: Attempt, params: Any) -> None:
        attempt.begin(total=5)
        with attempt.transaction() as tx:
            attempt.checkpoint(tx, Step(done=2), processed=2, failed=1)
        saved.set()
        assert go.wait(10)

    bench = make_bench(Kind(ELSEWHERE, body))
    result = app.kinds["front.elsewhere"].delay()
    thread = bench.aside(UUID(result.id))
    assert saved.wait(10)
    assert (result.state, result.info) == ("STARTED", {"total": 5, "processed": 2, "succeeded": 1, "failed": 1})
    go.set()
    thread.join()
    assert result.state == "SUCCESS", "partially_succeeded is one"


def test_get_gives_up_on_time_and_costs_little_meanwhile(app: TenureCelery) -> None:
    result = app.kinds["front.export"].delay()
    began = time.monotonic()
    with pytest.raises(celery.exceptions.TimeoutError):
        result.get(timeout=0.3)
    assert time.monotonic() - began < 1.0
    with pytest.raises(celery.exceptions.TimeoutError):
        result.get(timeout=0)


def test_revoke_cancels_the_row_and_sends_nothing(app: TenureCelery, database: Database) -> None:
    one = app.kinds["front.export"]
    first, second, third = one.delay(), one.delay(), one.apply_async(task_id="order-42")
    first.revoke()  # NOWHERE has no broker: a broadcast would fail
    app.control.terminate(second.id)
    app.control.revoke([second.id, third.id], reply=True)
    assert {row.state for row in rows(database)} == {"cancelled"}
    assert first.state == "REVOKED"
    with pytest.raises(celery.exceptions.TaskRevokedError):
        third.get(timeout=5)


def test_revoke_of_an_ended_task_changes_nothing(app: TenureCelery, bench: Bench) -> None:
    result = app.kinds["front.export"].delay()
    bench.run(UUID(result.id))
    assert app.control.revoke(result.id, reply=True) == [{"tenure": {"ok": {result.id: "succeeded"}}}]


def test_the_backend_writes_nothing(app: TenureCelery) -> None:
    for write in (app.backend.store_result, app.backend.save_group, app.backend.apply_chord):
        with pytest.raises(UnsupportedByTenure, match="another backend"):
            write("id", None, "SUCCESS")
    assert app.GroupResult.restore("g") is None


CALLS: dict[str, Callable[[TenureCelery], object]] = {
    "delay": lambda app: app.kinds["front.export"].delay(rows=1),
    "apply_async": lambda app: app.kinds["front.export"].apply_async(kwargs={"rows": 1}),
    "a signature": lambda app: app.kinds["front.export"].s(rows=1).apply_async(),
    "a group": lambda app: group(app.kinds["front.export"].s(rows=n) for n in (1, 2)).apply_async(),
    "send_task": lambda app: app.send_task("front.export", kwargs={"rows": 1}),
}


@pytest.mark.parametrize("way", CALLS)
def test_a_task_made_through_celery_has_its_activity_from_the_same_transaction(
    database: Database, app: TenureCelery, way: str
) -> None:
    CALLS[way](app)
    together = """select a.xmin::text = k.xmin::text and a.task_id = k.id and a.target_name = k.kind
        from tasks k left join activities a on a.id = k.activity_id"""
    with database.engine.connect() as connection:
        answers = connection.execute(text(together)).scalars().all()
    assert set(answers) == {True}
    assert len(answers) == (2 if way == "a group" else 1)
