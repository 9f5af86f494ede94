"""submit: one task per key, exact limits, all or nothing, and one clear error for what cannot be stored."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from tenure import client
from tenure.model.errors import (
    ActiveLimitReached,
    IdempotencyConflict,
    InvalidKind,
    InvalidParams,
    KindIsInternal,
    PayloadTooLarge,
    Refused,
    TenureError,
    UnknownKind,
    UsageError,
)
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.model.retry import RetryPolicy
from tenure.model.states import State
from tenure.settings import load
from tenure.store.hot import HotSession
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot
from tests.support.threads import together

LONE = "\ud83d"  # half of a surrogate pair
COUNT = "select count(*) from tasks"


def submit(database: Database, spec: KindSpec | str = tasks.PLAIN, params: Any = None, **options: Any) -> Submitted:
    with database.engine.begin() as connection:
        return client.submit(connection, spec, params, **{"initiator": tasks.ADA, **options})


# -- the same request again --------------------------------------------------------------------------------------------


def test_the_same_key_and_request_answer_the_same_task(database: Database) -> None:
    first = submit(database, params={"b": 1, "a": [1.5, "é"]}, key="k")
    before = snapshot(database)
    again = submit(database, params={"a": [1.5, "é"], "b": 1}, key="k", priority=7, labels={"try": "2"})
    assert again == Submitted(first.id, created=False)
    assert changed(before, snapshot(database)) == [], "the order of keys does not matter, nor what is no part of it"


@pytest.mark.parametrize("how", ["other params", "other kind"])
def test_the_same_key_with_another_request_is_a_conflict(database: Database, how: str) -> None:
    first = submit(database, params={"a": 1}, key="k")
    other = (tasks.ONCE, {"a": 1}) if how == "other kind" else (tasks.PLAIN, {"a": 2})
    before = snapshot(database)
    with pytest.raises(IdempotencyConflict, match=str(first.id)):
        submit(database, *other, key="k")
    assert changed(before, snapshot(database)) == []


def test_an_ended_task_still_answers_to_its_key(database: Database, session: HotSession) -> None:
    first = submit(database, key="k")
    assert tasks.ends(session, tasks.claimed(session, first.id).lease, tasks.FAILED)
    assert submit(database, key="k") == Submitted(first.id, created=False)


def test_a_key_belongs_to_its_submitter(database: Database) -> None:
    mine, yours, nobodys = (submit(database, key="k", submitter=who) for who in ("me", "you", ""))
    assert mine.created and yours.created and nobodys.created  # noqa: PT018
    assert len({mine.id, yours.id, nobodys.id}) == 3
    assert submit(database, key="k", submitter="me").id == mine.id


def test_requests_without_a_key_are_never_the_same(database: Database) -> None:
    assert submit(database).id != submit(database).id


def test_fifty_concurrent_submitters_of_one_key_make_one_task(database: Database) -> None:
    answers = together(*[lambda: submit(database, params={"a": 1}, key="k")] * 50)
    assert len({one.id for one in answers}) == 1
    assert [one.created for one in answers].count(True) == 1
    assert tasks.value(database, COUNT) == 1
    assert tasks.value(database, "select count(*) from task_hints") == 1


def test_fifty_submitters_of_one_key_under_a_limit_of_one_make_one_task(database: Database) -> None:
    single = KindSpec("store.single", active_limit=1)
    answers = together(*[lambda: submit(database, single, key="k")] * 50)
    assert len({one.id for one in answers}) == 1
    assert tasks.value(database, COUNT) == 1


def test_a_key_whose_first_submitter_rolls_back_goes_to_the_next(database: Database) -> None:
    with database.engine.connect() as connection, connection.begin() as transaction:
        rolled_back = client.submit(connection, tasks.PLAIN, initiator=tasks.ADA, key="k").id
        transaction.rollback()
    made = submit(database, key="k")
    assert made.created
    assert made.id != rolled_back


# -- the active limit --------------------------------------------------------------------------------------------------


def test_the_active_limit_is_exact_under_fifty_concurrent_submitters(database: Database) -> None:
    def attempt() -> bool:
        try:
            return submit(database, tasks.LIMITED, submitter="me").created
        except ActiveLimitReached:
            return False

    answers = together(*[attempt] * 50)
    assert answers.count(True) == tasks.LIMITED.active_limit
    assert tasks.value(database, COUNT) == tasks.LIMITED.active_limit


def test_the_active_limit_counts_per_submitter_and_only_what_has_not_ended(
    database: Database, session: HotSession
) -> None:
    ids = [submit(database, tasks.LIMITED, submitter="me").id for _ in range(5)]
    with pytest.raises(ActiveLimitReached, match=r"5 store\.limited"):
        submit(database, tasks.LIMITED, submitter="me")
    assert submit(database, tasks.LIMITED, submitter="you").created
    lease = tasks.claimed(session, ids[0]).lease
    with pytest.raises(ActiveLimitReached):
        submit(database, tasks.LIMITED, submitter="me")
    assert tasks.ends(session, lease, tasks.SUCCEEDED)
    assert submit(database, tasks.LIMITED, submitter="me").created


def test_a_full_limit_still_answers_a_known_key(database: Database) -> None:
    ids = [submit(database, tasks.LIMITED, key=str(n)).id for n in range(5)]
    assert submit(database, tasks.LIMITED, key="3") == Submitted(ids[3], created=False)


# -- all or nothing ----------------------------------------------------------------------------------------------------


def test_a_submission_rolled_back_leaves_nothing(database: Database) -> None:
    before = snapshot(database)
    with database.engine.connect() as connection, connection.begin() as transaction:
        client.submit(connection, tasks.LIMITED, {"a": 1}, initiator=tasks.ADA, key="k", labels={"a": "b"})
        transaction.rollback()
    assert changed(before, snapshot(database)) == []


def test_a_submission_writes_all_that_belongs_to_it(database: Database) -> None:
    made = submit(database, params={"a": 1}, labels={"team": "x"}, scope="s", priority=3, submitter="me", key="k")
    seen = tasks.task(database, made.id)
    assert made.created
    wanted = {"state": "queued", "kind": "store.plain", "queue": "default", "priority": 3, "attempt": 0, "scope": "s"}
    assert {name: seen[name] for name in wanted} == wanted
    assert (seen["labels"], seen["submitter"], seen["key"]) == ({"team": "x"}, "me", "k")
    assert seen["initiator"] == {"type": "user", "id": "1815", "name": "ada"}
    assert [(e["verb"], e["state"]) for e in seen["history"]] == [("submit", "queued")]
    assert tasks.value(database, "select params from task_params") == {"a": 1}
    assert tasks.value(database, "select priority from task_hints where task_id = :id", id=made.id) == 3
    assert tasks.value(database, "select task_id from activities where id = :id", id=seen["activity_id"]) == made.id


def test_a_session_submits_in_its_own_transaction(database: Database) -> None:
    with Session(database.engine) as orm:
        client.submit(orm, tasks.PLAIN, initiator=tasks.ADA)
        orm.rollback()
        kept = client.submit(orm, tasks.PLAIN, initiator=tasks.ADA)
        orm.commit()
    assert tasks.value(database, "select array_agg(id) from tasks") == [kept.id]


def test_a_task_attached_to_an_activity_makes_none(database: Database) -> None:
    first = submit(database)
    attached = submit(database, activity=first.id)
    assert tasks.value(database, "select count(*) from activities") == 1
    assert tasks.task(database, attached.id)["activity_id"] == first.id


# -- when --------------------------------------------------------------------------------------------------------------


def test_a_task_for_later_is_scheduled_without_a_hint(database: Database) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    made = submit(database, at=at)
    assert tasks.task(database, made.id)["timestamps"]["available_at"] == at
    assert tasks.state(database, made.id) == State.SCHEDULED
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_a_task_for_a_time_that_has_passed_is_queued(database: Database) -> None:
    made = submit(database, at=datetime.now(UTC) - timedelta(seconds=1))
    assert tasks.state(database, made.id) == State.QUEUED


def test_a_deadline_is_a_moment_or_a_time_from_now(database: Database) -> None:
    moment = datetime.now(UTC) + timedelta(hours=2)
    as_moment = submit(database, deadline=moment, start_by=moment)
    stamps = tasks.task(database, as_moment.id)["timestamps"]
    assert (stamps["deadline"], stamps["start_by"]) == (moment, moment)
    from_now = submit(database, deadline=timedelta(hours=2))
    stamps = tasks.task(database, from_now.id)["timestamps"]
    assert abs(stamps["deadline"] - stamps["created_at"] - timedelta(hours=2)) < timedelta(seconds=2)


def test_the_lease_carries_the_deadline_or_the_run_limit_whichever_is_sooner(database: Database) -> None:
    limited = KindSpec("store.run_limited", run_limit=60.0)
    soon, far = (submit(database, limited, deadline=timedelta(seconds=s)).id for s in (30, 3000))
    with tasks.worker(database, kinds=[limited]) as session:
        left = [tasks.claimed(session, task_id).seconds_left or 0.0 for task_id in (soon, far)]
    assert 25 < left[0] < 30
    assert 55 < left[1] < 60


# -- what cannot be stored ---------------------------------------------------------------------------------------------

CANNOT: dict[str, tuple[type[TenureError], dict[str, Any]]] = {
    "params with a NUL": (InvalidParams, {"params": {"a": "x\0y"}}),
    "params with a NUL in a name": (InvalidParams, {"params": {"x\0y": 1}}),
    "params with a NUL after a backslash": (InvalidParams, {"params": {"a": "\\\0"}}),
    "params with half a character": (InvalidParams, {"params": {"a": LONE}}),
    "params with half a character in a name": (InvalidParams, {"params": {LONE: 1}}),
    "params that are not a number": (InvalidParams, {"params": {"a": float("nan")}}),
    "params without end": (InvalidParams, {"params": {"a": float("inf")}}),
    "params that are not finite, deep down": (InvalidParams, {"params": {"a": [{"b": [1, -float("inf")]}]}}),
    "params that are no object": (InvalidParams, {"params": ["a"]}),
    "params above the limit": (PayloadTooLarge, {"params": {"a": "x" * (1 << 20)}}),
    "a key of 256 bytes": (UsageError, {"key": "é" * 128}),
    "an empty key": (UsageError, {"key": ""}),
    "a key with a NUL": (UsageError, {"key": "a\0b"}),
    "a key with half a character": (UsageError, {"key": LONE}),
    "a submitter of 256 bytes": (UsageError, {"submitter": "x" * 256, "key": "k"}),
    "a submitter with a NUL": (UsageError, {"submitter": "a\0b"}),
    "a submitter with half a character": (UsageError, {"submitter": LONE}),
    "a label with a NUL": (UsageError, {"labels": {"a": "b\0"}}),
    "a label with half a character": (UsageError, {"labels": {"a": LONE}}),
    "a label named with half a character": (UsageError, {"labels": {LONE: "a"}}),
    "a label that is a number": (UsageError, {"labels": {"a": 1}}),
    "a label named by a number": (UsageError, {"labels": {1: "a"}}),
    "33 labels": (UsageError, {"labels": {str(n): "" for n in range(33)}}),
    "a scope with a NUL": (UsageError, {"scope": "a\0b"}),
    "a scope with half a character": (UsageError, {"scope": LONE}),
    "a priority of 17 bits": (UsageError, {"priority": 1 << 15}),
    "an initiator without a name": (UsageError, {"initiator": Initiator("user", "1", "")}),
    "an initiator with a NUL": (UsageError, {"initiator": Initiator("user", "1", "a\0")}),
    "an initiator with half a character": (UsageError, {"initiator": Initiator("user", LONE, "a")}),
    "a start without a zone": (UsageError, {"at": datetime(2030, 1, 1)}),
    "a deadline without a zone": (UsageError, {"deadline": datetime(2030, 1, 1)}),
    "a deadline in a thousand years": (UsageError, {"deadline": timedelta(days=365_000)}),
    "a kind nobody knows": (UnknownKind, {"spec": "store.unknown"}),
    "an internal kind": (KindIsInternal, {"spec": KindSpec("store.internal", internal="rebuild")}),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_be_is_one_clear_error_and_nothing_is_written(database: Database, case: str) -> None:
    error, options = CANNOT[case]
    before = snapshot(database)
    with pytest.raises(error) as refusal:
        submit(database, **options)
    message = str(refusal.value)
    assert message
    assert "\n" not in message
    assert message.isprintable()
    assert changed(before, snapshot(database)) == []


def test_a_refused_submission_leaves_the_callers_transaction_usable(database: Database) -> None:
    with database.engine.begin() as connection:
        for _, options in CANNOT.values():
            arguments: dict[str, Any] = {"initiator": tasks.ADA, "spec": tasks.PLAIN, **options}
            with pytest.raises(TenureError):
                client.submit(connection, arguments.pop("spec"), **arguments)
        kept = client.submit(connection, tasks.PLAIN, initiator=tasks.ADA).id
    assert tasks.value(database, "select array_agg(id) from tasks") == [kept]


def test_the_size_and_the_limit_are_in_the_error(database: Database) -> None:
    limit = load().params_bytes
    fits = limit - len('{"a":""}')
    assert submit(database, params={"a": "x" * fits}).created
    with pytest.raises(PayloadTooLarge, match=f"{limit + 1} bytes, the limit is {limit}"):
        submit(database, params={"a": "x" * (fits + 1)})


STORED: dict[str, Callable[[], dict[str, Any]]] = {
    "a backslash before u0000": lambda: {"a": "\\u0000"},
    "two of them": lambda: {"a": "\\\\u0000 \\u0000"},
    "a whole pair": lambda: {"a": "\U0001f680"},
    "control characters": lambda: {"a": "\x01\x1f\x7f"},
    "a large number": lambda: {"a": 10**400, "b": -1.5, "c": None},
}


@pytest.mark.parametrize("case", STORED)
def test_what_can_be_stored_comes_back_as_it_was(database: Database, session: HotSession, case: str) -> None:
    params = STORED[case]()
    got = tasks.claimed(session, submit(database, params=params).id)
    assert got.params is not None
    assert tasks.Anything.model_validate_json(got.params).model_dump() == params


@pytest.mark.parametrize("key", ["k", "é" * 127 + "x", "x" * 255, " "])
def test_a_key_may_have_1_to_255_bytes(database: Database, key: str) -> None:
    made = submit(database, key=key, submitter="s" * 255)
    assert submit(database, key=key, submitter="s" * 255) == Submitted(made.id, created=False)


@pytest.mark.parametrize("options", [{"queue": ""}, {"queue": "x" * 201}, {"queue": "a b"}, {"run_limit": 0.0}])
def test_a_kind_that_the_database_would_refuse_is_refused_when_declared(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidKind):
        KindSpec("store.wrong", **options)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 3600.5, 1e300, "5", True])
@pytest.mark.parametrize("name", ["stop_within", "drain"])
def test_a_kinds_patience_is_0_to_an_hour(name: str, seconds: Any) -> None:
    with pytest.raises(InvalidKind, match=rf"^kind store\.wrong: {name} must be 0 to 3600 seconds$"):
        KindSpec("store.wrong", **{name: seconds})
    assert getattr(KindSpec("store.right", **{name: 3600}), name) == 3600


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e300, "5"])
def test_a_run_limit_is_seconds_above_0(seconds: Any) -> None:
    with pytest.raises(InvalidKind, match=r"^kind store\.wrong: run_limit must be seconds above 0"):
        KindSpec("store.wrong", run_limit=seconds)


@pytest.mark.parametrize(
    "name, wrong",
    [(name, one) for name in ("initial", "ceiling") for one in (-1, float("nan"), float("inf"), 2_592_000.5, "5")]
    + [("factor", one) for one in (0, -2.0, float("nan"), float("inf"), 1000.5, "2")],
)
def test_a_retry_policy_that_could_not_be_counted_with_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidKind, match=rf"^retry policy: {name} must be "):
        RetryPolicy(**{name: wrong})


def test_the_steepest_retry_policy_still_has_a_delay() -> None:
    steep = RetryPolicy(initial=2_592_000, factor=1000, ceiling=2_592_000, jitter=False)
    assert {steep.delay(failures) for failures in (1, 64, 10_000)} == {2_592_000}


@pytest.mark.parametrize("ended", [True, False])
def test_a_task_joins_no_activity_that_could_not_record_it(database: Database, ended: bool) -> None:
    """One that has ended, or that there is not. Who asks again under the same key gets the task that joined in time."""
    first = submit(database)
    joined = submit(database, activity=first.id, key="k")
    activity, said = (first.id, "has ended as failed") if ended else (uuid4(), "no activity")
    tasks.run_sql(database, "update activities set status = 'failed', ended_at = clock_timestamp()")
    before = snapshot(database)
    with database.engine.begin() as connection:
        with pytest.raises(Refused, match=said):
            client.submit(connection, tasks.PLAIN, initiator=tasks.ADA, activity=activity)
        with pytest.raises(Refused, match=said):
            client.submit_many(
                connection, tasks.PLAIN, [client.Item(None, "k"), None], initiator=tasks.ADA, activity=activity
            )
    assert changed(before, snapshot(database)) == []
    assert submit(database, activity=activity, key="k").id == joined.id


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59+00:00"])
def test_a_time_that_could_not_be_read_back_is_refused(database: Database, at: str) -> None:
    time = datetime.fromisoformat(at)
    for option in ("at", "deadline", "start_by"):
        with pytest.raises(UsageError, match="between the years 1970 and 9998"):
            submit(database, tasks.PLAIN, **{option: time})
    assert tasks.value(database, "select count(*) from tasks") == 0
