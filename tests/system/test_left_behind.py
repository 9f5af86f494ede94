"""A body's thread leaves without the end of its attempt: its task is settled within two seconds and named, and the next
one is claimed in the same slot."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.kinds.sabotaging import failing, resuming
from tests.support.submitted import Tasks
from tests.support.workers import Worker


@pytest.fixture(scope="module", params=["threads", "prefork"])
def worker(request: pytest.FixtureRequest, module_database: Database, module_broker: str) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, pool=request.param, concurrency=1) as worker:
        yield worker.wait_ready()


def test_it_is_swept_and_named_and_the_slot_goes_on(worker: Worker, tasks: Tasks) -> None:
    before = len(worker.lines("left_behind"))
    (lost,) = tasks.submit(failing, 1)
    (again,) = tasks.submit(resuming, 1)
    after = tasks.submit(ledger, 2, steps=1)
    tasks.wait_ended([lost, again, *after], 20, watch=[worker])
    states = [
        tasks.one("select concat_ws(' ', state, outcome) from tasks where id = :id", id=one) for one in (lost, again)
    ]
    assert states == ["failed worker_lost", "succeeded"]
    tasks.assert_exactly_once(after, 1)
    took = """select max(extract(epoch from r.created_at - c.created_at))::float8 from task_events r
        join task_events c on c.task_id = r.task_id and c.token = r.token and c.verb = 'claim'
        where r.verb = 'recover' and r.task_id in (:lost, :again)"""
    assert tasks.one(took, lost=lost, again=again) < 2.0
    assert tasks.one("select count(*) from task_leases") == 0
    assert tasks.one("select count(*) from activities where status = 'in_progress'") == 0
    said = worker.lines("left_behind")[before:]
    assert {(one["level"], one["task_id"]) for one in said} == {("error", str(lost)), ("error", str(again))}
