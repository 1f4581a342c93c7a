"""An agent's turn to speak: from the messages it is given to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent_framework import AgentResponse, Content
from agent_framework import Message as FrameworkMessage
from opentelemetry import context as otel_context
from opentelemetry import trace

from blamespan.trace import Agent, StepKind
from blamespan_integrations.agent_framework._convert import (
    as_messages,
    from_answer,
    from_message,
    plain_name,
    result_of,
    split_calls,
    usage_of,
)
from blamespan_integrations.agent_framework._executors import ExecutorTurn
from blamespan_integrations.agent_framework._frames import (
    Frame,
    Make,
    current_frame,
    is_cut_short,
    trace_memory,
    unique,
)
from blamespan_integrations.agent_framework._runs import USER, WorkflowRun
from blamespan_integrations.recording import Recorder, RunSpan, StepRef, around
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import STEP_CANCELLED

_HANDOFF = "handoff_to_"
"""How the names of tools begin by which an agent hands over."""
_TELLING_CHARS = 32
"""As long a text is nobody's by chance."""
_HANDED = '"handoff_to"'
"""In the answer that stands in place of calling such a tool."""


def agent_start(recorder: Recorder) -> Make:
    """Record `run(messages, ...)` of agents: the outermost of one agent's. Outside every run it is a run of its own."""

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        frame, agent = current_frame(), args[0]
        if isinstance(frame, AgentTurn) and frame.owner is agent and frame.is_open:
            return None
        messages = args[1] if len(args) > 1 else kwargs.get("messages")
        return AgentTurn(recorder, agent, messages, kwargs.get("session"))

    return make


class AgentTurn(Frame):
    """An agent between the messages it was given and its answer.

    Attributes:
        name: Its name in the run.
        step: Its message, once that is said.
        text: What it answered, as text.
        executed: Ids of the calls of tools that have a span.
    """

    def __init__(self, recorder: Recorder, agent: Any, messages: object, session: Any) -> None:
        super().__init__(agent)
        self._recorder, self._given, self._session = recorder, messages, session
        self.step: StepRef | None = None
        self.text = ""
        self.executed: set[str] = set()
        self._run: RunSpan | None = None
        self._answer: Sequence[FrameworkMessage] = ()
        self._updates: list[Any] = []
        self._is_answered = False

    def start(self) -> None:
        """Start its span, and that of a run where nothing is around it."""
        agent, reader = self.owner, SafeReader()
        given = reader.read_list("messages", lambda: _messages_of(self._given))
        self._turn = self.outer if isinstance(self.outer, ExecutorTurn) else None
        if self._turn is not None:
            self._turn.release()
        self.name = self._turn.name if self._turn is not None and self._turn.is_agent else plain_name(agent)
        self._step = around()
        run = self.outer.enclosing(WorkflowRun) if self.outer is not None else None
        conversation_id = run.conversation_id if run is not None else getattr(self._session, "session_id", None)
        context = otel_context.get_current()
        if self.outer is None and otel_context.get_value(RUN_KEY) is None:
            span = trace.get_current_span().get_span_context()
            if span.is_valid:
                state, self.memory = trace_memory(span.trace_id)
                context = otel_context.set_value(RUN_KEY, state, context)
            else:
                task = [from_message(message, "user", name=USER) for message in given]
                agents = [Agent(self.name, id=_text(agent, "id"), description=_text(agent, "description"))]
                self._run = self._recorder.start_run(
                    self.name, task=task, agents=agents, conversation_id=conversation_id
                )
                context = self._run.context
        new = self.memory.new_to("agent", self.name, given)
        self._span = self._recorder.start_agent(
            self.name,
            received=[from_message(message, name=USER if message.role == "user" else "") for message in new],
            builds_on=self._predecessors(new),
            agent_id=_text(agent, "id"),
            description=_text(agent, "description"),
            conversation_id=conversation_id,
            parent=context,
        )
        reader.report(self._span.lose)
        self.enter(self._span.context)

    def _predecessors(self, new: Sequence[FrameworkMessage]) -> list[StepRef]:
        if self._step.call is not None:
            return [self._step.call]
        steps = [step for message in new if (step := self._step_of(message)) is not None]
        if self._turn is not None:
            waiting = self._turn.take_waiting() if self._turn.is_agent else self._turn.predecessors()
            steps += [*waiting, *self._turn.within]
        elif not steps:
            steps = self.outer.predecessors() if self.outer is not None else self._step.predecessors
        before = self.memory.last_said.get(self.name)
        return unique(steps) or ([before] if before is not None else [])

    def _step_of(self, message: FrameworkMessage) -> StepRef | None:
        """Find who said *message*; in a workflow a short word of a user's is not taken for an agent's same word."""
        is_telling = self._turn is None or message.role == "assistant" or len(message.text) >= _TELLING_CHARS
        return self.memory.step_of(message, by_text=is_telling)

    def predecessors(self) -> list[StepRef]:
        """List what is said within builds on."""
        return list(self._span.inputs)

    def note_step(self, step: StepRef) -> None:
        """Build on what was said within."""
        self._span.build_on(step)

    def see_update(self, update: Any) -> None:
        """Keep what is streamed: the stream may never be made one answer."""
        self._updates.append(update)

    def see(self, result: Any) -> None:
        """Take the answer; of a stream it comes after its end."""
        if not isinstance(result, AgentResponse):
            return
        self._answer, self.text = result.messages, result.text
        self._is_answered = True
        if self._span.usage is None:
            self._span.usage = usage_of(result.usage_details)
        if self.step is not None:
            self.memory.note_said(self.name, self._answer, self.step, self.text)
        if self._run is not None:
            self._result = result

    def close(self, error: BaseException | None) -> None:
        """End the turn: failed, left by the program, or answered."""
        self.is_open = False
        if self._updates and not self._is_answered:
            with suppress(Exception):  # updates of a client of the program's own
                self.see(AgentResponse.from_updates(self._updates))
        self._updates.clear()
        if error is not None:
            self._fail(error)
        elif self._turn is None or not self._turn.holds_back(self):
            self.say(self._hearers())

    def _fail(self, error: BaseException) -> None:
        if self._turn is not None:
            self._turn.has_failed = True
        is_left = is_cut_short(error)
        reader = SafeReader()
        output = reader.read_list("answer", lambda: from_answer(self._answer, (), self.name)) if is_left else []
        reader.report(self._span.lose)
        self.step = self._span.end(
            output=output,
            attributes={STEP_CANCELLED: True} if is_left else None,
            error=None if is_left else error,
        )
        if self._run is not None:
            self.memory.forget()
            self._run.end(error=None if is_left else error, is_complete=not is_left)

    def say(self, recipients: Sequence[str] = (), kind: StepKind = "message") -> StepRef:
        """End its span with its answer, and the run where it is one.

        Args:
            recipients: Who hears it.
            kind: What the step is.
        """
        reader = SafeReader()
        open_calls = reader.read_list("calls", self._open_calls)
        output = reader.read_list("answer", lambda: from_answer(self._answer, open_calls, self.name))
        reader.report(self._span.lose)
        step = self.step = self._span.end(
            output=output,
            kind=kind,
            recipients=recipients,
            error=None if self._is_answered else "no_response",
        )
        self.memory.note_said(self.name, self._answer, step, self.text)
        if self._turn is None and self.outer is not None:
            self.outer.note_step(step)
        elif self._turn is not None:
            self._turn.note_step(step)
        elif self._run is None:
            self._step.note_steps([step])
            self.memory.forget()  # how long the program's own span goes on is not known
        if self._run is not None:
            self.memory.forget()
            self._run.end(output=output, result=getattr(self, "_result", None))
        return step

    def abandon(self) -> None:
        """End its span, and the run it is, whatever has come of them."""
        self.is_open = False
        self._span.abandon()
        if self._run is not None:
            self._run.abandon()

    def _hearers(self) -> tuple[str, ...]:
        if self._turn is not None:
            return (self._turn.name,)
        caller = self.outer.enclosing(AgentTurn) if self.outer is not None else None
        return (caller.name,) if caller is not None else ()

    def _open_calls(self) -> list[Any]:
        """List calls that nobody answered within the turn; record those of tools that something else answered."""
        calls, answers = split_calls(self._answer)
        requests = [content.function_call for message in self._answer for content in message.contents]
        approvals = {str(request.call_id) for request in requests if request is not None}
        is_open = [
            call
            for call in calls
            if str(call.call_id) not in self.executed | approvals
            and (str(call.call_id) not in answers or _hands_over(call, answers[str(call.call_id)]))
        ]
        for call in calls:
            answer = answers.get(str(call.call_id))
            if str(call.call_id) in self.executed or answer is None or call in is_open:
                continue
            span = self._recorder.start_tool(
                call.name or "", arguments=call.arguments, call_id=call.call_id, parent=self._span.context
            )
            span.end(result=result_of(answer), error="tool_error" if answer.exception else None)
        return is_open


def _hands_over(call: Content, answer: Content) -> bool:
    """Return whether a call was a hand-over: its answer is made up, and the call is what the agent says."""
    return str(call.name).startswith(_HANDOFF) and _HANDED in str(result_of(answer))


def _messages_of(given: object) -> list[FrameworkMessage]:
    if isinstance(given, str):
        return [FrameworkMessage(role="user", contents=[given])]
    if isinstance(given, list | tuple):
        return [message for item in given for message in _messages_of(item)]
    return as_messages(given)


def _text(owner: object, name: str) -> str | None:
    try:
        value = getattr(owner, name, None)
    except Exception:  # a property of the program's own
        return None
    return value if isinstance(value, str) else None
