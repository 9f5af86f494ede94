"""Limits, scopes, exclusiveness: decided in the claim's predicate, exactly, and waited for by nobody."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure.store import limits
from tenure.store.hot import HotSession, RunOn
from tenure.store.transitions.claim import CLAIM
from tests.support import tasks
from tests.support.databases import Database
from tests.support.tasks import KINDS, ONCE, PLAIN
from tests.support.threads import together
from tests.support.until import until

ANY = RunOn("default", [spec.name for spec in KINDS])


def limit(database: Database, what: Any, name: str, at_most: int) -> None:
    with database.engine.begin() as connection:
        limits.put(connection, what, name, at_most, by="ada")


def refusal(database: Database, task_id: UUID) -> str | None:
    query = "select claim_refusal(id, kind, queue, scope, exclusive, false) from tasks where id = :id"
    answer: str | None = tasks.value(database, query, id=task_id)
    return answer


def message(database: Database, session: HotSession, task_id: UUID) -> bool:
    """Claim by a message, which took the task's hint with it."""
    tasks.run_sql(database, "delete from task_hints where task_id = :id", id=task_id)
    return session.claim(task_id) is not None


def end(session: HotSession, task_id: UUID) -> None:
    lease = next(one for one in session.held() if one.task_id == task_id)
    assert tasks.ends(session, lease, tasks.SUCCEEDED)


@pytest.mark.parametrize(
    ("what", "name", "options", "said"),
    [
        ("global", "", {}, "global_full"),
        ("kind", PLAIN.name, {}, "kind_full"),
        ("scope", "ldap", {"scope": "ldap"}, "scope_full"),
        ("each scope", PLAIN.name, {"scope": "ldap"}, "scope_full"),
    ],
)
def test_a_full_limit_refuses_until_one_ends(
    database: Database, session: HotSession, what: str, name: str, options: dict[str, Any], said: str
) -> None:
    limit(database, what, name, 2)
    first, second, third = (tasks.submit(database, **options) for _ in range(3))
    assert session.claim(first)
    assert session.claim(second)
    assert not message(database, session, third)
    assert refusal(database, third) == said
    assert tasks.value(database, "select not_before from task_hints where task_id = :id", id=third) is not None
    end(session, first)
    assert session.claim(third)


def test_what_a_limit_does_not_name_runs_beside_it(database: Database, session: HotSession) -> None:
    limit(database, "kind", PLAIN.name, 1)
    limit(database, "scope", "ldap", 1)
    limit(database, "each scope", ONCE.name, 1)
    assert session.claim(tasks.submit(database))
    assert session.claim(tasks.submit(database, ONCE))
    assert session.claim(tasks.submit(database, ONCE, scope="ldap"))
    assert session.claim(tasks.submit(database, ONCE, scope="mail"))
    assert session.claim(tasks.submit(database, ONCE, scope="dns"))
    assert session.claim(tasks.submit(database, ONCE, scope="dns")) is None


def test_a_scopes_own_limit_goes_before_that_of_each_scope(database: Database, session: HotSession) -> None:
    limit(database, "each scope", PLAIN.name, 1)
    limit(database, "scope", "wide", 2)
    assert all(session.claim(tasks.submit(database, scope="wide")) for _ in range(2))
    assert session.claim(tasks.submit(database, scope="wide")) is None


def test_an_expired_lease_frees_its_place_and_a_cancelling_one_does_not(
    database: Database, session: HotSession
) -> None:
    limit(database, "kind", PLAIN.name, 1)
    running, waiting = tasks.submit(database), tasks.submit(database)
    assert session.claim(running)
    tasks.cancel(database, running)
    assert session.claim(waiting) is None
    tasks.expire_lease(database, running)
    assert session.claim(waiting)


def test_a_claim_that_is_not_committed_yet_counts_and_is_not_waited_for(
    database: Database, session: HotSession
) -> None:
    limit(database, "kind", PLAIN.name, 1)
    first, second = tasks.submit(database), tasks.submit(database)
    values = {"id": first, "kinds": [PLAIN.name], "worker": UUID(int=7), "pid": 7, "lease_seconds": 30.0}
    with database.engine.connect() as other, other.begin():
        assert other.execute(text(CLAIM), values).first()
        began = time.monotonic()
        assert not message(database, session, second)
        assert time.monotonic() - began < 0.5
        soon = "select not_before < clock_timestamp() + interval '60 ms' from task_hints where task_id = :id"
        assert tasks.value(database, soon, id=second), "a contended lock is tried again almost at once"
    assert session.claim(second) is None
    assert refusal(database, second) == "kind_full"


def test_a_claim_counts_what_was_committed_after_its_own_snapshot(database: Database) -> None:
    """A statement sees the database as it was at its start; the count must not."""
    limit(database, "kind", PLAIN.name, 1)
    first, second = tasks.submit(database), tasks.submit(database)
    slow = CLAIM.replace("kind || '' = any(:kinds)", "pg_sleep(:pause) is not null and kind || '' = any(:kinds)")
    values = {"kinds": [PLAIN.name], "pid": 7, "lease_seconds": 30.0}

    def late() -> bool:
        with database.engine.begin() as connection:
            got = connection.execute(text(slow), {**values, "id": second, "worker": UUID(int=1), "pause": 0.3}).first()
            return got is not None

    def early() -> bool:
        sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
        until(lambda: tasks.value(database, sleeping) == 1, 5)
        with database.engine.begin() as connection:
            claim = {**values, "id": first, "worker": UUID(int=2)}
            return connection.execute(text(CLAIM), claim).first() is not None

    assert together(late, early) == [False, True]


def test_the_end_of_a_limited_task_claims_the_next_of_the_same_limit(database: Database, session: HotSession) -> None:
    limit(database, "kind", PLAIN.name, 1)
    first, second = tasks.submit(database), tasks.submit(database)
    lease = tasks.claimed(session, first).lease
    tasks.run_sql(database, "delete from task_hints where task_id = :id", id=first)
    _, got = session.end([lease], tasks.SUCCEEDED, run_on=ANY)
    assert [one.lease.task_id for one in got] == [second]


@pytest.mark.parametrize("what, name", [("kind", PLAIN.name), ("scope", "ldap"), ("each scope", PLAIN.name)])
def test_hints_without_room_are_passed_over_and_stay_as_they_are(
    database: Database, session: HotSession, what: str, name: str
) -> None:
    limit(database, what, name, 1)
    assert session.claim(tasks.submit(database, scope="ldap"))
    tasks.submit_many(database, 5, scope="ldap", priority=9)
    free = tasks.submit(database, ONCE)
    before = tasks.value(database, "select array_agg(id order by id) from task_hints where priority = 9")
    assert [one.lease.task_id for one in session.claim_next(ANY)] == [free]
    assert tasks.value(database, "select array_agg(id order by id) from task_hints where priority = 9") == before


def test_where_a_limit_may_count_them_one_is_taken_at_a_time(database: Database, session: HotSession) -> None:
    tasks.submit_many(database, 20)
    assert len(session.claim_next(RunOn("default", ANY.kinds, 8))) == 8
    limit(database, "kind", "another", 1)
    assert len(session.claim_next(RunOn("default", ANY.kinds, 8))) == 8
    tasks.submit_many(database, 20)
    limit(database, "kind", PLAIN.name, 18)
    assert [len(session.claim_next(RunOn("default", ANY.kinds, 8))) for _ in range(4)] == [1, 1, 0, 0]


def test_exclusive_tasks_are_never_part_of_a_batch(database: Database, session: HotSession) -> None:
    alone = tasks.submit(database, exclusive=True, priority=9)
    others = tasks.submit_many(database, 3)
    got = {one.lease.task_id for one in session.claim_next(RunOn("default", ANY.kinds, 8))}
    assert got == set(others)
    assert tasks.state(database, alone) == "queued"
    assert tasks.value(database, "select count(*) from task_hints where task_id = :id", id=alone) == 1


@pytest.mark.parametrize(
    ("scope", "beside", "runs"),
    [("ldap", "ldap", False), ("ldap", "mail", True), ("ldap", None, True), (None, "ldap", False), (None, None, False)],
)
def test_beside_an_exclusive_task_nothing_runs_in_its_scope(
    database: Database, session: HotSession, scope: str | None, beside: str | None, runs: bool
) -> None:
    alone, other = tasks.submit(database, exclusive=True, scope=scope), tasks.submit(database, scope=beside)
    assert session.claim(alone)
    assert (session.claim(other) is not None) is runs
    assert runs or refusal(database, other) == "exclusive_running"
    end(session, alone)
    if not runs:
        assert session.claim(other)
        again = tasks.submit(database, exclusive=True, scope=scope)
        assert session.claim(again) is None
        assert refusal(database, again) == "not_alone"


def test_an_exclusive_task_that_was_refused_is_next_and_nothing_starts_before_it(
    database: Database, session: HotSession
) -> None:
    running, alone, later = tasks.submit(database), tasks.submit(database, exclusive=True), tasks.submit(database)
    assert session.claim(running)
    assert session.claim(alone) is None
    assert session.claim(later) is None
    assert refusal(database, later) == "exclusive_waiting"
    end(session, running)
    assert session.claim(alone)
    end(session, alone)
    assert session.claim(later), "its turn is over with its claim"


def test_of_two_exclusive_tasks_the_one_refused_first_goes_first(database: Database, session: HotSession) -> None:
    running, first, second = tasks.submit(database), *(tasks.submit(database, exclusive=True) for _ in range(2))
    assert session.claim(running)
    assert session.claim(first) is None
    assert session.claim(second) is None
    end(session, running)
    assert session.claim(second) is None
    assert session.claim(first)


def test_a_turn_that_nobody_asks_for_any_more_lapses(database: Database, session: HotSession) -> None:
    running, alone, later = tasks.submit(database), tasks.submit(database, exclusive=True), tasks.submit(database)
    assert session.claim(running)
    assert session.claim(alone) is None
    tasks.run_sql(database, "update exclusive_turns set until = clock_timestamp() - interval '1 s'")
    assert session.claim(later)


def _paused(database: Database, task_id: UUID) -> None:
    tasks.run_sql(database, "insert into pauses (what, name, paused_by) values ('kind', :k, 'ada')", k=PLAIN.name)


def _limited(database: Database, task_id: UUID) -> None:
    limit(database, "kind", PLAIN.name, 0)


@pytest.mark.parametrize("obstacle", [_paused, _limited])
def test_an_exclusive_task_that_could_not_run_anyway_keeps_nobody_waiting(
    database: Database, session: HotSession, obstacle: Callable[[Database, UUID], None]
) -> None:
    running, alone, other = (
        tasks.submit(database, ONCE),
        tasks.submit(database, exclusive=True),
        tasks.submit(database, ONCE),
    )
    assert session.claim(running)
    obstacle(database, alone)
    assert session.claim(alone) is None
    assert session.claim(other)
