"""What only the system tests need."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.databases import Database, Databases
from tests.support.homes import make_seed, running_for
from tests.support.scratch import scratch_directory
from tests.support.submitted import Tasks
from tests.support.until import until


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory for homes, closed to other users. It is removed when nothing runs in it any more."""
    path = scratch_directory()
    yield path
    until(lambda: not running_for(path))
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def seed() -> Iterator[Path]:
    """A home with a database in it and nothing running, to be copied."""
    path = scratch_directory()
    make_seed(path)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def module_database(databases: Databases) -> Iterator[Database]:
    """A migrated database that the tests of one module share, with the workers they share."""
    database = databases.create()
    yield database
    database.drop()


@pytest.fixture(scope="module")
def module_broker(make_broker_url: Callable[[], str]) -> str:
    """An empty broker database that the tests of one module share."""
    return make_broker_url()


@pytest.fixture(scope="module")
def tasks(module_database: Database) -> Tasks:
    """The tasks of the module's database."""
    return Tasks(module_database.engine)
