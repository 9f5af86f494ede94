"""The connection dies before, in and after the statements of the hot path: no task is lost, none runs twice."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tenure.model.kinds import Kind, kind
from tenure.runtime.attempt import Attempt
from tenure.store import leases
from tests.support.databases import Database
from tests.support.proxy import Cut, Proxy, Where
from tests.support.slot import FULL, Bench, Step, write
from tests.support.until import until

Make = Callable[..., Bench]
POINTS = 200 if FULL else 40
PER_POINT = 3
STATEMENTS = (b"execute tenure_finish_claim", b"execute tenure_claim (", b"execute tenure_finish (", b"execute tenure_")

bodies: Counter[UUID] = Counter()


@pytest.fixture(autouse=True)
def no_bodies() -> None:
    bodies.clear()


@kind("paying", on_lost="fail")
def paying(attempt: Attempt, params: object) -> dict[str, int]:
    bodies[attempt.task_id] += 1
    with attempt.transaction() as tx:
        write(tx, attempt)
        attempt.checkpoint(tx, Step(done=1), processed=1)
    return {"paid": 1}


@kind("paying-tiny", tiny=True, on_lost="resume")
def paying_tiny(attempt: Attempt, params: object) -> None:
    bodies[attempt.task_id] += 1
    with attempt.transaction() as tx:
        write(tx, attempt)


def point(number: int) -> Cut:
    """The fault points, spread over statements, ends of the wire and bytes."""
    marker = STATEMENTS[0] if number % 2 else STATEMENTS[number // 2 % len(STATEMENTS)]
    where = list(Where)[number % 3]
    return Cut(marker, where, after=number * 37 % 700, skip=number // 3 % PER_POINT if marker == STATEMENTS[3] else 0)


def assert_each_once(bench: Bench, tasks: list[UUID]) -> None:
    states = Counter(bench.state(task) for task in tasks)
    assert states == {"succeeded": len(tasks)}
    assert bodies == dict.fromkeys(tasks, 1)
    assert Counter(task for task, _ in bench.effects()) == dict.fromkeys(tasks, 1)
    assert bench.rows("select id, attempt, crashes from tasks where attempt <> 1 or crashes <> 0") == []
    assert bench.leases() == 0
    # What was claimed in a lost answer was handed back under its token; who ran it later has a higher one.
    falling = """select 1 from (select how, token < max(token) over (partition by task_id) as beaten from task_attempts) a
        where (how = 'succeeded') = beaten"""
    assert bench.rows(falling) == []
    assert bench.rows("select how from task_attempts where how not in ('succeeded', 'released')") == []


@pytest.mark.parametrize(
    "body, points", [(paying, POINTS), (paying_tiny, POINTS // 2)], ids=["one at a time", "in batches"]
)
def test_no_cut_of_the_connection_loses_a_task_or_runs_one_twice(
    make_bench: Make, database: Database, body: Kind, points: int
) -> None:
    with Proxy(database.url) as proxy:
        bench = make_bench(body, url=proxy.url, run_on_tasks=PER_POINT)
        tasks: list[UUID] = []
        for number in range(points):
            made = [bench.submit(body) for _ in range(PER_POINT)]
            tasks += made
            proxy.arm(point(number))
            bench.run(made[0])
            proxy.disarm()
        bench.drain()
        assert proxy.cuts >= points * 0.9
        assert_each_once(bench, tasks)
        accepted = {task for task, how in bench.sink.ends if how.state == "succeeded"}
        assert accepted == set(tasks), "each end that was written is told, also when its answer was lost"


def test_a_failing_one_in_a_batch_whose_end_is_cut_does_not_hand_back_the_others(
    make_bench: Make, database: Database
) -> None:
    @kind("brittle", tiny=True, on_lost="resume")
    def brittle(attempt: Attempt, params: object) -> None:
        bodies[attempt.task_id] += 1
        if attempt.task_id == tasks[4]:
            raise RuntimeError("this one")

    with Proxy(database.url) as proxy:
        bench = make_bench(brittle, url=proxy.url)
        tasks = [bench.submit(brittle) for _ in range(9)]
        proxy.arm(Cut(b"execute tenure_finish (", Where.ANSWER, 5))
        assert bench.run(tasks[0]) == 9
        assert proxy.cuts == 1
    assert [bench.state(task) for task in tasks] == ["succeeded"] * 4 + ["failed error"] + ["succeeded"] * 4
    assert bodies == dict.fromkeys(tasks, 1)


def test_a_lost_claim_that_is_still_at_work_on_the_server_is_seen_off_first(
    make_bench: Make, database: Database
) -> None:
    waiting = "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like 'execute tenure_claim %'"
    with Proxy(database.url) as proxy:
        bench = make_bench(paying, url=proxy.url)
        task = bench.submit(paying)
        proxy.arm(Cut(b"execute tenure_claim (", Where.AT_ONCE))
        with bench.engine.begin() as connection:
            # A claim waits for no row of tasks; a lease that may yet commit keeps it from writing its own.
            lease = """insert into task_leases (task_id, token, worker, pid, kind, queue, attempt, acquired, renewed, expires)
                select :t, 0, :w, 0, 'x', 'x', 1, now(), now(), now()"""
            connection.execute(text(lease), {"t": task, "w": bench.holder.worker})
            running = bench.aside(task)
            first = until(lambda: bench.rows(waiting), pace=0.005)[0][0]
            until(lambda: any(row[0] != first for row in bench.rows(waiting)), pace=0.005)
            connection.rollback()
        running.join(10)
        assert proxy.cuts == 1
    assert_each_once(bench, [task])


@pytest.mark.parametrize("where", list(Where))
@pytest.mark.parametrize("how", ["retry_later", "release"])
def test_a_cut_in_a_hand_back_leaves_the_task_handed_back_once(
    make_bench: Make, database: Database, how: str, where: Where
) -> None:
    @kind("handed", max_attempts=3, on_shutdown="release")
    def handed(attempt: Attempt, params: object) -> None:
        if how == "retry_later":
            raise ConnectionResetError("somebody else's")
        bench.shutdown.stop()
        attempt.check()

    with Proxy(database.url) as proxy:
        bench = make_bench(handed, url=proxy.url)
        task = bench.submit(handed)
        proxy.arm(Cut(f"execute tenure_{how}".encode(), where, 3))
        assert bench.run(task) == 1
        assert proxy.cuts == 1
    row = bench.get(task)
    assert (row["state"], row["attempt"], len(row["attempts"])) == (
        ("scheduled", 1, 1) if how == "retry_later" else ("queued", 0, 1)
    )
    assert bench.leases() == 0
    assert [end.verb for _, end in bench.sink.ends] == [how]


def test_nobody_renews_the_lease_of_a_task_that_nobody_runs(make_bench: Make) -> None:
    bench = make_bench(paying)
    known, unknown, young = (bench.submit(paying) for _ in range(3))
    tokens = {task: bench.executor._hot.claim(task).lease.token for task in (known, unknown, young)}  # type: ignore[union-attr]
    bench.rows(
        "update task_leases set acquired = acquired - interval '6 seconds' where task_id = any(:t)", t=[known, unknown]
    )
    before = dict(bench.rows("select task_id, expires from task_leases"))
    with bench.engine.begin() as connection:
        answers = leases.renew(connection, bench.holder.worker, [tokens[known]], lease_seconds=60.0, grace=5.0)
    after = dict(bench.rows("select task_id, expires from task_leases"))
    assert {one.token: one.renewed for one in answers} == {tokens[known]: True, tokens[young]: True}
    assert [task for task in before if after[task] == before[task]] == [unknown]


def test_a_renewal_never_revives_a_lease_that_has_expired(make_bench: Make) -> None:
    bench = make_bench(paying)
    task = bench.submit(paying)
    claimed = bench.executor._hot.claim(task)
    assert claimed is not None
    bench.expire(task)
    with bench.engine.begin() as connection:
        answers = leases.renew(connection, bench.holder.worker, [claimed.lease.token], lease_seconds=60.0, grace=1e6)
        assert [one.renewed for one in answers] == [False]
        assert leases.renew(connection, uuid4(), [claimed.lease.token], lease_seconds=60.0, grace=1e6) == []
        assert not leases.live(connection, claimed.lease)
