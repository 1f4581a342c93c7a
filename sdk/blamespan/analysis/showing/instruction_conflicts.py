"""Where instructions disagree in a run and whom its agents obey, where the package that finds that is installed.

The tracer's part `instruction_conflicts` is called with a run. It gives an `InstructionConflict` for each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from blamespan.analysis.showing.legible import printable
from blamespan.pipeline import ask_part
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace

_logger = logging.getLogger("blamespan.instructions")

_MAX_QUOTE_CHARS = 200
_MAX_CONFLICTS = 1_000
"""Most of one run."""


class _DemandShape(Protocol):
    @property
    def step(self) -> int | None: ...
    @property
    def quote(self) -> str: ...
    @property
    def by(self) -> str: ...


class _ConflictShape(Protocol):
    @property
    def step(self) -> int: ...
    @property
    def agent(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def obeyed(self) -> str: ...
    @property
    def rule(self) -> _DemandShape: ...
    @property
    def request(self) -> _DemandShape: ...


@dataclass(frozen=True, slots=True)
class DecidedConflict:
    """Two instructions that an agent could not both follow; texts are fit to print.

    Attributes:
        step: Index of the step that shows which it obeyed.
        agent: Who.
        kind: What both are about.
        obeyed: `higher` or `lower`: of the two, which instruction it obeyed.
        rule_by: Who states the higher one: `system`, `user`, `orchestrator`.
        rule_step: Index of the step that says it or was given it; None for the task.
        rule: Its words.
        request_by: Who states the lower one: `user`, `orchestrator`, `agent`, `tool`.
        request_step: Likewise of the lower one, and
        request: its words.
    """

    step: int
    agent: str
    kind: str
    obeyed: str
    rule_by: str
    rule_step: int | None
    rule: str
    request_by: str
    request_step: int | None
    request: str

    def __str__(self) -> str:
        whom = f"the {self.rule_by}" if self.obeyed == "higher" else f"the {self.request_by}, not the {self.rule_by}"
        return (
            f"step {self.step}: {self.agent} obeys {whom} ({self.kind}): {self.rule_by} {self.rule!r}, "
            f"{self.request_by} {self.request!r}"
        )

    def as_json(self) -> dict[str, Any]:
        """Write it as a row of results has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def conflicts_of(trace: MessageActionTrace) -> tuple[DecidedConflict, ...]:
    """Find where instructions disagree in a run, in step order; nothing where the package is not installed."""
    find: Callable[[MessageActionTrace], Iterable[_ConflictShape]] | None
    find = find_part("instruction_conflicts", _logger, "conflicts of instructions are not looked for")
    if find is None:
        return ()

    def look() -> tuple[DecidedConflict, ...]:
        return tuple(_decided(conflict) for conflict in list(find(trace))[:_MAX_CONFLICTS])

    return ask_part(look, _logger, f"conflicts of instructions are not looked for in trace {trace.trace_id}") or ()


def _decided(conflict: _ConflictShape) -> DecidedConflict:
    rule, request = conflict.rule, conflict.request
    return DecidedConflict(
        conflict.step,
        printable(conflict.agent),
        conflict.kind,
        conflict.obeyed,
        rule.by,
        rule.step,
        printable(rule.quote[:_MAX_QUOTE_CHARS]),
        request.by,
        request.step,
        printable(request.quote[:_MAX_QUOTE_CHARS]),
    )
