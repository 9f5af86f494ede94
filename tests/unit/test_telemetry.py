"""What Celery and kombu log of a failure: the class and the frames of an exception, never its text or a message."""

import json
import subprocess
import sys
from typing import Any

import pytest

CANARY = "canary-51fe"
# In a process of its own: logging is set up once for all of it.
SCRIPT = """
import logging
from tenure import telemetry

telemetry.configure()
error = ValueError("canary-51fe")
context = {"name": "ledger", "id": "7", "description": "raised unexpected", "exc": repr(error), "traceback": str(error)}
try:
    raise error
except ValueError:
    log = logging.getLogger("celery.app.trace")
    log.error("Task %(name)s[%(id)s] %(description)s: %(exc)s", context, exc_info=True)
    logging.getLogger("celery.worker.request").error("Task handler raised error: %r", error, exc_info=True)
    logging.getLogger("kombu.transport.redis").critical("Could not restore: %r", {"body": str(error)}, exc_info=True)
logging.getLogger("celery.worker.consumer").warning("lost (%r)", error)
logging.getLogger("celery.worker").warning("%s takes %d", "one", 3)
"""


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True).stderr
    assert CANARY not in said
    return [json.loads(line) for line in said.splitlines()]


def test_celerys_and_kombus_lines_about_failures_say_the_class_alone(lines: list[dict[str, Any]]) -> None:
    assert [line["event"] for line in lines] == [
        "Task ledger[7] raised unexpected: ValueError",
        "Task handler raised error: 'ValueError'",
        "Could not restore: 'dict'",
        "lost ('ValueError')",
        "one takes 3",
    ]


def test_a_failure_keeps_its_class_and_frames(lines: list[dict[str, Any]]) -> None:
    failed = [line for line in lines if "error" in line]
    assert [line["error"] for line in failed] == ["ValueError"] * 3
    assert all(line["frames"] for line in failed)
