"""How a body ends, as the row, the history and the logs have it."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from pydantic import BaseModel, field_validator
from sqlalchemy import text
from structlog.testing import capture_logs

from tenure.model.kinds import kind
from tenure.model.retry import Reject, Retry
from tenure.runtime.attempt import Attempt
from tests.support.slot import Bench, Step

Make = Callable[..., Bench]
CANARY = "canary-8812"


class Named(BaseModel):
    name: str
    size: int = 1

    @field_validator("name")
    @classmethod
    def known(cls, value: str) -> str:
        if value.startswith("bad"):
            raise ValueError(f"{value} is not known")
        return value


@pytest.mark.parametrize(
    "stored, said",
    [
        ('{"name": "x", "size": "many"}', "picky: size: Input should be a valid integer"),
        ("{}", "picky: name: Field required"),
        ('{"name": "bad canary-8812"}', "picky: name: refused by the kind's own check"),
    ],
)
def test_stored_params_that_no_longer_fit_are_rejected_without_quoting_them(
    make_bench: Make, stored: str, said: str
) -> None:
    @kind("picky", params=Named, max_attempts=5)
    def picky(attempt: Attempt, params: Named) -> None:
        raise AssertionError("the body must not run")

    bench = make_bench(picky)
    task = bench.submit(picky, {"name": "good"})
    bench.rows("update task_params set params = cast(:p as jsonb)", p=stored)
    bench.run(task)
    row = bench.get(task)
    assert bench.state(task) == "failed rejected"
    assert row["error"]["message"].startswith(said)
    assert CANARY not in str(row)
    assert [moment["verb"] for moment in row["history"]] == ["submit", "claim", "reject"]


def test_params_are_gone_once_the_task_has_ended_in_whatever_way(make_bench: Make) -> None:
    @kind("varied", max_attempts=2)
    def varied(attempt: Attempt, params: object) -> None:
        if error := errors[attempt.task_id]:
            raise error

    bench = make_bench(varied)
    errors = {bench.submit(varied): error for error in (None, Reject("no"), ValueError(), Retry(after=60))}
    bench.drain()
    bench.rows("update tasks set state = 'queued', available_at = clock_timestamp() where error_code = 'ValueError'")
    assert bench.run(next(task for task, error in errors.items() if isinstance(error, ValueError))) == 1
    left = {row[0] for row in bench.rows("select task_id from task_params")}
    assert left == {task for task, error in errors.items() if isinstance(error, Retry)}


@pytest.mark.parametrize(
    "answer, state, code",
    [
        (lambda: {"a": 1}, "succeeded", None),
        (lambda: "x" * 2000, "failed error", "invalid_result"),
        (lambda: object(), "failed error", "invalid_result"),
        (lambda: float("nan"), "failed error", "invalid_result"),
        (lambda: "a\0b", "failed error", "invalid_result"),
        (lambda: "\ud800", "failed error", "invalid_result"),
        (lambda: {"deep": "\\u0000"}, "succeeded", None),
    ],
    ids=["fits", "too large", "no JSON", "NaN", "NUL", "lone surrogate", "a backslash and u0000"],
)
def test_a_result_is_stored_or_refused_and_never_breaks_the_end(
    make_bench: Make, answer: Callable[[], Any], state: str, code: str | None
) -> None:
    @kind("answering", max_attempts=3)
    def answering(attempt: Attempt, params: object) -> Any:
        attempt.summary = "done \0 and \ud800"
        return answer()

    bench = make_bench(answering, result_bytes=1024)
    task = bench.submit(answering)
    assert bench.run(task) == 1
    row = bench.get(task)
    assert bench.state(task) == state
    assert (row["error"] or {}).get("code") == code
    assert row["result"] == (answer() if state == "succeeded" else None)
    assert row["summary"] == "done and ?"
    assert bench.leases() == 0


@pytest.mark.parametrize(
    "pages, state, code",
    [
        ([(3, 0), (2, 0)], "succeeded", None),
        ([(3, 3), (2, 1)], "partially_succeeded", None),
        ([(3, 3), (2, 2)], "failed error", "all_failed"),
    ],
)
def test_failed_items_make_a_partial_success_and_all_failed_a_failure(
    make_bench: Make, pages: list[tuple[int, int]], state: str, code: str | None
) -> None:
    @kind("counting", max_attempts=3)
    def counting(attempt: Attempt, params: object) -> dict[str, int]:
        for number, (processed, failed) in enumerate(pages):
            with attempt.transaction() as tx:
                attempt.checkpoint(tx, Step(done=number + 1), processed=processed, failed=failed)
        return {"pages": len(pages)}

    bench = make_bench(counting)
    task = bench.submit(counting)
    bench.run(task)
    row = bench.get(task)
    assert bench.state(task) == state
    assert (row["error"] or {}).get("code") == code
    assert row["result"] == {"pages": len(pages)}, "what the body says of it is kept in each case"


def test_a_failure_is_retried_until_its_attempts_are_exhausted(make_bench: Make) -> None:
    @kind("stubborn", max_attempts=3)
    def stubborn(attempt: Attempt, params: object) -> None:
        raise ConnectionResetError(CANARY)

    bench = make_bench(stubborn)
    task = bench.submit(stubborn)
    for _ in range(2):
        bench.run(task)
        assert bench.state(task) == "scheduled"
        assert bench.one("select available_at > clock_timestamp() from tasks")
        bench.rows("update tasks set state = 'queued', available_at = clock_timestamp()")
    bench.run(task)
    assert bench.state(task) == "failed attempts_exhausted"
    assert [one["how"] for one in bench.get(task)["attempts"]] == ["retried", "retried", "failed"]


def test_nothing_an_exception_says_reaches_rows_or_logs(make_bench: Make, caplog: pytest.LogCaptureFixture) -> None:
    @kind("leaking", max_attempts=2)
    def leaking(attempt: Attempt, params: Named) -> None:
        if attempt.task_id == tasks["sql"]:
            with attempt.connection() as connection:
                connection.execute(text("select cast(:p as int)"), {"p": params_text})
        if attempt.task_id == tasks["page"]:
            with attempt.transaction() as tx:
                tx.execute(text("insert into effects (task_id, token, note) values (null, 1, :p)"), {"p": params_text})
        if attempt.task_id == tasks["chained"]:
            try:
                raise KeyError(params_text)
            except KeyError as error:
                error.add_note(params_text)
                raise type("Odd", (RuntimeError,), {})(params_text) from error
        raise SystemError(params_text)

    params_text = CANARY
    bench = make_bench(leaking, run_on_tasks=1)
    tasks = {name: bench.submit(leaking) for name in ("sql", "page", "chained", "plain")}
    structlog.reset_defaults()
    with capture_logs() as logs, caplog.at_level(logging.DEBUG):
        for task in tasks.values():
            bench.run(task)
            bench.rows("update tasks set state = 'queued', available_at = clock_timestamp() where state = 'scheduled'")
            bench.run(task)
    assert {bench.state(task) for task in tasks.values()} == {"failed attempts_exhausted"}
    tables = [
        row[0]
        for row in bench.rows(
            "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
        )
    ]
    assert "tasks" in tables
    for table in tables:
        assert bench.rows(f"select 1 from {table} x where x::text like '%{CANARY}%'") == [], table
    failures = [one for one in logs if one["event"] == "attempt_failed"]
    assert len(failures) == 8
    assert all(one["frames"] for one in failures)
    assert CANARY not in str(logs)
    assert CANARY not in caplog.text


def test_one_result_that_cannot_be_stored_costs_its_neighbours_nothing(make_bench: Make) -> None:
    @kind("small", tiny=True, on_lost="resume")
    def small(attempt: Attempt, params: object) -> object:
        attempt.summary = "fine"
        if attempt.task_id == bad:
            attempt.summary = Unsayable()  # type: ignore[assignment]
        return {"n": 1}

    bench = make_bench(small)
    ids = [bench.submit(small) for _ in range(6)]
    bad = ids[3]
    for task in ids:
        bench.run(task)
    assert [bench.state(task) for task in ids] == ["succeeded"] * 6
    assert bench.get(bad)["summary"] == "Unsayable"


class Unsayable:
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_exit_in_the_body_is_passed_on_once_its_end_is_written(make_bench: Make) -> None:
    @kind("leaving", on_shutdown="release")
    def leaving(attempt: Attempt, params: object) -> None:
        if attempt.task_id == first:
            raise SystemExit(-241)  # as Celery's child raises it for SIGTERM

    bench = make_bench(leaving, run_on_tasks=1)
    first = bench.submit(leaving)
    with pytest.raises(SystemExit):
        bench.run(first)
    assert bench.state(first) == "queued"
    second = bench.submit(leaving)
    assert bench.run(second) == 1
    assert bench.state(second) == "succeeded"
