"""The database holds initiators to the same matrix as the code, for tasks and for activities."""

import itertools

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tenure.model.initiators import TYPES, refusal
from tenure.model.records import Initiator
from tests.support import tasks
from tests.support.databases import Database

CASES = list(itertools.product([*TYPES, "", "root"], ["", "7", " "], ["", "ada", " "]))


@pytest.mark.parametrize("table", ["tasks", "activities"])
def test_the_constraint_and_the_code_allow_the_same(database: Database, table: str) -> None:
    tasks.submit(database)
    change = text(f"update {table} set initiator_type = :t, initiator_id = :i, initiator_name = :n")
    with database.engine.connect() as connection:
        for type_, id_, name in CASES:
            refused = None
            try:
                with connection.begin() as transaction:
                    connection.execute(change, {"t": type_, "i": id_, "n": name})
                    transaction.rollback()
            except IntegrityError as error:
                refused = error.orig.diag.constraint_name  # type: ignore[union-attr]
            wanted = f"{table}_initiator" if refusal(Initiator(type_, id_, name)) else None
            assert refused == wanted, (type_, id_, name)
