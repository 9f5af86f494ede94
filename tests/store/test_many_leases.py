"""Recovery among many live leases, and two sweepers that want the same ones."""

import random
import time
from collections.abc import Callable
from uuid import UUID

import pytest
from pydantic import SecretStr

from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store.hot import HotSession, RunOn
from tests.support import tasks
from tests.support.databases import Database
from tests.support.threads import together

STALE = 5


@pytest.fixture
def make_reaper(database: Database) -> Callable[[], Reaper]:
    return lambda: Reaper(Settings(database_url=SecretStr(database.url)))


def leases(database: Database, session: HotSession, count: int) -> list[UUID]:
    ids = tasks.submit_many(database, count)
    while session.claim_next(RunOn("default", [tasks.PLAIN.name], 500)):
        pass
    return ids


def test_five_stale_leases_among_20000_live_ones_are_recovered_in_one_sweep(
    database: Database,
    session: HotSession,
    make_reaper: Callable[[], Reaper],
    record_property: Callable[[str, object], None],
) -> None:
    ids = leases(database, session, tasks.scale(20_000, 2_000) + STALE)
    stale = random.Random(5).sample(ids, STALE)
    tasks.expire_lease(database, *stale)
    reaper = make_reaper()
    began = time.monotonic()
    reaper.run_once()
    record_property("sweep_seconds", round(time.monotonic() - began, 3))
    assert time.monotonic() - began < 1.0
    reaper.close()
    queued = tasks.value(database, "select array_agg(id) from tasks where state = 'queued'")
    assert sorted(queued) == sorted(stale)
    assert tasks.value(database, "select count(*) from task_leases") == len(ids) - STALE


def test_of_two_sweepers_and_two_claimers_there_is_never_a_second_owner_and_tokens_rise(
    database: Database, make_reaper: Callable[[], Reaper]
) -> None:
    one, two = make_reaper(), make_reaper()
    task_id = tasks.submit(database)
    tokens, rounds = [], tasks.scale(1000, 60)
    with tasks.worker(database, pid=1) as first, tasks.worker(database, pid=2) as second:
        for _ in range(rounds):
            won = [got for got in together(lambda: first.claim(task_id), lambda: second.claim(task_id)) if got]
            assert len(won) == 1
            tokens.append(won[0].lease.token)
            tasks.expire_lease(database, task_id)
            together(one.run_once, two.run_once)
            assert tasks.state(database, task_id) == "queued"
            tasks.run_sql(database, "update tasks set crashes = 0 where id = :id", id=task_id)
    one.close()
    two.close()
    assert tokens == sorted(set(tokens))
    assert tasks.value(database, "select count(*) from task_attempts where how = 'lost'") == rounds
    assert tasks.value(database, "select count(*) from task_events where verb = 'recover'") == rounds
