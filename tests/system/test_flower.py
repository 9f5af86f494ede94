"""Worker and Flower side by side: Flower sees every task under its row's id, and nothing of its content."""

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tenure.client import submit
from tenure.model.records import Initiator
from tests.support.celery_processes import CeleryProcess
from tests.support.databases import Database
from tests.support.until import until

WORKER = ("celery", "-A", "tenure_workers", "-q", "worker", "-c", "2", "-n", "tenure@%h", "-Q", "default", "-l", "INFO")
TASKS = 12


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Flower:
    """Its API, once it answers."""

    def __init__(self, process: CeleryProcess, port: int) -> None:
        self.process, self._base = process, f"http://127.0.0.1:{port}"
        until(self._answers, 30)

    def _answers(self) -> bool:
        assert self.process.process.poll() is None, self.process.text()
        try:
            return self.get("/healthcheck") == "OK"
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self._base + path, timeout=5) as answer:
            return str(answer.read().decode())

    def post(self, path: str) -> int:
        request = urllib.request.Request(self._base + path, data=b"{}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def tasks(self) -> dict[str, dict[str, Any]]:
        return dict(json.loads(self.get("/api/tasks")))


@pytest.fixture
def flower(tmp_path: Path, database: Database, broker_url: str) -> Iterator[Flower]:
    port = free_port()
    arguments = ("tenure_workers.flower", f"--port={port}")
    urls = {"database_url": database.url, "broker_url": broker_url}
    with CeleryProcess(arguments, home=tmp_path, name="flower", **urls, FLOWER_UNAUTHENTICATED_API="true") as process:
        yield Flower(process, port)


def test_flower_shows_every_task_under_its_rows_id(
    flower: Flower, tmp_path: Path, database: Database, broker_url: str
) -> None:
    with CeleryProcess(
        WORKER, home=tmp_path, name="worker", database_url=database.url, broker_url=broker_url
    ) as worker:
        worker.wait_for('"ready"')
        until(lambda: json.loads(flower.get("/api/workers?refresh=1")), 20)
        with database.engine.begin() as connection:
            asked = {
                str(submit(connection, "probe", {"steps": 2}, initiator=Initiator("test", "1", "test")).id)
                for _ in range(TASKS)
            }
        until(lambda: {k for k, t in flower.tasks().items() if t["state"] == "SUCCESS"} == asked, 30)
        for key, task in flower.tasks().items():
            assert (task["uuid"], task["name"]) == (key, "probe")
            assert task["received"] <= task["started"] <= task["succeeded"]
            assert task["worker"].startswith("tenure@")
        assert min(asked) in flower.get(f"/task/{min(asked)}")


def test_flower_keeps_nothing_of_what_a_foreign_event_carries(flower: Flower, broker_url: str) -> None:
    app = Celery("foreign", broker=broker_url)
    with app.connection_for_write() as connection, app.events.Dispatcher(connection, hostname="foreign@there") as sent:
        content = {"args": "('s3cret-1',)", "kwargs": "{'p': 's3cret-2'}"}

        def shown() -> bool:
            # Events are published, not queued: whoever listens late misses them.
            sent.send("task-received", uuid="f-1", name="foreign.task", **content)
            sent.send("task-succeeded", uuid="f-1", result="'s3cret-3'", runtime=0.1)
            return "f-1" in flower.tasks()

        until(shown, 20, pace=0.2)
        until(lambda: flower.tasks()["f-1"]["state"] == "SUCCESS")
    assert "s3cret" not in json.dumps(flower.tasks())
    assert "s3cret" not in flower.get("/task/f-1")
    assert "s3cret" not in flower.get(
        "/tasks/datatable?draw=1&start=0&length=10&search[value]=&order[0][column]=0"
        "&order[0][dir]=asc&columns[0][data]=name"
    )


def test_flower_only_reads_and_leaves_with_0(flower: Flower) -> None:
    assert flower.post("/api/task/send-task/probe") == 403
    assert flower.post("/api/task/revoke/f-1") == 403
    assert flower.post("/api/worker/shutdown/tenure@here") == 403
    flower.process.send(signal.SIGTERM)
    assert flower.process.wait(10) == 0


def test_flower_asks_for_a_password_when_it_has_one(tmp_path: Path, database: Database, broker_url: str) -> None:
    port = free_port()
    urls = {"database_url": database.url, "broker_url": broker_url}
    with CeleryProcess(
        ("tenure_workers.flower", f"--port={port}"), home=tmp_path, name="flower", **urls, FLOWER_BASIC_AUTH="me:it"
    ) as process:
        flower = Flower(process, port)
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            flower.get("/api/tasks")
        refused.value.close()
