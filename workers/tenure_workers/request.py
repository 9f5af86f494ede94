"""A message in Celery's hands, from its receipt to its ack: it names one task, and shows nothing of what that was given.

A foreign message's content goes to the child in one sealed header; Celery's own log, events, `inspect` and limits see an
empty call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from celery.exceptions import InvalidTaskError
from celery.worker import request
from kombu.exceptions import ContentDisallowed, DecodeError

from tenure_celery.envelope import HEADER
from tenure_celery.foreign import Foreign

SEALED = "x-tenure-foreign"
_ID_CHARACTERS = 255
_DEPTH = 100  # levels
_EMPTY: tuple[list[Any], dict[str, Any], dict[str, Any]] = ([], {}, {})


class Request(request.Request):
    """Set on our tasks. No countdown, expiry, time limit, callback or revoke of Celery's acts on it: rows have these."""

    def __init__(
        self, message: Any, *, headers: Any = None, body: Any = None, decoded: bool = False, **options: Any
    ) -> None:
        given = message.headers if headers is None else headers
        super().__init__(message, headers=_bare(message, given, body, decoded), body=_EMPTY, decoded=True, **options)

    def acknowledge(self) -> None:
        """Ack, if the channel that the message came by still is. kombu raises AttributeError for one whose broker was
        lost meanwhile, and an error here would end the worker. The message then comes again, and its claim is refused."""
        try:
            super().acknowledge()
        except Exception as error:
            self._lost("ack_lost", error)

    def reject(self, requeue: bool = False) -> None:
        """As `acknowledge`."""
        try:
            super().reject(requeue=requeue)
        except Exception as error:
            self._lost("reject_lost", error)

    def _lost(self, event: str, error: Exception) -> None:
        self.acknowledged = True  # by nobody: it is not ours any more
        structlog.get_logger("tenure.request").warning(event, task_id=self.id, error=type(error).__name__)

    def revoked(self) -> bool:
        """Never: a cancel is asked of the row. A remembered id would silently eat later attempts."""
        return False


def _bare(message: Any, given: Mapping[str, Any], body: Any, decoded: bool) -> dict[str, Any]:
    task_id = given.get("id")
    if not isinstance(task_id, str) or not 0 < len(task_id) <= _ID_CHARACTERS:
        raise InvalidTaskError("a message without a usable id")
    bare = {
        "lang": "py",
        "task": given["task"],
        "id": task_id,
        "root_id": task_id,
        "retries": 0,
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "ignore_result": True,
    }
    if given.get(HEADER) == "hint":
        return {**bare, HEADER: "hint"}
    priority = (message.properties or {}).get("priority")
    if _deep((given, priority)):
        raise InvalidTaskError("headers nested too deep")
    return {**bare, SEALED: Foreign(task_id, dict(given), priority, _read(message, body, decoded))}


def _read(message: Any, body: Any, decoded: bool) -> tuple[Any, Any, Any] | None:
    try:
        args, kwargs, embed = body if decoded else message.payload
    except (DecodeError, ContentDisallowed, ValueError, TypeError, RecursionError):
        return None  # its task is rejected, which says so
    return None if _deep((args, kwargs, embed)) else (args, kwargs, embed)


def _deep(value: Any) -> bool:
    """Whether this would exhaust the stack on its way into the child: pickle recurses, and the pool loses a place by it."""
    level = [value]
    for _ in range(_DEPTH):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
