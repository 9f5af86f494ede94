"""Occurrences that no beat fired in time, by every policy, and restarts of the only beat."""

from datetime import timedelta

import pytest

from tenure import schedules
from tests.support import schedules as made
from tests.support import tasks
from tests.support.databases import Database

# Down for so long, and how many hourly occurrences that made late; the last of them five minutes ago.
DOWN = {"5 minutes": (timedelta(), 1), "5 hours": (timedelta(hours=5), 6), "5 days": (timedelta(days=5), 121)}
POLICIES = {"skip": lambda late: 0, "once": lambda late: 1, "all": lambda late: min(late, 3)}


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_KINDS", made.STEPS)


@pytest.mark.parametrize(("down", "late"), DOWN.values(), ids=DOWN)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_says_what_is_fired_of_what_came_while_no_beat_ran(
    database: Database, policy: str, down: timedelta, late: int
) -> None:
    made.add(database, every=3600.0, misfire=policy)
    made.let_come(database, ago=down + timedelta(minutes=5))
    first = tasks.value(database, "select next_run_at from schedules")
    made.fire(database)
    fires = POLICIES[policy](late)
    newest = [first + timedelta(hours=number) for number in range(late)][late - fires :]
    started = "select due_at from executions where state <> 'skipped' order by due_at"
    assert [row[0] for row in made.rows(database, started)] == newest
    assert tasks.value(database, "select missed from schedules") == late - fires
    said = [reason for state, reason in made.executions(database) if state == "skipped"]
    assert said == ([f"missed: {late - fires} not fired in time, by the policy {policy}"] if late > fires else [])
    assert tasks.value(database, "select next_run_at from schedules") == first + timedelta(hours=late)
    assert made.fire(database) == len(newest) + len(said), "and nothing twice"


@pytest.mark.parametrize(("down", "late"), DOWN.values(), ids=DOWN)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_came_while_it_was_disabled_is_fired_by_no_policy(
    database: Database, policy: str, down: timedelta, late: int
) -> None:
    options = {"every": 3600.0, "misfire": policy}
    made.add(database, **options)
    for revision, enabled in ((1, False), (2, True)):
        if enabled:  # so long ago it was made
            ago = "update schedules set anchor = anchor - cast(:ago as interval) - interval '5 minutes'"
            tasks.run_sql(database, ago, ago=down)
        with database.engine.begin() as connection:
            wanted = made.spec("nightly", enabled=enabled, **options)
            schedules.change(connection, wanted, revision=revision, initiator=tasks.ADA)
        assert made.fire(database) == 0
    assert tasks.value(database, "select missed from schedules") == 0
    in_step = (
        "select next_run_at - clock_timestamp() between interval '54 minutes' and interval '55 minutes' from schedules"
    )
    assert tasks.value(database, in_step)


def test_several_that_are_caught_up_run_one_after_another_in_their_order(database: Database) -> None:
    made.add(database, every=3600.0, misfire="all", at_most=4, overlap="skip")
    made.let_come(database, ago=timedelta(hours=9, minutes=5))
    made.fire(database)
    states = [state for state, _ in made.executions(database)]
    assert states == ["skipped", "running", "waiting", "waiting", "waiting"]
    assert made.work(database) == 4
    ran = made.rows(database, "select due_at from executions where started_at is not null order by started_at")
    assert len(ran) == 4
    assert ran == sorted(ran)


def test_an_occurrence_in_time_is_fired_under_every_policy(database: Database) -> None:
    for policy in POLICIES:
        made.add(database, policy, every=3600.0, misfire=policy)
        made.let_come(database, policy, ago=timedelta(seconds=30))
    made.fire(database)
    assert made.executions(database) == [("running", None)] * 3


def test_an_interval_longer_than_the_time_between_restarts_fires_on_time_after_30_restarts(database: Database) -> None:
    made.add(database, every=2.5)
    restarts = 0
    while not made.executions(database):
        with made.scheduler(database) as service:
            service.run_once()
        restarts += 1
    assert restarts > 30
    late = "select extract(epoch from created_at - due_at)::float8 from executions"
    assert tasks.value(database, late) < 0.5
