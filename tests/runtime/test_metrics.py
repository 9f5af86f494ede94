"""Figures: what SQL says, bounded in its names, and the last of it while SQL says nothing."""

import re
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from tenure.model.kinds import KindSpec
from tenure.runtime.metrics import NAMES, OTHER, REFRESH, Figures, Metrics
from tenure.settings import Settings
from tests.support import tasks
from tests.support.databases import Database
from tests.support.tasks import PLAIN, Anything, submit, submit_many

Sample = dict[str, float]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def figures(database: Database, metrics: Metrics) -> Iterator[Figures]:
    made = Figures(Settings(database_url=SecretStr(database.url)), metrics)
    yield made
    made.close()


def samples(metrics: Metrics) -> Sample:
    """{name with labels: value} of everything a scrape would get."""
    lines = metrics.text().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_before_the_first_look_a_scrape_is_answered(metrics: Metrics, figures: Figures) -> None:
    assert samples(metrics)["tenure_metrics_refreshed_timestamp"] == 0
    assert samples(metrics)["tenure_leases_held"] == 0


def test_tasks_are_counted_by_state_and_kind_and_the_oldest_is_aged_by_queue(
    database: Database, metrics: Metrics, figures: Figures
) -> None:
    submit_many(database, 3)
    with tasks.worker(database) as session:
        tasks.claimed(session, submit(database))
        lease = tasks.claimed(session, submit(database)).lease
        assert tasks.ends(session, lease, tasks.SUCCEEDED)
        old = "update tasks set available_at = clock_timestamp() - interval '90 seconds' where state = 'queued'"
        assert tasks.run_sql(database, old) == 3
        assert figures.run_once() == REFRESH
    found = samples(metrics)
    assert found[f'tenure_tasks{{kind="{PLAIN.name}",state="queued"}}'] == 3
    assert found[f'tenure_tasks{{kind="{PLAIN.name}",state="running"}}'] == 1
    assert found[f'tenure_tasks_ended_5m{{kind="{PLAIN.name}",state="succeeded"}}'] == 1
    assert 90 <= found[f'tenure_queue_oldest_seconds{{queue="{PLAIN.queue}"}}'] < 120


def test_a_database_that_is_away_leaves_the_last_figures_and_counts_the_failure(
    database: Database, metrics: Metrics, figures: Figures
) -> None:
    submit_many(database, 2)
    figures.run_once()
    before = samples(metrics)
    database.accept_connections(False)
    try:
        assert figures.run_once() == REFRESH
    finally:
        database.accept_connections(True)
    after = samples(metrics)
    assert after.pop("tenure_metrics_refresh_failures_total") == 1
    del before["tenure_metrics_refresh_failures_total"]
    assert drop_created(after) == drop_created(before)


def drop_created(found: Sample) -> Sample:
    return {name: value for name, value in found.items() if "_created" not in name}


def test_any_number_of_kinds_makes_a_bounded_number_of_series(
    database: Database, metrics: Metrics, figures: Figures
) -> None:
    for number in range(NAMES + 20):
        submit(database, KindSpec(f"many.{number}", params=Anything))
    figures.run_once()
    series = [name for name in samples(metrics) if name.startswith("tenure_tasks{")]
    assert len(series) == NAMES + 1
    assert samples(metrics)[f'tenure_tasks{{kind="{OTHER}",state="queued"}}'] == 20


def test_no_label_is_an_id(database: Database, metrics: Metrics, figures: Figures) -> None:
    submit_many(database, 2)
    figures.run_once()
    metrics.recovered.labels("worker_lost").inc()
    metrics.stops.labels("cancel").inc()
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", metrics.text().decode())
    assert {re.sub(r".*\{|\}|=\"[^\"]*\"", "", name) for name in samples(metrics) if "{" in name} == {
        "kind,state", "queue", "fate", "cause", "le"
    }  # fmt: skip
