"""Who may be named as the one who asked."""

import pytest

from tenure.model.errors import UsageError
from tenure.model.initiators import TYPES, check
from tenure.model.records import Initiator

NEED_AN_ID = {"user", "api_key", "service", "schedule", "celery", "test"}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("id_", ["", "7", " "])
@pytest.mark.parametrize("name", ["", "ada", " "])
def test_the_matrix_of_type_id_and_name(type_: str, id_: str, name: str) -> None:
    allowed = bool(name.strip()) and (
        bool(id_.strip()) if type_ in NEED_AN_ID else id_ == "" if type_ == "anonymous" else True
    )
    if allowed:
        check(Initiator(type_, id_, name))
    else:
        with pytest.raises(UsageError, match=r"^initiator: "):
            check(Initiator(type_, id_, name))


@pytest.mark.parametrize("type_", ["", "User", "root", "not_set", "user\0"])
def test_a_type_that_is_none_is_named_with_those_that_are(type_: str) -> None:
    with pytest.raises(
        UsageError, match="type is one of user, api_key, service, schedule, celery, test, system, anonymous"
    ):
        check(Initiator(type_, "7", "ada"))
