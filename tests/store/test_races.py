"""Two at once for the same task: one gets it, and nothing is lost between them."""

import time
from uuid import uuid4

import pytest

from tenure import client
from tenure.model.errors import TooLate
from tenure.model.records import Claimed
from tenure.model.states import State
from tenure.store.hot import HotSession, RunOn
from tests.support import tasks
from tests.support.databases import Database
from tests.support.threads import race

EACH_LEASE_ONCE = "select count(*) = count(distinct task_id) and count(*) = count(distinct token) from task_leases"


def _claimed_once(rounds: list[tuple[Claimed | None, ...]]) -> list[int]:
    """The tokens, after a look that every round had one winner."""
    winners = [[one for one in answers if one is not None] for answers in rounds]
    assert {len(won) for won in winners} == {1}
    return [won[0].lease.token for won in winners]


def test_of_two_workers_racing_for_a_task_one_claims_it_and_tokens_rise(database: Database) -> None:
    ids = tasks.submit_many(database, tasks.scale(1000, 100))
    with tasks.worker(database, pid=1) as one, tasks.worker(database, pid=2) as two:
        rounds = race(len(ids), lambda i: one.claim(ids[i]), lambda i: two.claim(ids[i]))
    tokens = _claimed_once(rounds)
    assert tokens == sorted(set(tokens))
    assert tasks.value(database, EACH_LEASE_ONCE)
    assert tasks.value(database, "select count(*) from task_events where verb = 'claim'") == len(ids)
    assert tasks.value(database, "select array_agg(distinct attempt) from tasks") == [1]


def test_tokens_of_one_task_rise_over_hand_backs(database: Database) -> None:
    task_id = tasks.submit(database)
    count = tasks.scale(300, 40)
    with tasks.worker(database, pid=1) as one, tasks.worker(database, pid=2) as two:

        def turn(session: HotSession) -> int:
            got = session.claim(task_id)
            if got is not None:
                assert session.release(got.lease)
            return got.lease.token if got else 0

        race(count, lambda _: turn(one), lambda _: turn(two))
    ordered = "select array_agg(token order by created_at, id) from task_events where verb = 'claim'"
    tokens = tasks.value(database, ordered)
    assert len(tokens) >= count
    assert tokens == sorted(set(tokens))


def test_two_workers_running_on_share_the_hints_without_waiting(database: Database) -> None:
    ids = tasks.submit_many(database, 60, tasks.ONCE)
    first = tasks.submit_many(database, 2)
    with tasks.worker(database, pid=1) as one, tasks.worker(database, pid=2) as two:

        def drain(session: HotSession, start: int) -> list[str]:
            held, ran = [tasks.claimed(session, first[start])], []
            while held:
                ran += [str(c.lease.task_id) for c in held]
                accepted, held = session.end(
                    [c.lease for c in held], tasks.SUCCEEDED, run_on=RunOn("default", [tasks.ONCE.name], 2)
                )
                assert accepted
            return ran

        ((ran_one, ran_two),) = race(1, lambda _: drain(one, 0), lambda _: drain(two, 1))
        left = one.claim_next(RunOn("default", [tasks.ONCE.name], 8))
    ran = ran_one + ran_two + [str(c.lease.task_id) for c in left]
    assert sorted(ran) == sorted(str(i) for i in ids + first)


def test_a_cancel_that_races_a_claim_is_never_lost(database: Database, session: HotSession) -> None:
    ids = tasks.submit_many(database, tasks.scale(1000, 200))

    def claim(number: int) -> bool:
        time.sleep(0.002 * (number % 3))  # so that each wins some
        return session.claim(ids[number]) is not None

    rounds = race(len(ids), claim, lambda i: tasks.cancel(database, ids[i]))
    asked = set(tasks.value(database, "select coalesce(array_agg(task_id), '{}') from task_stops"))
    seen = []
    for task_id, (won, answered) in zip(ids, rounds, strict=True):
        now = tasks.state(database, task_id)
        seen.append(now)
        if won:
            assert (now, answered, task_id in asked) == (State.RUNNING, State.RUNNING, True)
        else:
            assert (now, answered, task_id in asked) == (State.CANCELLED, State.CANCELLED, False)
    assert len(set(seen)) == 2, "no race was decided the other way"


def test_a_cancel_that_races_the_end_leads_to_one_of_the_two(database: Database, session: HotSession) -> None:
    ids = tasks.submit_many(database, tasks.scale(500, 100))
    held = [tasks.claimed(session, task_id).lease for task_id in ids]

    def cancel(number: int) -> str:
        try:
            return tasks.cancel(database, ids[number])
        except TooLate:
            return "too late"

    rounds = race(len(ids), lambda i: tasks.ends(session, held[i], tasks.SUCCEEDED), cancel)
    assert all(ended for ended, _ in rounds), "a cancel of an active task must not touch its row"
    assert {answer for _, answer in rounds} <= {"too late", State.RUNNING}
    assert tasks.value(database, "select array_agg(distinct state) from tasks") == [State.SUCCEEDED]
    ends = "select count(*) from task_events where verb in ('succeed', 'acknowledge_cancel')"
    assert tasks.value(database, ends) == len(ids)


def test_a_success_and_an_acknowledged_cancel_are_never_both(database: Database, session: HotSession) -> None:
    """The same lease, told twice: what a lost answer and a second try come to."""
    ids = tasks.submit_many(database, 60)
    held = [tasks.claimed(session, task_id).lease for task_id in ids]
    with tasks.worker(database, boot=session.holder.worker) as second:
        rounds = race(
            len(ids),
            lambda i: tasks.ends(session, held[i], tasks.SUCCEEDED),
            lambda i: tasks.ends(second, held[i], tasks.CANCELLED),
        )
    assert all(one != two for one, two in rounds)
    assert tasks.value(database, "select count(*) from task_attempts") == len(ids)


def test_an_open_cancel_holds_up_no_finish(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    lease = tasks.claimed(session, task_id).lease
    with database.engine.begin() as connection:
        assert client.cancel(connection, task_id, initiator=tasks.ADA) == State.RUNNING
        assert tasks.ends(session, lease, tasks.SUCCEEDED)  # would fail with lock_timeout after a second
    assert tasks.state(database, task_id) == State.SUCCEEDED


def test_two_open_cancels_of_a_running_task_do_not_wait_for_each_other(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    tasks.claimed(session, task_id)
    with database.engine.begin() as one, database.engine.begin() as two:
        for connection in (one, two):
            tasks.bounded(connection)
            assert client.cancel(connection, task_id, initiator=tasks.ADA) == State.RUNNING
    assert tasks.value(database, "select count(*) from task_stops") == 2


@pytest.mark.parametrize("claimer", ["by id", "by hint"])
def test_a_claim_waits_for_no_open_cancel_of_another_task(
    database: Database, session: HotSession, claimer: str
) -> None:
    other, wanted = tasks.submit_many(database, 2)
    with database.engine.begin() as connection:
        client.cancel(connection, other, initiator=tasks.ADA)
        got = (
            [session.claim(wanted)] if claimer == "by id" else session.claim_next(RunOn("default", [tasks.PLAIN.name]))
        )
        assert [one and one.lease.task_id for one in got] == [wanted]


def test_an_unknown_id_is_claimed_by_nobody(session: HotSession, database: Database) -> None:
    assert session.claim(uuid4()) is None
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_a_task_held_by_an_open_cancel_is_not_claimed_at_once_and_its_hint_goes_back(
    database: Database, session: HotSession
) -> None:
    held, free = tasks.submit(database), tasks.submit(database)
    tasks.run_sql(database, "delete from task_hints")
    with database.engine.connect() as connection, connection.begin() as caller:
        client.cancel(connection, held, initiator=tasks.ADA)
        began = time.monotonic()
        assert session.claim(held) is None
        assert time.monotonic() - began < 0.5, "a slot waits for nobody's transaction"
        assert tasks.value(database, "select task_id from task_hints") == held
        assert tasks.value(database, "select not_before > clock_timestamp() + interval '0.5 s' from task_hints")
        assert session.claim(free) is not None
        caller.rollback()
    assert session.claim(held) is not None, "the cancel was taken back"


def test_a_task_whose_open_cancel_commits_is_refused_and_leaves_no_hint(
    database: Database, session: HotSession
) -> None:
    task_id = tasks.submit(database)
    tasks.run_sql(database, "delete from task_hints")
    with database.engine.begin() as connection:
        client.cancel(connection, task_id, initiator=tasks.ADA)
        assert session.claim(task_id) is None
    tasks.run_sql(database, "delete from task_hints")
    assert session.claim(task_id) is None
    assert tasks.state(database, task_id) == "cancelled"
    assert tasks.value(database, "select count(*) from task_hints") == 0


def test_a_message_for_an_ended_or_running_task_locks_no_row(database: Database, session: HotSession) -> None:
    lease = tasks.claimed(session, tasks.submit(database)).lease
    before = tasks.value(database, "select xmax::text from tasks")
    assert session.claim(lease.task_id) is None
    assert tasks.value(database, "select xmax::text from tasks") == before
    assert tasks.ends(session, lease, tasks.SUCCEEDED)
