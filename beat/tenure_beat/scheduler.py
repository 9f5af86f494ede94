"""The scheduler of `celery beat`: steps what is due in PostgreSQL. Celery's heap, its schedule file and its messages
are not used; any number of replicas run at once, none of them leads."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from typing import Any
from uuid import UUID

import structlog
from celery.beat import Scheduler as CeleryScheduler
from uuid_utils.compat import uuid7

from tenure import __version__, gate, plugins, registry, settings
from tenure.model.errors import TenureError
from tenure.runtime.health import Health
from tenure.runtime.http import Endpoint
from tenure.runtime.metrics import Figures, Metrics
from tenure.runtime.service import Runner, Service, join
from tenure.runtime.shutdown import Shutdown
from tenure.services import net, reaper
from tenure.services.housekeeping import PACE as HOUSEKEEPING_PACE
from tenure.services.housekeeping import STEPS, Housekeeping
from tenure.services.net import SafetyNet
from tenure.services.reaper import Reaper
from tenure.services.scheduler import Scheduler
from tenure.settings import Settings
from tenure.store.workers import Boot
from tenure_beat import presence
from tenure_beat.paced import Paced
from tenure_beat.presence import Presence

T_FINAL = 22.0  # s to join every service thread; the platform's grace is 30
TICK = 5.0  # s between looks at our own loops
# A replica frozen inside a transaction must not hold rows from the others.
SESSION = "-c lock_timeout=1000 -c idle_in_transaction_session_timeout=500"


def services(found: Settings, boot: Boot, metrics: Metrics) -> list[Paced]:
    """What a beat runs, each in a thread of its own: one that waits for the database holds up no other."""
    domains = [step for _, step in plugins.loaded("tenure.housekeeping")]
    return [
        Paced(Scheduler(found, registry.load(found.kind_packages), options=SESSION, started=metrics.occurred)),
        Paced(Presence(found, boot, options=SESSION), presence.PACE),
        Paced(
            Reaper(found, options=SESSION, recovered=lambda fate: metrics.recovered.labels(fate).inc()),
            reaper.BEAT_PACE,
        ),
        Paced(SafetyNet(found, options=SESSION), net.PACE),
        Paced(Housekeeping(found, [*STEPS, *domains], options=SESSION), HOUSEKEEPING_PACE),
    ]


class TenureScheduler(CeleryScheduler):
    """Celery makes it twice: lazily for its banner, and for good once it is about to tick."""

    max_interval = TICK

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._shutdown = Shutdown()
        self._watcher = self._shutdown.watcher()
        self._paced: list[Paced] = []
        self._runners: list[Runner] = []
        self._died: list[str] = []
        self._metrics = Metrics()
        self._endpoint: Endpoint | None = None
        self._log = structlog.get_logger("tenure.beat")
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Pass the gate and start the services. A refused start is one line on stderr and an exit code."""
        self._hear_signals()
        try:
            found = settings.load()
            gate.wait(found, self._watcher, role="beat")
            self._health = Health(found.home, "beat")
            if found.http_port is not None:
                self._endpoint = Endpoint(found.http_port, health=self._health.report, metrics=self._metrics.text)
        except TenureError as error:
            print(f"tenure: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        if not self._watcher.is_running():
            raise SystemExit(0)
        boot = _boot()
        try:
            self._paced = services(found, boot, self._metrics)
        except TenureError as error:
            print(f"tenure: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        self._serve(found)
        self._log.info("ready", node=boot.node, boot_id=str(boot.boot_id), services=[one.name for one in self._paced])

    def _serve(self, found: Settings) -> None:
        # Figures are nobody's liveness: not among the loops that must go round.
        every: list[Service] = [*self._paced]
        if self._endpoint is not None:
            every.append(Figures(found, self._metrics))
        for service in every:
            self._runners.append(Runner(service, self._watcher, self._service_died, self._round_failed))
        for runner in self._runners:
            runner.start()
        if self._endpoint is not None:
            self._endpoint.start()

    def _round_failed(self, name: str) -> None:
        self._metrics.errors.labels(name).inc()

    def _hear_signals(self) -> None:
        # Celery's handler would leave from wherever the main thread stands; ours lets the tick end first.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
            self._shutdown.listen_for_signals(number)

    def _service_died(self, name: str) -> None:
        self._died.append(name)
        self._shutdown.stop()

    def tick(self, *_: Any, **__: Any) -> float:
        """Say that all loops go round, and wait for the stop. Celery sleeps no further second: it could not be woken."""
        if all(one.goes_round() for one in self._paced):
            self._health.beat()
        if not self._watcher.sleep(TICK):
            raise SystemExit(0)
        return 0.0

    def close(self) -> None:
        """Join the services and say who did not stop. Celery may call it twice."""
        runners, self._runners = self._runners, []
        super().close()
        if not runners:
            return
        began = time.monotonic()
        if self._endpoint is not None:
            self._endpoint.stop()
        self._shutdown.stop()
        late = join(runners, T_FINAL)
        if self._endpoint is not None and not self._endpoint.join(0.1):
            late.append("http")
        seconds = round(time.monotonic() - began, 2)
        self._log.info("stopped", services=len(runners), late=late, died=self._died, seconds=seconds)
        if self._died or late:
            # Celery leaves with 0 whatever happened, and waits for nobody.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    @property
    def info(self) -> str:
        return "    . schedules -> database"


def _boot() -> Boot:
    node = f"beat@{socket.gethostname()}"
    return Boot(UUID(bytes=uuid7().bytes), node, "beat", os.getpid(), __version__, 0, [], [])
