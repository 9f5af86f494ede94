"""The deployable worker. `celery -A tenure_workers worker` finds `app` here, made when first asked for: importing a
kind from this package must need no settings."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("app", "celery"):
        from tenure_workers.application import application

        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
