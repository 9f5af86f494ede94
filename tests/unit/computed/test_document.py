from __future__ import annotations

import decimal
import threading
from decimal import Decimal

import pytest

from tenure_records.computed import (
    DocumentTooDeep,
    InvalidDocument,
    LoneSurrogate,
    NulCharacter,
    NumberOutOfRange,
    decode,
    document_digest,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("18446744073709551616", 2**64),
        ("-9223372036854775809", -(2**63) - 1),
        ("1" * 4300, (10**4300 - 1) // 9),
        ("1" * 40 + ".5", Decimal("1" * 40 + ".5")),
        ("0.1", Decimal("0.1")),
        ("1e400", Decimal("1e400")),
        ("-1E-400", Decimal("-1e-400")),
        ("1e131071", Decimal("1e131071")),
        ("1e-16383", Decimal("1e-16383")),
        ("0e-99999999999999999999", Decimal(0)),
    ],
)
def test_numbers_are_exact(text: str, value: int | Decimal) -> None:
    for given in (text, text.encode()):
        decoded = decode(given)
        assert decoded == value
        assert type(decoded) in (int, Decimal)


@pytest.mark.parametrize("digits", [4301, 5000, 131072])
def test_integers_of_any_length_postgresql_holds_are_exact(digits: int) -> None:
    decoded = decode("-" + "7" * digits)
    assert isinstance(decoded, Decimal)
    assert str(decoded) == "-" + "7" * digits


def test_the_threads_decimal_context_changes_nothing() -> None:
    found: list[object] = []

    def decode_under_a_coarse_context() -> None:
        decimal.setcontext(decimal.Context(prec=3, traps=[]))
        found.append(decode("3.14159265358979"))
        try:
            decode("1e99999999999999999999")
        except NumberOutOfRange as error:
            found.append(type(error))

    thread = threading.Thread(target=decode_under_a_coarse_context)
    thread.start()
    thread.join()
    assert found == [Decimal("3.14159265358979"), NumberOutOfRange]


@pytest.mark.parametrize(
    "text", ["1e131072", "-1e131072", "1e-16384", "1e99999999999999999999", "7" * 131073, "1." + "7" * 150000]
)
def test_a_number_beyond_postgresqls_numeric_is_refused(text: str) -> None:
    with pytest.raises(NumberOutOfRange):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " ",
            "nul",
            "NaN",
            "[NaN]",
            "Infinity",
            "-Infinity",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "[1,]",
            '{"a":1,}',
            "{1:2}",
        ],
        *["1 2", "'a'", '"\n"', '"\\x"', '"abc', "\ufeff1", b"\xef\xbb\xbf1", b'"\xff"', b'"\xed\xa0\x80"', "[" * 50],
        *[f"[{'1' * 5000}, NaN]", f"[{'1' * 5000},]"],
    ],
)
def test_what_is_not_json_is_refused_in_one_line(text: str | bytes) -> None:
    with pytest.raises(InvalidDocument) as caught:
        decode(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", [r'"\u0000"', r'{"a\u0000b": 1}', r'[[{"k": "x\u0000"}]]', r'"\\\u0000"'])
def test_a_nul_character_is_named(text: str) -> None:
    for given in (text, text.encode()):
        with pytest.raises(NulCharacter):
            decode(given)


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert decode(r'"\\u0000"') == r"\u0000"
    assert decode(rb'"\\u0000"') == r"\u0000"


@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'"\udc00"', r'{"\ud800": 1}', r'["\ud800A"]', r'"\udc00\ud800"', '"\ud800"']
)
def test_a_lone_surrogate_is_named(text: str) -> None:
    with pytest.raises(LoneSurrogate):
        decode(text)


def test_a_surrogate_pair_is_one_character() -> None:
    assert decode(r'"\ud83d\ude00"') == "😀"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_200_levels_are_accepted_and_201_refused(opening: str, closing: str) -> None:
    inner = "[1]" if opening == "[" else '{"a":1}'
    deepest = opening * 199 + inner + closing * 199
    assert decode(deepest) is not None
    assert decode(deepest.encode()) is not None
    with pytest.raises(DocumentTooDeep):
        decode(opening + deepest + closing)
    with pytest.raises(DocumentTooDeep):
        decode((opening + deepest + closing).encode())


def test_empty_containers_count_as_a_level() -> None:
    assert decode("[" * 200 + "]" * 200) is not None
    with pytest.raises(DocumentTooDeep):
        decode("[" * 201 + "]" * 201)


def test_a_bottomless_document_is_refused_without_a_recursion_error() -> None:
    for text in ("[" * 100_000 + "]" * 100_000, "[" * 100_000, f"[{'1' * 5000}," + "[" * 100_000):
        with pytest.raises(DocumentTooDeep):
            decode(text)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(decode("[" + "[]," * 500 + "{}]")) == 501  # type: ignore[arg-type]


def test_of_a_repeated_key_the_last_counts_as_in_jsonb() -> None:
    assert decode('{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}
    assert document_digest('{"a": 1, "b": 2, "a": 3}') == document_digest('{"b": 2, "a": 3}')
