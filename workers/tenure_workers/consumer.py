"""Celery's consumer, made to outlive a broker connection that is lost twice, and to say nothing of what messages hold."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from celery.worker import consumer

from tenure.model.errors import shortened

_LOGGER = logging.getLogger(__name__)  # for Celery's own notes about an ack that failed


class Consumer(consumer.Consumer):
    """Set as `worker_consumer`. kombu 5.7 closes a lost Redis connection twice: the second time a channel that was
    polling wants to restore its messages through a transport that is gone, and the AttributeError ends the worker."""

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """Drop the connection. Whatever that raises, the next round of the consumer's loop makes a new one."""
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:
            structlog.get_logger("tenure.consumer").warning("broker_connection_dropped", error=type(error).__name__)

    # Celery's own log lines for these hold the message's body.

    def on_unknown_task(self, _body: Any, message: Any, _error: BaseException) -> None:
        """A name that is no kind here: dropped, as Celery does."""
        self._drop("unknown_task", message)

    def on_unknown_message(self, _body: Any, message: Any) -> None:
        self._drop("unknown_message", message)

    def on_invalid_task(self, _body: Any, message: Any, _error: BaseException) -> None:
        self._drop("invalid_message", message)

    def on_decode_error(self, message: Any, _error: BaseException) -> None:
        self._say("unreadable_message", message)
        message.ack()

    def _drop(self, event: str, message: Any) -> None:
        self._say(event, message)
        message.reject_log_error(_LOGGER, self.connection_errors)

    def _say(self, event: str, message: Any) -> None:
        headers = message.headers if isinstance(message.headers, dict) else {}
        said = {name: shortened(headers.get(name)) for name in ("task", "id")}
        structlog.get_logger("tenure.consumer").error(event, **said)
