"""A run told as messages, one after the other: who said what, which tools were called, what each had heard by then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import (
    Agent,
    AgentRole,
    AttributeValue,
    MessageActionTrace,
    Outcome,
    Step,
    StepKind,
    StepStatus,
    Usage,
)
from blamespan_integrations.importers._span_values import derive_span_id, derive_trace_id

MAX_STEPS = 20_000
"""More is refused: no team talks that long, and a run is held in memory."""
_MAX_HEARD = 64
"""Steps that one may build on; of more, the last."""


class Conversation:
    """Collects a run's steps in the order they were said.

    Everybody hears what anybody says, unless it is addressed: an agent's step builds on what was said since it spoke
    last, and on what its tools answered.

    Args:
        source: Where the run stands, for messages.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.tasks: list[str] = []
        self.outcome: Outcome = "unknown"
        self._steps: list[Step] = []
        self._roles: dict[str, AgentRole] = {}
        self._spoken: list[int] = []
        self._heard_until: dict[str, int] = defaultdict(int)
        self._answers: dict[str, list[int]] = defaultdict(list)
        self._calls: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_full(self) -> bool:
        """Return whether it holds more than a run may; nothing is added from then on."""
        return len(self._steps) > MAX_STEPS

    def join(self, name: str, role: AgentRole = "agent") -> None:
        """Add a participant, whether it speaks or not; the role it had first stays."""
        self._roles.setdefault(name, role)

    def say(
        self,
        agent: str,
        content: str,
        *,
        kind: StepKind = "message",
        recipients: tuple[str, ...] = (),
        usage: Usage | None = None,
        time_ns: int = 0,
        error: str | None = None,
        inputs: tuple[int, ...] | None = None,
    ) -> int:
        """Add what an agent said to all, after *inputs* where they are known; give the step's index."""
        if self.is_full:
            return len(self._steps) - 1
        step_inputs = self._recent_inputs(agent) if inputs is None else inputs
        index = self._add(
            agent, kind, content, step_inputs, recipients=recipients, usage=usage, time_ns=time_ns, error=error
        )
        self._spoken.append(index)
        self._heard_until[agent] = len(self._spoken)
        self._answers.pop(agent, None)
        return index

    def call(
        self,
        agent: str,
        tool: str,
        arguments: str,
        *,
        call_id: str = "",
        usage: Usage | None = None,
        time_ns: int = 0,
        inputs: tuple[int, ...] | None = None,
    ) -> int:
        """Add a tool's call by an agent, after *inputs* where they are known; give the step's index."""
        text = f"{tool}({arguments})"
        return self.call_as_text(agent, text, call_id=call_id, usage=usage, time_ns=time_ns, inputs=inputs)

    def call_as_text(
        self,
        agent: str,
        content: str,
        *,
        call_id: str = "",
        usage: Usage | None = None,
        time_ns: int = 0,
        inputs: tuple[int, ...] | None = None,
    ) -> int:
        """Add a tool's call as the agent wrote it, in any form; give the step's index."""
        if self.is_full:
            return len(self._steps) - 1
        step_inputs = self._recent_inputs(agent) if inputs is None else inputs
        index = self._add(agent, "tool_call", content, step_inputs, usage=usage, time_ns=time_ns)
        self._calls[call_id or f"last of {agent}"] = index
        return index

    def answer(self, agent: str, content: str, *, call_id: str = "", time_ns: int = 0, is_error: bool = False) -> int:
        """Add what the tool answered, to the agent that called it; give the step's index."""
        if self.is_full:
            return len(self._steps) - 1
        call = self._calls.get(call_id or f"last of {agent}")
        caller = self._steps[call].agent if call is not None else agent
        inputs = (call,) if call is not None else ()
        error = "tool_error" if is_error else None
        index = self._add(caller, "tool_result", content, inputs, time_ns=time_ns, error=error)
        self._answers[caller].append(index)
        return index

    def execute(self, agent: str, content: str, *, time_ns: int = 0, is_error: bool = False) -> int:
        """Add the output of others' code, run by an executor, for all to hear; give the step's index."""
        if self.is_full:
            return len(self._steps) - 1
        inputs = self._spoken[-1:]
        self._roles.setdefault(agent, "executor")
        error = "exit_code" if is_error else None
        index = self._add(agent, "tool_result", content, tuple(inputs), time_ns=time_ns, error=error)
        self._spoken.append(index)
        self._heard_until[agent] = len(self._spoken)
        return index

    def add(
        self,
        agent: str,
        kind: StepKind,
        content: str,
        inputs: tuple[int, ...],
        *,
        usage: Usage | None = None,
        start_ns: int = 0,
        end_ns: int = 0,
        error: str | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        input_text: str = "",
    ) -> int:
        """Add a step of which the source tells what it builds on; give the step's index."""
        if self.is_full:
            return len(self._steps) - 1
        index = self._add(agent, kind, content, inputs, usage=usage, time_ns=start_ns, error=error)
        self._steps[index] = replace(
            self._steps[index],
            end_ns=max(start_ns, end_ns),
            attributes=attributes or {},
            input_text=input_text,
        )
        return index

    def trace(self, *identity: str) -> MessageActionTrace:
        """Make the trace.

        Args:
            identity: What makes the run this one and no other, beside what was said.

        Raises:
            UnreadableInput: if nobody said anything, or too much was said.
        """
        if not self._steps:
            raise UnreadableInput(f"{self.source}: expected a run with an agent's step, got none.")
        if self.is_full:
            raise UnreadableInput(
                f"{self.source}: expected at most {MAX_STEPS} steps in a run, got more. Split the file."
            )
        trace_id = derive_trace_id(*identity, *self.tasks, *(f"{step.agent}\n{step.content}" for step in self._steps))
        return MessageActionTrace(
            trace_id=trace_id,
            task="\n".join(self.tasks),
            steps=tuple(replace(step, span_id=derive_span_id(trace_id, step.index)) for step in self._steps),
            agents=tuple(Agent(name, role) for name, role in self._roles.items()),
            outcome=self.outcome,
        )

    def finish(self, *identity: str, waits: bool = False) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the run, or the error in its place.

        Args:
            identity: As of `trace`.
            waits: As of `RecordedRun`.
        """
        try:
            yield RecordedRun(self.source, self.trace(*identity), waits=waits)
        except UnreadableInput as error:
            yield error

    def _recent_inputs(self, agent: str) -> tuple[int, ...]:
        start = max(self._heard_until[agent], len(self._spoken) - 2 * _MAX_HEARD)
        others = [index for index in self._spoken[start:] if self._steps[index].agent != agent]
        return tuple(sorted({*others, *self._answers.get(agent, ())})[-_MAX_HEARD:])

    def _add(
        self,
        agent: str,
        kind: StepKind,
        content: str,
        inputs: tuple[int, ...],
        *,
        recipients: tuple[str, ...] = (),
        usage: Usage | None = None,
        time_ns: int = 0,
        error: str | None = None,
    ) -> int:
        index = len(self._steps)
        self._roles.setdefault(agent, "agent")
        status: StepStatus = "error" if error else "unset"
        step = Step(index, _NO_ID, agent, kind, content, recipients, inputs, status, error, time_ns, time_ns, usage)
        self._steps.append(step)
        return index


_NO_ID = "0" * 15 + "1"
"""Stands for a step's id until the run is whole: the ids are made from all of it."""
