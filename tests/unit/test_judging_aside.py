"""Documents whose worst case is too slow for the own process: judged aside, by a process that may die of them."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure_records.errors import CannotJudge
from tenure_records.schemas import aside
from tenure_records.schemas.aside import ASIDE
from tenure_records.schemas.judge import SOMEWHERE, Finding, Uninspectable, compile_schema

EMAIL = {"items": {"pattern": r"^[^\s@]{1,64}@[^\s@]{1,255}$"}}
EXPLODING = {"pattern": "(a|b)*a(a|b){500}x"}


@contextmanager
def within_a_second() -> Iterator[None]:
    """Of processor time, here and in the process aside that has died: a busy machine must not decide the test."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    started = used()
    yield
    assert used() - started < 1


def chaos(length: int) -> str:
    rng = random.Random(1)
    return json.dumps("".join(rng.choice("ab") for _ in range(length)))


def close_numbers(count: int) -> str:
    return "[" + ",".join(f"0.1{'0' * 30}{n:06d}1" for n in range(count)) + "]"


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (EXPLODING, chaos(1_000_000)),
        ({"patternProperties": {"(a|b)*a(a|b){500}x": False}}, "{" + chaos(500_000) + ": 1}"),
        ({"uniqueItems": True}, close_numbers(3_000)),
        (
            {"items": {"enum": [n / 7 for n in range(1_000)]}},
            "[" + ",".join(f"{n}.0" for n in range(1, 50_000)) + "]",
        ),
    ],
    ids=["pattern", "member names", "unique numbers", "enumerated numbers"],
)
def test_a_hostile_document_is_answered_within_a_second(schema: dict[str, Any], document: str) -> None:
    judge = compile_schema(schema)
    with within_a_second():
        try:
            judge.valid(document)
        except Uninspectable:
            pass
    assert compile_schema({"type": "string"}).valid('"the next one"')


def test_a_document_that_takes_too_long_is_uninspectable_and_the_next_is_judged() -> None:
    judge = compile_schema(EXPLODING)
    for ask in (judge.valid, judge.judge):
        with pytest.raises(Uninspectable):
            ask(chaos(1_000_000))
    assert compile_schema(EMAIL).valid(json.dumps(["a.b@example.org"] * 20_000))


def test_what_is_slow_only_in_the_worst_case_is_judged() -> None:
    judge = compile_schema(EMAIL)
    assert judge.judge(json.dumps(["a.b@example.org"] * 20_000)).valid
    verdict = judge.judge(json.dumps(["a.b@example.org"] * 20_000 + ["nobody"]))
    assert verdict.findings == (Finding("/20000", "pattern"),)
    assert compile_schema({"uniqueItems": True}).valid("[" + ",".join(f"{n}.5" for n in range(20_000)) + "]")


@pytest.mark.parametrize("items", [{"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}])
def test_many_broken_rules_are_named_as_far_as_time_goes(items: dict[str, Any]) -> None:
    judge = compile_schema({"items": items})
    with within_a_second():
        verdict = judge.judge("[" + "1," * 400_000 + "1]")
    assert not verdict.valid
    assert 1 <= len(verdict.findings) <= 10
    assert verdict.findings[0] == Finding("/0", next(iter(items)))


def test_places_that_take_too_long_to_name_are_somewhere() -> None:
    schema = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "null"}}]}
    verdict = compile_schema(schema).judge("[" + "1," * 400_000 + "1]")
    assert (verdict.valid, verdict.findings) == (False, (SOMEWHERE,))
    assert compile_schema(EMAIL).valid(json.dumps(["a.b@example.org"] * 20_000))


def test_numbers_are_exact_aside_too() -> None:
    padding = json.dumps("x" * 30_000)
    judge = compile_schema(
        '{"uniqueItems": true, "prefixItems": [true, {"const": 9007199254740993}, {"multipleOf": 0.01}]}'
    )
    close = ",".join(f"{n}.5" for n in range(2_000))
    assert judge.valid(f"[{padding}, 9007199254740993, 1234567890123456789012345678.91, {close}]")
    assert not judge.valid(f"[{padding}, 9007199254740992, 1.01, {close}]")
    assert not judge.valid(f"[{padding}, 9007199254740993, 1.011, {close}]")
    assert compile_schema('{"multipleOf": 3}').valid("9" * 100_000)
    assert compile_schema('{"maximum": 1e400}').valid("1e131071") is False


def test_a_process_aside_that_was_killed_is_replaced() -> None:
    judge = compile_schema(EMAIL)
    document = json.dumps(["a.b@example.org"] * 20_000)
    assert judge.valid(document)
    assert ASIDE._process is not None
    os.kill(ASIDE._process.pid, signal.SIGKILL)
    assert judge.valid(document), "that it was killed says nothing of the document"


def test_a_process_aside_that_is_killed_over_a_document_twice_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[int] = []

    def exchange(process: subprocess.Popen[bytes], *question: Any) -> Any:
        process.kill()
        process.wait()
        killed.append(process.pid)
        return asked(process, *question)

    judge, asked = compile_schema(EMAIL), aside._exchange
    monkeypatch.setattr(aside, "_exchange", exchange)
    with pytest.raises(Uninspectable):
        judge.valid(json.dumps(["a.b@example.org"] * 20_000))
    assert len(set(killed)) == 2
    monkeypatch.undo()
    assert judge.valid(json.dumps(["a.b@example.org"] * 20_000))


@pytest.mark.parametrize(
    ("program", "said"), [("/nowhere/python", "No such file or directory"), ("/bin/false", r"ended at its start \(1\)")]
)
def test_where_no_process_can_be_started_nothing_is_said_of_the_document(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ASIDE.close()
    judge, document = compile_schema(EMAIL), json.dumps(["a.b@example.org"] * 20_000)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", program)
        with pytest.raises(CannotJudge, match=said):
            judge.valid(document)
    assert judge.valid(document)


def test_the_process_aside_finds_the_library_where_this_one_did() -> None:
    # An interpreter that has nothing installed, and a path that only this process knows of.
    platform = Path(aside.__file__).parents[2]
    code = f"""
import json, sys
sys.path += {[str(platform), *(path for path in sys.path if path)]!r}
from tenure_records.schemas.judge import compile_schema
assert compile_schema({EMAIL!r}).valid(json.dumps(["a.b@example.org"] * 20_000))
"""
    bare = [str(Path(sys.executable).resolve()), "-I", "-c", code]
    done = subprocess.run(bare, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_forked_process_has_a_process_aside_of_its_own() -> None:
    code = f"""
import json, os
from tenure_records.schemas.judge import compile_schema
judge, document = compile_schema({EMAIL!r}), json.dumps(["a.b@example.org"] * 20_000)
assert judge.valid(document)
child = os.fork()
good = all(judge.valid(document) for _ in range(3))
if child == 0:
    os._exit(0 if good else 1)
assert good and os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_fork_in_the_middle_of_a_question_leaves_the_child_no_pipe_and_no_lock() -> None:
    code = f"""
import json, os, threading
from tenure_records.schemas.aside import ASIDE
from tenure_records.schemas.judge import compile_schema
judge, document = compile_schema({EMAIL!r}), json.dumps(["a.b@example.org"] * 20_000)
assert judge.valid(document)
pipes = {{os.readlink(f"/proc/self/fd/{{pipe.fileno()}}") for pipe in (ASIDE._process.stdin, ASIDE._process.stdout)}}
with ASIDE._lock:
    child = os.fork()
    if child == 0:
        mine = {{os.readlink(f"/proc/self/fd/{{number}}") for number in os.listdir("/proc/self/fd") if int(number) > 2
                if os.path.lexists(f"/proc/self/fd/{{number}}")}}
        os._exit(0 if not mine & pipes and judge.valid(document) else 1)
assert os.waitpid(child, 0)[1] == 0
assert judge.valid(document)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


LINKS: list[dict[str, Any]] = [
    {"minProperties": 0, "allOf": [{"maxProperties": 9}, None]},
    {"minProperties": 0, "not": {"not": None}},
    {"anyOf": [False, None]},
    {"oneOf": [False, None]},
    {"if": None, "else": False},
    {"minProperties": 0, "dependentSchemas": {"a": None}},
    {"minProperties": 0, "$ref": None},
]


def test_the_deepest_schemas_over_the_deepest_document_leave_the_process_alive() -> None:
    # In a process of its own, so that an overflowing stack is a failure of this test and not the end of them all.
    code = """
import json, sys
from tenure_records.schemas.judge import SchemaRefused, compile_schema
def put(value, to):
    if isinstance(value, dict):
        return {k: to if k == "$ref" else put(v, to) for k, v in value.items()}
    return [put(v, to) for v in value] if isinstance(value, list) else {"$ref": to} if value is None else value
def deepest(link):
    for links in range(70, 14, -1):
        defs = {f"a{n}": put(link, f"#/$defs/a{n + 1}") for n in range(links)}
        end = {"type": "object", "maxProperties": 1, "additionalProperties": {"$ref": "#"}}
        try:
            return compile_schema({"$ref": "#/$defs/a0", "$defs": {**defs, f"a{links}": end}})
        except SchemaRefused:
            pass
deep = '{"a": ' * 199
for link in json.loads(sys.argv[1]):
    judge = deepest(link)
    assert judge.judge(deep + "{}" + "}" * 199).valid
    assert not judge.judge(deep + '{"a": 1, "b": 2}' + "}" * 199).valid
"""
    done = subprocess.run([sys.executable, "-c", code, json.dumps(LINKS)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
