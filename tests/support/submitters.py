"""Submitters for tests: processes that note in a ledger, in the transaction of the submission, what they submitted.

Some transactions are rolled back; some processes kill themselves just before or just after a commit.
"""

import os
import random
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection as Line
from typing import Any

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from tenure import client
from tenure.model.kinds import Kind
from tests.support.submitted import TESTER

NAME = "submitter"
TABLE = "create table if not exists submissions (task_id uuid not null)"
_NOTE = text("insert into submissions (task_id) select unnest(cast(:ids as uuid[]))")
ROLLED_BACK, KILLED_BEFORE, KILLED_AFTER, BATCHED = 0.25, 0.02, 0.02, 0.2
MANY = 5


def submitter(url: str, kind: Kind, seed: int) -> Callable[[Line], None]:
    """For `forked`: submits until it is killed, or kills itself."""

    def body(line: Line) -> None:
        chance = random.Random(seed)
        arguments = {"application_name": NAME}
        with create_engine(url, poolclass=NullPool, connect_args=arguments).connect() as connection:
            line.send("connected")
            while True:
                _transaction(connection, kind, chance)

    return body


def _transaction(connection: Connection, kind: Kind, chance: random.Random) -> None:
    fate = chance.random()
    with connection.begin() as transaction:
        _submit(connection, kind, {"rows": chance.randrange(5)}, MANY if chance.random() < BATCHED else 1)
        if fate < ROLLED_BACK:
            transaction.rollback()
        elif fate < ROLLED_BACK + KILLED_BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
    if fate > 1 - KILLED_AFTER:
        os.kill(os.getpid(), signal.SIGKILL)


def _submit(connection: Connection, kind: Kind, params: Any, count: int) -> None:
    if count == 1:
        ids = [client.submit(connection, kind, params, initiator=TESTER).id]
    else:
        ids = [one.id for one in client.submit_many(connection, kind, [params] * count, initiator=TESTER)]
    connection.execute(_NOTE, {"ids": ids})
