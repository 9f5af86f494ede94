"""Submitters that roll back and are killed at random: what was committed runs once, what was not never existed."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection

import pytest
from sqlalchemy import text

from tenure.model.kinds import kind
from tests.support.databases import Database
from tests.support.forks import Child, forked
from tests.support.kinds.count import COUNT, Count, count
from tests.support.submitted import Tasks, scaled
from tests.support.submitters import NAME, TABLE, submitter
from tests.support.until import until
from tests.support.workers import Worker

SUBMISSIONS = scaled(500, 10_000)
SUBMITTERS = 3
OLD_NAME = kind("tests.tally", params=Count, queue=COUNT.queue)(count.body)
LIFE_S = (0.05, scaled(1, 3))

_DIFFERENT = """(select task_id from submissions except all select id from tasks)
    union all (select id from tasks except all select task_id from submissions)"""
_NOT_ONCE = """select id, state, attempt from tasks k where not (state = 'succeeded' and attempt = 1
    and (select array_agg(verb order by created_at, id) from task_events e where e.task_id = k.id)
        = array['submit','claim','succeed']
    and (select array_agg(how) from task_attempts a where a.task_id = k.id) = array['succeeded'])"""
_NOBODYS = """select 'params' from task_params union all select 'leases' from task_leases
    union all select 'activities' from activities a where not exists (select 1 from tasks k where k.id = a.task_id)
    union all select 'history' from task_events e where not exists (select 1 from tasks k where k.id = e.task_id)"""


class Crowd:
    """Submitters that are killed after a random life, each followed by another."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._chance = random.Random(20)
        self.lives = 0

    def run_until(self, tasks: Tasks, noted: int) -> None:
        while tasks.one("select count(*) from submissions") < noted:
            with ExitStack() as stack:
                children = [stack.enter_context(forked(self._body())) for _ in range(SUBMITTERS)]
                for child in children:
                    self._let_live(child)

    def _body(self) -> Callable[[Connection], None]:
        self.lives += 1
        return submitter(self._database.url, count, seed=self.lives)

    def _let_live(self, child: Child) -> None:
        assert child.hear() == "connected"
        time.sleep(self._chance.uniform(*LIFE_S))
        child.kill()


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, queues=COUNT.queue) as made:
        yield made.wait_ready()


def test_a_worker_runs_what_was_submitted_under_a_name_the_kind_had_before(tasks: Tasks, worker: Worker) -> None:
    ids = tasks.submit(OLD_NAME, 3, rows=2)
    tasks.wait_ended(ids, 30, watch=[worker])
    assert tasks.states(ids) == {"succeeded": 3}
    for table in ("task_events", "task_attempts", "activities", "tasks"):  # the next test counts all there are
        tasks.rows(f"delete from {table} where true returning 1")


@pytest.mark.timeout(900)
def test_what_was_committed_runs_once_and_what_was_not_never_existed(
    module_database: Database, tasks: Tasks, worker: Worker
) -> None:
    with module_database.engine.begin() as connection:
        connection.execute(text(TABLE))
    crowd = Crowd(module_database)
    crowd.run_until(tasks, SUBMISSIONS)
    assert crowd.lives >= SUBMITTERS
    # The server may be in the commit of one that was killed: that, too, is a commit.
    until(lambda: not tasks.rows("select 1 from pg_stat_activity where application_name = :name", name=NAME))
    ids = [row[0] for row in tasks.rows("select task_id from submissions")]
    tasks.wait_ended(ids, scaled(60, 300), watch=[worker])
    assert tasks.rows(_DIFFERENT) == []
    assert tasks.rows(_NOT_ONCE) == []
    assert tasks.rows(_NOBODYS) == []
    assert len(ids) >= SUBMISSIONS
