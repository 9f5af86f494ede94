"""What an exception may say where it is stored or logged: never its own text, unless it is ours or the author's own word.

An exception's text may hold rows, URLs or a driver's message. Its class, its place and the chain behind it do not.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from tenure.model.errors import TenureError, shortened
from tenure.model.retry import Reject, Retry

MESSAGE = 500  # characters of a stored message
STACK = 4000  # characters of a stored stack: about eighty frames
LINKS = 4  # of a chain are told


def text_of(value: object) -> str:
    """A value as text; its class where that raises."""
    try:
        return str(value)
    except Exception:
        return type(value).__name__


def storable(text: str, limit: int = MESSAGE) -> str:
    """One line, shortened, without what PostgreSQL's text refuses: NUL and lone surrogates."""
    return shortened(text.replace("\0", "").encode(errors="replace").decode(), limit)


def expected(error: BaseException) -> bool:
    """Whether it is a word of ours or of the author, made to be read: no stack is kept of it."""
    return isinstance(error, TenureError | Retry | Reject)


def chain(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """The error and what is behind it, outermost first, each once; with `hidden` also what a `from None` hides."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        yield link
        seen.add(id(link))
        link = link.__cause__ or (None if link.__suppress_context__ and not hidden else link.__context__)


def sanitized(error: BaseException) -> str:
    """A message fit to be stored: expected errors as they are, others by class and place, with what was behind them."""
    if expected(error):
        return storable(text_of(error))
    links = list(chain(error))
    said = [f"unexpected {type(error).__name__}{_place(error)}"]
    said += [storable(text_of(e)) if expected(e) else f"{type(e).__name__}{_place(e)}" for e in links[1:LINKS]]
    more = ["and more"] if len(links) > LINKS else []
    return storable(f"{', from '.join([*said, *more])}; the worker's log has the stack")


def _place(error: BaseException) -> str:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    if not own:
        return ""
    last = own[-1]
    return f" in {last.name} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def stack(error: BaseException) -> list[str]:
    """The stack without values: file, line and function of each frame, the way a log may hold it."""
    return [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]


def stored_stack(error: BaseException) -> str | None:
    """The stacks of an unexpected error and of what is behind it, a line per frame, the innermost kept; None for an
    expected one."""
    if expected(error):
        return None
    told = [line for link in list(chain(error))[:LINKS] for line in (type(link).__name__, *stack(link))]
    text = "\n".join(storable(line, 200) for line in told)
    return text if len(text) <= STACK else f"…{text[-(STACK - 1) :]}"
