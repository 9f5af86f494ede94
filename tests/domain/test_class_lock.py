"""The class lock protects something: in a transaction that sees what was committed before it was had, and there only."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, text

from tenure.model.errors import UsageError
from tenure_records import (
    activate,
    classes,
    define_field,
    delete_object,
    drop_class,
    get_object,
    objects,
    put_object,
    put_objects,
)
from tenure_records.errors import NoSuchClass
from tests.support.databases import Database
from tests.support.records import CITY, ME, defined, scalar
from tests.support.schemas import NAMED, activated, assert_all_fit, proposed, stored

GOOD, BAD = {"name": "x"}, {"name": 1}


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_began_before_the_activation_and_sees_nothing_newer_is_refused(
    records: Database, level: str
) -> None:
    proposed(records)
    with records.engine.connect() as connection:
        writer = connection.execution_options(isolation_level=level)
        assert writer.execute(text("select count(*) from record_objects")).scalar_one() == 0
        activated(records)
        for write in (
            lambda: put_object(writer, CITY, "bad", BAD),
            lambda: put_objects(writer, CITY, [("bad", BAD)]),
            lambda: delete_object(writer, CITY, "bad"),
            lambda: define_field(writer, CITY, "a", op="sum", paths=["/a"], result_type="number", initiator=ME),
        ):
            with pytest.raises(UsageError, match=f"READ COMMITTED, and this transaction is {level}"):
                write()
        writer.commit()
    assert assert_all_fit(records, NAMED) == 0


def test_an_activation_that_could_not_see_the_write_it_waited_for_is_refused(records: Database) -> None:
    proposed(records)

    @contextmanager
    def begin() -> Iterator[Connection]:
        with records.engine.connect() as connection:
            stricter = connection.execution_options(isolation_level="REPEATABLE READ")
            with stricter.begin():
                yield stricter

    with pytest.raises(UsageError, match="READ COMMITTED"):
        activate(begin, CITY, mode="strict", initiator=ME)
    assert scalar(records, "select status from schema_revisions") == "proposed"


def test_without_a_transaction_nothing_is_written(records: Database) -> None:
    with records.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(UsageError, match="AUTOCOMMIT"):
            put_object(alone, CITY, "a", GOOD)
        with pytest.raises(UsageError, match="AUTOCOMMIT"):
            delete_object(alone, CITY, "a")
    assert scalar(records, "select count(*) from record_objects") == 0


def test_such_a_reader_is_right_and_repairs_nothing(records: Database) -> None:
    defined(records)
    stored(records, {"k": {"a": 1, "b": 2}})
    with records.engine.begin() as connection:
        connection.execute(text("delete from object_computed_data"))
    with records.engine.connect() as connection:
        reader = connection.execution_options(isolation_level="REPEATABLE READ")
        found = computed_of(reader)
        reader.commit()
    assert found == {"total": 3}
    assert scalar(records, "select count(*) from object_computed_data") == 0


def computed_of(connection: Connection) -> dict[str, object]:
    found = get_object(connection, CITY, "k", include_computed=True).computed
    assert found is not None
    return dict(found.values)


def test_a_class_dropped_just_before_the_lock_was_had_is_named(
    records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(connection: Connection, name: str) -> int:
        found = classes.class_id(connection, name)
        with records.engine.begin() as other:
            drop_class(other, name)
        return found

    monkeypatch.setattr(objects, "classes", type("Looked", (), {"class_id": staticmethod(looked_up)}))
    with records.engine.begin() as connection, pytest.raises(NoSuchClass, match="has been dropped"):
        put_object(connection, CITY, "a", GOOD)
