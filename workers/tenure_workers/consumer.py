"""Celery's consumer, made to outlive what can go wrong while it drops a lost broker connection."""

from __future__ import annotations

import structlog
from celery.worker import consumer


class Consumer(consumer.Consumer):
    """Set as `worker_consumer`. kombu 5.7 closes a lost Redis connection twice: the second time a channel that was
    polling wants to restore its messages through a transport that is gone, and the AttributeError ends the worker."""

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """Drop the connection. Whatever that raises, the next round of the consumer's loop makes a new one."""
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:
            structlog.get_logger("tenure.consumer").warning("broker_connection_dropped", error=type(error).__name__)
