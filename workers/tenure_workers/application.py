"""The worker's Celery app: every kind is a Celery task of the same name whose body is our executor."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from celery import Celery

from tenure import registry, settings, telemetry
from tenure.model.errors import TenureError
from tenure.registry import Registry
from tenure_celery.app import make_app
from tenure_workers import child, lifecycle


@lru_cache(maxsize=1)
def application() -> Celery:
    """The one app of this process. A wrong setting or kind is one line on stderr and exit code 2."""
    try:
        found = settings.load()
        kinds = registry.load(found.kind_packages)
        app = make_app(found, kinds.queues or ["default"])
    except TenureError as error:
        print(f"tenure: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    app.conf.worker_consumer = "tenure_workers.consumer:Consumer"
    telemetry.configure()
    _register(app, kinds)
    lifecycle.connect(app, found, kinds)
    return app


def _register(app: Celery, kinds: Registry) -> None:
    for name in kinds.names:
        # Main never sees run-on tasks: the child sends the events of all of them itself.
        app.task(name=name, bind=True, send_events=False, ignore_result=True)(_run)


def _run(task: Any, *_args: object, **_params: object) -> None:
    """A message is a hint to look at one row; what else it carries is not believed."""
    child.run(task.request.id)
