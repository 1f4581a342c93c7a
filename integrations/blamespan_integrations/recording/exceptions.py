"""Exceptions on the wire: an exception's message is content, and so are the lines of code it passed."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.semconv.attributes import exception_attributes as _words

from blamespan import conventions as words
from blamespan_integrations.recording.content import Contents

_MOST_FRAMES = 64
_MOST_CAUSES = 8
_HOOKS = str(Path(__file__).parents[1] / "injection")
"""Where the hooks are."""


def exception_event(contents: Contents, error: BaseException) -> tuple[str | None, dict[str, str]]:
    """Describe what was raised.

    Returns:
        Its message, None where contents are withheld, and the attributes of the event `exception`. Where
        contents are withheld the stack names files, lines and functions only.
    """
    event = {_words.EXCEPTION_TYPE: contents.name(_qualified_name(type(error))), _words.EXCEPTION_ESCAPED: "False"}
    message = contents.text(_words.EXCEPTION_MESSAGE, error_text(contents, error), words.MAX_ATTRIBUTION_BYTES)
    if message is None:
        event[_words.EXCEPTION_STACKTRACE] = _frames_text(contents, error)
        return None, event
    event[_words.EXCEPTION_MESSAGE] = message
    stack = contents.text(_words.EXCEPTION_STACKTRACE, _stack(contents, error))
    if stack is not None:
        event[_words.EXCEPTION_STACKTRACE] = stack
    return message, event


def error_text(contents: Contents, error: BaseException) -> str:
    """Read an exception's message; its type's name where it has none or raises itself."""
    try:
        return str.__str__(str(error)) or type(error).__qualname__
    except Exception as failed:  # a program's own __str__ may raise anything
        contents.lose(f"{type(error).__qualname__}: {type(failed).__qualname__}")
        return type(error).__qualname__


def _qualified_name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _stack(contents: Contents, error: BaseException) -> str:
    try:
        return "".join(_without_hooks(traceback.TracebackException.from_exception(error, limit=-_MOST_FRAMES)).format())
    except Exception as failed:  # it formats the whole chain, whose messages may raise
        contents.lose(f"{_words.EXCEPTION_STACKTRACE}: {type(failed).__qualname__}")
        return _frames_text(contents, error)


def _frames_text(contents: Contents, error: BaseException) -> str:
    try:
        return "\n".join(_frames(error))
    except Exception as failed:  # a program's own exception may raise when it is asked where it passed
        contents.lose(f"{_words.EXCEPTION_STACKTRACE}: {type(failed).__qualname__}")
        return type(error).__qualname__


def _without_hooks(
    described: traceback.TracebackException, visited: frozenset[int] = frozenset()
) -> traceback.TracebackException:
    """Leave out the frames of the hooks by which faults are injected: a span must not tell that they were there."""
    described.stack[:] = [frame for frame in described.stack if not frame.filename.startswith(_HOOKS)]
    for cause in (described.__cause__, described.__context__, *(described.exceptions or ())):
        if cause is not None and id(cause) not in visited:
            _without_hooks(cause, visited | {id(described)})
    return described


def _frames(error: BaseException) -> Iterator[str]:
    """List where *error* passed, and what it was raised from, without any text of either."""
    at: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if at is None:
            return
        yield type(at).__qualname__
        for frame, line in list(traceback.walk_tb(at.__traceback__))[-_MOST_FRAMES:]:
            if frame.f_code.co_filename.startswith(_HOOKS):
                continue
            yield f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
