"""The deployable beat. `celery -A tenure_beat beat -S tenure` finds `app` here, made when first asked for: it needs no
worker's package, and importing this one needs no settings."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("app", "celery"):
        from tenure_beat.application import application

        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
