"""Where in a rebuilt trace the decisions of a simulated run are, and what a fault changed there."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from blamespan import conventions as words
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.make.simulation.agents.policy import Reply, RequestedCall
from blamespan_lab.make.simulation.simulated_run import PolicyDecision


class DecisionSteps:
    """The steps of a run's decisions.

    A decision that calls tools is at its calls, else at its agent's message. Several decisions may be one step: a
    ledger and what is said by it. A selector's decisions are none.

    Args:
        trace: The rebuilt run.
        spans: Its spans.
        decisions: Its decisions.
    """

    def __init__(self, trace: MessageActionTrace, spans: Sequence[Span], decisions: Sequence[PolicyDecision]) -> None:
        self._messages = {step.span_id: step.index for step in trace.steps if step.kind not in _OF_TOOLS}
        self._calls = _calls_of(trace, spans)
        self._found: dict[tuple[str, int], tuple[int | None, Mapping[RequestedCall, int]]] = {}
        for decision in decisions:
            self._found[decision.agent, decision.index] = self._locate(decision)

    def step(self, decision: PolicyDecision, corrected: Reply | None = None) -> int | None:
        """Return the index of the step that shows *decision*, or None.

        Args:
            decision: One of the run's.
            corrected: What it should have been: the first call that is not in it is meant.
        """
        message, calls = self._found[decision.agent, decision.index]
        right = corrected.calls if corrected is not None else ()
        wrong = [call for call in decision.reply.calls if call in calls and call not in right]
        return calls[wrong[0]] if wrong else next(iter(calls.values()), message)

    def _locate(self, decision: PolicyDecision) -> tuple[int | None, Mapping[RequestedCall, int]]:
        owner = next((span for span in decision.span_ids if span in self._messages), "")
        waiting = self._calls.get(owner, [])
        placed: dict[RequestedCall, int] = {}
        for call in decision.reply.calls:
            index = next(
                (number for number, (name, arguments, _) in enumerate(waiting) if _is(call, name, arguments)), None
            )
            if index is not None:
                placed.setdefault(call, waiting.pop(index)[2])
        return self._messages.get(owner), placed


_OF_TOOLS = ("tool_call", "tool_result")


def blamed_step(trace: MessageActionTrace, index: int) -> Step:
    """Return the step that can be blamed for what is at *index*: a tool's answer belongs to its call."""
    step = trace.steps[index]
    if step.kind == "tool_result":
        return next((trace.steps[i] for i in step.inputs if trace.steps[i].kind == "tool_call"), step)
    return step


def changed_steps(trace: MessageActionTrace, twin: MessageActionTrace, after: int) -> tuple[int, ...]:
    """List the steps after *after* that *twin* has not, by who says what."""
    there = Counter(_said(step) for step in twin.steps)
    there.subtract(_said(step) for step in trace.steps[: after + 1])
    return tuple(_missing(trace.steps[after + 1 :], there))


def _missing(steps: Sequence[Step], there: Counter[tuple[str, str, str]]) -> Iterator[int]:
    for step in steps:
        content = _said(step)
        there[content] -= 1
        if there[content] < 0:
            yield step.index


def _said(step: Step) -> tuple[str, str, str]:
    return step.agent, step.kind, step.content


def _calls_of(trace: MessageActionTrace, spans: Sequence[Span]) -> dict[str, list[tuple[str, object, int]]]:
    """List name, arguments and step of each call by the span it was made in."""
    parents = {span.span_id: span.parent_id for span in spans}
    calls: dict[str, list[tuple[str, object, int]]] = defaultdict(list)
    for step in trace.steps:
        if step.kind == "tool_call":
            name = str(step.attributes.get(words.TOOL_NAME, ""))
            arguments = step.content.removeprefix(f"{name}(").removesuffix(")")
            calls[parents[step.span_id] or ""].append((name, _read(arguments), step.index))
    return calls


def _is(call: RequestedCall, name: str, arguments: object) -> bool:
    return call.name == name and _read(call.arguments) == arguments


def _read(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
