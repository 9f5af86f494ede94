"""The hot path: claim and end on one unpooled autocommit connection, each statement prepared once.

One round trip, one commit, no planning. Through per-call planning the same path is 2–7 times slower. Never pass this
through a transaction pooler, and never set synchronous_commit off here: after a crash the token sequence repeats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from sqlalchemy.engine import make_url

from tenure.model.records import Claimed, Ended, Holder, Lease
from tenure.model.requests import storable
from tenure.store.connect import session_arguments
from tenure.store.transitions import claim, end, recover
from tenure.store.transitions.parts import HINT_NOTIFY

# Plans made on an empty table must survive a backlog: generic, and through the indexes.
_OPTIONS = (
    "-c lock_timeout=1000 -c plan_cache_mode=force_generic_plan "
    "-c enable_seqscan=off -c enable_sort=off -c enable_bitmapscan=off"
)
_TYPES = {
    "id": "uuid", "ids": "uuid[]", "token": "bigint", "tokens": "bigint[]", "worker": "uuid", "pid": "int",
    "kinds": "text[]", "queue": "text", "k": "int", "lease_seconds": "float8", "state": "text", "outcome": "text",
    "verb": "text", "activity": "text", "summaries": "text[]", "results": "text[]", "error_code": "text",
    "error_message": "text", "delay": "float8", "bound": "int", "stack": "text", "activity_id": "uuid", "summary": "text",
    "result": "text",
}  # fmt: skip
_STATEMENTS = {
    "claim": claim.CLAIM,
    "claim_next": claim.CLAIM_NEXT,
    "hint_back": claim.HINT_BACK,
    "finish": end.END,
    "finish_claim": end.END_CLAIM,
    "decide": end.DECIDE,
    "retry_later": end.RETRY_LATER,
    "release": end.RELEASE,
    "begin": end.BEGIN,
    "recover_one": recover.RECOVER_ONE,
    "wrote": """select token, how from task_attempts where task_id = any(:ids) and token = any(:tokens)
        and worker = :worker and pid = :pid""",
    "held": "select task_id::text, token from task_leases where worker = :worker and pid = :pid",
}
VERBS = {"succeeded": "succeed", "partially_succeeded": "partially_succeed", "failed": "fail"}
# Rarely needed, so prepared when they are.
_RARE = {
    "verdict": end.VERDICT,
    "end_direct": end.END_DIRECT,
    "recover_direct": recover.RECOVER_ONE_DIRECT,
}
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

# The pid alone may be another's by now.
_BACKEND = "select pid, backend_start::text from pg_stat_activity where pid = pg_backend_pid()"
_END_BACKEND = """select pg_terminate_backend(pid, 2000) from pg_stat_activity
    where pid = %(pid)s and backend_start = %(start)s::timestamptz and pid <> pg_backend_pid()"""

Driver = psycopg2.extensions.connection


class Backend(NamedTuple):
    """One session as the server knows it."""

    pid: int
    start: str


def driver_dsn(url: str) -> dict[str, Any]:
    """libpq keywords of a SQLAlchemy URL, for the few places that need the bare driver (LISTEN, PREPARE)."""
    parsed = make_url(url)
    named = {
        "host": parsed.host, "port": parsed.port, "user": parsed.username, "password": parsed.password, "dbname": parsed.database,
    }  # fmt: skip
    return {**{k: v for k, v in named.items() if v is not None}, **dict(parsed.query)}


def _prepared(name: str, sql: str) -> tuple[str, str]:
    order: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        parameter = match.group(1)
        if parameter not in order:
            order.append(parameter)
        return f"${order.index(parameter) + 1}"

    body = _PARAMETER.sub(numbered, sql)
    prepare = f"prepare tenure_{name} ({', '.join(_TYPES[p] for p in order)}) as {body}"
    execute = f"execute tenure_{name} ({', '.join(f'%({p})s::{_TYPES[p]}' for p in order)})"
    return prepare, execute if order else f"execute tenure_{name}"


def _params(stored: str | None) -> tuple[int, str | None]:
    """(version, JSON text) of what a claim answers in one column; without params, as if of version 1."""
    version, _, params = (stored or "1 ").partition(" ")
    return int(version), params or None


_PREPARED = {name: _prepared(name, sql) for name, sql in (_STATEMENTS | _RARE).items()}


def _ending(
    leases: Sequence[Lease], how: Ended, summaries: Sequence[str | None], results: Sequence[str | None]
) -> dict[str, Any]:
    return {
        "ids": [str(lease.task_id) for lease in leases],
        "tokens": [lease.token for lease in leases],
        "summaries": [storable(one) for one in summaries] or [None] * len(leases),
        "results": list(results) or [None] * len(leases),
        "state": how.state,
        "outcome": how.outcome,
        "verb": how.verb,
        "activity": how.activity,
        "error_code": how.error_code,
        "error_message": storable(how.error_message),
        "stack": storable(how.stack),
    }


@dataclass(frozen=True)
class RunOn:
    """What to claim next: up to `k` tasks of these kinds from one queue."""

    queue: str
    kinds: list[str]
    k: int = 1


class HotSession:
    """One process's connection for claims and ends. Not thread-safe; raises psycopg2.Error as it comes: the caller
    decides what a lost answer means."""

    def __init__(self, url: str, holder: Holder, kinds: Sequence[str], *, lease_seconds: float) -> None:
        self.holder = holder
        self._common = {
            "worker": str(holder.worker),
            "pid": holder.pid,
            "kinds": list(kinds),
            "lease_seconds": lease_seconds,
        }
        self._connection: Driver = psycopg2.connect(
            **{**session_arguments(f"tenure child {holder.pid}", _OPTIONS), **driver_dsn(url)}
        )
        try:
            self._connection.autocommit = True
            self._cursor = self._connection.cursor()
            self._missing = set(_PREPARED)
            for name in _STATEMENTS:
                self._prepare(name)
            self._cursor.execute(_BACKEND)
            self.backend = Backend(*self._cursor.fetchone())
        except BaseException:
            self._connection.close()
            raise

    @property
    def driver(self) -> Driver:
        return self._connection

    def close(self) -> None:
        self._connection.close()

    def _prepare(self, name: str) -> None:
        self._cursor.execute(_PREPARED[name][0])
        self._missing.discard(name)

    def _run(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        if name in self._missing:
            self._prepare(name)
        self._cursor.execute(_PREPARED[name][1], {**self._common, **values})
        return self._cursor.fetchall() if self._cursor.description else []

    def claim(self, task_id: UUID | str) -> Claimed | None:
        """Claim one task by id. None: duplicate, ended, not due, paused or asked to stop; its hint goes back if queued."""
        got = self._claimed(self._run("claim", {"id": str(task_id)}))
        if not got:
            self.hint_back(task_id)
        return got[0] if got else None

    def hint_back(self, task_id: UUID | str) -> None:
        """For a message that came to nothing: its hint goes back, to be looked at in a second, if the task is queued."""
        self._run("hint_back", {"id": str(task_id)})

    def claim_next(self, run_on: RunOn) -> list[Claimed]:
        """Take hints of the queue and claim their tasks."""
        return self._claimed(self._run("claim_next", vars(run_on)))

    def end(
        self,
        leases: Sequence[Lease],
        how: Ended,
        *,
        summaries: Sequence[str | None] = (),
        results: Sequence[str | None] = (),
        run_on: RunOn | None = None,
    ) -> tuple[set[int], list[Claimed]]:
        """End these attempts the same way; with `run_on`, claim the next in the same commit.

        Answers the tokens whose end was accepted (the others had lost their lease: nothing was written for them), and
        what was claimed. Nothing is claimed unless an end was accepted.
        """
        values = _ending(leases, how, summaries, results)
        rows = self._run("finish", values) if run_on is None else self._run("finish_claim", {**values, **vars(run_on)})
        return {row[3] for row in rows if row[0] == "ended"}, self._claimed(rows)

    def retry_later(self, lease: Lease, how: Ended) -> bool:
        """Back to `scheduled` after a delay. False: the lease is lost, or no attempt is left."""
        message = storable(how.error_message)
        values = {"delay": how.available_after, "error_code": how.error_code, "error_message": message}
        return bool(self._run("retry_later", {**self._of(lease), **values}))

    def release(self, lease: Lease, how: Ended | None = None) -> bool:
        """Hand the task on: queued again, the attempt given back, its checkpoint kept; with `how`, only after a while,
        and saying why. False: the lease is lost."""
        why = how or Ended("release", "queued")
        values = {"delay": why.available_after, "error_code": why.error_code, "error_message": why.error_message}
        done = bool(self._run("release", {**self._of(lease), **values}))
        if done:
            self._cursor.execute(HINT_NOTIFY)
        return done

    def recover_one(self, lease: Lease, crash_bound: int) -> tuple[str, str | None] | None:
        """Settle this attempt as a lost worker's, by the order of `recover`: (new state, outcome).

        None: the lease is gone, somebody has settled it. An expired one that still stands is settled.
        """
        rows = self._run("recover_one", {**self._of(lease), "bound": crash_bound})
        if not rows:
            return None
        if rows[0][1] == "queued":
            self._cursor.execute(HINT_NOTIFY)
        return rows[0][1], rows[0][2]

    def decide(self, claimed: Claimed, *, summary: str | None, result: str | None) -> Ended | None:
        """End a body that has returned by what its items and counters say; how it ended. None: the lease is lost."""
        values = {"activity_id": str(claimed.activity_id), "summary": storable(summary), "result": result}
        rows = self._run("decide", {**self._of(claimed.lease), **values})
        if not rows:
            return None
        state, outcome, code, message, status = rows[0]
        return Ended(VERBS[state], state, outcome, code, message, activity=status)

    def end_directly(self, lease: Lease, how: Ended, *, summary: str | None, result: str | None) -> bool:
        """End this attempt without a line in history, for a database that refuses one. False: the lease is lost."""
        return bool(self._run("end_direct", _ending([lease], how, [summary], [result])))

    def recover_directly(self, lease: Lease, crash_bound: int) -> tuple[str, str | None] | None:
        """`recover_one` without a line in history."""
        rows = self._run("recover_direct", {**self._of(lease), "bound": crash_bound})
        return (rows[0][1], rows[0][2]) if rows else None

    def verdict(self, claimed: Claimed) -> Ended:
        """How a body that has returned is to end, by what its items and counters say; nothing is written."""
        ((status, bad),) = self._run(
            "verdict", {"id": str(claimed.lease.task_id), "activity_id": str(claimed.activity_id)}
        )
        state = end.OF_ITEMS[status]
        if state == "failed":
            return Ended("fail", state, "error", "all_failed", f"all {bad} items failed", activity=status)
        return Ended(VERBS[state], state, activity=status)

    def wrote(self, leases: Sequence[Lease]) -> dict[int, str]:
        """How these tokens stand in history, of those whose attempt was ended by us: what a lost answer said."""
        values = {"ids": [str(lease.task_id) for lease in leases], "tokens": [lease.token for lease in leases]}
        return {row[0]: row[1] for row in self._run("wrote", values)}

    def end_session(self, backend: Backend) -> None:
        """See a lost session of ours off the server: only then does `held` tell all that its last statement did.

        psycopg2.OperationalError when it does not end within 2 s.
        """
        self._cursor.execute(_END_BACKEND, backend._asdict())
        if self._cursor.fetchall() == [(False,)]:
            raise psycopg2.OperationalError("the lost session has not ended yet")

    def held(self) -> list[Lease]:
        """What this process holds, as the database knows it."""
        return [Lease(UUID(r[0]), r[1], self.holder) for r in self._run("held", {})]

    def begin(self, lease: Lease) -> bool:
        """validating → running. False: the lease is lost."""
        return bool(self._run("begin", self._of(lease)))

    def _of(self, lease: Lease) -> dict[str, Any]:
        return {"id": str(lease.task_id), "token": lease.token}

    def _claimed(self, rows: list[tuple[Any, ...]]) -> list[Claimed]:
        return [
            Claimed(
                lease=Lease(UUID(r[1]), r[3], self.holder),
                kind=r[2],
                attempt=r[4],
                crashes=r[5],
                max_attempts=r[6],
                activity_id=UUID(r[7]),
                params=_params(r[8])[1],
                params_version=_params(r[8])[0],
                cursor=r[9],
                sequence=r[10] or 0,
                seconds_left=r[11],
                execution_id=UUID(r[12]) if r[12] else None,
            )
            for r in rows
            if r[0] == "got"
        ]
