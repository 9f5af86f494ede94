"""procrastinate's app and no-op, on psycopg 3."""

from __future__ import annotations

import os

from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ.get("BENCH_PROCRASTINATE", "")))


@app.task(name="noop", queue="bench")
async def noop() -> None:
    """A coroutine: its worker runs those without a thread, so this is its fastest no-op."""
