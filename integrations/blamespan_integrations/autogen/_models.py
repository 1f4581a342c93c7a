"""A model call, whichever client makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from blamespan_integrations.autogen._agents import AgentTurn
from blamespan_integrations.autogen._convert import from_create_result, model_of, provider_of, usage_of
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._managers import ManagerTurn, manager_at_work
from blamespan_integrations.autogen._runs import RunFrame
from blamespan_integrations.recording import Recorder
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.spans import STEP_CANCELLED

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
            outer.note_delegate(client)
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
        reader = SafeReader()
        self._span = recorder.start_chat(
            reader.read("model", lambda: model_of(client), type(client).__name__),
            sent=reader.read_list("messages", lambda: self.memory.new_to_model(self._caller, messages)),
            provider=provider_of(client),
            agent=manager_at_work(outer),
            parent=outer.thinking() if isinstance(outer, ManagerTurn) else None,
        )
        reader.report(self._span.lose)
        self._turn = outer.enclosing(AgentTurn)
        if self._turn is not None:
            self._turn.model_calls.add(self)
        self.enter(self._span.context)

    def note_delegate(self, client: ChatCompletionClient) -> None:
        """Learn that this client has another one answer."""
        if client is not self.owner:
            self._answering_model = SafeReader().read("model", lambda: model_of(client), type(client).__name__)

    def see(self, item: Any) -> None:
        """End with the answer: a stream may never be read beyond it."""
        if not self.is_open:
            return
        reader = SafeReader()
        output = reader.read_list("content", lambda: [from_create_result(item)])
        usage = reader.read("usage", lambda: usage_of(item.usage), None)
        reader.read("content", lambda: self.memory.note_answer(self._caller, item.content), None)
        reader.report(self._span.lose)
        if isinstance(self.outer, ManagerTurn):
            self.outer.advice = item.content if isinstance(item.content, str) else None
        if item.cached:
            self._span.add({CACHED: True})
        self.is_open = False
        self._span.end(
            output=output,
            usage=usage,
            finish_reasons=[item.finish_reason] if item.finish_reason else [],
            response_model=self._answering_model,
        )

    def close(self, error: BaseException | None) -> None:
        """End a call without an answer."""
        if self._turn is not None:
            self._turn.model_calls.discard(self)
        if not self.is_open:
            return
        self.is_open = False
        if error is not None and self.is_cut_short(error):
            self._span.add({STEP_CANCELLED: True})
            self._span.end()
        elif error is not None:
            self._span.end(error=error)
        else:
            self._span.lose("answer: no CreateResult")
            self._span.end(error="no_response")

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        self.is_open = False
        self._span.abandon()


def _caller(outer: Frame) -> object:
    """Find who sends: two agents that share a client have each seen something else."""
    for frame in outer.outwards():
        if isinstance(frame, AgentTurn | ManagerTurn | RunFrame):
            return frame.owner
    return outer.owner
