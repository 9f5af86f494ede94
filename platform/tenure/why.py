"""why: the reasons a task does not run, or what it is doing, in sentences. Reads; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tenure.caller import AnyConnection, connection_of
from tenure.model.errors import NoSuchTask
from tenure.model.states import ACTIVE, TERMINAL, State
from tenure.store import settings as runtime_settings
from tenure.store import why as store
from tenure.why_rules import Reason, refusals, waits


def why(connection: AnyConnection, task_id: UUID) -> dict[str, Any]:
    """id, kind, queue, scope, state, claimable, ahead (hints before its own), holder, limits[{what, name, most, running}],
    reasons[{code, text}], most decisive first.

    `claimable` is the claim's own predicate; `reasons` is never empty. Raises NoSuchTask.
    """
    database = connection_of(connection)
    overdue = runtime_settings.value(database, runtime_settings.WORKER_OVERDUE)
    facts = store.facts(database, task_id, overdue=overdue)
    if facts is None:
        raise NoSuchTask(f"no task {task_id}")
    facts |= {
        "pauses": store.pauses(database, task_id),
        "limits": store.limits(database, task_id),
        "beside": store.beside(database, task_id),
        "overdue": overdue,
    }
    holder = store.holder(database, task_id)
    if facts["state"] == State.WAITING:
        facts["turn"] = store.turn(database, task_id)
    if facts["state"] == State.QUEUED:
        facts["handed_back"] = store.handed_back(database, task_id)
    shown = ("id", "kind", "queue", "scope", "state", "outcome", "claimable", "ahead", "limits")
    return {
        **{name: facts[name] for name in shown},
        "holder": holder,
        "reasons": [{"code": code, "text": text} for code, text in reasons(facts, holder)],
    }


def reasons(facts: dict[str, Any], holder: dict[str, Any] | None) -> list[Reason]:
    """Pure: the facts as sentences. A task that could be claimed now says what it waits for."""
    state = State(facts["state"])
    if state in TERMINAL:
        outcome = f" ({facts['outcome']})" if facts["outcome"] else ""
        message = f": {facts['error_message']}" if facts["error_message"] else ""
        return [("ended", f"it has ended: {state}{outcome}{message}")]
    if state in ACTIVE:
        return list(_active(facts, holder))
    found = [*_blocked(facts, state), *refusals(facts)]
    if state is State.WAITING:
        return found  # whether a worker would take it is asked when its turn has come
    if not found and state is State.QUEUED and not facts["claimable"]:
        found = [("refused", "a claim refuses it for a reason this version of `why` does not name")]
    return found + list(_unserved(facts)) or [_next(facts)]


def _active(facts: dict[str, Any], holder: dict[str, Any] | None) -> Iterator[Reason]:
    if holder is None:
        yield "ending", "it is active without a lease: it is just being ended"
        return
    where = f"{holder['node'] or 'an unknown node'}, pid {holder['pid']}, token {holder['token']}"
    if holder["seconds_left"] <= 0:
        yield (
            "lease_expired",
            f"its lease ({where}) expired {-holder['seconds_left']:.0f} s ago: recovery takes it next",
        )
    else:
        yield (
            "held",
            f"it runs: held by {where}, attempt {holder['attempt']}, lease good for {holder['seconds_left']:.0f} s",
        )
    if facts["stop_by"]:
        yield "stop_asked", f"a stop was asked by {facts['stop_by']}: it ends at its next safe point"


def _blocked(facts: dict[str, Any], state: State) -> Iterator[Reason]:
    if facts["stop_by"]:
        yield "stop_asked", f"a stop was asked by {facts['stop_by']}: it is cancelled by the next sweep"
    if facts["past_deadline"]:
        yield (
            "deadline_passed",
            f"its deadline {facts['deadline']:%Y-%m-%d %H:%M:%SZ} has passed: the next sweep ends it",
        )
    if facts["past_start_by"]:
        yield "start_by_passed", f"it had to start by {facts['start_by']:%Y-%m-%d %H:%M:%SZ}: the next sweep ends it"
    if state is State.WAITING:
        yield "waiting", waits(facts.get("turn"))
    elif (state is State.SCHEDULED or facts["early"]) and facts["due_in"] > 0:
        again = f" (attempt {facts['attempt']} of {facts['max_attempts']} failed)" if facts["attempt"] else ""
        yield "not_due", f"it is not due for another {facts['due_in']:.0f} s{again}"
    elif state is State.SCHEDULED:
        yield "promotion_due", "it is due: a reaper queues it within a second, if one runs"


def _unserved(facts: dict[str, Any]) -> Iterator[Reason]:
    if said := facts.get("handed_back"):
        yield "unknown_version", f"{said}: it waits for a worker of the version that submitted it"
    if not facts["workers"]:
        yield "no_worker", "no worker is alive: start one with `tenure worker`"
    elif not facts["knowing"]:
        yield "unknown_kind", f"no live worker has kind {facts['kind']} installed: see TENURE_KINDS of the workers"
    elif not facts["serving"]:
        yield "queue_unserved", f"no live worker serves queue {facts['queue']}: see `tenure worker --queues`"


def _next(facts: dict[str, Any]) -> Reason:
    silent = facts["broker_silent"]
    if facts["queued_for"] > facts["overdue"] and (silent is None or silent > facts["overdue"]):
        since = "none ever has" if silent is None else f"the last time was {silent:.0f} s ago"
        return (
            "broker_away",
            f"no dispatcher reaches the broker ({since}): is it up, does a worker run with TENURE_SERVICES=dispatcher?",
        )
    ahead = facts["ahead"] or 0
    if not ahead:
        sent = "" if facts["hinted"] else " (its message is with the broker)"
        return (
            "next",
            f"nothing: it is the next of queue {facts['queue']} and is claimed when a slot is free{sent}",
        )
    many = f"{ahead} or more" if ahead >= store.AHEAD_LIMIT else str(ahead)
    return "queued", f"{many} tasks of queue {facts['queue']} are before it"
