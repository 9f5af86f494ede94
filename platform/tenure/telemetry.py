"""Logs: one JSON object a line on stderr. Structured fields only; whatever looks like a URL with credentials is cut."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from traceback import extract_tb
from typing import Any

import structlog

_TALKATIVE = ("celery", "kombu", "billiard")
_CREDENTIALS = re.compile(r"(\w[\w+.-]*://)[^\s/@]*@")


def _redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and "://" in value:
            event[name] = _CREDENTIALS.sub(r"\1***@", value)
    return event


def _without_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """An exception is said by class and frames: its text may hold rows, URLs or what a driver says."""
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["error"] = type(error).__name__
        event["frames"] = [
            f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno} {f.name}" for f in extract_tb(error.__traceback__)
        ]
    return event


class _Quiet(logging.Filter):
    """Celery and kombu put an exception's text, and whole messages, into lines about failures: the class stays of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] in _TALKATIVE and record.args:
            record.args = _classes(record)
        return True


def _classes(record: logging.LogRecord) -> tuple[Any, ...] | Mapping[str, Any]:
    given = record.args or ()
    failed = bool(record.exc_info)
    if isinstance(given, Mapping) and "%(" in str(record.msg):
        raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        hidden = {"exc": type(raised).__name__, "traceback": "", "args": "", "kwargs": "", "return_value": ""}
        return {**given, **hidden} if failed else given
    parts = (given,) if isinstance(given, Mapping) else given  # logging unpacks a mapping that is the only argument
    return tuple(
        type(part).__name__
        if isinstance(part, BaseException) or (failed and not isinstance(part, int | float))
        else part
        for part in parts
    )


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
    handler.addFilter(_Quiet())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Celery says at INFO which message it received and how long it took: four lines a task, none about the truth.
    for chatty in ("celery.worker.strategy", "celery.app.trace", "kombu", "amqp", "alembic"):
        logging.getLogger(chatty).setLevel("WARNING")
