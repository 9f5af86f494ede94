"""What commands that read or write files share: opening one, and a bar over its bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tenure.model.errors import UsageError, shortened


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file for reading, or stdin for `-`. Raises UsageError."""
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        lines = file.open("rb")
        lines.peek(1)  # a directory opens, and fails only here
    except OSError as error:
        raise UsageError(f"cannot read {shortened(file)}: {error.strerror}") from None
    with lines:
        yield lines


@contextmanager
def writing(path: Path, reading: BinaryIO) -> Iterator[Callable[[bytes], None]]:
    """Writes to a file, made or emptied, other than the one that is being read. Raises UsageError."""
    try:
        if path.exists() and os.path.samestat(path.stat(), os.fstat(reading.fileno())):
            raise UsageError(f"cannot write {shortened(path)}: it is the file to be read")
        file = path.open("wb")
    except OSError as error:
        raise _cannot(path, error) from None

    def write(data: bytes) -> None:
        try:
            file.write(data)
        except OSError as error:
            raise _cannot(path, error) from None

    try:
        yield write
    finally:
        try:
            file.close()
        except OSError as error:
            raise _cannot(path, error) from None


def _cannot(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {shortened(path)}: {error.strerror}")


@contextmanager
def bytes_bar(lines: BinaryIO) -> Iterator[Callable[[int], None]]:
    """A bar over the bytes of the file, on a terminal; silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from tenure.cli.output import console

    size = os.fstat(lines.fileno()).st_size or None
    with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console(stderr=True)) as bar:
        task = bar.add_task("", total=size)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def count_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar over objects, on a terminal; silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from tenure.cli.output import console

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)
