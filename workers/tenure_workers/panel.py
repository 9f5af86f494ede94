"""Celery's remote commands that would disable a worker of ours: each answers that it is not supported, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.worker.control import Panel

_SIZE = "its slots are made at its start: restart it with another --concurrency or --autoscale"
INSTEAD = {
    "rate_limit": "a held message would hold its slot: use `tenure limits`",
    "time_limit": "declare run_limit on the kind, or give a deadline",
    "pool_grow": _SIZE,
    "pool_shrink": _SIZE,
    "pool_restart": "restart the worker",
    "autoscale": _SIZE,
}


def refuse() -> None:
    """Replace them in this process, whatever arguments they are given."""
    for name, instead in INSTEAD.items():
        Panel.data[name] = _refusal(name, instead)


def _refusal(name: str, instead: str) -> Callable[..., dict[str, str]]:
    def refused(_state: Any, **_options: Any) -> dict[str, str]:
        """Not supported."""
        return {"error": f"not supported: {name}: {instead}"}

    return refused
