from __future__ import annotations

import json

import pytest

from tenure_records.computed import InvalidDefinition
from tests.support.computed_fields import field, outcome

# The document and the pointers of RFC 6901, section 5, with the text each leads to.
RFC = {
    "foo": ["bar", "baz"],
    "": "empty",
    "a/b": "slash",
    "c%d": "percent",
    "e^f": "caret",
    "g|h": "bar",
    "i\\j": "backslash",
    'k"l': "quote",
    " ": "space",
    "m~n": "tilde",
    "~1": "tilde one",
    "07": "zero seven",
}
LEADS_TO = {
    "/foo/0": "bar",
    "/foo/1": "baz",
    "/": "empty",
    "/a~1b": "slash",
    "/c%d": "percent",
    "/e^f": "caret",
    "/g|h": "bar",
    "/i\\j": "backslash",
    '/k"l': "quote",
    "/ ": "space",
    "/m~0n": "tilde",
    "/~01": "tilde one",
    "/07": "zero seven",
}


@pytest.mark.parametrize("pointer", LEADS_TO)
def test_a_pointer_leads_where_rfc_6901_says(pointer: str) -> None:
    found = outcome(json.dumps(RFC), field("first_non_null", pointer, result_type="string"))
    assert found == (LEADS_TO[pointer], None)


def test_the_empty_pointer_is_the_whole_document() -> None:
    assert outcome('{"a": 1}', field("first_non_null", "", result_type="object")) == ({"a": 1}, None)
    assert outcome("7", field("sum", "")) == (7, None)


@pytest.mark.parametrize(
    "pointer",
    [
        *[
            "/foo/2",
            "/foo/00",
            "/foo/01",
            "/foo/+1",
            "/foo/1 ",
            "/foo/",
            "/foo/٣",
            "/foo/99999999999999999999",
            "/foo/0/0",
        ],
        *["/nothing", "/foo/bar", "/a/b"],
    ],
)
def test_what_leads_nowhere_is_missing(pointer: str) -> None:
    assert outcome(json.dumps(RFC), field("any_present", pointer, result_type="boolean")) == (False, None)


@pytest.mark.parametrize("document", ["null", "1", '"a"', "true", "[]", "{}"])
def test_a_pointer_into_a_scalar_or_an_empty_container_is_missing(document: str) -> None:
    assert outcome(document, field("count_present", "/a", "/0", "/a/b", result_type="integer")) == (0, None)


@pytest.mark.parametrize(
    "pointer",
    ["a", "#/a", " /a", "/~", "/a~2b", "/a~", "/~~1", "/-", "/a/-", "/a/-/b", "/a\0", "/\ud800", 1, None, ["/a"]],
)
def test_a_malformed_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(InvalidDefinition, match=r"^paths: "):
        field("sum", pointer)


def test_a_dash_inside_a_longer_token_is_a_name() -> None:
    assert outcome('{"a-": 1, "--": 2}', field("sum", "/a-", "/--")) == (3, None)


def test_512_bytes_are_accepted_and_513_refused() -> None:
    name = "é" * 255
    assert outcome(json.dumps({name + "a": 5}), field("sum", f"/{name}a")) == (5, None)
    with pytest.raises(InvalidDefinition, match="longer than 512 bytes"):
        field("sum", f"/{name}aa")


def test_32_tokens_are_accepted_and_33_refused() -> None:
    document = '{"a":' * 32 + "5" + "}" * 32
    assert outcome(document, field("sum", "/a" * 32)) == (5, None)
    with pytest.raises(InvalidDefinition, match="33 tokens"):
        field("sum", "/a" * 33)


def test_duplicates_are_told_by_their_text() -> None:
    with pytest.raises(InvalidDefinition, match="given twice"):
        field("sum", "/a", "/b", "/a")
