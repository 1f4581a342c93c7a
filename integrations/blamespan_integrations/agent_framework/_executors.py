"""An executor at a message it received: what it passes on, to whom, and what of that it says itself.

A step is what somebody says. What an executor passes on of others (a group chat's orchestrator, an aggregator) is
theirs; what an executor of the program's sends or yields is its own, unless it repeats word for word what it received
or what an agent has said within the same call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_framework import AgentExecutor, AgentExecutorRequest, BaseAgent, Message, WorkflowExecutor, WorkflowMessage
from opentelemetry import context as otel_context

from blamespan.trace import StepKind
from blamespan_integrations.agent_framework._convert import as_messages, from_payload, payload_text
from blamespan_integrations.agent_framework._frames import Frame, Make, current_frame, is_cut_short, unique
from blamespan_integrations.agent_framework._runs import USER, WorkflowRun, is_orchestrator, is_plumbing
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.spans import STEP_CANCELLED


class Answered(Protocol):
    """An agent that has answered within an executor, which knows where its answer goes."""

    step: StepRef | None
    text: str

    def say(self, recipients: Sequence[str] = (), kind: StepKind = "message") -> StepRef:
        """End its span."""


@dataclass(slots=True)
class _Passed:
    """What an executor sent, yielded or asked.

    Attributes:
        target: To whom, where the executor named one.
        way: How.
        after: The agent that had answered last by then.
        before: What it builds on where no agent had.
    """

    payload: Any
    target: str | None
    way: str
    after: Answered | None
    before: list[StepRef]


def executor_start(recorder: Recorder) -> Make:
    """Record `Executor.execute(message, source_executor_ids, ...)`."""

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        if not isinstance(current_frame(), WorkflowRun):
            return None
        message = args[1] if len(args) > 1 else kwargs.get("message")
        sources = args[2] if len(args) > 2 else kwargs.get("source_executor_ids")
        return ExecutorTurn(recorder, args[0], message, sources or ())

    return make


class ExecutorTurn(Frame):
    """An executor between the message it received and the end of its handler.

    Attributes:
        name: Its id in the workflow.
        inputs: Steps that it received.
        within: Steps said and done within.
        has_failed: Whether a step within tells of the error that ends it.
    """

    outer: WorkflowRun

    def __init__(self, recorder: Recorder, executor: Any, message: object, sources: Sequence[str]) -> None:
        super().__init__(executor)
        self._recorder, self._message, self._sources = recorder, message, sources
        self.name: str = executor.id
        self.inputs: list[StepRef] = []
        self.within: list[StepRef] = []
        self.has_failed = False
        self._passed: list[_Passed] = []
        self._answered: Answered | None = None
        self._is_taken = False

    def start(self) -> None:
        """Find what it received; a span begins only with what is said."""
        self._start_ns = time.time_ns()
        run, message = self.outer, self._message
        self._payload: Any = message.data if isinstance(message, WorkflowMessage) else message
        self._is_answer = isinstance(message, WorkflowMessage) and message.original_request_info_event is not None
        items = [self._payload, *self._payload] if isinstance(self._payload, list) else [self._payload]
        known = [
            run.carried[source, id(item)][1]
            for item in items
            for source in self._sources
            if (source, id(item)) in run.carried
        ]
        self.inputs = unique(step for steps in known for step in steps) if known else list(run.entry)
        self.enter(otel_context.get_current())

    @property
    def is_agent(self) -> bool:
        """Whether an agent that is recorded itself speaks for the executor."""
        return isinstance(self.owner, AgentExecutor) and isinstance(self.owner.agent, BaseAgent)

    def take_waiting(self) -> list[StepRef]:
        """Return what its agent has received since it last spoke."""
        received = [] if self._is_taken else self.inputs
        self._is_taken = True
        return [*self.outer.waiting.pop(self.name, []), *received]

    def predecessors(self) -> list[StepRef]:
        """List what an agent or a tool within builds on."""
        return [*self.inputs, *self.within]

    def note_step(self, step: StepRef) -> None:
        """Keep it: what the executor sends from now on comes of it."""
        if step not in self.within:
            self.within.append(step)

    def holds_back(self, agent: Answered) -> bool:
        """Keep an agent's answer until it is known whom it is sent to; return whether it does."""
        if not self.is_agent and not is_orchestrator(self.owner):
            return False
        self.release()
        self._answered = agent
        return True

    def release(self) -> None:
        """Have the agent that is held back say what it answered: another one begins."""
        if self._answered is not None and self._answered.step is None:
            self._say_held("plan" if is_orchestrator(self.owner) else "message")

    def note(self, way: str, payload: object, target: str | None = None) -> None:
        """Learn of what it sends, yields or asks."""
        self._passed.append(_Passed(payload, target, way, self._answered, self.predecessors()))

    def close(self, error: BaseException | None) -> None:
        """Say what it says of its own, and leave to those it sent to what they build on."""
        self.is_open = False
        if self.is_agent and not self._is_taken:
            self.outer.waiting.setdefault(self.name, []).extend(self.inputs)
        if self._answered is not None and self._answered.step is None:
            self._say_held(self._kind_of_held())
        said = self._say_own()
        for index, passed in enumerate(self._passed):
            step = said.get(index) or (passed.after.step if passed.after is not None else None)
            steps = [step] if step is not None else passed.before if self._mixes else self.within or passed.before
            if passed.way == "yield" and self.outer.yields_output(self.name):
                self.outer.outputs += [step for step in steps if step not in self.outer.outputs]
            else:
                self.outer.carried[self.name, id(passed.payload)] = passed.payload, steps
        if error is not None and not self.has_failed and not is_plumbing(self.owner):
            self._fail(error)

    def abandon(self) -> None:
        """Have what is held back ended."""
        self.is_open = False
        self.release()

    @property
    def _mixes(self) -> bool:
        return is_orchestrator(self.owner)

    def _say_own(self) -> dict[int, StepRef]:
        """Say what nobody within has said; return the steps of what it passed on, by place."""
        if self.is_agent or isinstance(self.owner, WorkflowExecutor):
            return {}
        only_yields = is_plumbing(self.owner)
        places: dict[str, list[int]] = {}
        for index, passed in enumerate(self._passed):
            if (passed.way == "yield" or not only_yields) and not self._is_of_others(passed.payload):
                places.setdefault(payload_text(passed.payload), []).append(index)
        steps: dict[int, StepRef] = {}
        for same in places.values():
            step = self._say([self._passed[index] for index in same])
            steps |= dict.fromkeys(same, step)
        return steps

    def _is_of_others(self, payload: object) -> bool:
        messages = as_messages(payload)
        if messages and all(self.memory.is_said(message) or self._is_of_earlier(message) for message in messages):
            return True
        text = payload_text(payload)
        is_held = self._answered is not None and self._answered.text == text
        return is_held or self.memory.is_text_of(self.predecessors(), text)

    def _is_of_earlier(self, message: Message) -> bool:
        """Return whether another one said *message* in the run that this one goes on from."""
        is_passed_on = is_plumbing(self.owner) and not is_orchestrator(self.owner)
        return is_passed_on and message.author_name not in (None, self.name)

    def _say(self, passed: Sequence[_Passed]) -> StepRef:
        payload = passed[0].payload
        reader = SafeReader()
        hearers = [name for item in passed for name in self._hearers(item)]
        span = self._recorder.start_agent(
            self.name,
            received=self._received(reader),
            builds_on=self.predecessors(),
            agent_id=self.name,
            conversation_id=self.outer.conversation_id,
            parent=self.context,
            start_ns=self._start_ns,
        )
        output = reader.read_list("message", lambda: from_payload(payload, "assistant", self.name))
        reader.report(span.lose)
        kind: StepKind = "termination" if self._mixes else "message"
        step = span.end(output=output, kind=kind, recipients=tuple(dict.fromkeys(hearers)))
        self.memory.note_said(self.name, as_messages(payload), step, payload_text(payload))
        return step

    def _received(self, reader: SafeReader) -> list[Any]:
        source = USER if self._is_answer or not self.inputs else ", ".join(self._sources)
        return reader.read_list("received", lambda: from_payload(self._payload, "user", source))

    def _hearers(self, passed: _Passed) -> list[str]:
        if passed.way == "ask":
            return [USER]
        run, payload = self.outer, passed.payload
        around = run.outer
        if passed.way == "yield":  # heard where the workflow is an executor of another one
            if not isinstance(around, ExecutorTurn) or not run.yields_output(self.name):
                return []
            return around.outer.hearers(around.name, payload)
        return SafeReader().read_list(
            "recipients", lambda: self.outer.hearers(self.name, passed.payload, passed.target)
        )

    def _say_held(self, kind: StepKind) -> None:
        assert self._answered is not None
        mine = [passed for passed in self._passed if passed.after is self._answered]
        asks = [passed for passed in mine if passed.target is not None and _wants_answer(passed.payload)]
        if kind == "handoff" or (kind == "plan" and asks):
            mine = asks
        hearers = [name for passed in mine for name in self._hearers(passed)]
        self.note_step(self._answered.say(tuple(dict.fromkeys(hearers)), kind))

    def _kind_of_held(self) -> StepKind:
        assert self._answered is not None
        mine = [passed for passed in self._passed if passed.after is self._answered]
        if is_orchestrator(self.owner):
            is_final = any(
                passed.way == "yield" and payload_text(passed.payload) == self._answered.text for passed in mine
            )
            return "message" if is_final else "plan"
        is_handoff = hasattr(self.owner, "_handoff_targets") and any(
            passed.target is not None and _wants_answer(passed.payload) for passed in mine
        )
        return "handoff" if is_handoff else "message"

    def _fail(self, error: BaseException) -> None:
        reader = SafeReader()
        span = self._recorder.start_agent(
            self.name,
            received=self._received(reader),
            builds_on=self.predecessors(),
            parent=self.context,
            start_ns=self._start_ns,
        )
        reader.report(span.lose)
        if is_cut_short(error):
            span.end(attributes={STEP_CANCELLED: True})
        else:
            span.end(error=error)


def _wants_answer(payload: object) -> bool:
    """Return whether whoever receives *payload* is to speak next."""
    if isinstance(payload, AgentExecutorRequest):
        return payload.should_respond
    return type(payload).__name__ == "GroupChatRequestMessage"


def _turn() -> ExecutorTurn | None:
    frame = current_frame()
    return frame.enclosing(ExecutorTurn) if frame is not None else None


def notice_send(_: object, message: object, target_id: str | None = None) -> None:
    """Note `WorkflowContext.send_message(message, target_id)`."""
    if (turn := _turn()) is not None:
        turn.note("send", message, target_id)


def notice_yield(_: object, output: object) -> None:
    """Note `WorkflowContext.yield_output(output)`."""
    if (turn := _turn()) is not None:
        turn.note("yield", output)


def notice_request(_: object, request_data: object, *__: object, **___: object) -> None:
    """Note `WorkflowContext.request_info(request_data, ...)`."""
    if (turn := _turn()) is not None:
        turn.note("ask", request_data)
