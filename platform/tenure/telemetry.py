"""Logs: one JSON object a line on stderr. Structured fields only; whatever looks like a URL with credentials is cut."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any

import structlog

_CREDENTIALS = re.compile(r"(\w[\w+.-]*://)[^\s/@]*@")


def _redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and "://" in value:
            event[name] = _CREDENTIALS.sub(r"\1***@", value)
    return event


def _without_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """An exception by class and stack: its text may hold rows, addresses or a driver's message."""
    found = event.pop("exc_info", None)
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        event["error"] = type(error).__name__
        event["stack"] = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def configure(level: str = "INFO", *, human: bool = False) -> None:
    """Set up structlog and the standard library's root logger alike. Safe to call again."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if human else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_values, _redact, render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Celery says at INFO which message it received and how long it took: four lines a task, none about the truth.
    for chatty in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "alembic"):
        logging.getLogger(chatty).setLevel("WARNING")
