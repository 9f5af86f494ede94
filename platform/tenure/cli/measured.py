"""What is seen of a task or an activity, as bars: how far, how fast, how long yet. Pure; it remembers the pace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.cli.output import plain
from tenure.model.pace import Pace

Snapshot = dict[str, Any]
OPEN = ("pending", "running")


@dataclass(frozen=True)
class Bar:
    """One phase, or the counters of a task that has none. Numbers are None where nothing can be said."""

    name: str
    path: str
    depth: int
    status: str
    done: int | None
    total: int | None
    message: str | None
    rate: float | None  # per second
    left: float | None  # s
    finishing: bool  # all is counted, and it goes on
    seconds: float | None  # how long it has been running, or ran


class Measured:
    """Fed with one snapshot after the other of the same task or activity (store/progress.py)."""

    def __init__(self) -> None:
        self._paces: dict[tuple[Any, str], Pace] = {}

    def bars(self, seen: Snapshot) -> list[Bar]:
        phases = seen["phases"]
        several = len({phase["task_id"] for phase in phases}) > 1
        now = seen["at"]
        bars = [self._phase(phase, now, several) for phase in phases]
        return bars or self._counters(seen, now)

    def _phase(self, phase: dict[str, Any], now: datetime, several: bool) -> Bar:
        of = f"{phase['task_id'].hex[-6:]}/" if several else ""
        path: str = phase["path"]
        started, ended = phase["started_at"], phase["ended_at"]
        pace = self._pace((phase["task_id"], path), phase["status"] == "running", phase, phase["updated_at"])
        return Bar(
            name=plain(of + path if path.count("/") == 0 else path.rpartition("/")[2]),
            path=plain(of + path),
            depth=path.count("/"),
            status=phase["status"],
            done=phase["done"],
            total=phase["total"] or None,
            message=phase["message"] and plain(phase["message"]),
            seconds=None if started is None else ((ended or now) - started).total_seconds(),
            **_said(pace, now),
        )

    def _counters(self, seen: Snapshot, now: datetime) -> list[Bar]:
        if seen["processed"] is None:
            return []
        running = (seen.get("state") or seen.get("task_state")) == "running"
        counted = {"done": seen["processed"], "total": seen["total"]}
        pace = self._pace((None, ""), running, counted, now)
        started = seen.get("started_at") or seen.get("executed_at")
        ended = seen.get("finished_at") or seen.get("ended_at")
        return [
            Bar(
                name="processed", path="processed", depth=0, status="running" if running else "", **counted,
                message=None, seconds=None if started is None else ((ended or now) - started).total_seconds(), **_said(pace, now),
            )
        ]  # fmt: skip

    def _pace(self, key: tuple[Any, str], running: bool, counted: dict[str, Any], at: datetime) -> Pace | None:
        if not running or counted["done"] is None:
            return None
        pace = self._paces.setdefault(key, Pace())
        pace.add(at.timestamp(), counted["done"], counted["total"])
        return pace


def _said(pace: Pace | None, now: datetime) -> dict[str, Any]:
    if pace is None:
        return {"rate": None, "left": None, "finishing": False}
    at = now.timestamp()
    return {"rate": pace.rate(at), "left": pace.left(at), "finishing": pace.finishing}


def document(seen: Snapshot, bars: list[Bar]) -> Snapshot:
    """The snapshot as one JSON document, with the pace of each phase."""
    paced = [
        {**phase, "rate": bar.rate, "seconds_left": bar.left, "finishing": bar.finishing}
        for phase, bar in zip(seen["phases"], bars, strict=False)
    ]
    return {"at": seen["at"], **seen, "phases": paced}


def counted(bar: Bar) -> str:
    """`1,234/5,000`, or what is known of it."""
    if bar.done is None:
        return "" if bar.total is None else f"0/{bar.total:,}"
    return f"{bar.done:,}" if bar.total is None else f"{bar.done:,}/{bar.total:,}"


def paced(bar: Bar) -> str:
    """`120/s`; nothing where no rate is known."""
    if bar.rate is None:
        return ""
    return f"{bar.rate:,.0f}/s" if bar.rate >= 10 or bar.rate == 0 else f"{bar.rate:.1f}/s"


def time_left(bar: Bar) -> str:
    """`31s left`, `finishing up`, or nothing: never a time that is not known."""
    if bar.status != "running":
        return ""
    if bar.finishing:
        return "finishing up"
    return "" if bar.left is None else f"{length(bar.left)} left"


def length(seconds: float) -> str:
    """`0.4s`, `31s`, `2m 05s`, `1h 12m`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    return f"{minutes // 60}h {minutes % 60:02}m"
