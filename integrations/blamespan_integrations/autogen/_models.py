"""A model call, whichever client makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from blamespan_integrations.autogen._agents import AgentTurn, error_of
from blamespan_integrations.autogen._convert import from_create_result, model_of, provider_of, usage_of
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._managers import ManagerTurn, manager_at_work
from blamespan_integrations.autogen._teams import TeamRun
from blamespan_integrations.recording import Recorder

__all__ = ["CACHED", "model_start"]

CACHED = "blamespan.autogen.cached"
"""bool, true on a model call whose client says that the answer came from a cache: its tokens cost nothing."""


def model_start(recorder: Recorder) -> Start:
    """Record `ChatCompletionClient.create(messages, ...)` and `create_stream`.

    What a client calls while it answers is a part of the same call: its own super(), the client it
    wraps (a cache, a retry), several clients it chooses from. The span names the client that was asked;
    `gen_ai.response.model` the last one it asked in turn. Calls outside every run are the program's own.
    """

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        outer = current_frame()
        client: ChatCompletionClient = args[0]
        if outer is None:
            return None
        if isinstance(outer, ModelCall) and outer.is_open:
            outer.delegates_to(client)
            return None
        messages = args[1] if len(args) > 1 else kwargs.get("messages", ())
        return ModelCall(recorder, client, messages, outer)

    return start


class ModelCall(Frame):
    """A model at its answer."""

    awaits = (CreateResult,)

    def __init__(
        self, recorder: Recorder, client: ChatCompletionClient, messages: Sequence[LLMMessage], outer: Frame
    ) -> None:
        super().__init__(client, outer)
        self._caller = _caller(outer)
        self._answering_model: str | None = None
        self._span = recorder.start_chat(
            model_of(client),
            sent=self.memory.new_to_model(self._caller, messages),
            provider=provider_of(client),
            agent=manager_at_work(outer),
            parent=outer.thinking() if isinstance(outer, ManagerTurn) else None,
        )
        self.enter(self._span.context)

    def delegates_to(self, client: ChatCompletionClient) -> None:
        """Learn that this client has another one answer."""
        if client is not self.owner:
            self._answering_model = model_of(client)

    def see(self, item: Any) -> None:
        """End with the answer: a stream may never be read beyond it."""
        if self.is_open:
            output, usage = [from_create_result(item)], usage_of(item.usage)
            self.memory.answered(self._caller, item.content)
            if isinstance(self.outer, ManagerTurn):
                self.outer.advice = item.content if isinstance(item.content, str) else None
            if item.cached:
                self._span.add({CACHED: True})
            self.is_open = False  # not before: an answer that is none leaves the call to be closed
            self._span.end(
                output=output,
                usage=usage,
                finish_reasons=[item.finish_reason],
                response_model=self._answering_model,
            )

    def close(self, error: BaseException | None) -> None:
        """End a call without an answer."""
        if self.is_open:
            self.is_open = False
            self._span.end(error=error_of(error) if error is not None else "no_response")


def _caller(outer: Frame) -> object:
    """Find who sends: two agents that share a client have each seen something else."""
    for frame in outer.outwards():
        if isinstance(frame, AgentTurn | ManagerTurn | TeamRun):
            return frame.owner
    return outer.owner
