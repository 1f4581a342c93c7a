"""What of a node's output are its own words: not what it was given, and not what the members of a team have said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.types import Command

from blamespan_integrations.langgraph._convert import (
    Update,
    answered_call,
    as_tool_message,
    given_of,
    handing_back,
    update_of,
)
from blamespan_integrations.langgraph._messages import as_state, as_text, message_id, message_text
from blamespan_integrations.langgraph._places import Node
from blamespan_integrations.langgraph._seen import is_short

__all__ = ["unsaid_by", "written_by"]

_STRUCTURED = "structured_response"


def written_by(node: Node, output: Any) -> Update:
    """Read what a node wrote, without what it only handed back of its own input."""
    if output is node.given.raw and as_state(output) is not None:
        return node.run.memory.mutations(node.seen, given_of(output))
    update = update_of(output)
    if node.calls:
        update.messages = [as_tool_message(message) for message in update.messages]
        if answers := handing_back(update.messages, node.calls):  # a handoff tool: the state goes along
            return replace(update, messages=answers, state={})
    if any(id(message) in node.seen.ids for message in update.messages) or node.span is None:
        update.messages = [message for message in update.messages if not _was_given(node, message)]
    if update.messages and node.graph.definition.is_prebuilt:
        update.state.pop(_STRUCTURED, None)  # what one of the messages says, read
    if update.state:
        is_whole = (as_state(node.given.raw) or {}).keys() <= (as_state(output) or {}).keys()
        update.state = {
            key: value
            for key, value in update.state.items()
            if not _is_given(node.given.rest, key, value) or (is_short(value) and not is_whole)
        }
    return update


def _was_given(node: Node, message: Any) -> bool:
    if node.span is None and node.calls and answered_call(message) in node.calls:
        return False  # the answer to a call that was open
    return (node.span is None or id(message) in node.seen.ids) and node.given.holds(message)


def _is_given(state: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in state and state[key] is value and value is not None and not isinstance(value, (bool, int, float))


def unsaid_by(node: Node, update: Update, output: Any) -> Update:
    """Leave what no member of a team has said yet."""
    outputs = [member.output for member in node.members if member.output is not None]
    if any(output is given for given in outputs):
        return Update(goto=update.goto, sends=update.sends)
    said = {text for member in node.members for text in member.said}
    given = [state for given in outputs if (state := as_state(given)) is not None]
    received = {message_id(message) or message_text(message) for message in node.given.messages}
    known = update.goto if isinstance(output, Command) else ()  # a member's tool has said who is next
    return replace(
        update,
        messages=[
            message
            for message in update.messages
            if message_text(message) not in said
            and message_id(message) not in received
            and message_text(message) not in received
        ],
        state={
            key: value
            for key, value in update.state.items()
            if as_text(value) not in said
            and not (isinstance(value, str) and value in known)
            and not any(_equals(state.get(key), value) for state in given)
        },
    )


def _equals(one: Any, other: Any) -> bool:
    """Compare two values of a state by what they say: their own comparison may do anything."""
    return one is other or (one is not None and type(one) is type(other) and as_text(one) == as_text(other))
