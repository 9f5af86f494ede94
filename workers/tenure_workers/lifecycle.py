"""The worker's main process from gate to exit: keeper, dispatcher and reaper around Celery's own pool and consumer."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from uuid import UUID

import structlog
from celery import Celery, signals
from uuid_utils.compat import uuid7

from tenure import __version__, gate
from tenure.model.errors import TenureError
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime.channel import StopChannel
from tenure.runtime.keeper import Keeper
from tenure.runtime.service import Runner, Service, join
from tenure.runtime.shutdown import Shutdown
from tenure.services.dispatcher import Dispatcher
from tenure.services.reaper import Reaper
from tenure.settings import Settings
from tenure.store.workers import Boot
from tenure_celery.broker import broker_for
from tenure_workers import child

T_FINAL = 22.0  # s to join every service thread; the platform's grace is 30


class Lifecycle:
    """Made once per app; Celery's signals call it. Only `run` of the children is used in forked processes."""

    def __init__(self, app: Celery, settings: Settings, registry: Registry) -> None:
        self._app = app
        self._settings = settings
        self._registry = registry
        self._shutdown = Shutdown()
        self._boot_id = UUID(bytes=uuid7().bytes)
        self._channel: StopChannel | None = None
        self._runners: list[Runner] = []
        self._pid = os.getpid()
        self._stopped_at: float | None = None
        self._died: list[str] = []
        self._ended = False
        self._log = structlog.get_logger("tenure.worker")

    def init(self, sender: Any, **_: Any) -> None:
        """Before the pool: the gate, and what children inherit."""
        watcher = self._shutdown.watcher()
        self._shutdown.listen_for_signals(signal.SIGTERM, signal.SIGINT)
        try:
            gate.wait(self._settings, watcher, role="worker")
        except TenureError as error:
            print(f"tenure: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        if not watcher.is_running():
            raise SystemExit(0)
        autoscale = getattr(sender, "autoscale", None)
        slots = max(int(sender.concurrency or 1), max(int(n) for n in str(autoscale).split(",")) if autoscale else 0)
        self._channel = StopChannel(slots)
        inherited = child.Inherited(
            self._app, self._settings, self._registry, self._channel, watcher, self._boot_id, sender.hostname
        )
        child.install(child.Children(inherited))

    def ready(self, sender: Any, **_: Any) -> None:
        """The pool is up: start the services, and hear signals before Celery does."""
        assert self._channel is not None
        queues = sorted(str(name) for name in sender.app.amqp.queues.consume_from)
        boot = Boot(
            self._boot_id,
            sender.hostname,
            "worker",
            os.getpid(),
            __version__,
            len(self._channel),
            queues,
            self._registry.names,
        )
        services: list[Service] = [Keeper(self._settings, self._channel, boot)]
        wanted = {name.strip() for name in self._settings.services.split(",")}
        if "dispatcher" in wanted:
            services.append(Dispatcher(self._settings, broker_for(self._app, self._settings.broker)))
        if "reaper" in wanted:
            services.append(Reaper(self._settings))
        watcher = self._shutdown.watcher()
        self._runners = [Runner(service, watcher, self._service_died) for service in services]
        for runner in self._runners:
            runner.start()
        # A cold shutdown and an error of the consumer's end without Celery's worker_shutdown.
        atexit.register(self.stopped)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            self._wrap(number)
        self._log.info(
            "ready", node=sender.hostname, boot_id=str(self._boot_id), slots=len(self._channel), queues=queues
        )

    def _wrap(self, number: int) -> None:
        """Trip our stop first, then do what Celery does: its own notice comes too late for some kinds of shutdown."""
        celerys: Any = signal.getsignal(number)

        def handler(signum: int, frame: FrameType | None) -> None:
            if os.getpid() == self._pid:
                self._trip()
            if callable(celerys):
                celerys(signum, frame)

        signal.signal(number, handler)

    def _trip(self) -> None:
        self._stopped_at = self._stopped_at or time.monotonic()
        self._shutdown.stop()
        if self._channel is not None:
            self._channel.ask_all(Cause.SHUTDOWN)

    def _service_died(self, name: str) -> None:
        self._died.append(name)
        os.kill(self._pid, signal.SIGTERM)

    def stopped(self, **_: Any) -> None:
        """Celery has stopped its consumer and pool: join the services, say who did not stop. Once."""
        if os.getpid() != self._pid or self._ended:
            return
        self._ended = True
        self._trip()
        late = join(self._runners, T_FINAL)
        began = self._stopped_at or time.monotonic()
        self._log.info(
            "stopped",
            services=len(self._runners),
            late=late,
            died=self._died,
            seconds=round(time.monotonic() - began, 2),
        )
        if self._died or late:
            sys.stderr.flush()
            os._exit(1)


def connect(app: Celery, settings: Settings, registry: Registry) -> None:
    """Hang a lifecycle on Celery's signals."""
    lifecycle = Lifecycle(app, settings, registry)
    hooks: dict[Any, Callable[..., None]] = {
        signals.worker_init: lifecycle.init,
        signals.worker_ready: lifecycle.ready,
        signals.worker_shutdown: lifecycle.stopped,
        signals.setup_logging: lambda **_: None,  # ours is set up already; without a receiver Celery sets up its own
    }
    for hook, receiver in hooks.items():
        hook.connect(receiver, weak=False)
