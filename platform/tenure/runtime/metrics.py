"""What a process counts, and what the database knows, in Prometheus' text form. Labels are kinds, queues, states, causes
and fates; never ids, params or texts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError

from tenure.settings import Settings
from tenure.store import figures
from tenure.store.connect import engine_for

REFRESH = 30.0  # s; scrapes in between are answered from the last snapshot
NAMES = 100  # kinds or queues told apart; a database may hold any number, a time series each must not
OTHER = "other"


@dataclass(frozen=True)
class Snapshot:
    """What SQL said at one moment. `at`: time.time(), 0 when it has not said anything yet."""

    at: float = 0.0
    live: dict[tuple[str, ...], float] = field(default_factory=dict)  # (state, kind): tasks
    ended: dict[tuple[str, ...], float] = field(default_factory=dict)  # (state, kind): ended in the last minutes
    oldest: dict[tuple[str, ...], float] = field(default_factory=dict)  # (queue,): seconds


class Metrics:
    """One per process, with a registry of its own. Counters may be raised from any thread, not in signal handlers."""

    def __init__(self) -> None:
        self.registry = one = CollectorRegistry()
        self.leases = Gauge("tenure_leases_held", "Leases this process holds.", registry=one)
        self.renewals = Counter("tenure_lease_renewals", "Leases renewed.", registry=one)
        self.refused = Counter("tenure_lease_renewals_refused", "Renewals refused: the lease was lost.", registry=one)
        self.stops = Counter(
            "tenure_stops_asked", "Attempts asked to stop, by cause; shutdowns apart.", ["cause"], registry=one
        )
        self.children = Counter("tenure_children_ended", "Children that did not stop and were ended.", registry=one)
        self.recovered = Counter(
            "tenure_tasks_recovered", "Tasks of lost workers, by what became of them.", ["fate"], registry=one
        )
        self.occurrences = Counter(
            "tenure_occurrences",
            "Occurrences of schedules, by the state their execution began in.",
            ["state"],
            registry=one,
        )
        self.lateness = Histogram(
            "tenure_occurrence_lateness_seconds", "Time from due to started.", registry=one,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
        )  # fmt: skip
        self.published = Counter("tenure_hints_published", "Hints the dispatcher published.", registry=one)
        self.errors = Counter("tenure_service_errors", "Rounds of a service that failed.", ["service"], registry=one)
        self.refresh_failures = Counter(
            "tenure_metrics_refresh_failures", "Failed looks at the database.", registry=one
        )

    def occurred(self, state: str, late: float) -> None:
        """An occurrence was dealt with, so many seconds after it was due."""
        self.occurrences.labels(state).inc()
        if state == "running":
            self.lateness.observe(late)

    def text(self) -> bytes:
        """All of it, for a scrape. Reads no database."""
        return generate_latest(self.registry)


class Figures(Collector):
    """A service that looks at the database every 30 s, and the gauges made of its last good look."""

    name = "metrics"

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._engine = engine_for(
            settings.session_url, application="tenure metrics", options="-c lock_timeout=1000 -c statement_timeout=5000"
        )
        self._metrics = metrics
        self._snapshot = Snapshot()
        self._log = structlog.get_logger("tenure.metrics")
        metrics.registry.register(self)

    def run_once(self) -> float:
        try:
            with self._engine.begin() as connection:
                live, ended, oldest = figures.live(connection), figures.ended(connection), figures.oldest(connection)
        except DBAPIError as error:
            # The last snapshot stays, with its age: figures never end a process.
            self._metrics.refresh_failures.inc()
            self._log.warning("figures_not_read", error=type(error).__name__)
        else:
            self._snapshot = Snapshot(time.time(), _bounded(live), _bounded(ended), _bounded(oldest, of=max))
        return REFRESH

    def collect(self) -> Iterator[Any]:
        seen = self._snapshot
        yield _gauge("tenure_tasks", "Live tasks by state and kind.", ["state", "kind"], seen.live)
        yield _gauge("tenure_tasks_ended_5m", "Tasks ended in the last 5 minutes.", ["state", "kind"], seen.ended)
        yield _gauge("tenure_queue_oldest_seconds", "Age of the oldest due task by queue.", ["queue"], seen.oldest)
        yield _gauge("tenure_metrics_refreshed_timestamp", "When the figures from SQL were read.", [], {(): seen.at})

    def describe(self) -> Iterable[Any]:
        return []  # registering must not need a first look

    def close(self) -> None:
        self._engine.dispose()


def _gauge(name: str, text: str, labels: list[str], values: dict[tuple[str, ...], float]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        made.add_metric(list(key), value)
    return made


def _bounded(rows: Iterable[tuple[Any, ...]], *, of: Any = sum) -> dict[tuple[str, ...], float]:
    """{labels: value} of rows (labels…, name, value): the largest names apart, the rest as one."""
    found = [(tuple(str(label) for label in row[:-1]), float(row[-1])) for row in rows]
    weight: dict[str, float] = defaultdict(float)
    for key, value in found:
        weight[key[-1]] += value
    apart = set(sorted(weight, key=lambda name: (-weight[name], name))[:NAMES])
    grouped: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for key, value in found:
        grouped[key if key[-1] in apart else (*key[:-1], OTHER)].append(value)
    return {key: of(values) for key, values in grouped.items()}
