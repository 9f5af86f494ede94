"""The checks of `doctor` that ask the database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from tenure.cli.checks import Check, ok
from tenure.cli.frame import POSTGRESQL, check_schema
from tenure.cli.output import ago
from tenure.store import diagnosis, worker_reads
from tenure.store import settings as runtime_settings

CLOCKS_APART = 2.0  # seconds; nothing depends on it but the eyes that compare logs


def server(connection: Connection, before: float) -> Iterator[Check]:
    """Version and clock. `before` is this machine's time just before the question."""
    found = diagnosis.server(connection)
    version = found["version"]
    if version < POSTGRESQL:
        yield Check(
            "PostgreSQL", "wrong", f"version {version}", f"upgrade to {POSTGRESQL} or newer: the schema uses uuidv7()"
        )
    elif found["standby"]:
        yield Check("PostgreSQL", "wrong", "a standby: it takes no writes", "point TENURE_DATABASE_URL at the primary")
    else:
        yield ok("PostgreSQL", f"version {version}")
    apart = max(before - found["clock"], found["clock"] - time.time(), 0.0)
    if apart > CLOCKS_APART:
        yield Check(
            "clock", "warn", f"this machine and the database are {ago(apart)} apart",
            "run NTP on both; the database's clock decides everything, but logs will not line up",
        )  # fmt: skip
    else:
        yield ok("clock", "agrees with the database's")


def schema(connection: Connection) -> Check:
    check_schema(connection)
    return ok("schema", "the revision of this version")


def partitions(connection: Connection) -> Check:
    """Months of history prepared ahead."""
    ahead, least = (
        diagnosis.months_ahead(connection),
        int(runtime_settings.value(connection, runtime_settings.PARTITIONS_AHEAD)),
    )
    if ahead < least:
        return Check(
            "partitions", "warn", f"{ahead} months of history are prepared, below {least}",
            "run `select make_history_partitions(12)`; housekeeping does it when beat runs",
        )  # fmt: skip
    return ok("partitions", f"{ahead} months ahead")


def transactions(connection: Connection) -> Check:
    """Transactions old enough to hold back vacuum."""
    limit = runtime_settings.LONG_TRANSACTION.default
    if connection.exec_driver_sql("select to_regclass('service_settings') is not null").scalar():
        limit = runtime_settings.value(connection, runtime_settings.LONG_TRANSACTION)
    old = diagnosis.old_transactions(connection, seconds=limit)
    if not old:
        return ok("transactions", f"none is older than {limit:g} s")
    worst = old[0]
    return Check(
        "transactions", "wrong",
        f"{len(old)} older than {limit:g} s; the oldest {ago(worst['seconds'])}, pid {worst['pid']}, "
        f"{worst['usename']} in {worst['application_name'] or 'an unnamed application'}, {worst['state']}",
        f"end it (`select pg_terminate_backend({worst['pid']})`): dead rows cannot be removed while it lives",
    )  # fmt: skip


def workers(connection: Connection) -> Check:
    """Who was seen lately."""
    overdue = runtime_settings.value(connection, runtime_settings.WORKER_OVERDUE)
    rows = [row for row in worker_reads.listing(connection, overdue=overdue) if row["status"] != "ended"]
    live = [row for row in rows if row["status"] == "live" and row["role"] == "worker"]
    late = [row for row in rows if row["status"] == "overdue"]
    if late:
        names = ", ".join(
            f"{row['node']} ({row['role']}, pid {row['pid']}, {ago(row['silent_seconds'])})" for row in late[:3]
        )
        return Check(
            "workers", "warn", f"{len(live)} live; not seen for over {overdue:g} s: {names}",
            "look whether it hangs or was killed; its leases are recovered by themselves",
        )  # fmt: skip
    if not live:
        return Check("workers", "warn", "none is alive", "start one with `tenure worker`, or all with `tenure up`")
    return ok("workers", f"{len(live)} live: {', '.join(row['node'] for row in live[:5])}")


def leases(connection: Connection) -> Check:
    """Expired leases that nobody settles, due tasks that nobody promotes."""
    expired, oldest = diagnosis.expired_leases(connection)
    late = diagnosis.overdue_promotions(connection)
    if expired or late:
        parts = [f"{expired} expired, for up to {ago(oldest)}"] if expired else []
        parts += [f"{late} due tasks are not queued"] if late else []
        return Check("leases", "wrong", ", ".join(parts), "no reaper runs: start a worker or beat (TENURE_SERVICES)")
    return ok("leases", "none expired, no due task left behind")


def schedules(connection: Connection) -> Check:
    """Due schedules that nobody fires."""
    late, longest = diagnosis.late_schedules(connection)
    if late:
        finding = f"{late} are due and not fired, for up to {ago(longest)}"
        return Check("schedules", "wrong", finding, "no beat fires them: start `tenure beat`, or look at its log")
    return ok("schedules", "none is overdue")


def backlog(connection: Connection) -> Check:
    """Queued tasks that no live worker would take, and those that a pause holds: a worker would not help these."""
    overdue = runtime_settings.value(connection, runtime_settings.WORKER_OVERDUE)
    paused = diagnosis.paused(connection)
    held = {(row["kind"], row["queue"]) for row in paused}
    rows = [r for r in diagnosis.unserved(connection, overdue=overdue) if (r["kind"], r["queue"]) not in held]
    findings, advice = [], []
    if rows:
        findings.append("queued without a worker: " + ", ".join(_many(row) for row in rows[:3]))
        advice.append("start a worker that has the kind installed (TENURE_KINDS) and serves the queue (--queues)")
    if paused:
        named = (f"{_many(row)} ({row['what']} paused by {row['paused_by']})" for row in paused[:3])
        findings.append("held by a pause: " + ", ".join(named))
        pauses = list(dict.fromkeys((row["what"], row["name"]) for row in paused[:3]))
        advice.append("let them run with " + ", ".join(f"`tenure {what}s resume {name}`" for what, name in pauses))
    if not findings:
        return ok("backlog", "every queued task has a live worker for it")
    return Check("backlog", "wrong" if rows else "warn", "; ".join(findings), "; ".join(advice))


def _many(row: dict[str, Any]) -> str:
    return f"{row['n']} {row['kind']} in queue {row['queue']}"
