"""Priorities, ageing, pauses, limits and scopes under real workers, some of which are killed: counted from history."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from tenure import client, pausing
from tenure.model.kinds import Kind
from tenure.model.records import Initiator
from tenure.services.dispatcher import NET_AGE
from tenure.store import limits
from tenure.store.pauses import What
from tests.support.databases import Database
from tests.support.overlaps import beside_exclusive, most
from tests.support.ruled.kinds import each, free, two
from tests.support.submitted import Tasks, scaled
from tests.support.turns import begun_between, overtaken_for
from tests.support.until import until
from tests.support.workers import KINDS, Worker

TESTER = Initiator("test", "1", "tester")
ENVIRONMENT = {"TENURE_KINDS": f"{KINDS},tests.support.ruled", "TENURE_CRASH_BOUND": "1000"}
AGEING = 2.0  # s that a step of priority is worth here
_STATES = "select count(*) from tasks where state = 'succeeded'"
# From the end that made room to the next start of the kind, while some of it waited.
_GAPS = """select extract(epoch from started - ended)::float8 from (
        select a.created_at as started, lag(a.ended_at) over (order by a.created_at) as ended
        from task_attempts a join tasks k on k.id = a.task_id where k.kind = :kind) x
    where ended is not null order by 1 desc"""


def worker(database: Database, broker_url: str, name: str, concurrency: int = 2, **env: str) -> Worker:
    return Worker(database.url, broker_url, name=name, concurrency=concurrency, env={**ENVIRONMENT, **env})


def submit(database: Database, kind: Kind, seconds: float = 0.0, **options: Any) -> UUID:
    with database.engine.begin() as connection:
        return client.submit(connection, kind, {"seconds": seconds}, initiator=TESTER, **options).id


def submit_all(database: Database, wanted: list[tuple[Kind, dict[str, Any]]], seconds: float) -> None:
    with database.engine.begin() as connection:
        for kind, options in wanted:
            client.submit(connection, kind, {"seconds": seconds}, initiator=TESTER, **options)


def limit(database: Database, what: Any, name: str, at_most: int) -> None:
    with database.engine.begin() as connection:
        limits.put(connection, what, name, at_most, by="tester")


def mixed(count: int, seed: int = 7) -> list[tuple[Kind, dict[str, Any]]]:
    """`count` tasks under every rule, in no order; one in forty is exclusive."""
    kinds: list[tuple[Kind, dict[str, Any]]] = [
        (two, {}), (two, {"scope": "ldap"}), (each, {"scope": "hr"}), (each, {"scope": "crm"}), (free, {"scope": "ldap"}),
        (free, {"priority": 3}), (free, {}), (free, {"priority": 1}),
    ]  # fmt: skip
    alone: list[dict[str, Any]] = [{"exclusive": True, "scope": "ldap"}, {"exclusive": True, "scope": "hr"}]
    chosen = [kinds[number % len(kinds)] for number in range(count - count // 40)]
    chosen += [(free, alone[number % 2] if number % 4 else {"exclusive": True}) for number in range(count // 40)]
    random.Random(seed).shuffle(chosen)
    return chosen


def paused(database: Database, what: What, name: str, seconds: float) -> tuple[datetime, datetime]:
    """Pause, hold the pause for `seconds`, resume; when it was in force, by the database's clock.

    A claim that had begun before the pause may still commit: the first second (a claim's lock timeout) is left out.
    """
    tasks = Tasks(database.engine)
    with database.engine.begin() as connection:
        assert pausing.pause(connection, what, name, initiator=TESTER)
    since = tasks.one("select clock_timestamp()") + timedelta(seconds=1)
    time.sleep(1 + seconds)
    until_ = tasks.one("select clock_timestamp()")
    with database.engine.begin() as connection:
        assert pausing.resume(connection, what, name)
    return since, until_


def caught(tasks: Tasks, one: Worker) -> int:
    """A child of this worker, frozen while it holds a task."""

    def holds(pid: int) -> bool:
        return bool(tasks.one("select exists (select 1 from task_leases where pid = :pid)", pid=pid))

    def found() -> list[int]:
        for pid in filter(holds, one.pool()):
            os.kill(pid, signal.SIGSTOP)
            if holds(pid):
                return [pid]
            os.kill(pid, signal.SIGCONT)
        return []

    return until(found, 30, pace=0.01)[0]


def test_every_rule_holds_through_kills_of_children_and_workers(
    database: Database, broker_url: str, record_property: Callable[[str, object], None]
) -> None:
    """Limits, scopes, exclusiveness, priorities with ageing and pauses, all at once."""
    workers, count = scaled(2, 4), scaled(200, 8000)
    slots, parts = workers * 2, scaled(4, 10)
    limit(database, "global", "", slots - 1)
    limit(database, "scope", "ldap", 2)
    tasks = Tasks(database.engine)
    tasks.rows(f"insert into service_settings (name, value) values ('dispatch.ageing_seconds', '{AGEING}') returning 1")
    submit_all(database, mixed(count // 2), 0.02)
    pauses: list[tuple[str | None, datetime, datetime]] = []
    began = time.monotonic()
    with ExitStack() as stack:
        running = [stack.enter_context(worker(database, broker_url, f"w{n}")) for n in range(workers)]
        for one in running:
            one.wait_ready()
        for part in range(1, parts):
            until(lambda part=part: tasks.one(_STATES) >= count * part // parts, 300, pace=0.02)
            if part % 2:
                os.kill(running[0].pool()[0], signal.SIGKILL)
            else:
                running[-1].kill()
                running[-1] = stack.enter_context(worker(database, broker_url, f"w{workers - 1}"))
            if part == 1:
                # Among those that wait since the start: a higher priority goes first only as far as age does not make up for it.
                submit_all(database, mixed(count - count // 2, seed=8), 0.02)
            if part == parts // 2:
                pauses.append((None, *paused(database, "queue", "default", 1.0)))
            elif part % 3 == 0:
                pauses.append((two.spec.name, *paused(database, "kind", two.spec.name, 1.0)))
        until(lambda: tasks.one(_STATES) == count, 600, pace=0.1)
    record_property("tasks_per_second", round(count / (time.monotonic() - began)))
    assert tasks.one("select count(*) from task_attempts where how = 'lost'") >= 1
    assert most(database.engine, "")[""] <= slots - 1
    assert most(database.engine, "kind")[two.spec.name] <= 2
    scopes = most(database.engine, "scope", "scope is not null")
    assert scopes["ldap"] <= 2
    assert (scopes["hr"], scopes["crm"]) == (1, 1)
    assert beside_exclusive(database.engine) == 0
    for kind, since, until_ in pauses:
        assert begun_between(database.engine, kind, since, until_) == 0
    # A refused hint sits out a second more: of what waited while nobody could begin, too.
    standing = [
        (since - timedelta(seconds=1), until_ + timedelta(seconds=1)) for kind, since, until_ in pauses if kind is None
    ]
    overtaken = sorted(overtaken_for(database.engine, free.spec.name, AGEING, standing))
    record_property("overtaken_seconds", [overtaken[len(overtaken) * part // 100] for part in (50, 90, 99)])
    assert overtaken[len(overtaken) // 2] == 0, "in the order of priority and age"
    # A refused hint sits out a second, one that a dead worker held until the loss net: nobody longer than that.
    if count == 8000:  # a tenth of the short run is seven tasks, and one exclusive task delays as many
        assert overtaken[len(overtaken) * 9 // 10] <= 2.5
    assert overtaken[-1] <= NET_AGE
    assert tasks.leases() == 0


def test_a_place_that_becomes_free_is_taken_within_a_second(database: Database, broker_url: str) -> None:
    with worker(database, broker_url, "one") as one:
        one.wait_ready()
        limit(database, "kind", free.spec.name, 1)
        ids = [submit(database, free, 0.05, scope="slow") for _ in range(12)]
        Tasks(database.engine).wait_ended(ids, 30, watch=[one])
    gaps = [row[0] for row in Tasks(database.engine).rows(_GAPS, kind=free.spec.name)]
    assert len(gaps) == 11
    assert min(gaps) >= 0
    assert max(gaps) <= 1.0


def test_priority_goes_first_and_age_catches_up(database: Database, broker_url: str) -> None:
    tasks = Tasks(database.engine)
    # In two seconds of waiting a task gains what it lacks here: fed without end, the others never let it starve.
    tasks.rows("insert into service_settings (name, value) values ('dispatch.ageing_seconds', '2') returning 1")
    with database.engine.begin() as connection:
        low = [client.submit(connection, free, {"seconds": 0.01}, initiator=TESTER).id for _ in range(3)]
        for _ in range(60):
            client.submit(connection, free, {"seconds": 0.01}, initiator=TESTER, priority=1)
    waiting = text("select count(*) from task_hints where priority = 1")

    def fed() -> bool:
        with database.engine.begin() as connection:
            for _ in range(max(0, 60 - int(connection.execute(waiting).scalar_one()))):
                client.submit(connection, free, {"seconds": 0.01}, initiator=TESTER, priority=1)
        return bool(
            tasks.one("select count(*) = 3 from tasks where id = any(:ids) and finished_at is not null", ids=low)
        )

    with worker(database, broker_url, "one", concurrency=1) as one:
        one.wait_ready()
        until(fed, 30, pace=0.05)
    first = tasks.one("select min(created_at) from task_attempts where task_id = any(:ids)", ids=low)
    before = tasks.one(
        "select count(*) from task_attempts a where not task_id = any(:ids) and created_at < :at", ids=low, at=first
    )
    submitted = tasks.one("select max(created_at) from tasks where id = any(:ids)", ids=low)
    assert before >= 20, "larger priority first"
    assert (first - submitted).total_seconds() >= 1.5, "not before it had aged"
    assert tasks.one("select count(*) from tasks where priority = 1 and state = 'queued'") > 0, "they never ran out"


def test_a_pause_survives_restarts_and_a_start_by_passes_meanwhile(database: Database, broker_url: str) -> None:
    tasks = Tasks(database.engine)
    with worker(database, broker_url, "one") as one:
        one.wait_ready()
        with database.engine.begin() as connection:
            pausing.pause(connection, "queue", "default", initiator=TESTER)
        waits = submit(database, free)
        late = submit(database, free, start_by=datetime.now(UTC) + timedelta(seconds=1))
    with worker(database, broker_url, "one") as one:
        one.wait_ready()
        until(lambda: tasks.states([late]) == {"failed deadline_exceeded": 1}, 10, pace=0.05)
        assert tasks.states([waits]) == {"queued": 1}
        with database.engine.begin() as connection:
            said = client.why(connection, waits)["reasons"][0]
            assert said["code"] == "queue_paused"
            assert "test:1" in said["text"] or "tester" in said["text"]
            pausing.resume(connection, "queue", "default")
        tasks.wait_ended([waits], 10, watch=[one])
    assert tasks.states([waits]) == {"succeeded": 1}


def test_a_start_by_also_ends_what_a_limit_holds_back(database: Database, broker_url: str) -> None:
    limit(database, "kind", free.spec.name, 0)
    tasks = Tasks(database.engine)
    with worker(database, broker_url, "one") as one:
        one.wait_ready()
        late = submit(database, free, start_by=datetime.now(UTC) + timedelta(seconds=1))
        tasks.wait_ended([late], 10, watch=[one])
    assert tasks.states([late]) == {"failed deadline_exceeded": 1}
    assert tasks.one("select attempt from tasks where id = :id", id=late) == 0
