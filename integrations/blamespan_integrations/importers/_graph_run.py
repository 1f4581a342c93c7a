"""A run of a LangGraph graph, told node by node: what each gave back, and which ran side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan.genai_messages import Message
from blamespan.trace import Usage
from blamespan_integrations.dialects._messages import messages_in, state_of, task_of
from blamespan_integrations.dialects._values import as_text, number
from blamespan_integrations.importers._conversation import Conversation


class GraphRun:
    """Adds what nodes gave back to a conversation; each builds on the nodes of the round before its own.

    Args:
        source: Where the run stands, for messages.
    """

    def __init__(self, source: str) -> None:
        self.conversation = Conversation(source)
        self._before: tuple[int, ...] = ()
        self._now: list[int] = []

    def ask(self, value: object) -> None:
        """Take what the graph was given as the task, unless there is one."""
        if self.conversation.tasks:
            return
        asked = [message for message in messages_in(value) if message.role == "user"] or task_of(value)
        task = "\n".join([as_text(part.get("content")) for message in asked for part in message.parts])
        if task:
            self.conversation.tasks.append(task)

    def begin_round(self) -> None:
        """Let the nodes that come next build on those that came last."""
        if self._now:
            self._before, self._now = tuple(sorted(set(self._now))), []

    def add(self, node: str, update: object, *, time_ns: int = 0, error: str | None = None) -> None:
        """Add what a node gave back: messages, tools called and answered, or else its part of the state."""
        after = self._before
        last: int | None = None
        for message in messages_in(update):
            for index in self._message(node, message, update, after, time_ns):
                last, after = index, (index,)
        if error:
            self.conversation.outcome = "failed"
            last = self.conversation.say(
                node, error, error=error.partition("(")[0][:80] or "error", inputs=after, time_ns=time_ns
            )
        elif last is None and (rest := state_of(update)):
            last = self.conversation.say(node, rest, inputs=after, time_ns=time_ns)
        if last is not None and not self.conversation.is_full:
            self._now.append(last)

    def _message(self, node: str, message: Message, update: object, after: tuple[int, ...], time_ns: int) -> list[int]:
        indices: list[int] = []
        if message.role not in ("assistant", "tool"):
            return indices
        agent, usage = message.name or node, _usage(update, message)
        for part in message.parts:
            kind, call_id = part.get("type"), as_text(part.get("id"))
            inputs = (indices[-1],) if indices else after
            if kind == "tool_call":
                name, arguments = as_text(part.get("name")), as_text(part.get("arguments"))
                index = self.conversation.call(
                    agent, name, arguments, call_id=call_id, usage=usage, time_ns=time_ns, inputs=inputs
                )
            elif kind == "tool_call_response":
                index = self.conversation.answer(node, as_text(part.get("response")), call_id=call_id, time_ns=time_ns)
            else:
                text = as_text(part.get("content"))
                index = self.conversation.say(agent, text, usage=usage, time_ns=time_ns, inputs=inputs)
            indices.append(index)
            usage = None
        return indices


def named_updates(writes: object) -> object:
    """Write a node's result as an update of the state: some releases write `[channel, value]` pairs."""
    if isinstance(writes, list) and writes and all(_is_pair(item) for item in writes):
        return {str(channel): value for channel, value in writes}
    return writes


def _is_pair(item: object) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


def _usage(update: object, message: Message) -> Usage | None:
    """Find the tokens of the one message that a node gave back; of several it cannot be told whose they are."""
    usages = _usages(update, 0) if message.role == "assistant" else []
    if len(usages) != 1:
        return None
    return Usage(number(usages[0].get("input_tokens")) or 0, number(usages[0].get("output_tokens")) or 0)


def _usages(value: Any, depth: int) -> list[Mapping[str, Any]]:
    if depth > 6:
        return []
    if isinstance(value, Mapping):
        usage = value.get("usage_metadata")
        if isinstance(usage, Mapping):
            return [usage]
        return [indices for item in value.values() for indices in _usages(item, depth + 1)]
    return [indices for item in value for indices in _usages(item, depth + 1)] if isinstance(value, list) else []
