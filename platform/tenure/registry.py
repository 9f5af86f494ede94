"""Finds the kinds installed here: every `Kind` and `KindSpec` in the packages of the entry point `tenure.kinds` and TENURE_KINDS.

A registry is a value; nothing registers itself at import.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from tenure.importing import imported, is_module_name
from tenure.model.errors import InvalidKind, UnknownKind, shortened
from tenure.model.kinds import Kind, KindSpec

GROUP = "tenure.kinds"


class Registry:
    """Kinds by name, or by an alias. `spec` and `kind` raise UnknownKind, naming what is known."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[str, Kind] = {}
        for kind in kinds:
            known = self._kinds.setdefault(kind.spec.name, kind)
            if known is not kind:
                places = " and in ".join(_place(one) for one in (known, kind))
                raise InvalidKind(f"kind {kind.spec.name} is declared twice: in {places}: rename one of them")
        self._called = dict(self._kinds)
        for kind in self._kinds.values():
            for alias in kind.spec.aliases:
                if self._called.setdefault(alias, kind) is not kind:
                    raise InvalidKind(f"kind {kind.spec.name}: its alias {alias} is another kind's name")

    @property
    def names(self) -> list[str]:
        return sorted(self._kinds)

    @property
    def claimable(self) -> list[str]:
        """All names that tasks of these kinds may carry: their own, and those they had before."""
        return sorted(self._called)

    @property
    def specs(self) -> list[KindSpec]:
        return [self._kinds[name].spec for name in self.names]

    @property
    def queues(self) -> list[str]:
        return sorted({kind.spec.queue for kind in self._kinds.values()})

    def kind(self, name: str) -> Kind:
        try:
            return self._called[name]
        except KeyError:
            raise UnknownKind(
                f"unknown kind {shortened(name)!r}: known here are {', '.join(self.names) or 'none'} (see TENURE_KINDS)"
            ) from None

    def spec(self, name: str) -> KindSpec:
        return self.kind(name).spec

    def __contains__(self, name: str) -> bool:
        return name in self._called


def _modules(package: str) -> Iterator[ModuleType]:
    if not is_module_name(package):
        raise InvalidKind(f"kinds package {shortened(package)!r}: no package name, write it as an import does: a.b")
    root = imported(package, package)
    yield root
    for found in pkgutil.iter_modules(getattr(root, "__path__", ())):
        yield imported(package, f"{package}.{found.name}")


def _kinds_in(modules: Iterable[ModuleType]) -> Iterator[Kind]:
    for module in modules:
        members: Mapping[str, object] = vars(module)
        yield from (value for value in members.values() if isinstance(value, Kind))


@lru_cache(maxsize=8)
def load(packages: tuple[str, ...]) -> Registry:
    """The registry of the installed entry points and these packages. Raises InvalidKind naming what cannot be loaded."""
    names = [*(point.value for point in entry_points(group=GROUP)), *packages]
    found: dict[int, Kind] = {}
    for name in dict.fromkeys(names):
        kinds = {id(kind): kind for kind in _kinds_in(_modules(name))}
        if not kinds:
            raise InvalidKind(
                f"kinds package {shortened(name)}: holds no kind, neither itself nor in a module directly in it: "
                "declare one with @kind, or take the package out of TENURE_KINDS"
            )
        found |= kinds
    return Registry(found.values())


def _place(kind: Kind) -> str:
    code = getattr(kind.body, "__code__", None)
    module = shortened(getattr(kind.body, "__module__", None) or "an unknown module")
    return f"{module}, line {code.co_firstlineno}" if code else module
