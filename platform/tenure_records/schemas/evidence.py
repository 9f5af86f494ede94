"""Evidence: what each version of each object is by each schema revision. Written in bulk, counted by an anti-join.

A row counts for an object if it is about the data the object has now, and is published: by its scan, or at once when the
object's own writer wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, text

from tenure_records.schemas.judge import Finding

SAMPLES: Final = 10
EVERYTHING: Final = 2**63 - 1

# One string per column: an ARRAY[…] of thousands of literals is parsed as thousands of expressions.
_IDS = "string_to_array(:ids, ',')::bigint[], string_to_array(:seqs, ',')::bigint[]"
_INTO = "insert into schema_evidence as e (schema_id, object_id, change_seq, scan_id, token, verdict, findings)"
# Newer data wins. Of the same data the evidence that counts already stays: a scan that is not published, and may never
# be, must not take its place.
_NEWER = """on conflict (schema_id, object_id) do update set change_seq = excluded.change_seq, scan_id = excluded.scan_id,
        token = excluded.token, verdict = excluded.verdict, findings = excluded.findings
    where e.change_seq < excluded.change_seq
       or (e.change_seq = excluded.change_seq and (excluded.scan_id is null
           or exists (select 1 from schema_scans s where s.id = e.scan_id and s.published_at is null)))"""
_VALID = text(f"""{_INTO} select :schema_id, id, seq, :scan_id, :token, 'valid', null
    from unnest({_IDS}) as u (id, seq) {_NEWER}""")
_MIXED = text(f"""{_INTO} select :schema_id, id, seq, :scan_id, :token, v, nullif(f, '')::jsonb
    from unnest({_IDS}, string_to_array(:verdicts, ','), string_to_array(:findings, chr(10))) as u (id, seq, v, f) {_NEWER}""")
_FORGET = text("""delete from schema_evidence e using schema_revisions r
    where r.class_id = :class_id and r.status <> 'retired' and e.schema_id = r.id and e.object_id = any(:ids)""")
_DROP = text(
    """delete from schema_evidence e using schema_revisions r where r.class_id = :class_id and e.schema_id = r.id"""
)

# What stands for each object of a class. One statement, so counts and samples are of one moment.
_STANDING = """select o.id, o.key, case
        when e.object_id is null or (e.scan_id is not null and s.published_at is null) then 'unscanned'
        when e.change_seq <> o.change_seq then 'changed' else e.verdict end as standing, e.findings
    from record_objects o
    left join schema_evidence e on e.schema_id = :schema_id and e.object_id = o.id
    left join schema_scans s on s.id = e.scan_id
    where o.class_id = :class_id and o.change_seq > :above and o.change_seq <= :upto"""
_TALLY = text(f"""with standing as ({_STANDING}),
    counted as (select count(*) as objects, count(*) filter (where standing = 'valid') as valid,
        count(*) filter (where standing = 'invalid') as invalid,
        count(*) filter (where standing = 'uninspectable') as uninspectable,
        count(*) filter (where standing = 'unscanned') as unscanned,
        count(*) filter (where standing = 'changed') as changed from standing),
    shown as (select key, standing, case when standing = 'invalid' then findings end as findings from standing
        where standing <> 'valid'
        order by array_position(array['invalid','uninspectable','unscanned','changed'], standing), id limit :samples)
    select c.*, coalesce((select jsonb_agg(jsonb_build_array(key, standing, findings)) from shown), '[]') from counted c""")


@dataclass(frozen=True, slots=True)
class Judged:
    """One object as it was judged: `verdict` is valid, invalid or uninspectable; `findings` only of an invalid one."""

    object_id: int
    change_seq: int
    verdict: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Tally:
    """How the objects of a class stand by one revision; the five sorts add up to `objects`."""

    objects: int
    valid: int
    invalid: int
    uninspectable: int
    unscanned: int
    changed: int

    @property
    def complete(self) -> bool:
        """Whether every object has valid evidence for its data of now."""
        return self.valid == self.objects

    def __str__(self) -> str:
        return (
            f"{self.invalid} invalid, {self.uninspectable} uninspectable, {self.unscanned} unscanned, "
            f"{self.changed} changed since"
        )


@dataclass(frozen=True)
class Sample:
    """One object that stands in the way, and where its data is wrong if it was judged."""

    key: str
    standing: str
    findings: tuple[Finding, ...]


def write(
    connection: Connection,
    schema_id: int,
    valid: Sequence[tuple[int, int]],
    others: Sequence[Judged],
    *,
    scan_id: int | None = None,
    token: int | None = None,
) -> None:
    """Write what was judged: `valid` as (object id, change_seq), all else whole. What is newer stays as it is."""
    here = {"schema_id": schema_id, "scan_id": scan_id, "token": token}
    # All in one order, that of the locks: valid ones before the others would be two, and a deadlock with who has it so too.
    if others:
        rows = sorted([*others, *(Judged(*one, "valid") for one in valid)], key=lambda one: one.object_id)
        columns = {
            "ids": ",".join(str(one.object_id) for one in rows),
            "seqs": ",".join(str(one.change_seq) for one in rows),
            "verdicts": ",".join(one.verdict for one in rows),
            "findings": "\n".join(_encoded(one) for one in rows),
        }
        connection.execute(_MIXED, {**here, **columns})
    elif valid:
        ids, seqs = zip(*sorted(valid), strict=True)
        connection.execute(_VALID, {**here, "ids": ",".join(map(str, ids)), "seqs": ",".join(map(str, seqs))})


def forget(connection: Connection, class_id: int, ids: Sequence[int]) -> None:
    """Delete the evidence about these objects, in the transaction that deletes the objects."""
    connection.execute(_FORGET, {"class_id": class_id, "ids": list(ids)})


def drop(connection: Connection, class_id: int) -> None:
    """Delete all evidence of a class that is being dropped."""
    connection.execute(_DROP, {"class_id": class_id})


def tally(
    connection: Connection,
    class_id: int,
    schema_id: int,
    *,
    above: int = 0,
    upto: int = EVERYTHING,
    samples: int = SAMPLES,
) -> tuple[Tally, list[Sample]]:
    """How the objects with a change_seq above one and up to another stand, and some that are not valid."""
    here = {"class_id": class_id, "schema_id": schema_id, "above": above, "upto": upto, "samples": samples}
    *counts, shown = connection.execute(_TALLY, here).one()
    return Tally(*counts), [Sample(key, standing, decoded(findings)) for key, standing, findings in shown]


def decoded(findings: Sequence[Sequence[str]] | None) -> tuple[Finding, ...]:
    """Findings as they are stored."""
    return tuple(Finding(pointer, keyword) for pointer, keyword in findings or ())


def _encoded(one: Judged) -> str:
    if one.verdict != "invalid":
        return ""
    pairs: list[Any] = [[finding.pointer, finding.keyword] for finding in one.findings]
    return msgspec.json.encode(pairs).decode()
