"""Writes, changes of definitions and reindex pages, interleaved at will: no reader ever sees a value that does not follow
from the data and the definitions it sees."""

import itertools
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from tenure_records import (
    change_field,
    create_class,
    define_field,
    delete_object,
    drop_field,
    get_class,
    get_objects,
    list_fields,
    put_objects,
    reindex,
)
from tenure_records.kinds import Reindex
from tenure_records.reindex import Page
from tenure_records.scope import Scope, current
from tests.support.databases import Database
from tests.support.records import ME

KEYS = ["k1", "k2", "k3"]
FIELDS = ["f", "g"]
MEANING: dict[str, Any] = {
    "sum": lambda data: sum(data.values()),
    "max": lambda data: max(data.values()),
    "count_present": len,
}
_NAMES = itertools.count()

Objects = dict[str, dict[str, int]]


class Races(RuleBasedStateMachine):
    """A writer and a changer with a transaction each, a reindex that holds an evaluated page for as long as it likes,
    and readers. Nobody waits longer than 20 ms: who is in the way is known, so whether somebody has to wait is, too."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.name = f"class {next(_NAMES)}"
        engine = self.database.engine
        with engine.begin() as connection:
            self.class_id = create_class(connection, self.name).id
        self.writer, self.changer, self.reader = engine.connect(), engine.connect(), engine.connect()
        self.objects: Objects = {}
        self.ops: dict[str, str] = {}
        self.written: Objects | None = None  # what the open transaction of the writer will leave
        self.changed: dict[str, str] | None = None
        self.page: tuple[Reindex, Scope, Page] | None = None
        self.stored: dict[int, tuple[int, int]] = {}

    def teardown(self) -> None:
        for connection in (self.writer, self.changer, self.reader):
            connection.close()

    def impatient(self, connection: Connection) -> None:
        connection.execute(text("set local lock_timeout = '20ms'"))

    # -- the writer

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), a=st.integers(0, 3), b=st.none() | st.integers(0, 3))
    def write(self, keys: set[str], a: int, b: int | None) -> None:
        data = {"a": a} if b is None else {"a": a, "b": b}
        self.attempt_write(lambda: put_objects(self.writer, self.name, [(key, data) for key in keys]),
                           dict.fromkeys(keys, data), set())  # fmt: skip

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        here = self.objects if self.written is None else self.written
        if key in here:
            self.attempt_write(lambda: delete_object(self.writer, self.name, key), {}, {key})

    def attempt_write(self, act: Any, puts: Objects, gone: set[str]) -> None:
        self.impatient(self.writer)
        try:
            act()
        except OperationalError:
            assert self.changed is not None, "only a change of definitions may keep a writer out"
            self.writer.rollback()
            self.written = None
            return
        assert self.changed is None, "a write went on beside an open change of definitions"
        before = self.objects if self.written is None else self.written
        self.written = {key: data for key, data in (before | puts).items() if key not in gone}

    @precondition(lambda self: self.written is not None)
    @rule(keep=st.sampled_from([True, True, False]))
    def end_write(self, keep: bool) -> None:
        if keep:
            self.writer.commit()
            assert self.written is not None
            self.objects = self.written
        else:
            self.writer.rollback()
        self.written = None

    # -- the changer

    @rule(field=st.sampled_from(FIELDS), op=st.none() | st.sampled_from(sorted(MEANING)))
    def change(self, field: str, op: str | None) -> None:
        self.impatient(self.changer)
        ops = dict(self.ops if self.changed is None else self.changed)
        try:
            self.apply(field, op)
        except OperationalError:
            assert self.written is not None, "only an open write may keep a change of definitions out"
            self.changer.rollback()
            self.changed = None
            return
        ops.pop(field, None)
        if op is not None:
            ops[field] = op
        if self.changer.execute(text("select txid_current_if_assigned()")).scalar() is not None:
            self.changed = ops
        else:
            self.changer.rollback()

    def apply(self, field: str, op: str | None) -> None:
        revision = {one.key: one.revision for one in list_fields(self.changer, self.name)}.get(field)
        type_ = "integer" if op == "count_present" else "number"
        shape: dict[str, Any] = {"op": op, "paths": ["/a", "/b"], "result_type": type_}
        if op is None and revision is not None:
            drop_field(self.changer, self.name, field, revision=revision, initiator=ME)
        elif op is not None and revision is not None:
            change_field(self.changer, self.name, field, revision=revision, initiator=ME, **shape)
        elif op is not None:
            define_field(self.changer, self.name, field, initiator=ME, **shape)

    @precondition(lambda self: self.changed is not None)
    @rule(keep=st.sampled_from([True, True, False]))
    def end_change(self, keep: bool) -> None:
        if keep:
            self.changer.commit()
            assert self.changed is not None
            self.ops = self.changed
        else:
            self.changer.rollback()
        self.changed = None

    # -- the reindex

    @rule(rows=st.integers(2, 3), after=st.integers(0, 1), repair=st.sampled_from([True, True, False]))
    def read_a_page(self, rows: int, after: int, repair: bool) -> None:
        now = get_class(self.reader, self.name)
        if now.active_task_id is not None:
            params = Reindex(class_id=self.class_id, class_name=self.name, revision=now.evaluation_revision,
                             upper=2**40, repair=repair)  # fmt: skip
            scope = current(self.reader, self.class_id)
            first = self.reader.execute(
                text("select coalesce(min(id), 0) from record_objects where class_id = :id"), {"id": self.class_id}
            ).scalar_one()
            self.after = max(first - 1, 0) + after
            page = reindex.read(self.reader, params, scope, self.after, rows)
            self.page = None if page is None else (params, scope, page)
        self.reader.rollback()

    @precondition(lambda self: self.page is not None)
    @rule()
    def store_the_page(self) -> None:
        assert self.page is not None
        params, scope, page = self.page
        with self.database.engine.connect() as connection:
            self.impatient(connection)
            now = get_class(connection, self.name)
            assert now.active_task_id is not None
            try:
                kept = reindex.store(connection, params, now.active_task_id, scope, self.after, page)
            except OperationalError:
                assert self.changed is not None or self.written is not None
                connection.rollback()
                return
            assert kept == (now.evaluation_revision == params.revision)
            connection.commit()
        self.page = None

    # -- the readers

    @invariant()
    def every_reader_is_right(self) -> None:
        self.look(repair=False)
        self.reader.rollback()

    @invariant()
    def stored_values_only_go_forward(self) -> None:
        rows = self.reader.execute(
            text(
                """select object_id, change_seq, evaluation_revision from object_computed_data where class_id = :id"""
            ),
            {"id": self.class_id},
        ).all()
        self.reader.rollback()
        now = {row[0]: (row[1], row[2]) for row in rows}
        for object_id, (seq, revision) in now.items():
            before = self.stored.get(object_id, (0, 0))
            assert (seq >= before[0], revision >= before[1]) == (True, True), "older over newer"
        self.stored = now

    @rule()
    def read_and_repair(self) -> None:
        with self.database.engine.begin() as connection:
            connection.execute(
                text("update class_computation_state set rebuild_status = 'ready' where class_id = :id"),
                {"id": self.class_id},
            ) if self.changed is None else None
            self.impatient(connection)
        self.look(repair=True)
        self.reader.commit()

    def look(self, *, repair: bool) -> None:
        if repair:
            self.impatient(self.reader)
        seen = get_objects(self.reader, self.name, include_computed=True, repair=repair)
        assert {one.key: one.data for one in seen} == self.objects
        for one in seen:
            assert one.computed is not None
            expected = {field: MEANING[op](self.objects[one.key]) for field, op in self.ops.items()}
            assert one.computed.values == expected, f"{one.key} is {one.data}, stale: {one.computed.stale}"


def test_no_reader_sees_a_value_that_does_not_follow_from_what_it_sees(database: Database) -> None:
    machine = type("RacesHere", (Races,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck),
            print_blob=False, database=None,
        ),
    )  # fmt: skip
