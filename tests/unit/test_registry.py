"""Broken packages of kinds: one line that names the place, and nothing of what they say."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure import registry
from tenure.model.errors import InvalidKind

_NAMES = (f"kinds_of_a_test_{number}" for number in itertools.count())
GOOD = "from tenure.model.kinds import kind\n\n@kind({name!r})\ndef body(attempt, params):\n    return None\n"

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes a package, its modules by name, and answers its name."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def make(**modules: str) -> str:
        name = next(_NAMES)
        (tmp_path / name).mkdir()
        for module, source in {"__init__": "", **modules}.items():
            (tmp_path / name / f"{module}.py").write_bytes(source.encode())
        return name

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(*packages: str) -> str:
    with pytest.raises(InvalidKind) as raised:
        registry.load(packages)
    line = str(raised.value)
    assert line.isprintable()
    assert "hush" not in line
    assert "/" not in line
    return line


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\ndef (:\n", "SyntaxError, in broken.py, line 2"),
        ("\nraise ValueError('hush')\n", "ValueError, in broken.py, line 2"),
        ("import sys\n\nsys.exit('hush')\n", "SystemExit, in broken.py, line 3"),
        ("x = 1\n\0\n", "in broken.py, line 2"),
        ("import hush_hush.nothing\n".replace("hush_hush", "no_such_module"), "no module named no_such_module"),
        ("from tenure import hushed\n", "ImportError, in broken.py, line 1"),
        ("class Own(BaseException): ...\nraise Own('hush')\n", "Own, in broken.py, line 2"),
        (GOOD.format(name="a b"), "kind name 'a b': 1 to 200 bytes without spaces, in broken.py, line 3"),
    ],
)
def test_a_broken_file_is_named_with_its_line_and_none_of_its_words(make: Make, source: str, said: str) -> None:
    name = make(good=GOOD.format(name="x"), broken=source)
    line = refusal(name)
    assert line.startswith(f"kinds package {name}: ")
    assert line.endswith(said) or f"{said}, in broken.py, line 1" in line


def test_the_place_is_the_package_s_own_line_when_foreign_code_raises(make: Make) -> None:
    assert refusal(make(broken="import json\njson.loads('hush')\n")).endswith("JSONDecodeError, in broken.py, line 2")


@pytest.mark.parametrize("name", ["..x", "a b", "a..b", "a-b", "a.\x1b[2J"])
def test_what_is_no_package_name_is_refused(name: str) -> None:
    assert "no package name, write it as an import does" in refusal(name)


def test_a_path_is_no_package_name() -> None:
    with pytest.raises(InvalidKind, match=r"kinds package '\.\./x': no package name"):
        registry.load(("../x",))


def test_a_package_that_is_not_there_is_named() -> None:
    assert refusal("no_such_kinds") == (
        "kinds package no_such_kinds: no module named no_such_kinds is found: check TENURE_KINDS and PYTHONPATH"
    )


def test_a_package_without_a_kind_is_refused(make: Make) -> None:
    assert "holds no kind, neither itself nor in a module directly in it" in refusal(make(empty="x = 1\n"))


def test_a_kind_declared_twice_names_both_places(make: Make) -> None:
    name = make(one=GOOD.format(name="same"), two="\n\n" + GOOD.format(name="same"))
    assert refusal(name) == (
        f"kind same is declared twice: in {name}.one, line 3 and in {name}.two, line 5: rename one of them"
    )
