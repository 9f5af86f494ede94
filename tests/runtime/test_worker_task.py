"""The body of every Celery task of a worker: whatever fails in it is said by class, and Celery never hears of it."""

from types import SimpleNamespace
from uuid import uuid4

import pytest
import structlog
from celery.app.task import Context
from celery.exceptions import Reject

from tenure_celery.envelope import HEADER
from tenure_workers import application, child

CANARY = "canary-0c2d"


def hint(task_id: str) -> SimpleNamespace:
    return SimpleNamespace(name="ledger", request=Context({"id": task_id, HEADER: "hint"}))


def test_an_error_that_leaves_the_executor_ends_in_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(task_id: str) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(child, "run", fails)
    with structlog.testing.capture_logs() as logged:
        application._run(hint(str(uuid4())))
    assert [line["event"] for line in logged] == ["task_run_failed"]


@pytest.mark.parametrize("said", [Reject("stops", requeue=True), SystemExit(3), KeyboardInterrupt()])
def test_what_celery_must_hear_passes(monkeypatch: pytest.MonkeyPatch, said: BaseException) -> None:
    def fails(task_id: str) -> None:
        raise said

    monkeypatch.setattr(child, "run", fails)
    with pytest.raises(type(said)):
        application._run(hint(str(uuid4())))


def test_a_hint_whose_id_is_no_uuid_is_dropped_unshown() -> None:
    with structlog.testing.capture_logs() as logged:
        application._run(hint(f"'; drop table tasks; -- {CANARY}"))
    assert [line["event"] for line in logged] == ["hint_without_uuid"]
    assert CANARY not in str(logged)
