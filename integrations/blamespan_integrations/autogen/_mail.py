"""Where a message came from: its sender's context, in one process or carried to another.

Within a process each letter's context is kept under an id until it is received. To another process go the
W3C trace context, and in its `tracestate` the letter's id and the steps that the receiver builds on.
"""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from blamespan_integrations.autogen._conversations import Conversation, Conversations
from blamespan_integrations.autogen._frames import Frame
from blamespan_integrations.recording import StepRef
from blamespan_integrations.recording.recorder import RUN_KEY

__all__ = ["Arrival", "Letter", "Letters", "arrival", "new_letter_id", "stamped"]

STATE_KEY = "blamespan"
"""Our entry of the W3C `tracestate`: the letter's id, then steps as `span id-index`, all joined by dots."""

_MOST_LETTERS = 1_024
"""Messages on their way at one time. A publication has no known number of receivers: only age ends it."""

_MOST_GROUNDS = 8
"""A value of `tracestate` has at most 256 characters."""

_GROUND = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})")
_ARRIVAL = otel_context.create_key("blamespan-autogen-arrival")
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way.

    Attributes:
        context: The one it was sent in.
        sender: Who waits for the answer.
        grounds: The steps that whoever speaks on receiving it builds on.
    """

    id: str
    context: Context
    sender: Frame | None
    grounds: tuple[StepRef, ...]


@dataclass(slots=True)
class Arrival:
    """A message that another process sent, or that took the way over another one.

    Attributes:
        letter_id: The sender's id of it.
        grounds: The steps to build on.
        answer: What was said last on receiving it, for the way back.
    """

    letter_id: str
    grounds: tuple[StepRef, ...]
    conversation: Conversation
    answer: StepRef | None = None


class _Shelf(dict[str, Letter]):
    """The messages that one runtime has on their way, by id."""


class Letters:
    """The messages on their way, by id; those of a runtime that is gone are gone with it.

    Args:
        conversations: What came of those from other processes.
    """

    def __init__(self, conversations: Conversations | None = None) -> None:
        self._shelves: WeakKeyDictionary[object, _Shelf] = WeakKeyDictionary()
        self._common_shelf = _Shelf()
        self._places: OrderedDict[str, ref[_Shelf]] = OrderedDict()
        self._conversations = conversations or Conversations()

    def post(self, letter: Letter, runtime: object) -> None:
        """Keep a letter, which *runtime* carries, for its receivers."""
        shelf = self._shelf_of(runtime)
        shelf[letter.id] = letter
        self._places[letter.id] = ref(shelf)
        while len(self._places) > _MOST_LETTERS:
            self.take(next(iter(self._places)))

    def _shelf_of(self, runtime: object) -> _Shelf:
        try:
            return self._shelves.setdefault(runtime, _Shelf())
        except TypeError:  # a runtime of the program's own that cannot be hashed or referred to weakly
            return self._common_shelf

    def find(self, letter_id: str) -> Letter | None:
        """Find a letter for one of several receivers."""
        place = self._places.get(letter_id)
        shelf = place() if place is not None else None
        return shelf.get(letter_id) if shelf is not None else None

    def take(self, letter_id: str) -> Letter | None:
        """Find a letter for its only receiver."""
        place = self._places.pop(letter_id, None)
        shelf = place() if place is not None else None
        return shelf.pop(letter_id, None) if shelf is not None else None

    def arrived(self, metadata: Mapping[str, str]) -> Context | None:
        """Read the context that a message's metadata carry; None where they carry none."""
        context = _PROPAGATOR.extract(metadata, context=Context())
        span = trace.get_current_span(context).get_span_context()
        if not span.is_valid:
            return None
        letter_id, *steps = (span.trace_state.get(STATE_KEY) or "").split(".")
        grounds = tuple(_ground(span, step) for text in steps if (step := _GROUND.fullmatch(text)))
        conversation = self._conversations.of(span.trace_id)
        own = _with_state(span, span.trace_state.delete(STATE_KEY))  # else every span below would repeat it
        context = trace.set_span_in_context(NonRecordingSpan(own), context)
        context = otel_context.set_value(RUN_KEY, conversation.state, context)
        return otel_context.set_value(_ARRIVAL, Arrival(letter_id, grounds, conversation), context)


def stamped(context: Context, letter_id: str, grounds: tuple[StepRef, ...]) -> Context | None:
    """Make the context that, injected into a message's metadata, says where it came from; None without a trace."""
    span = trace.get_current_span(context).get_span_context()
    if not span.is_valid:
        return None
    steps = [f"{ref.span.span_id:016x}-{ref.index}" for ref in grounds[-_MOST_GROUNDS:] if ref.span.is_valid]
    value = ".".join([letter_id, *steps])
    others = [(key, text) for key, text in span.trace_state.items() if key != STATE_KEY]
    stamp = _with_state(span, TraceState([(STATE_KEY, value), *others][:32]))
    return trace.set_span_in_context(NonRecordingSpan(stamp), context)


def arrival(context: Context | None = None) -> Arrival | None:
    """Find what *context*, or the current one, was read from, if it came with a message."""
    found = otel_context.get_value(_ARRIVAL, context)
    return found if isinstance(found, Arrival) else None


def new_letter_id() -> str:
    """Make an id that no other process makes."""
    return uuid.uuid4().hex


def _ground(span: SpanContext, step: re.Match[str]) -> StepRef:
    found = SpanContext(span.trace_id, int(step[1], 16), is_remote=True, trace_flags=span.trace_flags)
    return StepRef(found, int(step[2]))


def _with_state(span: SpanContext, state: TraceState) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id, span.is_remote, span.trace_flags, state)
