"""The Celery app of Tenure: sending a task of a known kind commits a row, everything else is Celery as it is.

The kernel knows no Celery: `delay` and `apply_async` exist on kinds only through an app.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from celery import Celery
from celery.utils.nodenames import anon_nodename
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from tenure import client, registry
from tenure.model.errors import NoSuchTask, TooLate, UnknownKind, UsageError, shortened
from tenure.model.kinds import Kind, KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.registry import Registry
from tenure.settings import Settings, load
from tenure.store.connect import reachable
from tenure.store.reads import from_now
from tenure_celery import calls, ids
from tenure_celery.calls import Asked
from tenure_celery.conf import settings_of
from tenure_celery.engines import Engines
from tenure_celery.envelope import HEADER
from tenure_celery.kinds import Kinds, KindTask, specs_of, submits_only

BACKEND = "tenure+rows://"
_OURS = ("initiator", "submitter", "key", "labels", "deadline", "scope")
# How Celery would carry the message, or what its canvas keeps for itself: nothing of it is left of a row.
_IGNORED = frozenset(
    [
        "producer",
        "publisher",
        "router",
        "result_cls",
        "add_to_parent",
        "group_id",
        "group_index",
        "retries",
        "reply_to",
        "root_id",
        "parent_id",
        "route_name",
        "shadow",
        "task_type",
        "replaced_task_nesting",
        "serializer",
        "compression",
        "delivery_mode",
        "retry",
        "retry_policy",
        "immediate",
        "mandatory",
        "ignore_result",
        "argsrepr",
        "kwargsrepr",
        "exchange_type",
        "stamped_headers",
        "headers",
        "connection",
        "session",
        "priority",
        "expires",
        "queue",
        "routing_key",
        "exchange",
    ]
)


class TenureCelery(Celery):
    """`TenureCelery("shop")` in an application that submits: no broker is needed, PostgreSQL is.

    `kinds`: those it may submit (a registry, or kinds and specs); by default the installed ones. `settings`: by
    default those of the environment. `initiator`: who submits; by default (celery, this process, the app's name).
    """

    control_cls = "tenure_celery.control:Control"

    def __init__(
        self,
        main: str | None = None,
        *,
        kinds: Registry | Iterable[Kind | KindSpec] | None = None,
        settings: Settings | None = None,
        initiator: Initiator | None = None,
        **options: Any,
    ) -> None:
        self.tenure = settings or load()
        self._given = None if kinds is None else specs_of(kinds)
        self._engines = Engines(lambda: self.tenure.client_url, application="tenure submit")
        self.initiator = initiator or Initiator("celery", anon_nodename(), main or "celery")
        options.setdefault("backend", BACKEND)
        if self.tenure.broker_url is not None:
            options.setdefault("broker", self.tenure.broker)
        super().__init__(main, **options)

    @cached_property
    def specs(self) -> dict[str, KindSpec]:
        """The kinds this app submits, by name."""
        return specs_of(registry.load(self.tenure.kind_packages)) if self._given is None else self._given

    @property
    def kinds(self) -> Kinds:
        """The kinds as Celery tasks, by name; also in `tasks`, beside the app's own."""
        return Kinds(self)

    def finalize(self, auto: bool = False) -> None:
        with self._finalize_mutex:
            first = not self.finalized
            super().finalize(auto)
            if first:
                for name in self.specs:
                    if name not in self._tasks:
                        self._task_from_fun(submits_only, name=name, base=KindTask, bind=True)

    def send_task(
        self,
        name: str,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        countdown: float | None = None,
        eta: Any = None,
        task_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Celery's; for a known kind the task is a row, committed in a transaction of its own, or in that of
        `session=` or `connection=` (SQLAlchemy's). Also understood: key, labels, initiator, submitter, deadline, scope.

        Raises what `tenure.client.submit` raises, and UnsupportedByTenure for what a durable task cannot have.
        """
        spec = self.specs.get(name)
        target = _target(options)
        if spec is None or (options.get("headers") or {}).get(HEADER) == "hint":
            if target is not None:
                raise UnknownKind(f"{shortened(name)!r} is no kind here: only kinds are submitted in a transaction")
            return super().send_task(name, args, kwargs, countdown, eta, task_id, **options)
        asked = self._understood(spec, args, kwargs, eta if countdown is None else countdown, options)
        made = self._submit(spec, asked, task_id, target)
        same = task_id is not None and made.id == ids.row_id(task_id)
        result = (options.get("result_cls") or self.AsyncResult)(task_id if same else str(made.id))
        result.ignored = options.get("ignore_result")
        return result

    def _understood(self, spec: KindSpec, args: Any, kwargs: Any, at: Any, options: dict[str, Any]) -> Asked:
        calls.refuse(spec, args, options)
        stamps = set(options.get("stamped_headers") or ())
        for option in options:
            if option not in _IGNORED and option not in _OURS and option not in calls.REFUSED and option not in stamps:
                raise UsageError(f"{spec.name}: {shortened(option)} is no option of a kind: see `tenure.client.submit`")
        for option in ("queue", "routing_key", "exchange"):
            given = options.get(option)
            if given and getattr(given, "name", given) != spec.queue:
                raise UsageError(f"{spec.name}: {option}: its queue is {spec.queue!r}: declare another one on the kind")
        zone = self.timezone
        asked = Asked(
            params=kwargs or {},
            at=calls.moment(spec, "eta", at, zone),
            start_by=calls.moment(spec, "expires", options.get("expires"), zone),
            priority=calls.priority_of(spec, options.get("priority"), larger_first=not self.inverts_priorities),
        )
        asked = calls.with_header(spec, asked, (options.get("headers") or {}).get(calls.OPTIONS))
        return calls.with_header(spec, asked, {name: options[name] for name in _OURS if name in options})

    @property
    def inverts_priorities(self) -> bool:
        """Whether this app's broker takes the smaller priority first, as Redis does; so it is without a broker."""
        return str(self.conf.broker_url or "redis").startswith(("redis", "valkey", "sentinel"))

    def _submit(
        self, spec: KindSpec, asked: Asked, task_id: str | None, target: Connection | Session | None
    ) -> Submitted:
        labels = {**(ids.labelled(task_id) if task_id else {}), **asked.labels}
        with self.transaction(target) as connection:
            return client.submit(
                connection, spec, asked.params, initiator=asked.initiator or self.initiator, submitter=asked.submitter,
                key=asked.key, at=_absolute(connection, asked.at), start_by=_absolute(connection, asked.start_by),
                deadline=asked.deadline, priority=asked.priority, labels=labels, scope=asked.scope,
                task_id=ids.row_id(task_id) if task_id else None,
            )  # fmt: skip

    @contextmanager
    def transaction(self, target: Connection | Session | None = None) -> Iterator[Connection]:
        """The caller's transaction where one is given; else one of our own, committed at the end of the block."""
        if target is not None:
            yield target.connection() if isinstance(target, Session) else target
            return
        with reachable(self._engines.engine()) as connection, connection.begin():
            yield connection

    def cancel(self, celery_ids: Sequence[str], reason: str | None = None) -> tuple[dict[str, str], list[str]]:
        """Ask tasks to stop: ({id: its state now}, [ids that have no row]). One that has ended keeps its state."""
        states: dict[str, str] = {}
        strangers: list[str] = []
        for celery_id in celery_ids:
            with self.transaction() as connection:
                row = ids.row_id(celery_id)
                try:
                    states[celery_id] = client.cancel(connection, row, initiator=self.initiator, reason=reason)
                except TooLate:
                    states[celery_id] = client.glance(connection, row)["state"]
                except NoSuchTask:
                    strangers.append(celery_id)
        return states, strangers

    def close(self) -> None:
        self._engines.close()
        super().close()


def _target(options: dict[str, Any]) -> Connection | Session | None:
    """The caller's own transaction. A broker connection, which Celery calls `connection` too, is none."""
    given = options.pop("session", None)
    if given is None and isinstance(options.get("connection"), Connection | Session):
        given = options.pop("connection")
    if given is not None and not isinstance(given, Connection | Session):
        raise UsageError("session: give a SQLAlchemy Session or Connection")
    return given


def _absolute(connection: Connection, given: datetime | timedelta | None) -> datetime | None:
    return from_now(connection, given) if isinstance(given, timedelta) else given


def make_app(
    settings: Settings,
    queues: Sequence[str],
    *,
    name: str = "tenure",
    default_queue: str = "default",
    kinds: Registry | None = None,
) -> TenureCelery:
    """The app of a worker, of beat or of Flower, on the broker of these settings; it has no result backend."""
    app = TenureCelery(name, kinds=kinds, settings=settings, broker=settings.broker, set_as_current=True)
    app.conf.update(settings_of(queues, default_queue))
    return app
