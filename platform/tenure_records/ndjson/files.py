"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tenure.model.errors import UsageError, shortened


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Write beside it, sync, rename. What stood there stays until then; only its owner can read it (0600). A link stays.

    Raises UsageError when nothing can be written there, or what is there is no file: a device, a pipe, a directory.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write {shortened(path)}: it is no file (- is stdout)")
    path = path.resolve()
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {shortened(path)}: {error.strerror}") from None
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {shortened(path)}: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
