"""Kinds as Celery tasks of an app, so that `delay`, `apply_async`, signatures and groups of them work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from celery.app.task import Task

from tenure.model.errors import UnknownKind, shortened
from tenure.model.kinds import Kind, KindSpec
from tenure.registry import Registry
from tenure_celery.errors import UnsupportedByTenure

if TYPE_CHECKING:
    from tenure_celery.app import TenureCelery


class KindTask(Task):
    """A kind in an app. Params are checked by the kind's model, not by a signature; the app's limits and priorities
    for Celery tasks are not its own."""

    abstract = True
    typing = False

    def _get_exec_options(self) -> dict[str, Any]:
        return {}


def submits_only(_task: Task, /, *_args: object, **_params: object) -> None:
    """The body of a kind where only submitting is possible."""
    raise UnsupportedByTenure("the body of a kind runs in a Tenure worker: submit it with delay() or apply_async()")


def specs_of(kinds: Registry | Iterable[Kind | KindSpec]) -> dict[str, KindSpec]:
    """Specs by name."""
    found = kinds.specs if isinstance(kinds, Registry) else [k.spec if isinstance(k, Kind) else k for k in kinds]
    return {spec.name: spec for spec in found}


class Kinds(Mapping[str, KindTask]):
    """The kinds of an app by name: `app.kinds["catalog.export"].delay(…)`. UnknownKind names what is known."""

    def __init__(self, app: TenureCelery) -> None:
        self._app = app

    def __getitem__(self, name: str) -> KindTask:
        if name not in self._app.specs:
            known = ", ".join(sorted(self._app.specs)) or "none"
            raise UnknownKind(f"unknown kind {shortened(name)!r}: known here are {known} (see TENURE_KINDS)")
        found: KindTask = self._app.tasks[name]
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._app.specs

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._app.specs))

    def __len__(self) -> int:
        return len(self._app.specs)
