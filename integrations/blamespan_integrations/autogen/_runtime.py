"""AutoGen's runtime: whoever sends a message decides in which trace it is received.

The runtime handles every message in a task of its own, whose context is that of whoever started the
runtime. So each message's context is kept under its public `message_id`, from sending to receiving. To another
process go the W3C trace context, and in its `tracestate` the message's id and the steps that the receiver builds on.
"""

from __future__ import annotations

import functools
import inspect
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._sequential_routed_agent import SequentialRoutedAgent
from autogen_core import MessageContext, SingleThreadedAgentRuntime
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from blamespan.host_safety import shield_host
from blamespan_integrations.autogen._frames import Frame, Start, current_frame, is_any, wrap_call
from blamespan_integrations.autogen._managers import ManagerTurn
from blamespan_integrations.autogen._memory import TraceMemories, TraceMemory
from blamespan_integrations.patching import Function, Patches, attached
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import RunState

STATE_KEY = "blamespan"
"""Our entry of the W3C `tracestate`: the message's key, then steps as `span id-index`, all joined by dots."""

_MOST_SENT = 1_024
"""Messages on their way at one time. A publication has no known number of receivers: only age ends it."""

_MOST_GROUNDS = 8
"""A value of `tracestate` has at most 256 characters."""

_STEP = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})")
_ARRIVAL = otel_context.create_key("blamespan-autogen-arrival")
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message on its way.

    Attributes:
        context: The one it was sent in.
        sender: Who waits for the answer.
        predecessors: The steps that whoever speaks on receiving it builds on.
    """

    id: str
    context: Context
    sender: Frame | None
    predecessors: tuple[StepRef, ...]


@dataclass(slots=True)
class RemoteArrival:
    """A message that another process sent, or that took the way over another one.

    Attributes:
        message_key: The sender's id of it.
        predecessors: The steps to build on.
        answer: What was said last on receiving it, for the way back.
    """

    message_key: str
    predecessors: tuple[StepRef, ...]
    trace_memory: TraceMemory
    answer: StepRef | None = None


class _RuntimeMessages(dict[str, SentMessage]):
    """The messages that one runtime has on their way, by id."""


class SentMessages:
    """The messages on their way, by id; those of a runtime that is gone are gone with it.

    Args:
        trace_memories: What came of those from other processes.
    """

    def __init__(self, trace_memories: TraceMemories | None = None) -> None:
        self._by_runtime: WeakKeyDictionary[object, _RuntimeMessages] = WeakKeyDictionary()
        self._unhashable = _RuntimeMessages()
        self._runtime_by_key: OrderedDict[str, ref[_RuntimeMessages]] = OrderedDict()
        self._trace_memories = trace_memories or TraceMemories()

    def post(self, sent: SentMessage, runtime: object) -> None:
        """Keep a message, which *runtime* carries, for its receivers."""
        messages = self._messages_of(runtime)
        messages[sent.id] = sent
        self._runtime_by_key[sent.id] = ref(messages)
        while len(self._runtime_by_key) > _MOST_SENT:
            self.take(next(iter(self._runtime_by_key)))

    def _messages_of(self, runtime: object) -> _RuntimeMessages:
        try:
            return self._by_runtime.setdefault(runtime, _RuntimeMessages())
        except TypeError:  # a runtime of the program's own that cannot be hashed or referred to weakly
            return self._unhashable

    def find(self, message_key: str) -> SentMessage | None:
        """Find a message for one of several receivers."""
        find_messages = self._runtime_by_key.get(message_key)
        messages = find_messages() if find_messages is not None else None
        return messages.get(message_key) if messages is not None else None

    def take(self, message_key: str) -> SentMessage | None:
        """Find a message for its only receiver."""
        find_messages = self._runtime_by_key.pop(message_key, None)
        messages = find_messages() if find_messages is not None else None
        return messages.pop(message_key, None) if messages is not None else None

    def read_context(self, metadata: Mapping[str, str]) -> Context | None:
        """Read the context that a message's metadata carry; None where they carry none."""
        context = _PROPAGATOR.extract(metadata, context=Context())
        span = trace.get_current_span(context).get_span_context()
        if not span.is_valid:
            return None
        message_key, *steps = (span.trace_state.get(STATE_KEY) or "").split(".")
        predecessors = tuple(_predecessor(span, step) for text in steps if (step := _STEP.fullmatch(text)))
        trace_memory = self._trace_memories.of(span.trace_id)
        own = _with_state(span, span.trace_state.delete(STATE_KEY))  # else every span below would repeat it
        context = trace.set_span_in_context(NonRecordingSpan(own), context)
        context = otel_context.set_value(RUN_KEY, trace_memory.state, context)
        return otel_context.set_value(_ARRIVAL, RemoteArrival(message_key, predecessors, trace_memory), context)


def with_origin(context: Context, message_key: str, predecessors: tuple[StepRef, ...]) -> Context | None:
    """Make the context that, injected into a message's metadata, says where it came from; None without a trace."""
    span = trace.get_current_span(context).get_span_context()
    if not span.is_valid:
        return None
    steps = [f"{ref.span.span_id:016x}-{ref.index}" for ref in predecessors[-_MOST_GROUNDS:] if ref.span.is_valid]
    value = ".".join([message_key, *steps])
    others = [(key, text) for key, text in span.trace_state.items() if key != STATE_KEY]
    stamp = _with_state(span, TraceState([(STATE_KEY, value), *others][:32]))
    return trace.set_span_in_context(NonRecordingSpan(stamp), context)


def arrival(context: Context | None = None) -> RemoteArrival | None:
    """Find what *context*, or the current one, was read from, if it came with a message."""
    origin = otel_context.get_value(_ARRIVAL, context)
    return origin if isinstance(origin, RemoteArrival) else None


def new_message_key() -> str:
    """Make an id that no other process makes."""
    return uuid.uuid4().hex


def _predecessor(span: SpanContext, step: re.Match[str]) -> StepRef:
    origin = SpanContext(span.trace_id, int(step[1], 16), is_remote=True, trace_flags=span.trace_flags)
    return StepRef(origin, int(step[2]))


def _with_state(span: SpanContext, state: TraceState) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id, span.is_remote, span.trace_flags, state)


class DeliveryFrame(Frame):
    """A message that an agent of AutoGen's core received: agents of AgentChat may speak within.

    Outside every span the first of them stands above those that follow, here and wherever messages go
    from here: what one message sets off is one trace.
    """

    def __init__(
        self,
        context: Context,
        predecessors: tuple[StepRef, ...],
        *,
        remote: RemoteArrival | None = None,
        caller: Frame | None = None,
    ) -> None:
        outer = current_frame(context)
        while isinstance(outer, DeliveryFrame):  # else a long exchange would be a long chain
            outer = outer.outer
        super().__init__(None, outer)
        self._predecessors = predecessors
        self._remote = remote
        self._caller = caller
        if remote is not None:
            self.memory = remote.trace_memory.memory
        if otel_context.get_value(RUN_KEY, context) is None:
            context = otel_context.set_value(RUN_KEY, RunState(), context)
        self.enter(context)

    def predecessors(self) -> list[StepRef]:
        """Return what was said last on receiving this message, else what the message itself builds on."""
        return list(self._predecessors)

    def note_step(self, step: StepRef) -> None:
        """Learn what was said; whoever waits for an answer learns it too."""
        self._predecessors = (step,)
        ahead = self.onward or self.context
        if not _has_span(ahead):
            self.onward = trace.set_span_in_context(NonRecordingSpan(step.span), ahead)
        if self._remote is not None:
            self._remote.answer = step
        if self._caller is not None:
            self._caller.note_step(step)


def wrap_post(patches: Patches, sent_messages: SentMessages, *, is_rpc: bool) -> Callable[[Function], Function]:
    """Make the wrapper of `AgentRuntime.send_message` or `publish_message`, both `(..., *, message_id)`."""

    def wrapper(original: Function) -> Function:
        if "message_id" not in inspect.signature(original).parameters:
            return original  # a runtime of the program's own that does not name its messages

        @functools.wraps(original)
        async def post(*args: Any, **kwargs: Any) -> Any:
            outside: Context | None = None
            if patches.active:
                with shield_host("autogen: keep the context of a message"):
                    sent = _make_sent_message(kwargs.get("message_id"), is_rpc)
                    if sent is not None:
                        kwargs["message_id"] = sent.id
                        sent_messages.post(sent, args[0])
                        if not isinstance(args[0], SingleThreadedAgentRuntime):
                            outside = with_origin(sent.context, sent.id, sent.predecessors)
            with attached(outside):
                return await original(*args, **kwargs)

        return post

    return wrapper


def _make_sent_message(message_id: str | None, is_rpc: bool) -> SentMessage | None:
    context = otel_context.get_current()
    if not context:
        return None
    sender = current_frame(context)
    if isinstance(sender, ManagerTurn):
        context = sender.ambient  # else each message would be handled inside the one before
    elif isinstance(sender, DeliveryFrame) and not _has_span(context):
        context = sender.onward or context
    predecessors = tuple(sender.predecessors()) if sender is not None else ()
    return SentMessage(message_id or new_message_key(), context, sender if is_rpc else None, predecessors)


def wrap_grpc_send(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of the gRPC runtime's `_send_message(runtime_message, ..., telemetry_metadata)`.

    It writes the trace context into what it sends, but for publications: these get it here, under the
    names that CloudEvents has for it.
    """

    def wrapper(original: Function) -> Function:
        if not {"runtime_message", "telemetry_metadata"} <= set(inspect.signature(original).parameters):
            return original

        @functools.wraps(original)
        async def send(self: Any, runtime_message: Any, send_type: Any, recipient: Any, telemetry_metadata: Any) -> Any:
            if patches.active:
                with shield_host("autogen: write the context of a publication"):
                    if runtime_message.HasField("cloudEvent"):
                        for key, value in telemetry_metadata.items():
                            runtime_message.cloudEvent.attributes[key].ce_string = value
            return await original(self, runtime_message, send_type, recipient, telemetry_metadata)

        return send

    return wrapper


@contextmanager
def handle_received(
    sent_messages: SentMessages, operation: object, metadata: Mapping[str, str], *, is_rpc: bool
) -> Iterator[trace.Span]:
    """Make the context that came with a message current while the gRPC runtime has it handled.

    An answer takes what was said last back with it: the caller builds on that.
    """
    context: Context | None = None
    with shield_host("autogen: read the context of a message"):
        context = sent_messages.read_context(metadata)
    remote = arrival(context) if context is not None else None
    if operation == "ack":
        sent = sent_messages.take(remote.message_key) if remote is not None else None
        if remote is not None and sent is not None and sent.sender is not None and remote.predecessors:
            sent.sender.note_step(remote.predecessors[-1])
        yield trace.INVALID_SPAN
        return
    with attached(context):
        yield trace.INVALID_SPAN
    if is_rpc and context is not None and remote is not None and remote.answer is not None:
        # The task ends with the answer, which takes its metadata from what is current now.
        otel_context.attach(with_origin(context, remote.message_key, (remote.answer,)) or context)


def wrap_on_message(
    patches: Patches, recorder: Recorder, sent_messages: SentMessages
) -> Callable[[Function], Function]:
    """Make the wrapper of `BaseAgent.on_message(message, ctx)`: it runs in the sender's context."""
    record = wrap_call(patches, _delivery_start(recorder, sent_messages))

    def wrapper(original: Function) -> Function:
        recorded = record(original)

        @functools.wraps(original)
        async def on_message(self: Any, message: Any, ctx: MessageContext) -> Any:
            kind = type(self)
            if not is_any(kind, (SequentialRoutedAgent,)) or is_any(kind, (BaseGroupChatManager,)):
                return await recorded(self, message, ctx)
            sent = sent_messages.find(ctx.message_id) if patches.active else None
            if sent is None:
                return await recorded(self, message, ctx)
            with attached(sent.context):  # a team's participant: it has nothing of its own to record
                return await original(self, message, ctx)

        return on_message

    return wrapper


def _delivery_start(recorder: Recorder, sent_messages: SentMessages) -> Start:
    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        receiver, message = args[0], args[1]
        delivery: MessageContext = args[2]
        sent = sent_messages.take(delivery.message_id) if delivery.is_rpc else sent_messages.find(delivery.message_id)
        remote = arrival() if sent is None else None
        if remote is not None:
            sent = sent_messages.find(remote.message_key)
        if sent is not None:
            remote, context, predecessors = None, sent.context, sent.predecessors
        else:
            context, predecessors = otel_context.get_current(), remote.predecessors if remote is not None else ()
        if isinstance(receiver, BaseGroupChatManager):
            return ManagerTurn(recorder, receiver, message, context)
        if isinstance(receiver, SequentialRoutedAgent) and remote is None:
            return _ParticipantFrame(context) if sent is not None else None
        return DeliveryFrame(context, predecessors, remote=remote, caller=sent.sender if sent is not None else None)

    return start


def _has_span(context: Context) -> bool:
    return trace.get_current_span(context).get_span_context().is_valid


class _ParticipantFrame(Frame):
    """A team's message being received by a participant: nothing of its own, only the sender's context."""

    def __init__(self, context: Context) -> None:
        super().__init__(None, current_frame(context))
        self.context = context
