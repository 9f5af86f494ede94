"""Imports the modules of a kinds package. Whatever they raise becomes one line that says where, never the foreign text."""

from __future__ import annotations

import importlib
import traceback
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from tenure.model.errors import InvalidKind, TenureError, shortened


def is_module_name(name: str) -> bool:
    """Whether `import name` could be written."""
    return all(part.isidentifier() for part in name.split("."))


def imported(package: str, module: str) -> ModuleType:
    """Import `module`, of the kinds package `package`. Raises InvalidKind naming package, exception class and place."""
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: a file of kinds must not end the process that looks at it
        raise InvalidKind(f"kinds package {shortened(package)}: {_said(error, package, module)}") from None


def _said(error: BaseException, package: str, module: str) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and not is_module_name(missing):
        missing = None
    if missing and f"{package}.".startswith(f"{missing}."):
        return f"no module named {shortened(missing)} is found: check TENURE_KINDS and PYTHONPATH"
    what = shortened(type(error).__name__)
    if isinstance(error, TenureError):
        what = shortened(error, 160)  # our own line, on a kind that is declared wrongly
    elif missing:
        what += f": no module named {shortened(missing)}"
    return f"{what}, in {_place(error, package, module)}"


def _place(error: BaseException, package: str, module: str) -> str:
    """Base name and line: of the text that is no Python, else of the last line of the package that ran."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return _named(error.filename, error.lineno)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and f"{name}.".startswith(f"{package}."):
            return _named(frame.f_code.co_filename, line)
    return _unread(module)


def _named(file: str, line: int) -> str:
    return f"{shortened(Path(file).name)}, line {line}"


def _unread(module: str) -> str:
    """The place in a file that was refused before a line of it ran: its first NUL, where it has one."""
    try:
        spec = find_spec(module)
        file = Path(spec.origin) if spec and spec.origin else None
        before, nul, _ = file.read_bytes().partition(b"\0") if file else (b"", b"", b"")
    except (ImportError, ValueError, OSError):
        return shortened(module)
    if file is None:
        return shortened(module)
    return _named(str(file), before.count(b"\n") + 1) if nul else shortened(file.name)
