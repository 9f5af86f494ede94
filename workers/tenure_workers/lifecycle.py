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
from celery import signals
from celery.worker import state
from uuid_utils.compat import uuid7

from tenure import __version__, gate, plugins
from tenure.model.errors import TenureError
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime import times
from tenure.runtime.channel import StopChannel
from tenure.runtime.health import Health
from tenure.runtime.http import Endpoint
from tenure.runtime.instance import instance
from tenure.runtime.keeper import Keeper
from tenure.runtime.ladder import Ladder
from tenure.runtime.metrics import Figures, Metrics
from tenure.runtime.previous import declare_limits, settle_previous
from tenure.runtime.service import Runner, Service, join
from tenure.runtime.shared import readable
from tenure.runtime.shutdown import Shutdown, Watcher
from tenure.services.dispatcher import Dispatcher
from tenure.services.net import SafetyNet
from tenure.services.reaper import Reaper
from tenure.services.scheduler import Scheduler
from tenure.settings import Settings
from tenure.store.workers import Boot
from tenure_celery.app import TenureCelery
from tenure_celery.broker import broker_for
from tenure_workers import child, revokes

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_DEATH = 0.5  # s that a killed process may take to be gone


class Lifecycle:
    """Made once per app; Celery's signals call it. Only `run` of the children is used in forked processes."""

    def __init__(self, app: TenureCelery, settings: Settings, registry: Registry) -> None:
        self._app = app
        self._settings = settings
        self._registry = registry
        self._shutdown = Shutdown()
        self._last = Shutdown()
        self._boot_id = UUID(bytes=uuid7().bytes)
        self._channel: StopChannel | None = None
        self._metrics = Metrics()
        self._endpoint: Endpoint | None = None
        self._runners: list[Runner] = []
        self._plugged: list[Callable[[Settings], Service]] = []
        self._pid = os.getpid()
        self._stopped_at: float | None = None
        self._died: list[str] = []
        self._code = 0
        self._ended = False
        self._log = structlog.get_logger("tenure.worker")

    def init(self, sender: Any, **_: Any) -> None:
        """Before the pool: the gate, and what children inherit. Whatever fails here ends the process."""
        for number in _STOPS:
            signal.signal(number, self._early)
        try:
            self._prepare(sender)
        except TenureError as error:
            print(f"tenure: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        except Exception:
            # Celery would log it and go on: a worker that consumes and runs nothing.
            self._log.error("start_failed", exc_info=True)
            raise SystemExit(1) from None

    def _prepare(self, sender: Any) -> None:
        watcher = self._shutdown.watcher()
        gate.wait(self._settings, watcher, role="worker")
        self._leave_early(watcher)
        self._health = Health(self._settings.home, "worker")
        if self._settings.http_port is not None:
            self._endpoint = Endpoint(self._settings.http_port, health=self._health.report, metrics=self._metrics.text)
        self._plugged = [make for _name, make in plugins.loaded("tenure.services")]
        for _name, step in plugins.loaded("tenure.startup"):
            if watcher.is_running():
                step(self._settings)
        self._leave_early(watcher)
        declare_limits(self._settings, self._registry.specs)
        for fate in settle_previous(self._settings, sender.hostname, self._boot_id):
            self._metrics.recovered.labels(fate).inc()
        autoscale = getattr(sender, "autoscale", None)
        slots = max(int(sender.concurrency or 1), max(int(n) for n in str(autoscale).split(",")) if autoscale else 0)
        self._channel = StopChannel(slots)
        inherited = child.Inherited(
            self._app, self._settings, self._registry, self._channel, watcher, self._boot_id, sender.hostname
        )
        child.install(child.Children(inherited))
        self._leave_early(watcher)

    def _early(self, signum: int, _: FrameType | None) -> None:
        """A signal before Celery has set its own handlers: Celery, too, must know of it."""
        if os.getpid() == self._pid:
            self._code = self._code or int(signum == signal.SIGINT)
            state.should_stop = self._code
            self._trip()

    def _leave_early(self, watcher: Watcher) -> None:
        if not watcher.is_running():
            raise SystemExit(self._code)

    def ready(self, sender: Any, **_: Any) -> None:
        """The pool is up: start the services, and hear signals before Celery does. A failure ends the process."""
        try:
            self._serve(sender)
        except Exception:
            self._log.error("start_failed", exc_info=True)
            self._service_died("start")

    def _serve(self, sender: Any) -> None:
        assert self._channel is not None
        queues = sorted(str(name) for name in sender.app.amqp.queues.consume_from)
        slots = len(self._channel)
        boot = Boot(
            self._boot_id, sender.hostname, "worker", self._pid, __version__, slots, queues, self._registry.claimable, instance(),
        )  # fmt: skip
        keeper = Keeper(
            self._settings, self._channel, boot, self._registry,
            metrics=self._metrics, health=self._health, refill=lambda: _refill(sender),
        )  # fmt: skip
        ladder = Ladder(
            self._channel, end_child=lambda pid: self._end_child(sender, pid), give_up=keeper.give_up,
            stopped_at=lambda: self._stopped_at, leave=self._leave,
            rung=lambda cause: self._metrics.stops.labels(cause).inc(),
        )  # fmt: skip
        # Keeper and ladder see the children out: they stop after the pool, the others before it.
        last, first = self._last.watcher(), self._shutdown.watcher()
        lasting: list[Service] = [keeper, ladder]
        for service in [*lasting, *self._services()]:
            watcher = last if service in lasting else first
            runner = Runner(service, watcher, self._service_died, self._round_failed)
            runner.start()
            self._runners.append(runner)
        if self._endpoint is not None:
            self._endpoint.start()
        # A cold shutdown and an error of the consumer's end without Celery's worker_shutdown.
        atexit.register(self.stopped)
        for number in _STOPS:
            self._wrap(number)
        self._log.info("ready", node=sender.hostname, boot_id=str(self._boot_id), slots=slots, queues=queues)

    def _services(self) -> list[Service]:
        wanted = {name.strip() for name in self._settings.services.split(",")}
        asked = revokes.Revokes(self._settings)
        revokes.install(asked)
        made: list[Service] = [asked]
        if "dispatcher" in wanted:
            broker = broker_for(self._app, self._settings.broker)
            made.append(Dispatcher(self._settings, broker, published=self._metrics.published.inc))
        if "reaper" in wanted:
            made.append(Reaper(self._settings, recovered=lambda fate: self._metrics.recovered.labels(fate).inc()))
        if "scheduler" in wanted:
            made.append(Scheduler(self._settings, self._registry, started=self._metrics.occurred))
        if "safety_net" in wanted:
            made.append(SafetyNet(self._settings))
        if self._endpoint is not None:
            made.append(Figures(self._settings, self._metrics))
        return [*made, *(make(self._settings) for make in self._plugged)]

    def _wrap(self, number: int) -> None:
        """Trip our stop first, then do what Celery does: its own notice comes too late for some kinds of shutdown."""
        celerys: Any = signal.getsignal(number)

        def handler(signum: int, frame: FrameType | None) -> None:
            if os.getpid() == self._pid:
                self._code = self._code or int(signum == signal.SIGINT)
                self._trip()
            if callable(celerys):
                celerys(signum, frame)

        signal.signal(number, handler)

    def _trip(self) -> None:
        if self._endpoint is not None:
            self._endpoint.stop()
        self._stopped_at = self._stopped_at or time.monotonic()
        self._shutdown.stop()
        if self._channel is not None:
            self._channel.ask_all(Cause.SHUTDOWN)

    def _round_failed(self, name: str) -> None:
        self._metrics.errors.labels(name).inc()

    def _service_died(self, name: str) -> None:
        self._died.append(name)
        os.kill(self._pid, signal.SIGTERM)

    def stopped(self, **_: Any) -> None:
        """Celery has stopped its consumer and pool: join the services, say who did not stop. Once."""
        if os.getpid() != self._pid or self._ended:
            return
        self._ended = True
        self._trip()
        self._last.stop()
        child.flush()
        began = self._stopped_at or time.monotonic()
        late = join(self._runners, max(0.1, times.T_FINAL - (time.monotonic() - began)))
        if self._endpoint is not None and not self._endpoint.join(0.1):
            late.append("http")
        self._said(late)
        if self._died or late:
            self._exit(1)

    def _leave(self) -> None:
        """T_FINAL has passed and Celery has not stopped (a frozen broker, say): what is left is recovered from leases."""
        self._last.stop()
        others = [runner for runner in self._runners if runner.service.name != Ladder.name]  # we are the ladder
        late = join(others, times.LAST_JOIN)
        self._said(late)
        self._exit(1 if late or self._died else self._code)

    def _said(self, late: list[str]) -> None:
        seconds = round(time.monotonic() - (self._stopped_at or time.monotonic()), 2)
        self._log.info("stopped", services=len(self._runners), late=late, died=self._died, seconds=seconds)

    def _end_child(self, consumer: Any, pid: int) -> bool:
        ended = _end_child(consumer, pid)
        self._metrics.children.inc(int(ended))
        return ended

    def _exit(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_child(consumer: Any, pid: int) -> bool:
    """SIGKILL one process of the pool, its neighbours undisturbed. False where the pool's tasks share a process."""
    try:
        consumer.pool.terminate_job(pid, signal.SIGKILL)
    except NotImplementedError:
        return False
    _await_end(pid)
    return True


def _refill(consumer: Any) -> None:
    """Let the pool replace its dead now: by itself it may look 5 s later, and the slot would be empty meanwhile."""
    hub, pool = getattr(consumer, "hub", None), getattr(consumer.pool, "_pool", None)
    if hub is not None and pool is not None:  # prefork only
        hub.call_soon(pool.maintain_pool)


def _await_end(pid: int) -> None:
    """Until a killed process is gone: what it held may be settled only then. It may hang in the kernel: not for ever."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return  # gone and collected already, or a kernel without it: the keeper looks for itself
    try:
        readable([descriptor], _DEATH)
    finally:
        os.close(descriptor)


def connect(app: TenureCelery, settings: Settings, registry: Registry) -> None:
    """Hang a lifecycle on Celery's signals."""
    lifecycle = Lifecycle(app, settings, registry)
    hooks: dict[Any, Callable[..., None]] = {
        signals.worker_init: lifecycle.init,
        signals.worker_ready: lifecycle.ready,
        signals.worker_shutdown: lifecycle.stopped,
        signals.worker_process_shutdown: child.flush,
        signals.setup_logging: lambda **_: None,  # ours is set up already; without a receiver Celery sets up its own
    }
    for hook, receiver in hooks.items():
        hook.connect(receiver, weak=False)
