"""The dispatch rules a waiting task meets, in sentences: pauses, limits, and who may not run beside whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Reason = tuple[str, str]


def refusals(facts: dict[str, Any]) -> Iterator[Reason]:
    """Pure: every pause, limit and exclusiveness that would refuse the task, though a claim stops at the first."""
    for pause in facts["pauses"]:
        what, name = pause["what"], facts[pause["what"]]
        why = f" ({pause['reason']})" if pause["reason"] else ""
        yield (
            f"{what}_paused",
            f"{what} {name} was paused by {pause['paused_by']} at {pause['created_at']:%Y-%m-%d %H:%M:%SZ}{why}: "
            f"`tenure {what}s resume {name}`",
        )
    for limit in facts["limits"]:
        if facts["state"] == "queued" and limit["running"] >= limit["most"]:
            yield _full(limit, facts)
    if facts["refusal"] in ("exclusive_running", "exclusive_waiting", "not_alone"):
        yield _beside(facts)


def _full(limit: dict[str, Any], facts: dict[str, Any]) -> Reason:
    of = {"global": "all tasks together", "kind": f"kind {facts['kind']}"}.get(limit["what"], f"scope {facts['scope']}")
    by = f"set by {limit['set_by']}" if limit["set_by"] else "declared by the kind"
    code = {"each scope": "scope"}.get(limit["what"], limit["what"])
    return f"{code}_limit", f"the limit of {of} is reached: {limit['running']} of {limit['most']} run ({by})"


def _beside(facts: dict[str, Any]) -> Reason:
    where = f"in scope {facts['scope']}" if facts["scope"] else "here"
    who = ", ".join(f"task {one['task_id']} ({one['kind']})" for one in facts["beside"][:3]) or "others"
    if facts["refusal"] == "exclusive_running":
        return "exclusive_running", f"{who} runs alone, nothing may run beside it"
    if facts["refusal"] == "exclusive_waiting":
        return "exclusive_waiting", f"{who} waits to run alone {where}: nothing else starts before it has"
    return "not_alone", f"it is exclusive and must run alone {where}, beside it runs {who}"


def waits(turn: dict[str, Any] | None) -> str:
    """Pure: for whose end a task of a later step group waits."""
    if turn is None:
        return "the turn of its step group has not come"
    of = f"execution {turn['execution_id']} of schedule {turn['schedule_name']}"
    place = f"it is of group {turn['step_index'] + 1} of {turn['groups']} of {of}"
    if turn["execution_state"] == "waiting":
        behind = f": it starts after execution {turn['behind']}" if turn["behind"] else ": it starts within a second"
        return f"{place}, which has not started{behind}"
    if turn["execution_state"] == "cancelling":
        return f"{place}, which is being cancelled: it ends within a second"
    if turn["before"]:
        return f"{place}; {turn['before']} tasks of the groups before it have not ended"
    return f"{place}; the groups before it have ended: it is queued within half a minute, if a worker or beat runs"
