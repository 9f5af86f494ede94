"""Schemas come and go with every revision: what a process keeps of them is bounded."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

from tenure_records.schemas.judge import compile_schema
from tests.support.tasks import scale

REVISIONS = scale(10_000, 1_000)
PAGE_BYTES = 4_096


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1024 / 1024


def _compile(revisions: range) -> None:
    for revision in revisions:
        members = {f"member_{n}": {"type": "string", "pattern": f"^[a-z]{{1,{n + 1}}}{revision}$"} for n in range(10)}
        tree: dict[str, Any] = {"price": {"multipleOf": 0.01}, "children": {"items": {"$ref": "#"}}}
        judge = compile_schema({"properties": {**members, **tree}, "required": [f"member_{revision % 10}"]})
        assert not judge.judge('{"children": [{"member_0": 1}]}').valid


def test_compiled_revisions_do_not_pile_up() -> None:
    first = REVISIONS // 5
    _compile(range(first))
    gc.collect()
    resident = _resident_mib()
    _compile(range(first, REVISIONS))
    gc.collect()
    print(f"{REVISIONS} revisions: resident {resident:.1f} → {_resident_mib():.1f} MiB")
    assert _resident_mib() - resident < 16


def test_python_holds_nothing_of_schemas_gone_by() -> None:
    _compile(range(64))
    tracemalloc.start()
    try:
        _compile(range(1_064, 1_128))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        _compile(range(2_064, 2_128))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - held
    finally:
        tracemalloc.stop()
    assert grown < 256 * 1024
