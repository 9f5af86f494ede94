"""recover: what becomes of a task whose worker is gone. Plain SQL that needs no registered kind.

Decided in this order: cancel asked → cancelled; deadline passed → failed deadline_exceeded; crash bound reached →
failed worker_lost; the kind's on_lost → queued again (counted) or failed worker_lost.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection, text
from uuid_utils.compat import uuid7

from tenure.model.initiators import SYSTEM
from tenure.model.items import Item
from tenure.store import items
from tenure.store.transitions.activities import Start, end, start
from tenure.store.transitions.parts import (
    ACTIVE,
    CLOSED,
    HINT_NOTIFY,
    HINTED,
    attempt_row,
    closing,
    event,
    free_of,
    hint,
    of,
)

BATCH = 100

# A steal takes FOR UPDATE SKIP LOCKED: it waits for no fenced page and no renewal, the next sweep sees them.
_SKIPPING = f"limit {BATCH} for update skip locked"
_LOST = {
    "expired": f"expires <= clock_timestamp() {_SKIPPING}",
    "process": f"worker = :worker and pid = :pid {_SKIPPING}",
    "token": f"worker = :worker and token = :token {_SKIPPING}",
    "boot": f"worker = :worker {_SKIPPING}",
}
_MESSAGE = "'the worker that held it is gone; nothing it wrote after losing its lease was accepted'"
_DISCONNECTED = "'its worker lost the database; nothing that was not committed before counts'"

_ACTIVITY = (
    "(select e.state from ended e where e.activity_id = activities.id limit 1)"  # cancelled or failed, both alike
)


# Of a sweep: whose task or activity somebody holds is passed over too.
_SWEPT = f"""
    leased as (select task_id from task_leases where {{lost}}),
    theirs as (select k.id, k.activity_id from tasks k where k.id {of("leased", "task_id")} for no key update skip locked),
    {free_of("theirs")},
    lost as (select id as task_id from free)"""
_WAITED_FOR = "lost as (select task_id from task_leases where {lost})"


def _recover(lost: str, message: str = _MESSAGE, *, history: bool = True, found: str = _SWEPT) -> str:
    written = f"""
    ra as ({attempt_row("d", "'lost'", code="'worker_lost'", message=message)}),
    re as ({event("u", "'recover'", token="(select token from d where d.task_id = u.id)", note="outcome")}),"""
    return f"""with
    {found.format(lost=lost)},
    d as (delete from task_leases where task_id {of("lost", "task_id")} returning *),
    fate as (select k.id, case
                when exists (select 1 from task_stops s where s.task_id = k.id) then 'cancelled'
                when d.deadline <= clock_timestamp() then 'deadline_exceeded'
                when k.crashes + 1 >= :bound or k.on_lost = 'fail' then 'worker_lost'
                else 'queued' end as fate
             from tasks k join d on d.task_id = k.id),
    u as (update tasks set crashes = crashes + 1,
             state = case f.fate when 'cancelled' then 'cancelled' when 'queued' then 'queued' else 'failed' end,
             outcome = case when f.fate in ('cancelled', 'queued') then null else f.fate end,
             error_code = case when f.fate in ('cancelled', 'queued') then null else f.fate end,
             error_message = case f.fate when 'worker_lost' then {message}
                                         when 'deadline_exceeded' then 'the deadline passed' end,
             finished_at = case when f.fate <> 'queued' then clock_timestamp() end,
             redacted_at = case when f.fate <> 'queued' and not keep_params then clock_timestamp() end
          from fate f where tasks.id = f.id and tasks.state in {ACTIVE}
          returning tasks.id, state, outcome, activity_id, execution_id, keep_params, started_at, kind, queue, priority,
                    scope, available_at, error_message),
    ended as (select {CLOSED} from u where state <> 'queued'),
    again as (select {HINTED} from u where state = 'queued'),{written if history else ""}
    rh as ({hint("again")}),
    {closing("ended", _ACTIVITY, actor="'recovery'")}
    select id, state, outcome from u"""


# By the holder itself, for exactly its lease: it waits for a renewal that has the row, since nobody sweeps again.
_ONE = "task_id = :id and token = :token and worker = :worker and pid = :pid for update"
RECOVER_ONE = _recover(_ONE, _DISCONNECTED, found=_WAITED_FOR)
RECOVER_ONE_DIRECT = _recover(_ONE, history=False, found=_WAITED_FOR)

_STATEMENTS = {name: text(_recover(where)) for name, where in _LOST.items()}
_DIRECT = text(_recover(_LOST["expired"], history=False))
_ACTORS = {"expired": "reaper", "process": "keeper", "token": "keeper", "boot": "start"}


def _run(
    connection: Connection, name: str, bound: int, values: dict[str, object]
) -> list[tuple[UUID, str, str | None]]:
    rows = [(r[0], r[1], r[2]) for r in connection.execute(_STATEMENTS[name], {"bound": bound, **values})]
    if any(state == "queued" for _, state, _ in rows):
        connection.execute(text(HINT_NOTIFY))
    if rows:
        _report(connection, rows, _ACTORS[name])
    return rows


def _report(connection: Connection, settled: list[tuple[UUID, str, str | None]], actor: str) -> None:
    """An activity of its own, with an item for each task: in the same transaction, so it tells what was done."""
    one = Start(
        UUID(bytes=uuid7().bytes), SYSTEM, timedelta(hours=1), "recovery", context="workers that are gone", actor=actor
    )
    start(connection, one)
    found = (Item(state, "task", str(task_id)) for task_id, state, _ in settled)
    items.insert(connection, items.Under(one.id, one.id), found)
    end(connection, one.id)


def recover_expired(connection: Connection, *, crash_bound: int) -> list[tuple[UUID, str, str | None]]:
    """Settle up to BATCH tasks whose lease has expired; [(id, new state, outcome)]. Loop until it answers []."""
    return _run(connection, "expired", crash_bound, {})


def recover_expired_directly(connection: Connection, *, crash_bound: int) -> list[tuple[UUID, str, str | None]]:
    """The same without a line in history, for a database that refuses one: no task may be left active for that."""
    return [(r[0], r[1], r[2]) for r in connection.execute(_DIRECT, {"bound": crash_bound})]


def recover_token(
    connection: Connection, worker: UUID, token: int, *, crash_bound: int
) -> list[tuple[UUID, str, str | None]]:
    """Settle one attempt whose holder lives and has left it behind."""
    return _run(connection, "token", crash_bound, {"worker": worker, "token": token})


def recover_process(
    connection: Connection, worker: UUID, pid: int, *, crash_bound: int
) -> list[tuple[UUID, str, str | None]]:
    """Settle what a child process known to be dead held, without waiting for its lease."""
    return _run(connection, "process", crash_bound, {"worker": worker, "pid": pid})


def recover_boot(connection: Connection, worker: UUID, *, crash_bound: int) -> list[tuple[UUID, str, str | None]]:
    """Settle up to BATCH tasks of a boot known to be gone. Loop until it answers []."""
    return _run(connection, "boot", crash_bound, {"worker": worker})
