"""Many claims at the same moment: a limit is never passed by one, whichever way they come."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tenure.store.hot import HotSession, RunOn
from tests.store.test_rules import ANY, limit
from tests.support import tasks
from tests.support.databases import Database
from tests.support.overlaps import beside_exclusive, most
from tests.support.tasks import ONCE, PLAIN
from tests.support.threads import race, together

SESSIONS = 10
LIVE = "select count(*) from task_leases"


@pytest.fixture(scope="module")
def crowd(store_database: Database) -> Iterator[list[HotSession]]:
    with ExitStack() as stack:
        yield [stack.enter_context(tasks.worker(store_database, pid=n + 1)) for n in range(SESSIONS)]


@pytest.mark.parametrize(
    ("what", "name"), [("global", ""), ("kind", PLAIN.name), ("scope", "ldap"), ("each scope", PLAIN.name)]
)
def test_of_500_concurrent_claims_no_more_win_than_the_limit(
    database: Database, crowd: list[HotSession], what: str, name: str
) -> None:
    rounds = tasks.scale(50, 50) if what == "kind" else tasks.scale(50, 12)
    limit(database, what, name, 3)
    ids = tasks.submit_many(database, rounds * SESSIONS, scope="ldap")
    held: list[int] = []

    def clear(number: int) -> None:
        """Between two rounds: count, and end what runs."""
        held.append(tasks.value(database, LIVE))
        for session in crowd:
            if leases := session.held():
                session.end(leases, tasks.SUCCEEDED)

    for number in range(rounds):
        mine = ids[number * SESSIONS : (number + 1) * SESSIONS]
        together(*(lambda s=s, t=t: s.claim(t) for s, t in zip(crowd, mine, strict=True)))  # type: ignore[misc]
        clear(number)
    assert max(held) <= 3
    assert min(held) >= 1, "somebody always gets the lock"
    assert most(database.engine, "")[""] <= 3


def _work_off(database: Database, crowd: list[HotSession]) -> None:
    """All sessions run on until nothing is queued: claims by hint, and ends that claim the next."""

    def run(session: HotSession) -> Callable[[], None]:
        def loop() -> None:
            while tasks.value(database, "select exists (select 1 from tasks where state = 'queued')"):
                got = session.claim_next(ANY)
                while got:
                    _, got = session.end([one.lease for one in got], tasks.SUCCEEDED, run_on=ANY)

        return loop

    together(*(run(session) for session in crowd))


def test_running_on_keeps_to_every_limit_at_once(database: Database, crowd: list[HotSession]) -> None:
    limit(database, "global", "", 6)
    limit(database, "kind", PLAIN.name, 3)
    limit(database, "scope", "ldap", 2)
    limit(database, "each scope", ONCE.name, 1)
    count = tasks.scale(250, 60)
    for spec, scope in ((PLAIN, None), (PLAIN, "ldap"), (ONCE, "ldap"), (ONCE, "mail"), (ONCE, None)):
        tasks.submit_many(database, count, spec, scope=scope)
    _work_off(database, crowd[:6])
    assert tasks.value(database, "select count(*) from tasks where state = 'succeeded'") == 5 * count
    assert most(database.engine, "")[""] <= 6
    assert most(database.engine, "kind")[PLAIN.name] <= 3
    scopes = most(database.engine, "scope", "scope is not null")
    assert scopes["ldap"] <= 2
    assert scopes["mail"] == 1


def test_nothing_ever_runs_beside_an_exclusive_task(database: Database, crowd: list[HotSession]) -> None:
    count = tasks.scale(60, 12)
    options: list[dict[str, Any]] = [
        {"exclusive": True}, {"exclusive": True, "scope": "ldap"}, {"scope": "ldap"}, {"scope": "mail"}, {}, {},
    ]  # fmt: skip
    for number in range(count):
        for one in options[number % 2 :]:
            tasks.submit(database, **one)
    queued = tasks.value(database, "select count(*) from tasks")
    _work_off(database, crowd[:4])
    assert tasks.value(database, "select count(*) from tasks where state = 'succeeded'") == queued
    assert beside_exclusive(database.engine) == 0


def test_exclusive_and_other_claims_that_meet_never_both_win(database: Database, crowd: list[HotSession]) -> None:
    rounds = tasks.scale(300, 60)
    alone = tasks.submit_many(database, rounds, exclusive=True)
    others = tasks.submit_many(database, rounds)
    one, two = crowd[:2]

    def claim(session: HotSession, ids: list[Any]) -> Callable[[int], bool]:
        def act(number: int) -> bool:
            for lease in session.held():
                tasks.ends(session, lease, tasks.SUCCEEDED)
            # The turn of one that is not tried again would keep the others waiting.
            tasks.run_sql(database, "delete from exclusive_turns")
            return session.claim(ids[number]) is not None

        return act

    race(rounds, claim(one, alone), claim(two, others))
    assert beside_exclusive(database.engine) == 0
    assert tasks.value(database, "select count(*) from task_attempts") > rounds / 2


def test_a_session_that_asks_for_eight_passes_no_limit(database: Database, crowd: list[HotSession]) -> None:
    limit(database, "kind", PLAIN.name, 3)
    tasks.submit_many(database, 100)
    eight = RunOn("default", ANY.kinds, 8)
    for _ in range(5):
        together(*(lambda s=s: s.claim_next(eight) for s in crowd))  # type: ignore[misc]
    assert 1 <= tasks.value(database, LIVE) <= 3
