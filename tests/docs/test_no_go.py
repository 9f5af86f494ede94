"""No file names a package registry or a path of somebody's machine: both end up in clones where they mean nothing."""

import re

from tests.docs.pages import files, name

# Put together here, so that this file holds none of them either.
_HOSTS = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))]
_PATHS = ["/" + "/".join(parts) for parts in (("work", "main"), ("work", "shared"), ("tmp", "wt"), ("home", "[a-z]"))]
_NO_GO = re.compile("|".join([*map(re.escape, _HOSTS), *(rf"(?<![\w.]){path}" for path in _PATHS)]))


def _texts() -> list[tuple[str, str]]:
    found = []
    for path in files():
        try:
            found.append((name(path), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            pass  # no text, no names
    return found


def test_no_file_names_a_registry_or_a_path_of_a_machine() -> None:
    texts = _texts()
    assert len(texts) > 100, "git lists the files of the repository"
    found = [
        f"{file}:{number}: {match.group()}"
        for file, text in texts
        for number, line in enumerate(text.splitlines(), 1)
        for match in _NO_GO.finditer(line)
    ]
    assert found == []


def test_what_is_looked_for_would_be_found() -> None:
    assert all(_NO_GO.search(f"see https://{host}/x") for host in _HOSTS)
    assert _NO_GO.search("cd " + _PATHS[0])
    assert not _NO_GO.search("workers/main")
