"""The deployable worker. `celery -A tenure_workers worker` finds `app` here, made when first asked for: importing a
kind from this package must need no settings."""

import sys
from typing import Any

from tenure_workers.early import leave_on_signals


def __getattr__(name: str) -> Any:
    if name in ("app", "celery"):
        if "worker" in sys.argv[1:]:
            leave_on_signals()
        from tenure_workers.application import application

        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
