"""The demo where it does not go its way: bad input, and a stop at any moment."""

import signal
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.until import until

CITY = '{{"key": "k{}", "name": "a", "population": 1}}\n'


@pytest.mark.parametrize("body", ["", "\n \n\t\n", "\ufeff\n"])
def test_a_file_without_objects_is_refused_before_anything_starts(tmp_path: Path, body: str) -> None:
    file = tmp_path / "empty.ndjson"
    file.write_text(body)
    line = Tenure(tmp_path / "home").refusal(2, "demo", "--input", str(file))
    assert line.endswith(": the file holds no objects")
    assert not (tmp_path / "home").exists()


def test_a_file_that_cannot_be_read_is_named_before_anything_starts(tmp_path: Path) -> None:
    tenure = Tenure(tmp_path / "home")
    assert "cannot be read: No such file" in tenure.refusal(2, "demo", "--input", str(tmp_path / "nothing"))
    assert "cannot be read: Is a directory" in tenure.refusal(2, "demo", "--input", str(tmp_path))
    assert not (tmp_path / "home").exists()


def test_ctrl_c_while_the_workers_start_is_a_stop(tmp_path: Path, database: Database, broker_url: str) -> None:
    file = tmp_path / "some.ndjson"
    file.write_text("".join(CITY.format(number) for number in range(5)))
    tenure = Tenure(tmp_path, TENURE_KINDS="", TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)
    demo = tenure.start("demo", "--input", str(file))
    until((tmp_path / "demo" / "demo-b.log").exists, 60)
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (130, "tenure: stopped\n")


def test_the_killed_worker_has_ended_when_the_demo_has(tmp_path: Path, database: Database, broker_url: str) -> None:
    file = tmp_path / "some.ndjson"
    file.write_text("".join(CITY.format(number) for number in range(20_000)))
    tenure = Tenure(tmp_path, TENURE_KINDS="", TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)
    done = tenure("demo", "--input", str(file), "--lease", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert '"killed": "demo-' in done.stdout
    with database.engine.connect() as connection:
        assert connection.execute(text("select count(*) from workers where ended_at is null")).scalar_one() == 0
