from __future__ import annotations

import hashlib
import json
from decimal import Decimal

import pytest

from tenure_records.computed import canonical, decode, digest, document_digest, encode


@pytest.mark.parametrize(
    "spellings",
    [
        ["0", "-0", "0.0", "-0.0", "0e5", "0e-9999", "-0e308", "0e-9"],
        ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000000000000000000000000000000000000000000"],
        ["-1500", "-1.5e3", "-1500.00"],
        ["0.0000001", "1e-7", "10E-8"],
        ["1" + "0" * 99, "1e99"],
        ["1" + "0" * 100, "1e100", "10e99", "1" + "0" * 100 + ".0"],
        ["9" * 150, "9" * 150 + ".00", "0." + "9" * 150 + "e150"],
        ["12" + "0" * 4200, "1.2e4201"],
        ["1" + "0" * 6000, "1e6000"],
        ["1.5" + "0" * 300, "1.5"],
    ],
)
def test_equal_numbers_have_equal_bytes(spellings: list[str]) -> None:
    for shape in ("%s", '{"n": %s}', "[[%s], " + "0" + "]", '{"pad": "' + "x" * 300 + '", "n": [%s]}'):
        assert len({canonical(decode(shape % spelling)) for spelling in spellings}) == 1
        assert len({document_digest(shape % spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    "texts", [["1", "1.1"], ["1", "true"], ["1", '"1"'], ["0", "null"], ["[]", "{}"], ["[1,2]", "[2,1]"]]
)
def test_different_values_have_different_bytes(texts: list[str]) -> None:
    assert len({canonical(decode(text)) for text in texts}) == len(texts)


def test_keys_are_sorted_at_every_level_and_arrays_keep_their_order() -> None:
    assert encode(decode('{"b": [{"z": 1, "é": 2, "a": 3}, 1], "😀": 0, "\\uffff": 0, "a": {}}')) == (
        '{"a":{},"b":[{"a":3,"z":1,"é":2},1],"\uffff":0,"😀":0}'
    )


@pytest.mark.parametrize("digits", range(95, 132))
@pytest.mark.parametrize("pad", [0, 1, 7, 24, 25, 26, 113])
def test_a_long_integer_is_found_wherever_it_stands(digits: int, pad: int) -> None:
    value = {"a": "x" * pad, "n": 7 * 10 ** (digits - 1)}
    same = {"a": "x" * pad, "n": Decimal(f"7e{digits - 1}")}
    assert canonical(value) == canonical(same)


def test_an_exponent_is_not_written_out() -> None:
    text = "[" + ",".join(["1e100000"] * 1000) + "]"
    assert len(canonical(decode(text))) < 20_000


def test_the_encoded_text_is_json_with_the_same_value() -> None:
    text = '{"a": [1.50, 1e-9, 123456789012345678901234567890.5, -7, "\\u0001é\\"\\\\/", true, null, {}]}'
    assert decode(encode(decode(text))) == decode(text)
    assert json.loads(encode(decode(text)), parse_float=Decimal) == decode(text)


def test_the_digest_is_sha256_of_the_canonical_form() -> None:
    assert digest({"b": 1, "a": Decimal("2.0")}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
    assert document_digest('{ "b": 1.0, "a": 2 }') == digest({"b": 1, "a": 2})


def test_the_digest_of_a_text_too_large_or_too_deep_is_that_of_its_bytes() -> None:
    for text in ('"' + "é" * 600_000 + '"', "[" * 201 + "]" * 201):
        assert document_digest(text) == hashlib.sha256(text.encode()).hexdigest()
