"""A tool at work and a model call, whoever makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import BaseChatClient, ChatResponse, FunctionTool
from agent_framework import Message as FrameworkMessage
from opentelemetry import context as otel_context

from blamespan.genai_messages import Message
from blamespan_integrations.agent_framework._agents import AgentTurn
from blamespan_integrations.agent_framework._convert import from_message, result_of, usage_of
from blamespan_integrations.agent_framework._executors import ExecutorTurn
from blamespan_integrations.agent_framework._frames import Frame, Make, current_frame, is_cut_short
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import STEP_CANCELLED


def tool_start(recorder: Recorder) -> Make:
    """Record `FunctionTool.invoke(*, arguments, context, tool_call_id)` within runs."""

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        if current_frame() is None and otel_context.get_value(RUN_KEY) is None:
            return None
        arguments = kwargs.get("arguments")
        if arguments is None and kwargs.get("context") is not None:
            arguments = kwargs["context"].arguments
        return ToolCall(recorder, args[0], arguments, kwargs.get("tool_call_id"))

    return make


class ToolCall(Frame):
    """A tool at work."""

    def __init__(self, recorder: Recorder, tool: FunctionTool, arguments: object, call_id: str | None) -> None:
        super().__init__(tool)
        self._recorder, self._tool, self._arguments, self._call_id = recorder, tool, arguments, call_id
        self._result: object = None

    def start(self) -> None:
        """Start its span."""
        turn = self.outer if isinstance(self.outer, ExecutorTurn) else None
        if isinstance(self.outer, AgentTurn) and self._call_id:
            self.outer.executed.add(self._call_id)
        self._span = self._recorder.start_tool(
            self._tool.name,
            arguments=self._arguments,
            call_id=self._call_id,
            description=self._tool.description,
            agent=turn.name if turn is not None else None,
            builds_on=turn.predecessors() if turn is not None else (),
        )
        self.enter(self._span.context)

    def predecessors(self) -> list[StepRef]:
        """Return the call: what happens within happens because of it."""
        return [self._span.call]

    def note_step(self, step: StepRef) -> None:
        """Leave it: whoever called builds on the tool's answer."""

    def see(self, result: Any) -> None:
        """Take the answer."""
        self._result = result_of(result)

    def close(self, error: BaseException | None) -> None:
        """End the call."""
        self.is_open = False
        if error is not None and is_cut_short(error):
            self._span.add({STEP_CANCELLED: True})
            error = None
        step = self._span.end(result=self._result, error=error)
        if isinstance(self.outer, ExecutorTurn):
            self.outer.note_step(step)

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        self.is_open = False
        self._span.abandon()


def model_start(recorder: Recorder) -> Make:
    """Record `BaseChatClient.get_response(messages, *, options, ...)` within runs."""

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        if current_frame() is None and otel_context.get_value(RUN_KEY) is None:
            return None
        messages = args[1] if len(args) > 1 else kwargs.get("messages", ())
        return ModelCall(recorder, args[0], messages, kwargs.get("options") or {})

    return make


class ModelCall(Frame):
    """A model at its answer."""

    def __init__(
        self,
        recorder: Recorder,
        client: BaseChatClient[Any],
        messages: Sequence[FrameworkMessage],
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(client)
        self._recorder, self._messages, self._options = recorder, messages, options
        self._updates: list[Any] = []
        self._response: ChatResponse[Any] | None = None

    def start(self) -> None:
        """Start its span."""
        client, reader = self.owner, SafeReader()
        around = self.outer.outwards() if self.outer is not None else ()
        self._caller = next((frame.name for frame in around if isinstance(frame, AgentTurn | ExecutorTurn)), "")
        self._span = self._recorder.start_chat(
            reader.read("model", lambda: _model_of(client, self._options), type(client).__name__),
            sent=reader.read_list("messages", self._sent),
            provider=_provider_of(client),
            agent=self._caller or None,
        )
        reader.report(self._span.lose)
        self.enter(self._span.context)

    def _sent(self) -> list[Message]:
        """Convert what this agent's model has not been given, or answered, before: payload grows linearly."""
        new = self.memory.new_to("model", self._caller, self._messages)
        instructions = self._options.get("instructions")
        is_first = isinstance(instructions, str) and self.memory.is_new_text(self._caller, instructions)
        system = [Message.of_text("system", instructions)] if is_first and isinstance(instructions, str) else []
        return [*system, *(from_message(message) for message in new)]

    def see_update(self, update: Any) -> None:
        """Keep what is streamed: the stream may never be made one answer."""
        self._updates.append(update)

    def see(self, result: Any) -> None:
        """Take the answer."""
        if isinstance(result, ChatResponse) and self.is_open:
            self._response = result

    def close(self, error: BaseException | None) -> None:
        """End the call."""
        self.is_open = False
        reader, response = SafeReader(), self._response
        if response is None and self._updates:
            response = reader.read("answer", lambda: ChatResponse.from_updates(self._updates), None)
        if error is not None and is_cut_short(error):
            self._span.add({STEP_CANCELLED: True})
            error = None
        if response is None:
            self._span.end(error=error)
            return
        output = reader.read_list("answer", lambda: [from_message(message) for message in response.messages])
        self.memory.new_to("model", self._caller, response.messages)
        reader.report(self._span.lose)
        self._span.end(
            output=output,
            usage=usage_of(response.usage_details),
            finish_reasons=[str(response.finish_reason)] if response.finish_reason else [],
            response_model=response.model,
            error=error,
        )

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        self.is_open = False
        self._span.abandon()


def _model_of(client: object, options: Mapping[str, Any]) -> str:
    names = (options.get("model"), options.get("model_id"), getattr(client, "model", None))
    return next((name for name in names if isinstance(name, str) and name), type(client).__name__)


def _provider_of(client: object) -> str | None:
    name = getattr(client, "OTEL_PROVIDER_NAME", None)
    return name if isinstance(name, str) and name != "unknown" else None
