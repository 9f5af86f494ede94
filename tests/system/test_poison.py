"""Messages that no Celery sends: a worker says so, without their content, and goes on with the next."""

import base64
import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery

from tests.support.databases import Database
from tests.support.submitted import Tasks
from tests.support.until import until
from tests.support.workers import Worker

CANARY = "canary-77ab"


def message(body: bytes = b"[[], {}, {}]", *, headers: Any = None, properties: Any = None, parts: Any = None) -> str:
    """An envelope as kombu writes it, but for what is given: single headers and properties, whole `parts`."""
    own = str(uuid4())
    made = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": "ledger", "id": own, "root_id": own, "origin": "x@elsewhere", **(headers or {})},
        "properties": {
            "correlation_id": own,
            "delivery_info": {"exchange": "", "routing_key": "default"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
            **(properties or {}),
        },
    }  # fmt: skip
    return json.dumps({**made, **(parts or {})})


def nested(levels: int) -> bytes:
    return b'[[], {"x": ' + b"[" * levels + b"]" * levels + b"}, {}]"


SECRET = json.dumps([[], {"secret": CANARY}, {}]).encode()
POISON = {
    "a number as its body": message(b"5"),
    "null as its body": message(b"null"),
    "true as its body": message(b"true"),
    "no headers and a number as its body": message(b"5", parts={"headers": {}}),
    "a list as its task": message(SECRET, headers={"task": [CANARY]}),
    "a mapping as its task": message(SECRET, headers={"task": {CANARY: 1}}),
    "protocol 1 with a list as its task": message(b'{"task": ["x"], "id": "a", "args": [], "kwargs": {}}', parts={"headers": {}}),
    "a list as its content type": message(SECRET, parts={"content-type": [CANARY]}),
    "an unknown content encoding": message(SECRET, parts={"content-encoding": CANARY}),
    "a list as its headers": message(SECRET, parts={"headers": [CANARY]}),
    "text as its headers": message(SECRET, parts={"headers": CANARY}),
    "a mapping as its delivery tag": message(SECRET, properties={"delivery_tag": {CANARY: 1}}),
    "text as its delivery info": message(SECRET, properties={"delivery_info": CANARY}),
    "an empty delivery info": message(SECRET, properties={"delivery_info": {}}),
    "an unknown body encoding": message(SECRET, properties={"body_encoding": "rot13"}),
    "a list as its body encoding": message(SECRET, properties={"body_encoding": []}),
    "a body that is not base64": message(parts={"body": "é" + CANARY}),
    "no properties": json.dumps({"body": CANARY, "headers": {}}),
    "no JSON": CANARY,
    "no text": b"\xff\xfe",
    "a number": "5",
    "a false type of kombu's": json.dumps({"__type__": "datetime", "__value__": CANARY}),
    "too deep": "[" * 100_000,
"a body 90 deep": message(nested(90)),
    "a body 900 deep": message(nested(900)),
    "a header 900 deep": message(headers={"x": json.loads(nested(900))}),
    "a priority 900 deep": message(properties={"priority": json.loads(nested(900))}),
}  # fmt: skip


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, concurrency=1) as made:
        made.wait_ready()
        yield made


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_malformed_message_ends_no_worker_and_does_not_come_back(
    worker: Worker, tasks: Tasks, module_broker: str, poison: str | bytes
) -> None:
    own, before = uuid4(), len(worker.text())
    with redis.Redis.from_url(module_broker) as broker:
        broker.lpush("default", poison)
        broker.lpush("default", message(headers={"id": str(own)}))
        until(lambda: tasks.rows("select 1 from tasks where id = :id", id=own), 10)
        tasks.wait_ended([own], 10, watch=[worker])
        until(lambda: (broker.llen("default"), broker.hlen("unacked")) == (0, 0), 10)
    assert worker.process.poll() is None
    said = worker.text()[before:]
    assert any(
        event in said for event in ("message_discarded", "invalid_message", "unknown_message", "message_rejected")
    )
    assert not any(word in said for word in (CANARY, "Unrecoverable", "Traceback", "Connection to broker lost"))


def test_a_malformed_broadcast_ends_no_worker(worker: Worker, tasks: Tasks, module_broker: str) -> None:
    own, before = uuid4(), len(worker.text())
    with redis.Redis.from_url(module_broker) as broker:
        channel = f"/{module_broker.rsplit('/', 1)[-1]}.celery.pidbox"
        for poison in ("5", CANARY, "[" * 100_000, message(b"5"), message(b"null", parts={"headers": [CANARY]})):
            until(partial(broker.publish, channel, poison))  # Celery subscribes anew after some of them
        broker.lpush("default", message(headers={"id": str(own)}))
        until(lambda: tasks.rows("select 1 from tasks where id = :id", id=own), 10)
        tasks.wait_ended([own], 10, watch=[worker])
    with Celery("elsewhere", broker=module_broker, set_as_current=False) as app:
        until(lambda: app.control.ping(timeout=1.0, limit=1), 10)
    assert worker.process.poll() is None
    assert CANARY not in worker.text()[before:]


def test_a_hint_without_a_row_id_is_dropped_unshown(worker: Worker, tasks: Tasks, module_broker: str) -> None:
    before = len(worker.text())
    with redis.Redis.from_url(module_broker) as broker:
        broker.lpush("default", message(headers={"id": f"'; {CANARY}", "x-tenure": "hint"}))
        worker.wait_for("hint_without_uuid")
        until(lambda: broker.hlen("unacked") == 0, 10)
    assert not any(word in worker.text()[before:] for word in (CANARY, "Traceback", "select"))
