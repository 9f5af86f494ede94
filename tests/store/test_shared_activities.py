"""An activity that several tasks share ends with the last of them."""

from uuid import UUID

import pytest

from tenure.store.hot import HotSession
from tests.support import tasks
from tests.support.databases import Database
from tests.support.threads import race


def status(database: Database, activity: UUID) -> str:
    return str(tasks.value(database, "select status from activities where id = :id", id=activity))


@pytest.mark.parametrize("owner_first", [True, False])
def test_a_shared_activity_stays_open_until_its_last_task_ends(
    database: Database, session: HotSession, owner_first: bool
) -> None:
    first = tasks.submit(database)
    second, third = (tasks.submit(database, activity=first) for _ in range(2))
    order = [first, second, third] if owner_first else [third, second, first]
    for task_id in order[:2]:
        assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
        assert status(database, first) == "in_progress"
    assert tasks.ends(session, tasks.claimed(session, order[2]).lease, tasks.FAILED)
    assert status(database, first) == "failed"


def test_tasks_of_one_activity_that_end_in_one_statement_end_it(database: Database, session: HotSession) -> None:
    first = tasks.submit(database)
    second = tasks.submit(database, activity=first)
    held = [tasks.claimed(session, task_id).lease for task_id in (first, second)]
    accepted, _ = session.end(held, tasks.SUCCEEDED)
    assert (len(accepted), status(database, first)) == (2, "complete")


def test_a_cancelled_task_leaves_the_activity_to_the_one_that_runs(database: Database, session: HotSession) -> None:
    first = tasks.submit(database)
    lease = tasks.claimed(session, tasks.submit(database, activity=first)).lease
    tasks.cancel(database, first)
    assert status(database, first) == "in_progress"
    assert tasks.ends(session, lease, tasks.SUCCEEDED)
    assert status(database, first) == "complete"


def test_of_two_last_tasks_that_end_at_once_one_ends_the_activity(database: Database) -> None:
    with tasks.worker(database, pid=1) as one, tasks.worker(database, pid=2) as two:
        pairs = []
        for _ in range(tasks.scale(300, 40)):
            first = tasks.submit(database)
            second = tasks.submit(database, activity=first)
            pairs.append((tasks.claimed(one, first).lease, tasks.claimed(two, second).lease))
        answers = race(
            len(pairs),
            lambda i: tasks.ends(one, pairs[i][0], tasks.SUCCEEDED),
            lambda i: tasks.ends(two, pairs[i][1], tasks.SUCCEEDED),
        )
    assert set(answers) == {(True, True)}
    assert tasks.value(database, "select array_agg(distinct status) from activities") == ["complete"]


@pytest.mark.parametrize("failed_first", [True, False])
def test_it_is_failed_if_one_of_its_tasks_failed_and_says_why(
    database: Database, session: HotSession, failed_first: bool
) -> None:
    first = tasks.submit(database)
    second = tasks.submit(database, activity=first)
    ends = [tasks.FAILED, tasks.SUCCEEDED] if failed_first else [tasks.SUCCEEDED, tasks.FAILED]
    for task_id, how in zip((first, second), ends, strict=True):
        assert tasks.ends(session, tasks.claimed(session, task_id).lease, how)
    row = tasks.value(database, "select array[status, message] from activities")
    assert row == ["failed", "it broke"]


def test_it_is_cancelled_only_if_all_its_tasks_were(database: Database, session: HotSession) -> None:
    first = tasks.submit(database)
    others = [tasks.submit(database, activity=first) for _ in range(2)]
    assert tasks.ends(session, tasks.claimed(session, others[0]).lease, tasks.SUCCEEDED)
    tasks.cancel(database, first)
    tasks.cancel(database, others[1])
    assert tasks.value(database, "select array[status, (executed_at is not null)::text] from activities") == [
        "complete",
        "true",
    ]
    alone = tasks.submit(database)
    other = tasks.submit(database, activity=alone)
    tasks.cancel(database, other)
    tasks.cancel(database, alone)
    assert status(database, alone) == "cancelled"
