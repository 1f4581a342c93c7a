"""AutoGen's runtime: whoever sends a message decides in which trace it is received.

The runtime handles every message in a task of its own, whose context is that of whoever started the
runtime. So each message's context is kept under its public `message_id`, from sending to receiving.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_core import MessageContext
from opentelemetry import context as otel_context
from opentelemetry.context import Context

from blamespan.guard import guard
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._managers import ManagerTurn
from blamespan_integrations.autogen._patches import Function, Patches
from blamespan_integrations.recording import Recorder

__all__ = ["Letters", "carried", "delivery_start"]

_MOST_LETTERS = 1_024
"""Messages on their way at one time. A publication has no known number of receivers: only age ends it."""


class Letters:
    """The contexts of messages on their way, by message id."""

    def __init__(self) -> None:
        self._contexts: OrderedDict[str, Context] = OrderedDict()

    def posted(self, message_id: str | None) -> str | None:
        """Keep the current context for the receivers of a message; give the message an id if it has none."""
        context = otel_context.get_current()
        if not context:
            return message_id
        frame = current_frame(context)
        if isinstance(frame, ManagerTurn):
            context = frame.ambient  # else each message would be handled inside the one before
        message_id = message_id or str(uuid.uuid4())
        self._contexts[message_id] = context
        while len(self._contexts) > _MOST_LETTERS:
            self._contexts.popitem(last=False)
        return message_id

    def received(self, delivery: MessageContext) -> Context | None:
        """Find the context in which a message was sent."""
        if delivery.is_rpc:  # one receiver
            return self._contexts.pop(delivery.message_id, None)
        return self._contexts.get(delivery.message_id)


def carried(patches: Patches, letters: Letters) -> Callable[[Function], Function]:
    """Make the wrapper of `AgentRuntime.send_message` and `publish_message`, both `(..., *, message_id)`."""

    def wrapper(original: Function) -> Function:
        if "message_id" not in inspect.signature(original).parameters:
            return original  # a runtime of the program's own that does not name its messages

        @functools.wraps(original)
        async def post(*args: Any, **kwargs: Any) -> Any:
            if patches.active:
                with guard("autogen: keep the context of a message"):
                    kwargs["message_id"] = letters.posted(kwargs.get("message_id"))
            return await original(*args, **kwargs)

        return post

    return wrapper


def delivery_start(recorder: Recorder, letters: Letters) -> Start:
    """Have `BaseAgent.on_message(message, ctx)` run in the context in which the message was sent."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        receiver = args[0]
        message = args[1] if len(args) > 1 else kwargs["message"]
        context = letters.received(args[2] if len(args) > 2 else kwargs["ctx"])
        if isinstance(receiver, BaseGroupChatManager):
            return ManagerTurn(recorder, receiver, message, context or otel_context.get_current())
        return _Delivery(context) if context is not None else None

    return start


class _Delivery(Frame):
    """A message being received: nothing of its own, only the sender's context."""

    def __init__(self, context: Context) -> None:
        super().__init__(None, current_frame(context))
        self.context = context
