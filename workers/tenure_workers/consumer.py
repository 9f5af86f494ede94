"""Celery's consumer, made to outlive a broker connection that is lost twice, and to say nothing of what messages hold."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import structlog
from celery.worker import consumer

from tenure import settings
from tenure.model.errors import shortened

STEP_ASIDE = 1.0  # s: long enough for the queue's own workers to take what is theirs
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

    def call_soon_ack(self, ack: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Celery's: later, in the event loop. A task that ended while the broker was away is acked by a channel that is
        closed by then: kombu's AttributeError would end the worker. The message comes again, and its claim is refused."""

        def outlived(*given: Any, **more: Any) -> Any:
            try:
                return ack(*given, **more)
            except self.connection_errors:
                raise  # the loop ends by it, and begins anew with a new connection
            except Exception as error:
                structlog.get_logger("tenure.consumer").warning("ack_lost", error=type(error).__name__)
                return None

        return super().call_soon_ack(outlived, *arguments, **options)

    def create_task_handler(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Celery's, out of which nothing comes that a message did: it would end this worker, and then the next one."""
        handle = super().create_task_handler(*arguments, **options)

        def handler(message: Any) -> Any:
            try:
                return handle(message)
            except Exception as error:
                # kombu counts a KeyError as a lost connection: the message would come back for ever.
                if isinstance(error, self.connection_errors) and not isinstance(error, KeyError):
                    raise
                self._drop("invalid_message", message)
                return None

        return handler

    # Celery's own log lines for these hold the message's body.

    def on_unknown_task(self, _body: Any, message: Any, _error: BaseException) -> None:
        """A name that is no kind here. In a queue shared with other apps it is another's: it goes back, to the queue's
        end, and we leave that queue alone for a moment. In a queue of ours it is dropped, as Celery does."""
        queue = message.delivery_info.get("routing_key")
        if queue not in settings.load().foreign_queues:
            self._drop("unknown_task", message)
            return
        self._say("unknown_task", message)
        message.requeue()
        self.cancel_task_queue(queue)
        self.timer.call_after(STEP_ASIDE, self._back, (queue,))

    def _back(self, queue: str) -> None:
        # The consumer may be between two connections: the next one consumes from all queues that are selected.
        if self.task_consumer is None:
            self.app.amqp.queues.select_add(queue)
        else:
            self.add_task_queue(queue)

    def on_unknown_message(self, _body: Any, message: Any) -> None:
        self._drop("unknown_message", message)

    def on_invalid_task(self, _body: Any, message: Any, _error: BaseException) -> None:
        self._drop("invalid_message", message)

    def on_decode_error(self, message: Any, _error: BaseException) -> None:
        self._say("unreadable_message", message)
        message.ack()

    def _drop(self, event: str, message: Any) -> None:
        self._say(event, message)
        if not message.acknowledged:
            message.reject_log_error(_LOGGER, self.connection_errors)

    def _say(self, event: str, message: Any) -> None:
        headers = message.headers if isinstance(message.headers, dict) else {}
        named = {name: headers.get(name) for name in ("task", "id")}
        said = {name: shortened(value) if isinstance(value, str) else None for name, value in named.items()}
        structlog.get_logger("tenure.consumer").error(event, **said)
