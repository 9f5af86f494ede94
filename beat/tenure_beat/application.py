"""Beat's Celery app: `celery beat` wants one. It registers no task, and beat sends nothing through it."""

from __future__ import annotations

import sys
from functools import lru_cache

from celery import Celery, signals

from tenure import settings, telemetry
from tenure.model.errors import TenureError
from tenure_celery.app import make_app


@lru_cache(maxsize=1)
def application() -> Celery:
    """The one app of this process. A wrong setting is one line on stderr and exit code 2."""
    try:
        app = make_app(settings.load(), ["default"])
    except TenureError as error:
        print(f"tenure: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    telemetry.configure()
    # Ours is set up already; without a receiver Celery sets up its own.
    signals.setup_logging.connect(_keep_logging, weak=False)
    return app


def _keep_logging(**_: object) -> None:
    """What Celery calls instead of its own set-up."""
