"""What a test of stops asks about the bodies in hand, and about what is left when a worker has gone."""

import statistics
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tenure import client
from tenure.model.kinds import Kind
from tests.support.submitted import TESTER, Tasks
from tests.support.until import until
from tests.support.workers import Worker

SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1"}
EXIT_S = 25.0  # whatever hangs

_IN_BODY = """select count(*) from task_leases l where l.task_id = any(:ids)
    and exists (select 1 from ledger x where x.task_id = l.task_id and x.token = l.token)"""
_SESSIONS = """select application_name from pg_stat_activity
    where datname = current_database() and application_name like 'tenure%'"""
_UNHELD = """select id from tasks t where state in ('validating', 'running')
    and not exists (select 1 from task_leases l where l.task_id = t.id)"""
_ENDS = """select t.finished_at, t.deadline, a.forced, t.error_message, a.how
    from tasks t join task_attempts a on a.task_id = t.id where t.id = :id order by a.created_at desc limit 1"""


def in_body(tasks: Tasks, ids: Sequence[UUID], count: int | None = None, timeout: float = 20.0) -> None:
    """Wait until that many of these tasks (all by default) have begun, and have had a moment to get into their way."""
    wanted = len(ids) if count is None else count
    try:
        until(lambda: tasks.one(_IN_BODY, ids=list(ids)) >= wanted, timeout)
    except AssertionError:
        raise AssertionError(f"{wanted} bodies have not begun in {timeout:g} s: {tasks.states(ids)}") from None
    time.sleep(0.2)


def pid_of(tasks: Tasks, task_id: UUID) -> int:
    return int(tasks.one("select pid from task_leases where task_id = :id", id=task_id))


def submit_late(tasks: Tasks, kind: Kind, within: float, **params: Any) -> UUID:
    """A task with a deadline so many seconds from now."""
    with tasks.engine.begin() as connection:
        deadline = timedelta(seconds=within)
        return client.submit(connection, kind, params, initiator=TESTER, deadline=deadline).id


def now(tasks: Tasks) -> datetime:
    """The database's clock."""
    answer: datetime = tasks.one("select clock_timestamp()")
    return answer


def last_end(tasks: Tasks, task_id: UUID) -> Any:
    """(finished_at, deadline, forced, error_message, how) of the task and its last attempt."""
    return tasks.rows(_ENDS, id=task_id)[0]


def assert_nothing_left(tasks: Tasks, worker: Worker) -> None:
    """No lease, no active row without one, no session of ours, no process of the worker's pool."""
    assert tasks.leases() == 0, worker.text()[-2000:]
    assert_nobody_left(tasks, worker)


def assert_nobody_left(tasks: Tasks, worker: Worker) -> None:
    """The same, but for leases that are left to expire."""
    assert tasks.rows(_UNHELD) == []
    # The kernel closes a killed child's sockets at once; the server ends the session when it looks next.
    until(lambda: tasks.rows(_SESSIONS) == [], 5)
    until(lambda: group(worker) == [], 2)


def group(worker: Worker) -> list[int]:
    """The live processes of the worker's group: itself and its pool."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return [int(pid) for pid, of, stat in rows if int(of) == worker.process.pid and not stat.startswith("Z")]


def drop_queued(tasks: Tasks, ids: Sequence[UUID]) -> None:
    """Cancel what is still queued of these, so that the next test's worker does not run it."""
    queued = tasks.rows("select id from tasks where id = any(:ids) and state = 'queued'", ids=list(ids))
    with tasks.engine.begin() as connection:
        for (task_id,) in queued:
            client.cancel(connection, task_id, initiator=TESTER)


def figure(name: str, seconds: Sequence[float]) -> None:
    """One line: count, median and largest, in milliseconds; printed, for `make chaos -s`."""
    ms = sorted(1000 * one for one in seconds)
    print(f"\nFIGURE {name}: n={len(ms)} p50={statistics.median(ms):.0f} ms max={ms[-1]:.0f} ms")
