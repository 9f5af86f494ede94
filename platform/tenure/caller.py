"""What a caller hands in: its own connection or session, and a kind in any of the forms it has at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection

from tenure import registry, settings
from tenure.model.errors import KindIsInternal
from tenure.model.kinds import Kind, KindSpec

if TYPE_CHECKING:  # the ORM takes a fifth of a second to import, and who hands in no session may not need it
    from sqlalchemy.orm import Session

AnyConnection: TypeAlias = "Connection | Session"


def connection_of(source: AnyConnection) -> Connection:
    """The connection itself, or the one of the session's transaction."""
    return source if isinstance(source, Connection) else source.connection()


def spec_of(kind: str | KindSpec | Kind) -> KindSpec:
    """The spec; a name is looked up among the kinds installed here. Raises UnknownKind."""
    if isinstance(kind, Kind):
        return kind.spec
    return registry.load(settings.load().kind_packages).spec(kind) if isinstance(kind, str) else kind


def public_spec_of(kind: str | KindSpec | Kind) -> KindSpec:
    """The same for a kind that anybody may submit. Raises KindIsInternal, which names the call to use."""
    spec = spec_of(kind)
    if spec.internal is not None:
        raise KindIsInternal(f"kind {spec.name} is internal: use {spec.internal}")
    return spec
