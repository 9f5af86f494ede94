"""What a failure says and which code it gives."""

import psycopg2
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from tenure.cli.failures import explain
from tenure.model.errors import NoSuchTask, UsageError

SECRET = "password=hunter2 host=db.internal"


class Refusal(psycopg2.Error):
    """A driver's error with the SQLSTATE the server gave."""

    def __init__(self, state: str | None) -> None:
        super().__init__(SECRET)
        self._state = state

    @property
    def pgcode(self) -> str | None:  # type: ignore[override]
        return self._state


def _driver(state: str | None, kind: type[DBAPIError] = ProgrammingError) -> DBAPIError:
    return kind(f"select '{SECRET}'", {"secret": SECRET}, Refusal(state))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("57P01", "connection to the database was lost"),
        ("08006", "connection to the database was lost"),
        ("57014", "cancelled the statement"),
        ("55P03", "locked by somebody else"),
        ("40P01", "try again"),
        ("53300", "out of connections"),
        ("25006", "read-only"),
        ("42501", "lacks a permission"),
        ("42P01", "tenure migrate"),
        ("42703", "tenure migrate"),
        ("22P02", "SQLSTATE 22P02"),
        (None, "SQLSTATE none"),
    ],
)
def test_a_driver_error_becomes_one_line_without_its_text(state: str | None, words: str) -> None:
    line, code = explain(_driver(state))
    assert words in line
    assert code == 1
    assert "hunter2" not in line
    assert "\n" not in line


def test_an_operational_error_without_a_state_is_a_lost_connection() -> None:
    line, _ = explain(_driver(None, OperationalError))
    assert "connection to the database was lost" in line


def test_expected_errors_keep_their_line_and_code() -> None:
    assert explain(NoSuchTask("no task 1")) == ("tenure: no task 1", 1)
    assert explain(UsageError("wrong")) == ("tenure: wrong", 2)


def test_a_bug_is_named_by_its_class_only() -> None:
    line, code = explain(RuntimeError(SECRET))
    assert line == "tenure: internal error (RuntimeError): `tenure --debug …` shows where"
    assert code == 1
