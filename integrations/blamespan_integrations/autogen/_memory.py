"""What is remembered so that nothing is recorded twice: who said what, and what models have seen.

A run has one memory; of traces that no run here holds together, the latest are kept by trace id.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from autogen_agentchat.messages import BaseChatMessage
from autogen_core.models import AssistantMessage, LLMMessage
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from blamespan.genai_messages import Message
from blamespan_integrations.autogen._convert import from_chat_message, from_llm_message, llm_content_key, llm_key
from blamespan_integrations.autogen._participants import Participants
from blamespan_integrations.patching import Function, Patches
from blamespan_integrations.recording import StepRef
from blamespan_integrations.recording.objects import reference
from blamespan_integrations.recording.spans import RunState

_LEAST_REPEATED = 256
"""Characters. A shorter repetition is cheaper to record than to explain."""


@dataclass(slots=True)
class _Caller:
    """What one caller has sent to models, and got back.

    Attributes:
        owner: Gives it while it lives: another object may get its id.
        counts_before_new: How often each content may come before it is new.
        last: The messages of its latest call.
        counted: How often each content is in `last`.
        answers: What it got back since.
        earlier_messages: Messages of its latest call in an earlier run, by id.
    """

    owner: Callable[[], object]
    counts_before_new: Counter[Hashable] = field(default_factory=Counter)
    last: Sequence[LLMMessage] = ()
    counted: Counter[Hashable] = field(default_factory=Counter)
    answers: list[Hashable] = field(default_factory=list)
    earlier_messages: Mapping[int, LLMMessage] = field(default_factory=dict)


_past: WeakKeyDictionary[object, tuple[Sequence[LLMMessage], Sequence[Hashable]]] = WeakKeyDictionary()
"""What each agent sent to a model last, and got back: a team used again does not record its past once more."""


class RunMemory:
    """The memory of one run, its teams within teams included.

    Attributes:
        participants: Who takes part.
        last_said: The latest message of each agent, by name.
    """

    def __init__(self) -> None:
        self.participants = Participants()
        self.last_said: dict[str, StepRef] = {}
        self._callers: dict[int, _Caller] = {}

    def received(self, messages: Iterable[BaseChatMessage]) -> list[Message]:
        """Convert messages that an agent received: an agent's are the assistant's, all others the user's."""
        return [from_chat_message(message, self._role(message.source)) for message in messages]

    def _role(self, source: str) -> str:
        return "user" if self.participants.roles.get(source, "user") == "user" else "assistant"

    def new_to_model(self, owner: object, messages: Sequence[LLMMessage]) -> list[Message]:
        """Convert those of *messages* that *owner* has not sent before, and remember them.

        A message that stands where a similar one stood in the call before (a prompt that quotes the
        conversation so far) is given without what they have in common.
        """
        caller = self._caller(owner)
        last = caller.last
        goes_on = len(last) <= len(messages) and all(map(operator.is_, last, messages))
        if not goes_on:
            caller.counted = Counter()
        new: list[Message] = []
        for index in range(len(last) if goes_on else 0, len(messages)):
            if id(messages[index]) in caller.earlier_messages:
                continue
            key = llm_key(messages[index])
            caller.counted[key] += 1
            if caller.counted[key] > caller.counts_before_new[key]:
                caller.counts_before_new[key] = caller.counted[key]
                new.append(_without_repetition(messages[index], last[index] if index < len(last) else None))
        caller.last = tuple(messages)
        caller.answers = []
        return new

    def forget(self) -> None:
        """Let go of all contents but the latest of agents that still live: their next run goes on from there."""
        for caller in self._callers.values():
            with suppress(Exception):  # an agent of the program's own that cannot be hashed or referred to weakly
                _past[caller.owner()] = caller.last, caller.answers
        self._callers.clear()

    def note_answer(self, owner: object, content: object) -> None:
        """Remember what a model answered *owner*: it need not be recorded again when it is sent back."""
        caller = self._caller(owner)
        key = AssistantMessage.__name__, llm_content_key(content)
        caller.counts_before_new[key] += 1
        caller.answers.append(key)

    def _caller(self, owner: object) -> _Caller:
        caller = self._callers.get(id(owner))
        if caller is None or caller.owner() is not owner:
            last: Sequence[LLMMessage] = ()
            answers: Sequence[Hashable] = ()
            with suppress(Exception):
                last, answers = _past.get(owner, ((), ()))
            earlier = {id(message): message for message in last}
            caller = self._callers[id(owner)] = _Caller(reference(owner), Counter(answers), earlier_messages=earlier)
        return caller


def wrap_load_state(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of `ChatAgent.load_state(state)`: what is known from there was recorded when it was new."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def load_state(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = await original(self, *args, **kwargs)
            if patches.active and is_instrumentation_enabled():
                with suppress(Exception):  # a context of the program's own may have anything there
                    messages = self._model_context._messages
                    _past[self] = (), [llm_key(message) for message in messages]
            return result

        return load_state

    return wrapper


def _without_repetition(message: LLMMessage, before: LLMMessage | None) -> Message:
    now, then = message.content, getattr(before, "content", None)
    if type(message) is not type(before) or not isinstance(now, str) or not isinstance(then, str):
        return from_llm_message(message)
    start = _common(now, then)
    end = _common(now[start:][::-1], then[start:][::-1])
    head, middle, tail = now[:start], now[start : len(now) - end], now[len(now) - end :]
    return from_llm_message(message, text=f"{_mark_repetition(head)}{middle}{_mark_repetition(tail)}")


def _mark_repetition(text: str) -> str:
    return text if len(text) < _LEAST_REPEATED else f"[... {len(text)} characters as before ...]"


def _common(text: str, other: str) -> int:
    """Measure how far two texts are equal, by halving: comparing slices is far faster than characters."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_MOST_TRACES = 256
"""Traces whose state is kept."""

_MOST_SAID = 4_096
"""Messages of one such trace that later ones can build on."""


@dataclass(slots=True)
class TraceMemory:
    """What this process knows of one trace."""

    state: RunState = field(default_factory=RunState)
    memory: RunMemory = field(default_factory=RunMemory)


class TraceMemories:
    """The latest ones, by trace id."""

    def __init__(self) -> None:
        self._by_trace_id: OrderedDict[int, TraceMemory] = OrderedDict()

    def of(self, trace_id: int) -> TraceMemory:
        """Find what is known of a trace; nothing is, of a new one."""
        memory = self._by_trace_id.setdefault(trace_id, TraceMemory())
        self._by_trace_id.move_to_end(trace_id)
        while len(self._by_trace_id) > _MOST_TRACES:
            self._by_trace_id.popitem(last=False)
        while len(memory.state.steps_by_message) > _MOST_SAID:
            memory.state.steps_by_message.pop(next(iter(memory.state.steps_by_message)))
        return memory
