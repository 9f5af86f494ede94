"""The worker's Celery app: every kind is a Celery task of the same name whose body is our executor."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any
from uuid import UUID

import structlog
from celery.exceptions import Ignore, Reject, Retry

from tenure import registry, settings, telemetry
from tenure.model.errors import TenureError
from tenure.registry import Registry
from tenure_celery.app import TenureCelery, make_app
from tenure_celery.envelope import HEADER
from tenure_celery.kinds import KindTask
from tenure_workers import child, lifecycle, panel
from tenure_workers.request import SEALED


@lru_cache(maxsize=1)
def application() -> TenureCelery:
    """The one app of this process. A wrong setting or kind is one line on stderr and exit code 2."""
    try:
        found = settings.load()
        kinds = registry.load(found.kind_packages)
        app = make_app(found, [*(kinds.queues or ["default"]), *found.foreign_queues], kinds=kinds)
    except TenureError as error:
        print(f"tenure: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    app.amqp_cls = "tenure_workers.guard:AMQP"
    app.conf.worker_consumer = "tenure_workers.consumer:Consumer"
    telemetry.configure()
    _register(app, kinds)
    panel.refuse()
    lifecycle.connect(app, found, kinds)
    return app


def _register(app: TenureCelery, kinds: Registry) -> None:
    for name in kinds.claimable:
        # Main never sees run-on tasks: the child sends the events of all of them itself.
        # Not shared: another app in this process that knows the same kinds only submits.
        made = {"base": KindTask, "Request": "tenure_workers.request:Request", "shared": False, "bind": True}
        app.task(name=name, send_events=False, ignore_result=True, **made)(_run)


def _run(task: Any, /, *_args: object, **_params: object) -> None:
    """Our message is a hint to look at one row; any other is adopted first.

    An error says its class and frames and ends here: Celery would log its text and send it in an event, and that may
    hold params. The row tells the rest, or its lease does when it runs out.
    """
    log = structlog.get_logger("tenure.worker")
    try:
        if task.request.get(HEADER) != "hint":
            child.adopt(task.name, task.request.get(SEALED))
        elif (task_id := _uuid(task.request.id)) is not None:
            child.run(str(task_id))
        else:
            log.error("hint_without_uuid", kind=task.name)
    except (Ignore, Reject, Retry):
        raise  # Celery's own words for what becomes of the message
    except Exception:
        log.error("task_run_failed", kind=task.name, exc_info=True)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
