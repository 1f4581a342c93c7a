"""Trials of a user's program in the tests' own process."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import blamespan
from blamespan_lab.rerun import trials
from blamespan_lab.rerun.worker_pool import CarryOut


class OneProcess:
    """Carries orders out as a pool of processes does, one after another in this process; nothing hangs or dies."""

    def __init__(self, open_program: Any, *arguments: object, **_: object) -> None:
        self._open_program, self._arguments = open_program, arguments
        self._carry_out: CarryOut | None = None
        self._lock = threading.Lock()

    def ask(self, order: object) -> Any:
        with self._lock:
            self._carry_out = self._carry_out or self._open_program(*self._arguments)
            return self._carry_out(order)

    def close(self) -> None:
        blamespan.uninstrument()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials here: to start a process and import frameworks there takes seconds."""
    monkeypatch.setattr(trials, "WorkerPool", OneProcess)
