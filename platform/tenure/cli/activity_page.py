"""One activity on a page, for people."""

from __future__ import annotations

from typing import Any

from tenure.cli.measured import length
from tenure.cli.output import print_fields, print_table, say


def page(found: dict[str, Any]) -> None:
    """Print an activity as `activity_reads.one` answers it: what it is, its phases, its children, its items."""
    _fields(found)
    _phases(found["phases"])
    _children(found["children"])
    _items(found)


def target(row: dict[str, Any]) -> str:
    """`task probe`: the type and name of what it was about, as far as there are any."""
    return " ".join(str(row[f"target_{part}"]) for part in ("type", "name") if row[f"target_{part}"])


def _fields(found: dict[str, Any]) -> None:
    created, executed, ended = found["created_at"], found["executed_at"], found["ended_at"]
    initiator = [found["initiator_type"], found["initiator_name"]]
    if found["initiator_id"] not in ("", found["initiator_name"]):
        initiator.append(f"({found['initiator_id']})")
    shown = {
        "id": found["id"],
        "status": found["status"],
        "message": found["message"],
        "warning": found["warning_message"],
        "stack": found["stack"],
        "initiator": " ".join(initiator),
        "actor": found["actor"],
        "target": target(found),
        "target id": found["target_id"],
        "context": found["context"],
        "task": found["task_id"],
        "parent": found["parent_id"],
        "created": created,
        "executed": executed,
        "ended": ended,
        "run time": length((ended - executed).total_seconds()) if ended and executed else None,
        "total time": length((ended - created).total_seconds()) if ended else None,
    }
    print_fields(shown)


def _phases(phases: list[dict[str, Any]]) -> None:
    if not phases:
        return
    print()
    several = len({one["task_id"] for one in phases}) > 1
    rows = []
    for one in phases:
        started, ended = one["started_at"], one["ended_at"]
        took = length((ended - started).total_seconds()) if started and ended else None
        done = one["done"] if one["total"] is None else f"{one['done'] or 0}/{one['total']}"
        name = "  " * one["path"].count("/") + one["path"].rpartition("/")[2]
        of = (str(one["task_id"]),) if several else ()
        rows.append((*of, name, one["status"], done, started, took, one["message"]))
    print_table(
        (*(("Task",) if several else ()), "Phase", "Status", "#Done", "Started (UTC)", "#Took", "Message"),
        rows,
        empty="",
        gives_way={"Started (UTC)": 0, "Phase": 12},
    )


def _children(children: dict[str, Any]) -> None:
    if not children["counts"]:
        return
    print()
    say("children: " + ", ".join(f"{number} {status}" for status, number in children["counts"].items()))
    print_table(
        ("ID", "Status", "Target", "Created", "Ended"),
        ((one["id"], one["status"], target(one), one["created_at"], one["ended_at"]) for one in children["first"]),
        empty="",
        gives_way={"Ended": 0, "Created": 0, "Target": 8},
    )


def _items(found: dict[str, Any]) -> None:
    for change, counted in found["counts"].items():
        print(f"{change}: {counted['objects']} objects, {counted['errors']} with errors")
    for name, number in found["outcomes"].items():
        print(f"{name}: {number} times")
    if found["items"]:
        print()
        print_table(
            ("Time (UTC)", "Change", "Object", "Error"),
            ((i["created_at"], i["change"], i["object_name"] or i["object_id"], i["error_message"]) for i in found["items"]),
            empty="",
            gives_way={"Time (UTC)": 0, "Object": 12},
        )  # fmt: skip
