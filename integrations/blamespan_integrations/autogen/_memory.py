"""What one run remembers so that nothing is recorded twice: who said what, and what models have seen."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from autogen_agentchat.messages import BaseChatMessage
from autogen_core.models import AssistantMessage, LLMMessage
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from blamespan.rebuilding.messages import Message
from blamespan_integrations.autogen._cast import Cast
from blamespan_integrations.autogen._convert import from_chat_message, from_llm_message, llm_content_key, llm_key
from blamespan_integrations.autogen._patches import Function, Patches
from blamespan_integrations.autogen._references import reference
from blamespan_integrations.recording import StepRef

__all__ = ["Memory", "recalled"]

_LEAST_REPEATED = 256
"""Characters. A shorter repetition is cheaper to record than to explain."""


@dataclass(slots=True)
class _Caller:
    """What one caller has sent to models, and got back.

    Attributes:
        owner: Gives it while it lives: another object may get its id.
        seen: How often each content may come before it is new.
        last: The messages of its latest call.
        counted: How often each content is in `last`.
        answers: What it got back since.
        known: Messages of its latest call in an earlier run, by id.
    """

    owner: Callable[[], object]
    seen: Counter[Hashable] = field(default_factory=Counter)
    last: Sequence[LLMMessage] = ()
    counted: Counter[Hashable] = field(default_factory=Counter)
    answers: list[Hashable] = field(default_factory=list)
    known: Mapping[int, LLMMessage] = field(default_factory=dict)


_past: WeakKeyDictionary[object, tuple[Sequence[LLMMessage], Sequence[Hashable]]] = WeakKeyDictionary()
"""What each agent sent to a model last, and got back: a team used again does not record its past once more."""


class Memory:
    """The memory of one run, its teams within teams included.

    Attributes:
        cast: Who takes part.
        last_said: The latest message of each agent, by name.
    """

    def __init__(self) -> None:
        self.cast = Cast()
        self.last_said: dict[str, StepRef] = {}
        self._callers: dict[int, _Caller] = {}

    def received(self, messages: Iterable[BaseChatMessage]) -> list[Message]:
        """Convert messages that an agent received: an agent's are the assistant's, all others the user's."""
        return [from_chat_message(message, self._role(message.source)) for message in messages]

    def _role(self, source: str) -> str:
        return "user" if self.cast.roles.get(source, "user") == "user" else "assistant"

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
        for place in range(len(last) if goes_on else 0, len(messages)):
            if id(messages[place]) in caller.known:
                continue
            key = llm_key(messages[place])
            caller.counted[key] += 1
            if caller.counted[key] > caller.seen[key]:
                caller.seen[key] = caller.counted[key]
                new.append(_without_repetition(messages[place], last[place] if place < len(last) else None))
        caller.last = tuple(messages)
        caller.answers = []
        return new

    def forget(self) -> None:
        """Let go of all contents but the latest of agents that still live: their next run goes on from there."""
        for caller in self._callers.values():
            with suppress(Exception):  # an agent of the program's own that cannot be hashed or referred to weakly
                _past[caller.owner()] = caller.last, caller.answers
        self._callers.clear()

    def answered(self, owner: object, content: object) -> None:
        """Remember what a model answered *owner*: it need not be recorded again when it is sent back."""
        caller = self._caller(owner)
        key = AssistantMessage.__name__, llm_content_key(content)
        caller.seen[key] += 1
        caller.answers.append(key)

    def _caller(self, owner: object) -> _Caller:
        caller = self._callers.get(id(owner))
        if caller is None or caller.owner() is not owner:
            last: Sequence[LLMMessage] = ()
            answers: Sequence[Hashable] = ()
            with suppress(Exception):
                last, answers = _past.get(owner, ((), ()))
            known = {id(message): message for message in last}
            caller = self._callers[id(owner)] = _Caller(reference(owner), Counter(answers), known=known)
        return caller


def recalled(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of `ChatAgent.load_state(state)`: what is known from there was recorded when it was new."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def load_state(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = await original(self, *args, **kwargs)
            if patches.active and is_instrumentation_enabled():
                with suppress(Exception):  # a context of the program's own may have anything there
                    known = self._model_context._messages
                    _past[self] = (), [llm_key(message) for message in known]
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
    return from_llm_message(message, text=f"{_named(head)}{middle}{_named(tail)}")


def _named(text: str) -> str:
    return text if len(text) < _LEAST_REPEATED else f"[... {len(text)} characters as before ...]"


def _common(one: str, other: str) -> int:
    """Measure how far two texts are equal, by halving: comparing slices is far faster than characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
