"""`tenure up` as a user starts it: all processes, one line when work can be done, one way to stop."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.embedded import running
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.scratch import scratch_directory
from tests.support.servers import children, remove_home
from tests.support.until import until


@pytest.fixture
def port() -> int:
    """A TCP port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def start(port: int) -> Iterator[Callable[[Tenure], subprocess.Popen[str]]]:
    """Starts `tenure up`, drains its stderr, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(tenure: Tenure) -> subprocess.Popen[str]:
        started.append(tenure.start("up", "--json", "--concurrency", "1", "--flower-port", str(port)))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def home() -> Iterator[Path]:
    path = scratch_directory()
    yield path
    until(lambda: running(path) is None, 30)
    remove_home(path)


def test_up_works_with_nothing_but_a_home_and_stops_on_ctrl_c(
    home: Path, port: int, start: Callable[[Tenure], subprocess.Popen[str]]
) -> None:
    tenure = Tenure(home, TENURE_KINDS="")
    up = start(tenure)
    assert up.stdout
    ready = json.loads(up.stdout.readline())
    servers = running(home)
    assert ready["ready"] is True
    assert servers
    assert "@" not in ready["database"] + ready["broker"]
    env = tenure.json("env")
    assert (env["TENURE_DATABASE_URL"], env["TENURE_BROKER_URL"]) == (servers.database_url, servers.broker_url)
    refused = tenure.refusal(1, "up", "--flower-port", str(port))
    assert refused == f"tenure: tenure up already runs in {home} (pid {up.pid})"
    done = tenure("tasks", "submit", "probe", "--params", '{"steps": 3}', "--wait")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "succeeded"), done.stderr
    up.send_signal(signal.SIGINT)
    _, errors = up.communicate(timeout=60)
    assert up.returncode == 0, errors[-2000:]
    assert errors.splitlines()[-1] == "tenure: stopped"


def test_a_child_that_dies_ends_up_with_code_1_and_leaves_no_process(
    tmp_path: Path, database: Database, broker_url: str, start: Callable[[Tenure], subprocess.Popen[str]]
) -> None:
    tenure = Tenure(tmp_path, TENURE_KINDS="", TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)
    up = start(tenure)
    assert up.stdout
    assert json.loads(up.stdout.readline())["ready"] is True
    pids = children(up.pid)
    assert len(pids) == 3
    (beat,) = [w["pid"] for w in tenure.json("workers", "list") if w["role"] == "beat"]
    os.kill(beat, signal.SIGKILL)
    _, errors = up.communicate(timeout=60)
    assert up.returncode == 1
    assert "tenure: beat has ended by itself (exit code -9): stopping the rest" in errors
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        line = Tenure(tmp_path, TENURE_KINDS="").refusal(1, "up", "--flower-port", str(number))
    assert line == f"tenure: port {number} is taken: choose another with --flower-port"
    assert running(tmp_path) is None
