"""A run: from the call of `run` or `run_stream` to the result, the error, or nobody listening any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autogen_agentchat.base import ChatAgent, TaskResult
from autogen_agentchat.messages import BaseChatMessage
from opentelemetry import context as otel_context

from blamespan.rebuilding.messages import Message
from blamespan.trace import Agent
from blamespan_integrations.autogen._cast import plain_name
from blamespan_integrations.autogen._convert import from_chat_message, task_messages
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._reading import Reading
from blamespan_integrations.autogen._references import reference
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.recorder import RUN_KEY

__all__ = ["STOP_REASON", "AgentRun", "RunFrame", "agent_run_start"]

STOP_REASON = "blamespan.autogen.stop_reason"
"""str, on the run's span: why the team stopped, in AutoGen's words."""


_MAX_TASK_CHARS = 4_096
"""Kept of what a run was asked, for the run that goes on from it."""


class RunFrame(Frame):
    """A team, or an agent alone, at what it was asked.

    Attributes:
        task: What that is, as text.
    """

    awaits = (TaskResult,)

    def __init__(self, owner: object, outer: Frame | None) -> None:
        super().__init__(owner, outer)
        self._last: StepRef | None = None
        self.task = ""
        self._task: Callable[[], object] = lambda: None

    def begin(
        self, recorder: Recorder, task: object, agents: Sequence[Agent], conversation_id: str | None = None
    ) -> None:
        """Begin its span."""
        with suppress(RuntimeError):  # outside every event loop there is no task that could be cancelled
            self._task = reference(asyncio.current_task())
        reading = Reading()
        asked = reading.each("task", lambda: [self._asked(message) for message in task_messages(task)])
        texts = [str(part.get("content", "")) for message in asked for part in message.parts]
        self.task = "\n".join(filter(None, texts))[:_MAX_TASK_CHARS]
        name = plain_name(self.owner)
        self._span = recorder.start_run(name, task=asked, agents=agents, conversation_id=conversation_id)
        reading.report(self._span.lose)
        self.enter(self._span.context)

    @property
    def is_cancelled(self) -> bool:
        """Whether the program has cancelled the task that awaits the run; AutoGen goes on until it is idle."""
        task = self._task()
        return isinstance(task, asyncio.Task) and (task.cancelled() or task.cancelling() > 0)

    def _asked(self, message: BaseChatMessage | str) -> Message:
        if isinstance(message, str):
            return Message.of_text("user", message, name="user")
        return self.memory.received([message])[0]

    def heard(self, step: StepRef) -> None:
        """Keep the latest: to whoever runs the team it is the team's answer."""
        self._last = step

    def see(self, item: Any) -> None:
        """End the run with its result: a stream may never be read beyond it."""
        if self.is_open:
            if item.stop_reason is not None:
                self._span.add({STOP_REASON: item.stop_reason})
            self.end([message for message in item.messages[-1:] if isinstance(message, BaseChatMessage)], item)

    def end(self, answer: Sequence[object], result: object = None) -> None:
        """End the run in order; *answer* is what it gave back, within *result*."""
        reading = Reading()
        output = reading.each("answer", lambda: [from_chat_message(each, "assistant") for each in answer])
        reading.report(self._span.lose)
        self._leave()
        self._span.end(output=output, result=result)

    def close(self, error: BaseException | None) -> None:
        """End a run without a result: failed, or left by the program."""
        if self.is_open:
            self._leave()
            is_left = error is None or self.is_cut_short(error)
            self._span.end(error=None if is_left else error, is_complete=isinstance(error, Exception))

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        if self.is_open:
            self._leave()
        self._span.abandon()

    def _leave(self) -> None:
        """Let go of what the run held: its context may outlive it, with messages that nobody receives."""
        self.is_open = False
        self.owner = None
        if self.is_outermost:
            self.memory.forget()
        if self.outer is not None and self._last is not None:
            self.outer.heard(self._last)


class AgentRun(RunFrame):
    """An agent that the program runs without a team.

    Args:
        task: What it is asked.

    Attributes:
        turn: The agent at its answer.
    """

    def __init__(self, recorder: Recorder, agent: ChatAgent, task: object) -> None:
        super().__init__(agent, None)
        self.turn: Frame | None = None
        self.begin(recorder, task, self.memory.cast.add(agent))

    def close(self, error: BaseException | None) -> None:
        """End the run; the agent whose stream nobody reads any more has not got to its answer either."""
        if self.turn is not None and self.turn.is_open:
            self.turn.close(error)
        self.turn = None
        super().close(error)


def agent_run_start(recorder: Recorder) -> Start:
    """Record `ChatAgent.run(*, task)` and `run_stream(*, task)` outside every other run: within one it is a step."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        if current_frame() is not None or otel_context.get_value(RUN_KEY) is not None:
            return None
        return AgentRun(recorder, args[0], kwargs.get("task"))

    return start
