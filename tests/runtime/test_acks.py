"""Acks in Celery's event loop, by a channel whose broker connection was lost while the task was in hand."""

import logging

from kombu import Connection
from kombu.asynchronous import Hub

from tenure_workers.consumer import Consumer


def test_an_ack_by_a_closed_channel_does_not_end_the_event_loop(broker_url: str) -> None:
    hub = Hub()
    consumer = Consumer.__new__(Consumer)  # what it hands to its loop, without the rest of a worker
    consumer.hub = hub
    with Connection(broker_url) as connection:
        consumer.connection_errors = connection.connection_errors
        queue = connection.SimpleQueue("acks")
        queue.put("hint")
        message = queue.get(timeout=5)
        message.channel.do_restore = False  # as where the broker could not be reached to give back what was delivered
        message.channel.close()
        seen: list[str] = []
        consumer.call_soon_ack(message.ack_log_error, logging.getLogger(__name__), consumer.connection_errors)
        hub.call_soon(seen.append, "went on")
        next(hub.create_loop())
        assert seen == ["went on"]
    hub.close()
