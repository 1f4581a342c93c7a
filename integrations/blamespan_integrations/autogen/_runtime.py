"""AutoGen's runtime: whoever sends a message decides in which trace it is received.

The runtime handles every message in a task of its own, whose context is that of whoever started the
runtime. So each message's context is kept under its public `message_id`, from sending to receiving, and
carried in the message's metadata where it leaves the process.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._sequential_routed_agent import SequentialRoutedAgent
from autogen_core import MessageContext, SingleThreadedAgentRuntime
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan

from blamespan.instrumenting.guard import guard
from blamespan_integrations.autogen._frames import Frame, Start, attached, current_frame, is_any, recorded_call
from blamespan_integrations.autogen._mail import Arrival, Letter, Letters, arrival, new_letter_id, stamped
from blamespan_integrations.autogen._managers import ManagerTurn
from blamespan_integrations.autogen._patches import Function, Patches
from blamespan_integrations.recording import Recorder, StepRef
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import RunState

__all__ = ["Delivery", "carried", "delivered", "franked", "received_block"]


class Delivery(Frame):
    """A message that an agent of AutoGen's core received: agents of AgentChat may speak within.

    Outside every span the first of them stands above those that follow, here and wherever messages go
    from here: what one message sets off is one trace.
    """

    def __init__(
        self,
        context: Context,
        grounds: tuple[StepRef, ...],
        *,
        came: Arrival | None = None,
        caller: Frame | None = None,
    ) -> None:
        outer = current_frame(context)
        while isinstance(outer, Delivery):  # else a long exchange would be a long chain
            outer = outer.outer
        super().__init__(None, outer)
        self._grounds = grounds
        self._came = came
        self._caller = caller
        if came is not None:
            self.memory = came.conversation.memory
        if otel_context.get_value(RUN_KEY, context) is None:
            context = otel_context.set_value(RUN_KEY, RunState(), context)
        self.enter(context)

    def grounds(self) -> list[StepRef]:
        """Give what was said last on receiving this message, else what the message itself builds on."""
        return list(self._grounds)

    def heard(self, step: StepRef) -> None:
        """Learn what was said; whoever waits for an answer learns it too."""
        self._grounds = (step,)
        ahead = self.onward or self.context
        if not _has_span(ahead):
            self.onward = trace.set_span_in_context(NonRecordingSpan(step.span), ahead)
        if self._came is not None:
            self._came.answer = step
        if self._caller is not None:
            self._caller.heard(step)


def carried(patches: Patches, letters: Letters, *, is_rpc: bool) -> Callable[[Function], Function]:
    """Make the wrapper of `AgentRuntime.send_message` or `publish_message`, both `(..., *, message_id)`."""

    def wrapper(original: Function) -> Function:
        if "message_id" not in inspect.signature(original).parameters:
            return original  # a runtime of the program's own that does not name its messages

        @functools.wraps(original)
        async def post(*args: Any, **kwargs: Any) -> Any:
            outside: Context | None = None
            if patches.active:
                with guard("autogen: keep the context of a message"):
                    letter = _letter(kwargs.get("message_id"), is_rpc)
                    if letter is not None:
                        kwargs["message_id"] = letter.id
                        letters.post(letter, args[0])
                        if not isinstance(args[0], SingleThreadedAgentRuntime):
                            outside = stamped(letter.context, letter.id, letter.grounds)
            with attached(outside):
                return await original(*args, **kwargs)

        return post

    return wrapper


def _letter(message_id: str | None, is_rpc: bool) -> Letter | None:
    context = otel_context.get_current()
    if not context:
        return None
    sender = current_frame(context)
    if isinstance(sender, ManagerTurn):
        context = sender.ambient  # else each message would be handled inside the one before
    elif isinstance(sender, Delivery) and not _has_span(context):
        context = sender.onward or context
    grounds = tuple(sender.grounds()) if sender is not None else ()
    return Letter(message_id or new_letter_id(), context, sender if is_rpc else None, grounds)


def franked(patches: Patches) -> Callable[[Function], Function]:
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
                with guard("autogen: write the context of a publication"):
                    if runtime_message.HasField("cloudEvent"):
                        for key, value in telemetry_metadata.items():
                            runtime_message.cloudEvent.attributes[key].ce_string = value
            return await original(self, runtime_message, send_type, recipient, telemetry_metadata)

        return send

    return wrapper


@contextmanager
def received_block(
    letters: Letters, operation: object, metadata: Mapping[str, str], *, is_rpc: bool
) -> Iterator[trace.Span]:
    """Make the context that came with a message current while the gRPC runtime has it handled.

    An answer takes what was said last back with it: the caller builds on that.
    """
    context: Context | None = None
    with guard("autogen: read the context of a message"):
        context = letters.arrived(metadata)
    came = arrival(context) if context is not None else None
    if operation == "ack":
        letter = letters.take(came.letter_id) if came is not None else None
        if came is not None and letter is not None and letter.sender is not None and came.grounds:
            letter.sender.heard(came.grounds[-1])
        yield trace.INVALID_SPAN
        return
    with attached(context):
        yield trace.INVALID_SPAN
    if is_rpc and context is not None and came is not None and came.answer is not None:
        # The task ends with the answer, which takes its metadata from what is current now.
        otel_context.attach(stamped(context, came.letter_id, (came.answer,)) or context)


def delivered(patches: Patches, recorder: Recorder, letters: Letters) -> Callable[[Function], Function]:
    """Make the wrapper of `BaseAgent.on_message(message, ctx)`: it runs in the sender's context."""
    record = recorded_call(patches, _recorded_delivery(recorder, letters))

    def wrapper(original: Function) -> Function:
        recorded = record(original)

        @functools.wraps(original)
        async def on_message(self: Any, message: Any, ctx: MessageContext) -> Any:
            kind = type(self)
            if not is_any(kind, (SequentialRoutedAgent,)) or is_any(kind, (BaseGroupChatManager,)):
                return await recorded(self, message, ctx)
            letter = letters.find(ctx.message_id) if patches.active else None
            if letter is None:
                return await recorded(self, message, ctx)
            with attached(letter.context):  # a team's participant: it has nothing of its own to record
                return await original(self, message, ctx)

        return on_message

    return wrapper


def _recorded_delivery(recorder: Recorder, letters: Letters) -> Start:
    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        receiver, message = args[0], args[1]
        delivery: MessageContext = args[2]
        letter = letters.take(delivery.message_id) if delivery.is_rpc else letters.find(delivery.message_id)
        came = arrival() if letter is None else None
        if came is not None:
            letter = letters.find(came.letter_id)
        if letter is not None:
            came, context, grounds = None, letter.context, letter.grounds
        else:
            context, grounds = otel_context.get_current(), came.grounds if came is not None else ()
        if isinstance(receiver, BaseGroupChatManager):
            return ManagerTurn(recorder, receiver, message, context)
        if isinstance(receiver, SequentialRoutedAgent) and came is None:
            return _Passage(context) if letter is not None else None
        return Delivery(context, grounds, came=came, caller=letter.sender if letter is not None else None)

    return start


def _has_span(context: Context) -> bool:
    return trace.get_current_span(context).get_span_context().is_valid


class _Passage(Frame):
    """A team's message being received by a participant: nothing of its own, only the sender's context."""

    def __init__(self, context: Context) -> None:
        super().__init__(None, current_frame(context))
        self.context = context
