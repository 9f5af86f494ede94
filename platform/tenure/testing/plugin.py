"""The pytest plugin `tenure`: fixtures, and nothing that happens unless a test asks for one.

What they need is imported in them: a test session that uses none must pay for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from tenure.model.kinds import Kind
    from tenure.testing.database import Database, Databases


class Run(Protocol):
    """Submit a task of this kind, run it in this process to the end of one attempt, and answer it as `client.get` does."""

    def __call__(self, kind: Kind, params: Any = None, **options: Any) -> dict[str, Any]: ...


@pytest.fixture(scope="session")
def tenure_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Embedded servers of this session, for as many databases as are asked for. Needs the extra `tenure[embedded]`."""
    from tenure.testing.database import databases

    with databases(tmp_path_factory.mktemp("tenure", numbered=True)) as made:
        yield made


@pytest.fixture
def tenure_database(tenure_databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A migrated, empty database of this test; TENURE_DATABASE_URL and TENURE_BROKER_URL name it and a broker."""
    made = tenure_databases.create()
    monkeypatch.setenv("TENURE_DATABASE_URL", made.url)
    monkeypatch.setenv("TENURE_BROKER_URL", tenure_databases.broker_url)
    monkeypatch.delenv("TENURE_DIRECT_URL", raising=False)
    yield made
    made.drop()


@pytest.fixture
def tenure_run(tenure_database: Database) -> Run:
    """`tenure_run(kind, params, **options of client.submit)` → the task."""
    return tenure_database.submit_and_run
