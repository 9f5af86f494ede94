"""The official JSON-Schema-Test-Suite through the database: what a scan finds and what a write is told agree with it."""

import itertools
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tenure_records import impact, propose_schema, put_objects
from tenure_workers.kinds.schema_validation import records_schema_validation
from tests.support import schema_suite
from tests.support.databases import Database
from tests.support.records import CITY, ME
from tests.support.slot import Bench
from tests.support.tasks import scale

# Every so many groups: every draft and most keywords are met in the short form, all in full.
STEP = scale(1, 12)
_FOUND = text("""select o.key, e.verdict, e.scan_id is null from record_objects o join schema_revisions r
        on r.class_id = o.class_id and r.status = 'proposed'
    left join schema_evidence e on e.schema_id = r.id and e.object_id = o.id and e.change_seq = o.change_seq""")

Group = dict[str, tuple[str, bool]]


def groups() -> Iterator[tuple[str, str, Group]]:
    """(name, schema, {key: (document, valid)}) of each group of the suite that our rules allow."""
    allowed = (case for case in schema_suite.cases() if case.refused is None)
    for schema, cases in itertools.groupby(allowed, key=lambda case: (case.draft, case.file, case.group, case.schema)):
        documents: Group = {}
        for case in cases:
            if inside := case.as_object():
                outer, document = inside
                documents[case.test] = (document, case.valid)
        if documents:
            yield " ".join(schema[:3]), outer, documents


def verdicts(
    database: Database, bench: Bench, schema: str, documents: Group
) -> tuple[dict[str, bool], dict[str, bool]]:
    """What the scan says of each document, and what its writers do."""
    with database.engine.begin() as connection:
        connection.execute(text("delete from record_objects"))
        put_objects(connection, CITY, [(f"before {key}", body) for key, (body, _) in documents.items()])
        propose_schema(connection, CITY, schema, initiator=ME)
        task = impact(connection, CITY, initiator=ME)
        put_objects(connection, CITY, [(f"after {key}", body) for key, (body, _) in documents.items()])
    assert bench.run(task.id) == 1
    scan: dict[str, bool] = {}
    writers: dict[str, bool] = {}
    with database.engine.connect() as connection:
        for key, verdict, by_writer in connection.execute(_FOUND):
            assert verdict in ("valid", "invalid"), f"{key}: {verdict}"
            assert by_writer == key.startswith("after ")
            (writers if by_writer else scan)[key.partition(" ")[2]] = verdict == "valid"
    return scan, writers


@pytest.fixture
def bench(records: Database) -> Iterator[Bench]:
    made = Bench(records, records_schema_validation)
    yield made
    made.close()


def test_scan_writers_and_suite_agree(records: Database, bench: Bench) -> None:
    differing = []
    count = 0
    for name, schema, documents in itertools.islice(groups(), 0, None, STEP):
        expected = {key: valid for key, (_, valid) in documents.items()}
        found = verdicts(records, bench, schema, documents)
        count += len(expected)
        differing += [f"{name}: {by}" for by, said in zip(("scan", "writers"), found, strict=True) if said != expected]
    assert differing == []
    assert count > 1_900 // STEP * 0.7


@pytest.mark.parametrize(
    ("rule", "number", "valid"),
    [
        ('{"multipleOf": 0.01}', "19.99", True),
        ('{"multipleOf": 0.01}', "1234567890123456789012345678.91", True),
        ('{"multipleOf": 0.01}', "0.075", False),
        ('{"const": 9007199254740993}', "9007199254740993", True),
        ('{"const": 9007199254740993}', "9007199254740992", False),
        ('{"maximum": 9007199254740992}', "9007199254740993", False),
        ('{"const": 100}', "1e2", True),
        ('{"type": "integer"}', "1.0", True),
        ('{"const": 0}', "-0", True),
        ('{"exclusiveMinimum": 0.1}', "0.10000000000000000000000000001", True),
    ],
)
def test_numbers_are_judged_exactly_also_after_they_were_stored(
    records: Database, bench: Bench, rule: str, number: str, valid: bool
) -> None:
    schema, document = f'{{"properties": {{"n": {rule}}}}}', f'{{"n": {number}}}'
    assert verdicts(records, bench, schema, {"it": (document, valid)}) == ({"it": valid}, {"it": valid})
