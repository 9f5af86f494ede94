"""What a file of schedules may say, and what is said about one that may not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.definitions import ScheduleSpec, StepSpec, read, root, write
from tenure.model.errors import ScheduleInvalid
from tests.support.tasks import scale

TOML = """
origin = "billing"

[schedules.nightly]
description = "What the catalogue's readers see in the morning"
cron = "30 2 * * *"
zone = "Europe/Oslo"
misfire = "all"
at_most = 3
steps = [
  "catalog.export",
  ["catalog.audit", { kind = "catalog.count", params = { deep = true, since = 2026-01-31 }, on_failure = "continue" }],
]

[schedules.poll]
every = "90s"
overlap = "queue_one"

[[schedules.poll.steps]]
kind = "feeds.poll"
deadline = "5m"
labels = { team = "feeds" }
"""
YAML = """
origin: billing
schedules:
  nightly:
    description: What the catalogue's readers see in the morning
    cron: "30 2 * * *"
    zone: Europe/Oslo
    misfire: all
    at_most: 3
    steps:
      - catalog.export
      - - catalog.audit
        - {kind: catalog.count, params: {deep: true, since: 2026-01-31}, on_failure: continue}
  poll:
    every: 90
    overlap: queue_one
    steps:
      - kind: feeds.poll
        deadline: 300
        labels: {team: feeds}
"""


def test_toml_and_yaml_say_the_same() -> None:
    assert read("a.toml", TOML) == read("a.yaml", YAML)


def test_a_file_becomes_schedules_with_their_groups() -> None:
    wanted = read("a.toml", TOML)
    nightly, poll = wanted.specs
    assert (wanted.origin, nightly.name, nightly.at_most) == ("billing", "nightly", 3)
    assert [[step.kind for step in group] for group in nightly.steps] == [
        ["catalog.export"],
        ["catalog.audit", "catalog.count"],
    ]
    assert nightly.steps[1][1].params == {"deep": True, "since": "2026-01-31"}
    assert (poll.every, poll.steps[0][0].deadline, poll.steps[0][0].labels) == (90.0, 300.0, {"team": "feeds"})


def test_an_empty_table_wants_nothing() -> None:
    assert read("a.yaml", "schedules: {}").specs == read("a.toml", "[schedules]").specs == ()


@pytest.mark.parametrize("name", ["a.toml", "a.yaml"])
@pytest.mark.parametrize("text", ["", "# nothing\n", "origin: x\n"])
def test_a_file_without_schedules_is_refused_so_that_one_cut_off_prunes_nothing(name: str, text: str) -> None:
    with pytest.raises(ScheduleInvalid, match=r"holds no table|names no schedules"):
        read(name, text.replace(": x", ' = "x"') if name == "a.toml" else text)


def one(body: str) -> str:
    return f"schedules:\n  n:\n    {body}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedules:\n  n:\n    cron: */5 * * * *\n", "line 3, column 12: not YAML"),
        ("schedules:\n  n:\n    cron: */5 * * * *\n", "starts with * or @ is written in quotes"),
        ("schedules:\n  n:\n    cron: @daily\n", "starts with * or @ is written in quotes"),
        (one("cron: '61 * * * *'"), "line 2, schedules.n: cron '61 * * * *': minute '61'"),
        (one("{cron: '0 0 * * *', zone: Oslo}"), "zone 'Oslo': no such IANA zone"),
        (one("{every: 5, zone: UTC}"), "zone belongs to cron"),
        (one("{every: 5, cron: '0 0 * * *'}"), "one of cron (with zone), every, and manual"),
        (one("{steps: [a]}"), "one of cron (with zone), every, and manual"),
        (one("{every: 5 fortnights}"), "schedules.n.every: '5 fortnights' is no duration"),
        (one("{every: 0.01}"), "interval 0.01"),
        (one("{every: yes}"), "'yes' is no duration"),
        (one("{every: true}"), "schedules.n.every: Input should be a valid number, not 'True'"),
        (one("{every: 5, misfire: all}"), "misfire all needs at_most"),
        (one("{every: 5, at_most: 3}"), "misfire all needs at_most"),
        (one("{every: 5, misfire: all, at_most: 1001}"), "schedules.n.at_most"),
        (one("{every: 5, enabled: no}"), "schedules.n.enabled: Input should be a valid boolean, not 'no'"),
        (one("{every: 5, overlap: queue}"), "overlap: Input should be 'skip', 'queue_one' or 'allow', not 'queue'"),
        (one("every: 5\n    stepz: [a]"), "line 4, schedules.n.stepz: no such field"),
        (one("every: 5\n    steps:\n      - a\n      - - kind: b\n          on_failure: x"), "line 7, schedules.n, step 2.1, on_failure"),
        (one("{every: 5, steps: [a, {params: {}}]}"), "schedules.n, step 2, kind: is missing"),
        (one("{every: 5, steps: [a, []]}"), "schedules.n, step 2: "),
        (one("{every: 5, steps: [{kind: a, params: [1]}]}"), "schedules.n, step 1, params: "),
        (one("{every: 5, steps: [{kind: a, priority: 40000}]}"), "step 1: priority 40000 does not fit 16 bits"),
        (one("{every: 5, steps: [{kind: a, deadline: 0}]}"), "step 1, deadline"),
        (one("{every: 5, steps: [{kind: a, labels: {x: 1}}]}"), "step 1, labels, x"),
        (one("{every: 5, name: m}"), "schedules.n.name: a schedule is called by its table"),
        (one("every: 5\n    every: 6"), "line 4, column 5: not YAML: key 'every' is there twice"),
        (one("5"), "schedules.n: give a table"),
        ("schedules: [a]", "line 1, schedules: give a table with one table for each schedule"),
        ("tasks: {}", "line 1, tasks: unknown; a file has origin and schedules"),
        ("origin: ''", "origin: text of 1 to 100 bytes"),
        ("- a", "it holds no table"),
        ("a: [1\n", "line 2, column 1: not YAML"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: not YAML"),
        ("? [a]\n: 1", "is no name"),
        ("x: !!python/object/apply:os.getpid []", "is not supported"),
        ("a: &a [*a]", "not YAML"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
         "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]", "too many or too deep values"),
        ("[" * 5000, "nested too deeply"),
        ("\x00", "characters that YAML does not allow"),
        ("x: 1" + "0" * 5000, "a number too long"),
    ],
)  # fmt: skip
def test_a_mistake_in_yaml_is_named_by_file_line_and_field(text: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as refusal:
        read("plans/a.yaml", text)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith("plans/a.yaml: ")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[schedules.n]\nevery = 5\nevery = 6", "not TOML: Cannot overwrite a value"),
        ("[schedules.n]\nevery = ,\n", "not TOML: Invalid value (at line 2, column 9)"),
        ("[schedules.n]\nevery = 2026-01-01", "schedules.n.every: Input should be a valid number, not '2026-01-01'"),
        ("[schedules.n]\nevery = 1\nsteps = [{ kind = 'a', params = { x = inf } }]", "step 1, params: params hold a number"),
        ("[schedules.n]\nevery = 1\n[[schedules.n.steps]]\nknd = 'a'", "schedules.n, step 1, kind: is missing (and 1 more"),
        ("a = " + "[" * 5000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_mistake_in_toml_is_named_by_file_and_field(text: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as refusal:
        read("a.toml", text)
    assert said in str(refusal.value)


def nested(depth: int) -> str:
    params = '{"a":' * depth + "1" + "}" * depth
    return '{"schedules": {"n": {"every": 5, "steps": [{"kind": "a", "params": ' + params + "}]}}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schedules": {"n": {"every": 5,}}}', "line 1, column"),
        ('{"schedules": {"n": 1, "n": 2}}', "key 'n' is there twice"),
        ('{"schedules": {"n": {"every": NaN}}}', "schedules.n"),
        ("[" * 100_000, "not JSON: nested too deeply"),
        (nested(150), "params are nested more than 100 deep"),
        (nested(700), "params are nested more than 100 deep"),
    ],
)
def test_a_mistake_in_json_is_named(text: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as refusal:
        read("a.json", text)
    assert said in str(refusal.value)


def test_a_file_of_another_sort_or_size_is_refused() -> None:
    for name in ("a.ini", "schedules"):
        with pytest.raises(ScheduleInvalid, match=r"ends in \.toml"):
            read(name, "")
    with pytest.raises(ScheduleInvalid, match="larger than 1 MiB"):
        read("a.yaml", "#" * 1_100_000)


def test_yaml_takes_nothing_for_something_else() -> None:
    text = one(
        "{every: 5, steps: [{kind: a, params: {a: no, b: 1:30, c: 2026-01-31, d: 0x1f, e: 1_000, f: ~, g: 1e3}}]}"
    )
    params = read("a.yaml", text).specs[0].steps[0][0].params
    assert params == {"a": "no", "b": "1:30", "c": "2026-01-31", "d": "0x1f", "e": "1_000", "f": None, "g": 1000.0}


texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)
plain = st.sampled_from(
    [
        "no",
        "1e3",
        "0x1f",
        "1:30",
        "~",
        "null",
        "true",
        "*x",
        "&x",
        "- a",
        "a: b",
        "2026-01-01",
        " x",
        "x\n",
        "<<",
        "=",
        "1_0",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | plain, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
steps = st.builds(
    StepSpec,
    kind=texts.filter(bool) | plain,
    params=st.dictionaries(texts | plain, values, max_size=3),
    on_failure=st.sampled_from(["inherit", "stop", "continue"]),
    queue=st.none() | plain,
    priority=st.none() | st.integers(-5, 5),
    exclusive=st.none() | st.booleans(),
    labels=st.dictionaries(plain, texts, max_size=2),
    deadline=st.none() | st.sampled_from([0.25, 60.0, 5400.0, 86400.0, 12345.678901]),
)
recurrences: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"cron": "*/5 * * * *", "zone": "Europe/Oslo"},
        {"cron": "@daily"},
        {"every": 0.5},
        {"every": 90.0},
        {"manual": True},
    ]
)


@given(recurrences, st.lists(st.lists(steps, min_size=1, max_size=3), max_size=3), texts | plain, st.booleans())
@settings(max_examples=scale(1000, 60), deadline=None)
def test_what_is_written_reads_back_the_same(recurs: Any, groups: Any, text: str, enabled: bool) -> None:
    spec = ScheduleSpec(name=text, description=text, steps=groups, enabled=enabled, **recurs)
    wanted = read("a.yaml", write([spec], "somebody"))
    assert wanted.origin == "somebody"
    again = read("a.json", json.dumps(root([spec], "somebody")))
    assert again.origin == "somebody"
    for one in (wanted, again):
        assert json.dumps(one.specs[0].model_dump()) == json.dumps(spec.model_dump())
