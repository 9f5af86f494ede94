"""A database with the class `city`."""

import pytest

from tenure_records import create_class
from tests.support.databases import Database
from tests.support.records import CITY


@pytest.fixture
def records(database: Database) -> Database:
    with database.engine.begin() as connection:
        create_class(connection, CITY)
    return database
