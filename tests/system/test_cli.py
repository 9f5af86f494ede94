"""The command line as a process against a real database."""

import json
import re
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text

from tenure import client
from tenure.model.records import Initiator
from tenure.model.states import State
from tests.support.command import ROOT, Tenure
from tests.support.databases import Database, Databases
from tests.support.kinds.count import COUNT
from tests.support.until import until

TESTER = Initiator("test", "1", "tester")
UNKNOWN = "01a22c5a-4f05-702f-8b2e-83c73ac25178"


@pytest.fixture
def tenure(tmp_path: Path, database: Database, broker_url: str) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=database.url, TENURE_BROKER_URL=broker_url)


def submitted(database: Database, **options: Any) -> str:
    with database.engine.begin() as connection:
        return str(client.submit(connection, COUNT, {"rows": 3}, initiator=TESTER, **options).id)


def tasks(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(connection.execute(text("select count(*) from tasks")).scalar_one())


@pytest.mark.parametrize(
    ("code", "words", "arguments"),
    [
        (2, "unknown kind 'nope'", ["nope"]),
        (2, "tests.count: rows: Input should be a valid integer", ["tests.count", "--params", '{"rows": "x"}']),
        (2, "not JSON: line 1, column 10", ["tests.count", "--params", '{"rows": }']),
        (2, "NUL character", ["tests.count", "--params", '{"note": "a\\u0000b"}']),
        (2, "'--deadline': '5x'", ["tests.count", "--deadline", "5x"]),
        (2, "write name=value", ["tests.count", "--label", "x"]),
        (1, "tests.internal is internal: use domain.rebuild()", ["tests.internal"]),
    ],
)
def test_a_wrong_submission_is_one_line_and_makes_nothing(
    tenure: Tenure, database: Database, code: int, words: str, arguments: list[str]
) -> None:
    assert words in tenure.refusal(code, "tasks", "submit", *arguments)
    assert tasks(database) == 0


def test_oversized_params_are_refused_with_size_and_limit(tenure: Tenure, database: Database) -> None:
    large = json.dumps({"note": "x" * 1_100_000})
    line = tenure.refusal(2, "tasks", "submit", "tests.count", "--params", "-", stdin=large)
    assert "params are 1100021 bytes, the limit is 1048576" in line
    assert tasks(database) == 0


@pytest.mark.parametrize("verb", ["show", "cancel", "wait", "watch", "why", "retry"])
def test_an_id_that_is_none_or_unknown_is_named(tenure: Tenure, verb: str) -> None:
    assert "'abc' is no id" in tenure.refusal(2, "tasks", verb, "abc")
    assert tenure.refusal(1, "tasks", verb, UNKNOWN) == f"tenure: no task {UNKNOWN}"


def test_an_unreachable_database_is_one_line_without_its_url(tenure: Tenure) -> None:
    away = tenure.having(TENURE_DATABASE_URL="postgresql+psycopg2://user:hunter2@127.0.0.1:1/x")
    line = away.refusal(1, "tasks", "list")
    assert line == "tenure: the database cannot be reached: check TENURE_DATABASE_URL, and that the server is up"


def test_a_wrong_password_is_named_as_such(tenure: Tenure, database: Database) -> None:
    url = make_url(database.url).set(password="hunter2").render_as_string(hide_password=False)
    assert "refused the user or password" in tenure.having(TENURE_DATABASE_URL=url).refusal(1, "tasks", "list")


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://u:hunter2@h/d", "postgresql+psycopg2://u:hunter2@127.0.0.1:port/d"]
)
def test_a_url_that_cannot_be_read_is_a_usage_error(tenure: Tenure, url: str) -> None:
    line = tenure.having(TENURE_DATABASE_URL=url).refusal(2, "tasks", "list")
    assert "postgresql+psycopg2://" in line
    assert "hunter2" not in line


def test_without_a_database_it_says_how_to_get_one(tenure: Tenure) -> None:
    assert "set it, or start embedded servers with `tenure up`" in tenure.having(TENURE_DATABASE_URL=None).refusal(
        2, "tasks", "list"
    )


def test_a_database_without_or_with_another_schema_names_the_command(tenure: Tenure, database: Database) -> None:
    shipped = sorted(path.name[:4] for path in (ROOT / "migrations" / "versions").glob("[0-9]*.py"))
    cases = {**dict.fromkeys(shipped[:-1], "run `tenure migrate`"), "9999": "deploy the newer code"}
    for revision, words in cases.items():
        with database.engine.begin() as connection:
            connection.execute(text("update alembic_version set version_num = :r"), {"r": revision})
        assert words in tenure.refusal(1, "tasks", "list")
    with database.engine.begin() as connection:
        connection.execute(text("drop table alembic_version"))
    assert "has no Tenure schema: run `tenure migrate`" in tenure.refusal(1, "tasks", "list")


def test_migrate_says_what_it_did_and_is_harmless_twice(tenure: Tenure, databases: Databases) -> None:
    databases.execute("create database empty_for_cli")
    try:
        url = make_url(databases._url).set(database="empty_for_cli").render_as_string(hide_password=False)
        fresh = tenure.having(TENURE_DATABASE_URL=url)
        first = fresh.json("migrate")
        assert first["before"] is None
        assert fresh.json("migrate") == {"before": first["after"], "after": first["after"]}
    finally:
        databases.execute("drop database empty_for_cli with (force)")


def test_submit_prints_the_id_of_a_task_with_the_user_as_initiator(tenure: Tenure) -> None:
    task = tenure.json(
        "tasks", "show", tenure.line("tasks", "submit", "tests.count", "--label", "a=b", "--priority", "7")
    )
    assert (task["kind"], task["state"], task["priority"], task["labels"]) == ("tests.count", "queued", 7, {"a": "b"})
    assert task["initiator"]["type"] == "user"


def test_the_same_key_answers_the_same_task_and_another_request_is_refused(tenure: Tenure) -> None:
    first = tenure.json("tasks", "submit", "tests.count", "--key", "k")
    again = tenure.json("tasks", "submit", "tests.count", "--key", "k")
    assert (first["created"], again) == (True, {"id": first["id"], "created": False})
    assert "another request" in tenure.refusal(
        1, "tasks", "submit", "tests.count", "--key", "k", "--params", '{"rows": 9}'
    )


def test_show_as_json_has_the_keys_of_get(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    with database.engine.connect() as connection:
        known = client.get(connection, client.UUID(made))
    assert list(tenure.json("tasks", "show", made)) == list(known)


def test_list_filters_and_goes_on_where_it_stopped(tenure: Tenure, database: Database) -> None:
    ids = [submitted(database, labels={"n": str(n)}) for n in range(3)]
    assert [t["id"] for t in tenure.json("tasks", "list")] == ids[::-1]
    assert [t["id"] for t in tenure.json("tasks", "list", "--limit", "1", "--before", ids[2])] == [ids[1]]
    assert [t["id"] for t in tenure.json("tasks", "list", "--label", "n=0", "--state", "queued")] == [ids[0]]
    assert tenure.json("tasks", "list", "--state", "failed", "--state", "running") == []
    assert all(one in tenure.line("tasks", "list") for one in ids)


def test_a_cancel_is_harmless_twice_and_too_late_after_the_end(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    for _ in range(2):
        assert tenure.json("tasks", "cancel", made) == {"id": made, "state": "cancelled", "stop_asked": False}
    failed = submitted(database)
    with database.engine.begin() as connection:
        connection.execute(
            text(
                "update tasks set state = 'failed', outcome = 'error', finished_at = clock_timestamp() where id = :id"
            ),
            {"id": failed},
        )
    assert "has already ended: failed" in tenure.refusal(1, "tasks", "cancel", failed)


def test_wait_times_out_with_its_own_code(tenure: Tenure, database: Database) -> None:
    done = tenure("tasks", "wait", submitted(database), "--timeout", "300ms")
    assert (done.returncode, done.stdout, done.stderr) == (3, "queued\n", "")


@pytest.mark.parametrize(
    ("state", "code"), [(State.SUCCEEDED, 0), (State.PARTIALLY_SUCCEEDED, 1), (State.CANCELLED, 1)]
)
def test_wait_succeeds_only_with_the_task(tenure: Tenure, database: Database, state: State, code: int) -> None:
    made = submitted(database)
    with database.engine.begin() as connection:
        connection.execute(
            text("update tasks set state = :state, finished_at = clock_timestamp() where id = :id"),
            {"id": made, "state": state.value},
        )
    done = tenure("tasks", "wait", made, "--json")
    assert done.returncode == code
    assert json.loads(done.stdout)["state"] == state


def test_watch_prints_a_line_per_change_and_ends_with_the_task(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    watching = tenure.start("tasks", "watch", made, "--json")
    assert watching.stdout
    assert json.loads(watching.stdout.readline())["state"] == "queued"
    with database.engine.begin() as connection:
        client.cancel(connection, client.UUID(made), initiator=TESTER)
    rest, _ = watching.communicate(timeout=10)
    assert [json.loads(line)["state"] for line in rest.splitlines()] == ["cancelled"]
    assert watching.returncode == 1


def test_an_interrupt_ends_a_wait_quietly_and_leaves_the_task(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    waiting = tenure.start("tasks", "wait", made)
    with database.engine.connect() as watcher:
        watcher.execution_options(isolation_level="AUTOCOMMIT")
        connected = text("select exists (select 1 from pg_stat_activity where datname = current_database() "
                         "and application_name = 'tenure' and query like '%task_checkpoints%')")  # fmt: skip
        until(lambda: watcher.execute(connected).scalar())
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate(timeout=5) == ("", "")
    assert waiting.returncode == 130
    assert tenure.json("tasks", "show", made)["state"] == "queued"


def test_a_wait_outlives_its_database_session(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    waiting = tenure.start("tasks", "wait", made)
    with database.engine.connect() as admin:
        admin.execution_options(isolation_level="AUTOCOMMIT")
        end = text("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
                   "and application_name = 'tenure' and query like '%task_checkpoints%'")  # fmt: skip
        until(lambda: admin.execute(end).scalar())
        client.cancel(admin, client.UUID(made), initiator=TESTER)
    out, errors = waiting.communicate(timeout=15)
    assert (waiting.returncode, out) == (1, "cancelled\n")
    assert errors == "tenure: the database is away: trying again\n"


def test_retry_by_filter_passes_over_what_was_retried(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    tenure.line("tasks", "cancel", made)
    again = tenure.json("tasks", "retry", "--state", "cancelled", "--params", '{"rows": 1}')
    assert [r["retry_of"] for r in again["retried"]] == [made]
    assert tenure.json("tasks", "retry", "--state", "cancelled") == {"retried": [], "refused": []}
    assert "params of task" in tenure.refusal(2, "tasks", "retry", made)
    assert "not both" in tenure.refusal(2, "tasks", "retry", made, "--kind", "tests.count")
    assert "nothing to retry" in tenure.refusal(2, "tasks", "retry")


def test_a_paused_kind_says_why_nothing_runs(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    assert tenure.json("kinds", "pause", "tests.count", "--reason", "hot") == {
        "kind": "tests.count",
        "paused": True,
        "changed": True,
    }
    assert tenure.json("kinds", "pause", "tests.count")["changed"] is False
    why = tenure.json("tasks", "why", made)
    assert [r["code"] for r in why["reasons"]] == ["kind_paused", "no_worker"]
    listed = {k["kind"]: k for k in tenure.json("kinds", "list")}
    assert (listed["tests.count"]["paused"]["reason"], listed["tests.count"]["queued"]) == ("hot", 1)
    assert tenure.json("kinds", "resume", "tests.count")["changed"] is True
    assert tenure.json("tasks", "why", made)["reasons"][0]["code"] == "no_worker"
    assert "unknown kind 'nope'" in tenure.refusal(2, "kinds", "pause", "nope")


def test_queues_are_paused_too(tenure: Tenure, database: Database) -> None:
    submitted(database)
    assert tenure.line("queues", "pause", "counting") == "queue counting paused"
    listed = {q["queue"]: q for q in tenure.json("queues", "list")}
    assert (listed["counting"]["queued"], listed["counting"]["kinds"]) == (1, ["tests.count"])
    assert listed["counting"]["paused"] is not None
    assert tenure.line("queues", "resume", "counting") == "queue counting resumed"
    assert tenure.line("queues", "resume", "counting") == "queue counting was already resumed"


def test_settings_are_typed_and_go_back_to_their_default(tenure: Tenure) -> None:
    name = "doctor.transaction_seconds"
    for wrong in ("-5", "x", "nan", "1e99"):
        assert "a number of seconds from 1 to 86400" in tenure.refusal(2, "settings", "set", name, wrong)
    assert tenure.json("settings", "set", name, "30")["value"] == 30
    assert {s["name"]: s["value"] for s in tenure.json("settings", "list")}[name] == 30
    assert tenure.json("settings", "set", name, "--default")["value"] == 60
    assert "unknown setting 'x'" in tenure.refusal(2, "settings", "set", "x", "1")
    assert "from 1024 to 16777216" in tenure.refusal(2, "settings", "set", "records.object_bytes", "1")
    assert (
        tenure("settings", "set", "records.object_bytes", "1048577").stdout == "records.object_bytes = 1048577 bytes\n"
    )
    assert re.search(r"^records\.object_bytes +1048577 +1048576 ", tenure("settings", "list").stdout, re.MULTILINE)


def test_a_submission_is_an_activity(tenure: Tenure, database: Database) -> None:
    made = submitted(database)
    (activity,) = tenure.json("activities", "list")
    assert (activity["id"], activity["initiator_name"], activity["status"]) == (made, "tester", "in_progress")
    assert tenure.json("activities", "show", made)["items"] == []
    assert "no activity" in tenure.refusal(1, "activities", "show", UNKNOWN)


def test_the_doctor_finds_a_healthy_installation(tenure: Tenure) -> None:
    found = tenure.json("doctor")
    assert found["healthy"] is True
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert states.pop("workers") == "warn"
    assert set(states.values()) == {"ok"}


def test_the_doctor_names_what_is_wrong_and_what_to_do(tenure: Tenure, database: Database) -> None:
    submitted(database)
    with database.engine.begin() as connection:
        connection.execute(text("drop table task_events_" + _month(connection, 1)))
    done = tenure.having(TENURE_BROKER_URL="redis://:hunter2@127.0.0.1:1/0")("doctor", "--json")
    assert done.returncode == 1
    assert "hunter2" not in done.stdout + done.stderr
    wrong = {c["name"]: c for c in json.loads(done.stdout)["checks"] if c["state"] == "wrong"}
    assert set(wrong) == {"broker", "backlog"}
    assert "1 tests.count in queue counting" in wrong["backlog"]["finding"]
    assert all(check["advice"] for check in wrong.values())


@pytest.mark.parametrize(("what", "name"), [("kind", "tests.count"), ("queue", "counting")])
def test_the_doctor_says_that_a_pause_holds_the_backlog(
    tenure: Tenure, database: Database, what: str, name: str
) -> None:
    submitted(database)
    tenure.json(f"{what}s", "pause", name)
    found = tenure.json("doctor")
    (backlog,) = [check for check in found["checks"] if check["name"] == "backlog"]
    assert (found["healthy"], backlog["state"]) == (True, "warn")
    assert f"held by a pause: 1 tests.count in queue counting ({what} paused by " in backlog["finding"]
    assert backlog["advice"] == f"let them run with `tenure {what}s resume {name}`"


def _month(connection: Any, ahead: int) -> str:
    statement = "select to_char(date_trunc('month', now() at time zone 'UTC') + make_interval(months => :n), 'YYYYMM')"
    return str(connection.execute(text(statement), {"n": ahead}).scalar_one())


def test_the_doctor_without_a_database_skips_what_needs_one(tenure: Tenure) -> None:
    done = tenure.having(TENURE_DATABASE_URL="postgresql+psycopg2://u:hunter2@127.0.0.1:1/x")("doctor")
    assert done.returncode == 1
    assert "WRONG  database" in done.stdout
    assert "-      schema" in done.stdout
    assert done.stderr == ""


def test_health_reads_the_file_of_its_role(tenure: Tenure, tmp_path: Path) -> None:
    assert "no health file" in tenure.refusal(1, "health", "--role", "worker")
    file = tmp_path / "health-worker"
    file.write_text("{")
    assert "cannot be read" in tenure.refusal(1, "health", "--role", "worker")
    for stale in ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        file.write_text(json.dumps({"at": stale, "counter": 3}))
        assert "it hangs or has ended" in tenure.refusal(1, "health", "--role", "worker")
    file.write_text(json.dumps({"at": datetime.now(UTC).isoformat(), "counter": 3}))
    assert "loop 3" in tenure.line("health", "--role", "worker")


def test_env_without_embedded_servers_says_how_to_start_them(tenure: Tenure) -> None:
    assert "start them with `tenure up`" in tenure.refusal(1, "env")


def test_a_reader_that_leaves_early_is_no_error(tenure: Tenure, database: Database) -> None:
    submitted(database)
    listing = tenure.start("tasks", "list")
    assert listing.stdout
    assert listing.stderr
    listing.stdout.close()
    assert listing.stderr.read() == ""
    assert listing.wait(10) == 1
    listing.stderr.close()


def test_a_traceback_is_shown_only_when_asked_for(tenure: Tenure) -> None:
    done = tenure("--debug", "tasks", "show", UNKNOWN)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == f"tenure: no task {UNKNOWN}"
