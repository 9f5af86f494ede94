"""A scan that is killed, cancelled, superseded or robbed of its lease at each of its statements: the loser counts for
nothing, what was committed is not done again, and only a scan that succeeded is evidence."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure.model.stops import Cause
from tenure.runtime.hotline import Hotline
from tenure.store.transitions import recover
from tenure_records.errors import ActivationRefused
from tenure_records.schemas import scans
from tenure_records.schemas.evidence import Tally
from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.support.attempt_faults import Point, fault, statements
from tests.support.databases import Database
from tests.support.forks import forked
from tests.support.records import scalar
from tests.support.schemas import activated, asked, proposed, scanned, standing, stored
from tests.support.slot import FULL, Bench
from tests.support.until import until

OBJECTS = 12
# All but one are valid, and that one is in the second of three pages of two batches of two.
FOUND = Tally(OBJECTS, OBJECTS - 1, 1, 0, 0, 0)
NOTHING = Tally(OBJECTS, 0, 0, 0, OBJECTS, 0)
LIVE = "select extract(epoch from expires"


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PAGE_ROWS", 4)


@pytest.fixture
def bench(records: Database) -> Iterator[Bench]:
    stored(records, {f"k{n:02}": {"name": n if n == 5 else "x"} for n in range(OBJECTS)})
    made = Bench(records, records_schema_validation, run_on_tasks=1)
    yield made
    made.close()


def open_scan(records: Database) -> UUID:
    """A new proposal, so no evidence at all, and its scan in the queue."""
    proposed(records)
    return asked(records, batch_rows=2)


def points(records: Database, bench: Bench) -> list[Point]:
    """The statements to fail at: of the second page's transaction and of the last step, and two reads. Of all in full."""
    lines: list[tuple[Point, str]] = []
    task_id = open_scan(records)
    with statements(bench.engine, lambda point, statement: lines.append((point, statement))):
        bench.run(task_id)
    assert (bench.state(task_id), standing(records)) == ("succeeded", FOUND)
    body = [point for point, _ in lines if point.where == "body"]
    begun = [point.number for point, statement in lines if point.where == "body" and statement.startswith(LIVE)]
    assert len(begun) == 4, "three pages and the last step"
    # The body's own last statement is the fence of the last step; the page's statements are all there.
    page = [statement for point, statement in lines if point.where == "body" and begun[1] <= point.number < begun[2]]
    words = ("lock_timeout", "advisory", "schema_evidence", "task_checkpoints", "key share")
    assert [sum(word in one for one in page) for word in words] == [1, 1, 1, 1, 1]
    if FULL:
        return body + [Point("ahead", n) for n in range(1, 8)]
    wanted = [*range(begun[1], begun[2]), *range(begun[3], body[-1].number + 1)]
    return [Point("body", n) for n in wanted] + [Point("ahead", 1), Point("ahead", 4)]


def committed(records: Database, task_id: UUID) -> int:
    """How many objects the task has judged so far; the evidence of its scan is exactly about these."""
    statement = """select (select count(*) from schema_evidence e join schema_scans s on s.id = e.scan_id where s.task_id = :id),
        coalesce((select processed from task_checkpoints where task_id = :id), 0)"""
    with records.engine.connect() as connection:
        rows, processed = connection.execute(text(statement), {"id": task_id}).one()
    assert rows == processed, "evidence and checkpoint commit together"
    return int(rows)


def unpublished(records: Database, task_id: UUID) -> None:
    assert scalar(records, "select published_at from schema_scans where task_id = :id", id=task_id) is None


def recovered(records: Database, bench: Bench, task_id: UUID) -> None:
    """What the reaper does about a silent holder."""
    bench.expire(task_id)
    with records.engine.begin() as connection:
        recover.recover_expired(connection, crash_bound=3)
    assert bench.state(task_id) == "queued"


def goes_on(records: Database, bench: Bench, task_id: UUID) -> None:
    """The next attempt judges the rest, and only the rest; then all of it counts."""
    before = committed(records, task_id)
    unpublished(records, task_id)
    assert standing(records) == NOTHING
    old = scalar(records, "select coalesce(max(token), 0) from schema_evidence")
    assert bench.run(task_id) == 1
    done = bench.get(task_id)
    assert (done["state"], done["counters"]["processed"], done["result"]["judged"]) == ("succeeded", OBJECTS, OBJECTS)
    assert standing(records) == FOUND
    assert scalar(records, "select count(*) from schema_evidence where schema_id = (select max(id) from schema_revisions) "
                           "and token > :old", old=old) == OBJECTS - before  # fmt: skip


def killed(database: Database, task_id: UUID, strike: Callable[[Database, Bench], Any]) -> None:
    """Run the task in a child that `strike` kills."""

    def child(line: Any) -> None:
        database.engine.dispose(close=False)
        bench = Bench(database, records_schema_validation)
        with strike(database, bench):
            bench.run(task_id)
        line.send("survived")

    with forked(child) as running:
        assert running.end() == -signal.SIGKILL


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_killed_at_any_statement_is_followed_by_one_that_goes_on(records: Database, bench: Bench) -> None:
    for point in points(records, bench):
        task_id = open_scan(records)
        killed(records, task_id, lambda database, _, point=point: fault(database.engine, point, suicide))
        recovered(records, bench, task_id)
        goes_on(records, bench, task_id)


def test_a_holder_whose_lease_was_taken_at_any_statement_writes_nothing_more(records: Database, bench: Bench) -> None:
    for point in points(records, bench):
        task_id = open_scan(records)
        taken: list[int] = []

        def steal(task_id: UUID = task_id, taken: list[int] = taken) -> None:
            taken.append(committed(records, task_id))
            bench.steal(task_id)

        with fault(bench.engine, point, steal):
            bench.run(task_id)
        assert committed(records, task_id) == taken[0], f"{point}: the loser wrote"
        recovered(records, bench, task_id)
        goes_on(records, bench, task_id)


def test_a_cancel_at_any_statement_leaves_every_object_unscanned_and_the_next_scan_starts_at_zero(
    records: Database, bench: Bench
) -> None:
    for point in points(records, bench):
        task_id = open_scan(records)

        def cancel(task_id: UUID = task_id) -> None:
            bench.cancel(task_id)
            bench.ask(Cause.CANCEL)

        with fault(bench.engine, point, cancel):
            bench.run(task_id)
        assert bench.state(task_id) == "cancelled", point
        committed(records, task_id)
        unpublished(records, task_id)
        with pytest.raises(ActivationRefused) as refused:
            activated(records)
        assert refused.value.tally == NOTHING
        again = scanned(records, batch_rows=2)
        assert (again["state"], again["result"]["judged"], again["result"]["reused"]) == ("succeeded", OBJECTS, 0)
        assert standing(records) == FOUND


def test_a_proposal_at_any_statement_supersedes_the_scan_and_nothing_of_it_counts(
    records: Database, bench: Bench
) -> None:
    for point in points(records, bench):
        task_id = open_scan(records)
        racing: list[threading.Thread] = []
        at_most: list[int] = []

        def supersede(
            task_id: UUID = task_id, racing: list[threading.Thread] = racing, at_most: list[int] = at_most
        ) -> None:
            racing.append(threading.Thread(target=proposed, args=(records,)))
            racing[0].start()
            # Done, or waiting for the page that holds the class lock: which of the two is the lock's to decide.
            until(
                lambda: (
                    not racing[0].is_alive() or bench.one("select exists (select 1 from pg_locks where not granted)")
                )
            )
            at_most.append(committed(records, task_id) + (4 if racing[0].is_alive() else 0))

        with fault(bench.engine, point, supersede):
            bench.run(task_id)
        racing[0].join()
        ended = bench.state(task_id)
        # The very last fence holds the class lock: the scan ends before the proposal can commit, of a revision retired then.
        assert ended == "cancelled" or (ended == "succeeded" and committed(records, task_id) == OBJECTS), point
        assert committed(records, task_id) <= at_most[0], f"{point}: a page was written after the proposal"
        assert standing(records) == NOTHING, "by the proposal that superseded it"
        with pytest.raises(ActivationRefused):
            activated(records)


@contextmanager
def before_the_end(act: Callable[[], object]) -> Iterator[None]:
    """Do something after a scan's last transaction, just before the statement that ends its task."""
    real = Hotline.settle

    def settle(self: Hotline, *given: Any) -> Any:
        act()
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        # A task that wrote checkpoints ends by this one.
        patch.setattr(Hotline, "settle", settle)
        yield


def test_a_worker_killed_just_before_the_end_has_published_nothing(records: Database, bench: Bench) -> None:
    task_id = open_scan(records)
    killed(records, task_id, lambda *_: before_the_end(suicide))
    assert committed(records, task_id) == OBJECTS
    recovered(records, bench, task_id)
    goes_on(records, bench, task_id)


def test_a_lease_lost_just_before_the_end_publishes_nothing(records: Database, bench: Bench) -> None:
    task_id = open_scan(records)
    with before_the_end(partial(bench.steal, task_id)):
        bench.run(task_id)
    recovered(records, bench, task_id)
    unpublished(records, task_id)
    assert standing(records) == NOTHING


def test_a_proposal_just_before_the_end_leaves_the_scan_unpublished(records: Database, bench: Bench) -> None:
    task_id = open_scan(records)
    with before_the_end(partial(proposed, records)):
        bench.run(task_id)
    assert bench.state(task_id) == "succeeded"
    unpublished(records, task_id)
    assert standing(records) == NOTHING


def test_a_cancel_at_nine_tenths_leaves_every_object_unscanned(records: Database, bench: Bench) -> None:
    stored(records, {f"more{n:02}": {"name": "x"} for n in range(28)})
    task_id = open_scan(records)
    begun = 0

    def cancel_late(point: Point, statement: str) -> None:
        nonlocal begun
        begun += statement.startswith(LIVE)
        if begun == 9 and statement.startswith(LIVE):
            bench.cancel(task_id)
            bench.ask(Cause.CANCEL)

    with statements(bench.engine, cancel_late):
        bench.run(task_id)
    assert (bench.state(task_id), committed(records, task_id)) == ("cancelled", 36)
    with pytest.raises(ActivationRefused, match="0 invalid, 0 uninspectable, 40 unscanned"):
        activated(records)


def test_a_proposal_cancels_the_queued_scan_of_the_one_before(records: Database, bench: Bench) -> None:
    task_id = open_scan(records)
    proposed(records)
    assert bench.state(task_id) == "cancelled"
    assert bench.run(task_id) == 0


def test_a_newer_scan_takes_over_from_one_that_was_asked_to_stop(records: Database, bench: Bench) -> None:
    """The old one is still at work, and may not write over what the new one will publish."""
    task_id = open_scan(records)

    def again(point: Point, statement: str) -> None:
        if point == Point("ahead", 4):
            with records.engine.begin() as connection:
                connection.execute(
                    text("insert into task_stops (task_id, asked_by) values (:id, 'tester')"), {"id": task_id}
                )
            asked(records, batch_rows=2)
            held.append(committed(records, task_id))

    held: list[int] = []
    with statements(bench.engine, again):
        bench.run(task_id)
    assert (bench.state(task_id), committed(records, task_id)) == ("cancelled", held[0])
    newer = scalar(records, "select task_id from schema_scans order by id desc limit 1")
    bench.run(newer)
    assert (bench.get(newer)["result"]["judged"], standing(records)) == (OBJECTS, FOUND)
