"""The write path: every write is judged by each open revision of its class, before anything is written.

The strict schema refuses; the advisory one and a proposal only take down what they found, in the write's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Row, text

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument
from tenure_records.errors import SchemaViolation, Uninspectable
from tenure_records.schemas import evidence
from tenure_records.schemas.judge import Finding, Judge
from tenure_records.schemas.revisions import Rule, rules

SHOWN: Final = 3  # of the refused objects, in the message; all are in `violations`

# Judged is what will be stored, as PostgreSQL writes it: a scan reads the same. What is too large stays over there.
_AS_STORED = text("""select k, case when octet_length(body) <= :most then body end from (
    select k, d::jsonb::text as body
    from unnest(string_to_array(:keys, chr(10)), string_to_array(:texts, chr(10))) as u (k, d) offset 0) as s""")

Finds = tuple[str, tuple[Finding, ...]]
_VALID: Final[Finds] = ("valid", ())
_TOO_LARGE: Final[Finds] = ("uninspectable", (Finding("", "too large to be inspected"),))
_TOO_HARD: Final[Finds] = ("uninspectable", (Finding("", "cannot be inspected"),))


@dataclass(frozen=True)
class Admitted:
    """Objects that may be written, by key, with what each open revision made of them."""

    found: Sequence[tuple[Rule, Mapping[str, Finds]]] = ()

    def against_advice(self, key: str) -> bool:
        """Whether the object does not fit the advisory schema of its class."""
        return any(rule.advisory and finds[key][0] != "valid" for rule, finds in self.found)


def admit(connection: Connection, class_id: int, texts: Mapping[str, str]) -> Admitted:
    """Judge what is going to be written (one-line JSON texts by key), under the class lock.

    Raises SchemaViolation, naming every object that the strict schema refuses.
    """
    by = rules(connection, class_id)
    if not by:
        return Admitted()
    most = max(rule.object_bytes for rule in by)
    columns = {"keys": "\n".join(texts), "texts": "\n".join(texts.values()), "most": most}
    stored: list[tuple[str, str | None]] = [(row[0], row[1]) for row in connection.execute(_AS_STORED, columns)]
    found = [(rule, {key: _find(rule, body) for key, body in stored}) for rule in by]
    for rule, finds in found:
        if rule.strict:
            _refuse(rule, finds)
    return Admitted(found)


def record(connection: Connection, admitted: Admitted, rows: Sequence[Row[tuple[int, str, int, int]]]) -> None:
    """Write the evidence about the rows (id, key, revision, change_seq) that were written."""
    for rule, finds in admitted.found:
        judged = [evidence.Judged(row.id, row.change_seq, *finds[row.key]) for row in rows]
        valid = [(one.object_id, one.change_seq) for one in judged if one.verdict == "valid"]
        evidence.write(connection, rule.id, valid, [one for one in judged if one.verdict != "valid"])


def judge_text(judge: Judge, body: str) -> Finds:
    """The verdict on one text, with its findings; it never raises for what the text holds."""
    try:
        verdict = judge.judge(body)
        return _VALID if verdict.valid else ("invalid", verdict.findings)
    except (InvalidDocument, Uninspectable):
        return _TOO_HARD


def _find(rule: Rule, body: str | None) -> Finds:
    if body is None or len(body.encode()) > rule.object_bytes:
        return _TOO_LARGE
    return judge_text(rule.judge, body)


def _refuse(rule: Rule, finds: Mapping[str, Finds]) -> None:
    wrong = {key: findings for key, (verdict, findings) in finds.items() if verdict != "valid"}
    if not wrong:
        return
    named = "; ".join(f"{shortened(key, 30)!r} {described(wrong[key])}" for key in list(wrong)[:SHOWN])
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    objects = "1 object does" if len(wrong) == 1 else f"{len(wrong)} objects do"
    raise SchemaViolation(f"{objects} not fit schema revision {rule.number}: {named}{more}", wrong)


def described(findings: Sequence[Finding], most: int = 3) -> str:
    """Findings for people: pointer and keyword of the first few."""
    shown = ", ".join(f"at {shortened(one.pointer, 80) or 'the top'}: {one.keyword}" for one in findings[:most])
    return f"({shown}{f', and {len(findings) - most} more' if len(findings) > most else ''})"
