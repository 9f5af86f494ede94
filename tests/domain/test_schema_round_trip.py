"""What PostgreSQL's jsonb makes of a document and of a schema is judged as the text that was given."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction

import pytest
from sqlalchemy import text

from tenure_records import get_object, put_object
from tenure_records.computed import decode
from tenure_records.errors import InvalidObject
from tenure_records.schemas.judge import compile_schema
from tests.support import schema_suite
from tests.support.databases import Database
from tests.support.records import CITY
from tests.support.tasks import scale

_STORED = text("select d::jsonb::text from unnest(cast(:texts as text[])) with ordinality as u (d, n) order by n")

NUMBERS = [
    "0", "-0", "-0.0", "0.00", "1.0", "1e2", "0.07", "19.99", "1e-7", "1e308", "9.9e308", "-1e308", "1e-308", "5.0e-300",
    "9007199254740992", "9007199254740993", "-9007199254740993.0", "18446744073709551616", "123456789012345678901234567890.12",
    "0.1000000000000000055511151231257827", "1E+5", "1.50e1", "12345678901234567890e-10", "0e400", "0e-400",
]  # fmt: skip


def stored(records: Database, texts: list[str]) -> list[str]:
    with records.engine.connect() as connection:
        return [row[0] for row in connection.execute(_STORED, {"texts": texts})]


def test_the_official_suite_agrees_after_jsonb(records: Database) -> None:
    cases = [case for case in schema_suite.cases() if case.refused is None and r"\u0000" not in case.document]
    documents = stored(records, [case.document for case in cases])
    schemas = stored(records, [case.schema for case in cases])
    differing = [
        case.name
        for case, schema, document in zip(cases, schemas, documents, strict=True)
        if compile_schema(schema).judge(document).valid is not case.valid
    ]
    assert differing == []
    assert len(cases) > 2_000


def test_numbers_keep_their_value_through_jsonb(records: Database) -> None:
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k", "{" + ",".join(f'"{n}": {number}' for n, number in enumerate(NUMBERS)) + "}")
        data = get_object(connection, CITY, "k").data
    assert [data[str(n)] for n in range(len(NUMBERS))] == [Decimal(number) for number in NUMBERS]


def test_numbers_are_judged_after_jsonb_as_fractions_compare(records: Database) -> None:
    rng = random.Random(4)
    numbers = NUMBERS + [_random_number(rng) for _ in range(scale(1_500, 150))]
    written = stored(records, numbers)
    for given, kept in zip(numbers, written, strict=True):
        exact = Fraction(given)
        for other in rng.sample(numbers, 5):
            limit = Fraction(other)
            expected = {"maximum": exact <= limit, "exclusiveMinimum": exact > limit, "const": exact == limit}
            if limit > 0:
                expected["multipleOf"] = (exact / limit).denominator == 1
            for keyword, valid in expected.items():
                judge = compile_schema(f'{{"{keyword}": {other}}}')
                assert (keyword, other, given, judge.valid(given), judge.valid(kept)) == (
                    keyword,
                    other,
                    given,
                    valid,
                    valid,
                )


def _random_number(rng: random.Random) -> str:
    digits = str(rng.randrange(10 ** rng.choice([1, 2, 5, 16, 17, 30])))
    point = rng.choice([0, 0, 2, rng.randrange(12)])
    sign, exponent = rng.choice(["", "", "-"]), rng.choice(["", "", "e-2", "e3", "e20", "e-9"])
    return sign + digits + (f".{rng.randrange(10**point):0{point}d}" if point else "") + exponent


@pytest.mark.parametrize(
    "number", ["1e309", "-1e309", "1e400", "1e131072", "1e-309", "1" + "0" * 309, "-" + "9" * 5_000]
)
def test_a_number_that_no_double_holds_is_refused_at_the_write(records: Database, number: str) -> None:
    for given in (f'{{"a": {number}}}', f'{{"a": [{{"b": {number}}}]}}'.encode()):
        with records.engine.connect() as connection:
            with pytest.raises(InvalidObject, match=r"1e±308|PostgreSQL's numeric"):
                put_object(connection, CITY, "k", given)
            put_object(connection, CITY, "k", "{}")


def test_long_digits_that_are_no_numbers_are_taken(records: Database) -> None:
    data = {"text": "9" * 5_000, "fraction": Decimal("0." + "1" * 700), "numbers": [10**308] * 20}
    with records.engine.begin() as connection:
        put_object(connection, CITY, "k", json.dumps({"text": "9" * 5_000, "numbers": [1] * 400}))
        put_object(connection, CITY, "k", data)
        assert get_object(connection, CITY, "k").data == data


def test_an_object_that_grows_beyond_bounds_when_it_is_written_out_is_refused(records: Database) -> None:
    grown = '{"a": [' + ",".join(["1e308"] * 250_000) + "]}"
    with records.engine.connect() as connection:
        with pytest.raises(InvalidObject, match="written out"):
            put_object(connection, CITY, "k", grown)
        hashes = json.dumps({"a": ["3e99" * 8] * 40_000})
        put_object(connection, CITY, "k", hashes)


def test_the_deepest_document_passes_every_reader(records: Database) -> None:
    deepest = '{"a": ' + "[" * 199 + "]" * 199 + "}"
    nested = '{"a": ' * 200 + "1" + "}" * 200
    judge = compile_schema(
        {"$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}, "additionalProperties": {"$ref": "#/$defs/t"}}
    )
    with records.engine.begin() as connection:
        for key, document in (("list", deepest), ("object", nested)):
            put_object(connection, CITY, key, document)
            assert get_object(connection, CITY, key).data == decode(document)
        with pytest.raises(InvalidObject, match="200 levels"):
            put_object(connection, CITY, "k", '{"a": ' + "[" * 200 + "]" * 200 + "}")
    for document in stored(records, [deepest, nested]):
        assert judge.judge(document).valid
