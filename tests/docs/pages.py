"""The files of the repository, and the Markdown among them."""

import re
import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@lru_cache(maxsize=1)
def files() -> tuple[Path, ...]:
    """What is, or could be, committed: what git ignores is left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(page: Path) -> list[str]:
    """Link targets outside code blocks."""
    return _LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link: lower case, words joined by dashes, other signs dropped."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
