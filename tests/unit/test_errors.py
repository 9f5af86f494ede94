"""What a value looks like in a message."""

import pytest
from pydantic import BaseModel, ConfigDict

from tenure.model.errors import InvalidParams, shortened
from tenure.model.kinds import KindSpec


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a\x1b[2Jb", "a\ufffd[2Jb"), ("a\0b", "a\ufffdb"), ("a\nb", "a b"), ("a\u202eb", "a\ufffdb"), ("a\x9bb", "a\ufffdb"),
     ("caf\u00e9", "caf\u00e9")],
)  # fmt: skip
def test_what_cannot_be_printed_is_replaced(given: str, shown: str) -> None:
    assert shortened(given) == shown


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\0", "a\nb"])
def test_the_name_of_a_wrong_field_steers_no_terminal(name: str) -> None:
    with pytest.raises(InvalidParams) as raised:
        KindSpec("strict", params=Strict).validate({name: 1})
    assert str(raised.value).isprintable()
    assert str(raised.value).startswith("strict: a")
