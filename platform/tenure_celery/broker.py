"""The dispatcher's port to the broker: straight to Redis or Valkey where it can, through `send_task` elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError as KombuError

from tenure.model.errors import BrokerUnavailable
from tenure.services.dispatcher import UNKNOWN, Broker
from tenure.store.hints import Hint
from tenure_celery.conf import TRANSPORT
from tenure_celery.envelope import HEADER, envelope

EPOCH_KEY = "tenure:epoch"


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, KombuError, OSError):
        # The driver's text can hold the URL: the class of trouble is all that is said.
        raise BrokerUnavailable(
            "the broker cannot be reached: check TENURE_BROKER_URL, and that the server is up"
        ) from None


class RedisBroker:
    """Redis and Valkey: one LPUSH per batch and queue."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url, socket_timeout=TRANSPORT["socket_timeout"], socket_connect_timeout=TRANSPORT["socket_connect_timeout"]
        )

    def depth(self, queue: str) -> int:
        with _bounded():
            return int(self._client.llen(queue))

    def publish(self, batch: Sequence[Hint]) -> None:
        queues = dict.fromkeys(hint.queue for hint in batch)
        with _bounded():
            for queue in queues:
                self._client.lpush(queue, *[envelope(hint) for hint in batch if hint.queue == queue])

    def identity(self) -> tuple[str | None, str]:
        with _bounded():
            pipe = self._client.pipeline(transaction=False)
            pipe.get(EPOCH_KEY)
            pipe.info("server")
            epoch, info = pipe.execute()
        return (epoch.decode() if epoch is not None else None), str(info["run_id"])

    def set_epoch(self, epoch: str) -> None:
        with _bounded():
            self._client.set(EPOCH_KEY, epoch)

    def close(self) -> None:
        self._client.close()


class CeleryBroker:
    """Any other broker: through `send_task`. Its depth is what a passive declare says; it has no epoch of ours."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def depth(self, queue: str) -> int:
        with _bounded(), self._app.connection_for_write() as connection:
            try:
                return int(connection.default_channel.queue_declare(queue=queue, passive=True).message_count)
            except connection.channel_errors:
                return 0  # nobody has declared it yet

    def publish(self, batch: Sequence[Hint]) -> None:
        with _bounded(), self._app.producer_pool.acquire(block=True) as producer:
            for hint in batch:
                options: dict[str, Any] = {"task_id": hint.task_id, "queue": hint.queue, "headers": {HEADER: "hint"}}
                self._app.send_task(hint.kind, producer=producer, retry=False, **options)

    def identity(self) -> tuple[str | None, str]:
        return UNKNOWN

    def set_epoch(self, epoch: str) -> None:
        del epoch  # nowhere to keep it: such a broker is expected to be durable by itself

    def close(self) -> None:
        self._app.pool.force_close_all()


def broker_for(app: Celery, url: str) -> Broker:
    """The port for this broker URL."""
    return RedisBroker(url) if url.startswith(("redis://", "rediss://")) else CeleryBroker(app)
