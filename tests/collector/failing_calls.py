"""System calls of this process that fail as they are told to: one call of a kind, or all for a while."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pytest

from blamespan_collector.journal import writer as writing

Fault: TypeAlias = Literal["EIO", "ENOSPC", "short"]
WRITER_CALLS = ("open", "pwrite", "fsync", "fdatasync", "ftruncate", "unlink", "mkdir", "stat", "fstat", "close")
READER_CALLS = ("open", "pread", "fstat", "listdir", "scandir", "stat", "unlink", "rename")
_TRANSFERS = ("pwrite", "pread")
"""Calls that may do only a part of what they are asked for."""


class FailingCall:
    """Lets the calls of one kind fail whose number, counted from 0, is in a range, in one thread.

    Attributes:
        calls: How many there were.
    """

    def __init__(self, name: str, fault: Fault, numbers: range, thread: str) -> None:
        self.name, self._fault, self._numbers, self._thread = name, fault, numbers, thread
        self._real: Callable[..., Any] = getattr(os, name)
        self.calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if threading.current_thread().name != self._thread:
            return self._real(*arguments, **named)
        self.calls += 1
        if self.calls - 1 not in self._numbers:
            return self._real(*arguments, **named)
        if self._fault == "short":
            file, data, offset = arguments
            part = data // 2 if isinstance(data, int) else data[: len(data) // 2]
            return self._real(file, part, offset)
        if self.name == "close":
            self._real(*arguments)  # as the system does it: the file is closed, whatever the answer
        code = getattr(errno, self._fault)
        raise OSError(code, os.strerror(code))


@contextmanager
def failing_call(name: str, fault: Fault, numbers: range, *, thread: str) -> Iterator[FailingCall]:
    """Let calls fail in the block."""
    call = FailingCall(name, fault, numbers, thread)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, call)
        if name == "fdatasync":
            patch.setattr(writing, "_sync_data", call)
        yield call


def faults_of(calls: tuple[str, ...]) -> list[tuple[str, Fault]]:
    """List every call with every way in which it can fail."""
    return [
        (name, fault)
        for name in calls
        for fault in (("EIO", "ENOSPC", "short") if name in _TRANSFERS else ("EIO", "ENOSPC"))  # type: ignore[misc]
    ]
