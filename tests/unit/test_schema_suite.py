"""The official JSON-Schema-Test-Suite (2020-12 and draft-07, required part) against the judge."""

from __future__ import annotations

import pytest

from tenure_records.schemas.judge import SchemaRefused, compile_schema
from tests.support import schema_suite
from tests.support.schema_suite import Case

CASES = list(schema_suite.cases())
AGREEING = [case for case in CASES if case.refused is None]


def _differs(case: Case, schema: str, document: str) -> bool:
    judge = compile_schema(schema)
    verdict = judge.judge(document)
    return {verdict.valid, judge.valid(document), not verdict.findings} != {case.valid}


def test_the_suite_is_whole() -> None:
    assert len(CASES) > 2_000
    assert len({case.file for case in CASES if case.draft == "draft2020-12"}) == 46
    assert len({case.file for case in CASES if case.draft == "draft7"}) == 37
    groups = {(case.draft, case.file, case.group) for case in CASES}
    assert schema_suite.REFUSED.keys() <= groups


def test_verdicts_agree_with_the_suite() -> None:
    assert [case.name for case in AGREEING if _differs(case, case.schema, case.document)] == []


def test_verdicts_agree_with_the_suite_inside_an_object() -> None:
    wrapped = [(case, case.as_object()) for case in AGREEING]
    assert [case.name for case, inside in wrapped if inside and _differs(case, *inside)] == []
    assert sum(1 for _, inside in wrapped if inside) > 1_900


@pytest.mark.parametrize("group", schema_suite.REFUSED)
def test_what_the_suite_takes_from_elsewhere_is_refused(group: tuple[str, str, str]) -> None:
    schemas = {case.schema for case in CASES if (case.draft, case.file, case.group) == group}
    for schema in schemas:
        with pytest.raises(SchemaRefused):
            compile_schema(schema)
