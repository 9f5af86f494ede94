"""Readers beside writers, changes of definitions and the reindexes they make: every answer is what evaluating on the spot,
by an evaluator of its own, gives for the data and the definitions that the reader sees."""

import json
import random
import threading
from collections import Counter
from fractions import Fraction
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure_records import (
    Filter,
    Sort,
    change_field,
    define_field,
    delete_object,
    drop_field,
    find_objects,
    get_objects,
    list_fields,
    put_objects,
)
from tenure_records.computed import encode
from tenure_records.errors import NoSuchObject
from tenure_workers.kinds.reindex import records_reindex
from tests.support import computed_oracle
from tests.support.databases import Database
from tests.support.exact import as_fractions
from tests.support.executing import run
from tests.support.records import CITY, ME, put, state
from tests.support.tasks import scale
from tests.support.threads import together

KEYS = 60
SHAPES = [("sum", "number"), ("max", "number"), ("min", "integer"), ("count_present", "integer"), ("average", "number")]


def definitions_of(connection: Connection) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "operation": {"op": one.operation.op, "paths": list(one.operation.paths)},
            "result_type": one.result_type,
        }
        for one in list_fields(connection, CITY)
        if one.enabled
    ]


class Everybody:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.over = threading.Event()
        self.seen: Counter[str] = Counter()

    def change(self) -> None:
        """A change of definitions, its reindex beside everybody, and the next change sometimes before that is done."""
        chance = random.Random(1)
        try:
            for number in range(scale(120, 12)):
                made = self.changed(chance)
                if made is not None and (number % 3 or number > scale(115, 9)):
                    self.page_of(made, 9)
                    run(self.database, made, records_reindex)
        finally:
            self.over.set()

    def changed(self, chance: random.Random) -> UUID | None:
        op, result_type = chance.choice(SHAPES)
        shape: dict[str, Any] = {"op": op, "paths": ["/a", "/b", "/c"], "result_type": result_type}
        with self.database.engine.begin() as connection:
            known = {one.key: one for one in list_fields(connection, CITY)}
            key = chance.choice(["f", "g"])
            if key not in known:
                done = define_field(connection, CITY, key, initiator=ME, **shape)
            elif chance.random() < 0.2 and len(known) > 1:
                done = drop_field(connection, CITY, key, revision=known[key].revision, initiator=ME)
            else:
                done = change_field(connection, CITY, key, revision=known[key].revision, initiator=ME, **shape)
        return done.task.id if done.task is not None else None

    def page_of(self, task: UUID, rows: int) -> None:
        with self.database.engine.begin() as connection:
            connection.execute(
                text("update task_params set params = params || jsonb_build_object('page_rows', cast(:n as int)) where task_id = :id"),
                {"n": rows, "id": task},
            )  # fmt: skip

    def write(self) -> None:
        chance = random.Random(2)
        while not self.over.is_set():
            keys = chance.sample(range(KEYS), 3)
            with self.database.engine.begin() as connection:
                put_objects(connection, CITY, [(f"k{key}", self.data(chance)) for key in keys])
            with self.database.engine.begin() as connection:
                try:
                    delete_object(connection, CITY, f"k{chance.randrange(KEYS)}")
                except NoSuchObject:
                    pass
            self.seen["writes"] += 1

    def data(self, chance: random.Random) -> str:
        members = {
            "a": chance.randrange(9),
            "b": f"{chance.randrange(99)}.50",
            "c": '"x"' if chance.random() < 0.1 else "1",
        }
        return "{" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "}"

    def read(self) -> None:
        while not self.over.is_set():
            with self.database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
                self.judge(connection)

    def judge(self, connection: Connection) -> None:
        """What one snapshot says, against the oracle over the data and the definitions of the same snapshot."""
        fields = definitions_of(connection)
        objects = get_objects(connection, CITY, limit=1_000, include_computed=True, repair=False)
        expected = {}
        for one in objects:
            assert one.computed is not None
            values, codes = computed_oracle.evaluate(encode(one.data), fields)
            assert (as_fractions(one.computed.values), one.computed.errors) == (values, codes), json.dumps(fields)
            self.seen["stale" if one.computed.stale else "fresh"] += 1
            expected[one.key] = values
        for field in fields:
            key = field["key"]
            more = [k for k, values in expected.items() if values[key] is not None and values[key] > Fraction(7, 2)]
            found = find_objects(connection, CITY, where=[Filter(key, "gt", 3.5)], order_by=[Sort(key)], limit=1_000)
            assert sorted(one.key for one in found.objects) == sorted(more)
            order = [expected[one.key][key] for one in found.objects]
            assert order == sorted(order)
            self.seen["found"] += len(order)

    def repair(self) -> None:
        """A reader who may write gets in everybody's way as far as a reader may."""
        while not self.over.is_set():
            with self.database.engine.begin() as connection:
                get_objects(connection, CITY, limit=1_000, include_computed=True)
            self.seen["repairs"] += 1


def test_readers_beside_writers_changes_and_reindexes_are_right_every_time(records: Database) -> None:
    put(records, KEYS, b=1)
    everybody = Everybody(records)
    together(everybody.change, everybody.write, everybody.read, everybody.read, everybody.repair)
    seen = everybody.seen
    assert min(seen[what] for what in ("stale", "fresh", "found", "writes", "repairs")) > 10, seen
    assert state(records).rebuild_status == "ready"
    with records.engine.connect() as connection:
        everybody.judge(connection)
        objects = get_objects(connection, CITY, limit=1_000, include_computed=True, repair=False)
    assert not any(one.computed.stale for one in objects if one.computed)
