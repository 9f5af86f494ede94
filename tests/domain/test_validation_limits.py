"""How much a scan takes in hand: rows, bytes of stored text, and objects that are too large to be looked into."""

import itertools
from typing import Any

import pytest
from sqlalchemy import text

from tenure.runtime.ahead import reading_ahead
from tenure.store import settings
from tenure_records import put_object
from tenure_records.errors import ActivationRefused, SchemaViolation
from tenure_records.kinds import SchemaValidation
from tenure_records.schemas import scans
from tenure_records.schemas.evidence import Tally
from tests.support.databases import Database
from tests.support.records import CITY, scalar
from tests.support.schemas import NAMED, activated, asked, proposed, scanned, standing, stored

MIB = 1024 * 1024
Batches = list[list[tuple[int, int | None]]]


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """[(bytes that PostgreSQL measured, bytes that were fetched or None)] of every batch that a scan reads."""
    seen: Batches = []
    real = scans.Scan._fetch

    def fetch(self: scans.Scan, after: int) -> Any:
        rows = real(self, after)
        if rows:
            seen.append([(size or 0, None if body is None else len(body.encode())) for _, _, size, body in rows])
        return rows

    monkeypatch.setattr(scans.Scan, "_fetch", fetch)
    return seen


def of_bytes(size: int, letter: str = "x") -> dict[str, str]:
    """An object whose stored text has so many bytes."""
    return {"name": letter * ((size - len('{"name": ""}')) // len(letter.encode()))}


def fetched(batch: list[tuple[int, int | None]]) -> int:
    return sum(size or 0 for _, size in batch)


def test_a_batch_has_at_most_64_rows(records: Database, batches: Batches) -> None:
    stored(records, {f"k{n}": {"name": "x"} for n in range(150)})
    proposed(records)
    assert scanned(records)["result"]["judged"] == 150
    assert [len(batch) for batch in batches] == [64, 64, 22]


def test_a_batch_has_at_most_eight_mebibytes_of_stored_text_however_well_it_compresses(
    records: Database, batches: Batches
) -> None:
    sizes = [MIB] * 11 + [900_000] * 12 + [100] * 30 + [MIB] * 3
    for n, size in enumerate(sizes):
        stored(records, {f"k{n}": of_bytes(size)})
    assert scalar(records, "select max(pg_column_size(data)) from record_objects") < 20_000
    proposed(records)
    done = scanned(records)
    assert done["result"] == {"judged": 56, "reused": 0, "valid": 56, "invalid": 0, "uninspectable": 0}
    assert max(fetched(batch) for batch in batches) == 8 * MIB
    assert len(batches[0]) == 8
    assert sum(len(batch) for batch in batches) == 56


def test_an_object_over_one_mebibyte_is_named_never_fetched_and_keeps_a_schema_from_becoming_strict(
    records: Database, batches: Batches
) -> None:
    objects = {"fits": of_bytes(MIB), "over": of_bytes(MIB + 1), "wide": of_bytes(MIB + 2, "é"), "small": {"name": "x"}}
    for key, data in objects.items():
        stored(records, {key: data})
    proposed(records)
    done = scanned(records)
    assert (done["state"], done["result"]["valid"], done["result"]["uninspectable"]) == ("succeeded", 2, 2)
    assert batches == [[(MIB, MIB), (MIB + 1, None), (MIB + 2, None), (len('{"name": "x"}'),) * 2]]
    with pytest.raises(ActivationRefused, match="2 uninspectable") as refused:
        activated(records)
    assert refused.value.tally == Tally(4, 2, 0, uninspectable=2, unscanned=0, changed=0)
    assert [(one.key, one.standing) for one in refused.value.samples] == [
        ("over", "uninspectable"),
        ("wide", "uninspectable"),
    ]
    stored(records, {"over": {"name": "less"}, "wide": {"name": "less"}})
    assert activated(records).mode == "strict"


def test_what_is_measured_is_the_text_as_postgresql_writes_it(records: Database) -> None:
    """Given in 50 bytes, stored as five numbers of 301 digits; and a million blanks that are not stored at all."""
    stored(records, {"blanks": '{"name": "x"' + " " * MIB + "}"})
    with records.engine.begin() as connection:
        settings.store(connection, settings.OBJECT_BYTES, 1_024, by="test")
        put_object(connection, CITY, "digits", '{"name": [1e300, 1e300, 1e300, 1e300, 1e300]}')
    proposed(records)
    assert scanned(records)["result"] == {"judged": 2, "reused": 0, "valid": 1, "invalid": 0, "uninspectable": 1}
    with records.engine.begin() as connection:  # the writers say the same
        put_object(connection, CITY, "digits too", '{"name": [1e300, 1e300, 1e300, 1e300, 1e300]}')
        put_object(connection, CITY, "blanks too", '{"name": "x"' + " " * MIB + "}")
    assert standing(records) == Tally(4, valid=2, invalid=0, uninspectable=2, unscanned=0, changed=0)


def test_strict_refuses_what_is_too_large_to_be_judged(records: Database) -> None:
    proposed(records)
    activated(records)
    stored(records, {"fits": of_bytes(MIB)})
    with records.engine.begin() as connection, pytest.raises(SchemaViolation, match="too large to be inspected"):
        put_object(connection, CITY, "over", of_bytes(MIB + 1))


def test_the_limits_are_settings_and_a_proposal_keeps_the_one_it_was_made_with(
    records: Database, batches: Batches
) -> None:
    stored(records, {f"k{n:02}": of_bytes(1_000) for n in range(30)})
    stored(records, {"large": of_bytes(5_000)})
    with records.engine.begin() as connection:
        settings.store(connection, settings.OBJECT_BYTES, 4_000, by="test")
        settings.store(connection, settings.VALIDATION_BYTES, 10_000, by="test")
        settings.store(connection, settings.VALIDATION_ROWS, 16, by="test")
    revision = proposed(records, NAMED)
    with records.engine.begin() as connection:
        settings.store(connection, settings.OBJECT_BYTES, None, by="test")
    assert revision.object_bytes == 4_000
    assert scanned(records)["result"]["uninspectable"] == 1
    assert max(map(len, batches)) <= 16
    assert max(map(fetched, batches)) == 10_000


@pytest.mark.parametrize("size", [20, 4_000], ids=["small", "large, so that the next batch is fetched ahead"])
def test_a_batch_is_broken_off_for_a_stop_and_nothing_is_passed_over_when_it_was_none(
    records: Database, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LOOK_SECONDS", -1)
    stored(records, {f"k{n:03}": of_bytes(size) for n in range(130)})
    proposed(records)
    task_id = asked(records)
    with records.engine.connect() as connection, reading_ahead() as fetching:
        reading = connection.execution_options(isolation_level="AUTOCOMMIT")
        given = reading.execute(
            text("select params from task_params where task_id = :id"), {"id": task_id}
        ).scalar_one()
        params = SchemaValidation.model_validate(given)
        judge = scans.judge_of(reading, params)
        assert judge is not None
        scan, after = scans.Scan(reading, params, judge, fetching), 0
        seen: list[int] = []
        answers = itertools.cycle([True, True, False])
        while (page := scan.page(after, lambda: next(answers))) is not None:
            assert page.rows == len(page.valid) == (3 if len(seen) < 129 else 1)
            seen += [object_id for object_id, _ in page.valid]
            after = page.last
    assert seen == sorted(seen)
    assert len(seen) == 130
