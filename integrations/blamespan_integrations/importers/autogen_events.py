"""AutoGen's event log: what its logger `autogen_core.events` writes, one JSON object per line.

A team's messages stand in the payloads of `Message` events, each as often as it is sent and delivered; they count once.
Teams that run at the same time are told apart by the id in their agents' names.
Source: autogen-core 0.7.5, `logging.py`.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import read_lines
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import parse_json
from blamespan_integrations.dialects._values import as_text
from blamespan_integrations.importers._autogen_messages import add_chat_message, is_chat_message
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._records import parse_object

_TYPES = ("Message", "LLMCall", "LLMStreamStart", "LLMStreamEnd", "ToolCall", "MessageDropped",
          "MessageHandlerException", "AgentConstructionException")  # fmt: skip
_EVENT = re.compile(rb'"type"\s*:\s*"(%s)"' % "|".join(_TYPES).encode())
_KEYS = (b'"payload"', b'"agent_id"', b'"delivery_stage"')
_TEAM = re.compile(r"_?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?=/|$)")
_NO_TEAM = ""
_MAX_OPEN = 64
"""Teams that may be at work at once; of more, the one that was silent longest has ended."""


class AutoGenEventsImporter:
    """Reads AutoGen's event logs."""

    name = "autogen-events"
    description = (
        "AutoGen event logs, JSON lines; loses times of calls, payloads that AutoGen could not write, and links"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check an event's type and keys."""
        del path
        return bool(_EVENT.search(head)) and any(key in head for key in _KEYS) and b"resourceSpans" not in head

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run once its team starts anew or the log ends, and errors in their place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        open_runs: OrderedDict[str, _LoggedRun] = OrderedDict()
        for location, event in _events(path):
            if isinstance(event, UnreadableInput):
                yield event
                continue
            try:
                yield from _take_event(event, location, open_runs)
            except UnreadableInput as error:
                yield error
        for run in open_runs.values():
            yield from run.finish()


@dataclass(slots=True)
class _LoggedRun:
    """A team at work."""

    conversation: Conversation
    message_ids: set[str] = field(default_factory=set)
    is_team: bool = False

    def finish(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the run; nothing where nobody said anything."""
        if len(self.conversation):
            yield from self.conversation.finish("autogen", *sorted(self.message_ids))


def _events(path: Path) -> Iterator[tuple[str, dict[str, Any] | UnreadableInput]]:
    """Yield the events of a log; lines without one are other words of the same logger, and passed over."""
    refused: list[UnreadableInput] = []
    try:
        for number, line in read_lines(path, refused=refused):
            while refused:
                yield "", refused.pop()
            location = f"{path}:{number}"
            start = line.find(b"{")  # a log may write time and level before the event
            if start < 0:
                continue
            try:
                yield location, parse_object(line[start:], location, "an event of AutoGen")
            except UnreadableInput as error:
                yield location, error
    except UnreadableInput as error:
        refused.append(error)
    for trouble in refused:
        yield str(path), trouble


def _take_event(
    event: Mapping[str, Any], location: str, open_runs: OrderedDict[str, _LoggedRun]
) -> Iterator[RecordedRun | UnreadableInput]:
    """Take one event up; yield the runs that it ends.

    Raises:
        UnreadableInput: if it is no event.
    """
    kind = event.get("type")
    if kind not in _TYPES:
        raise UnreadableInput(f"{location}: expected an event of AutoGen, got type {kind!r}. Remove the line.")
    team = _team_of(event)
    payload = _payload(event) if kind != "ToolCall" else None
    messages = list(_messages(payload))
    if isinstance(payload, Mapping) and isinstance(payload.get("messages"), list) and team in open_runs:
        known_ids = open_runs[team].message_ids
        if len(open_runs[team].conversation) and any(str(message.get("id")) not in known_ids for message in messages):
            yield from open_runs.pop(team).finish()
    run = open_runs.setdefault(team, _LoggedRun(Conversation(location)))
    open_runs.move_to_end(team)
    if len(open_runs) > _MAX_OPEN:
        yield from open_runs.popitem(last=False)[1].finish()
    _add(run, event, payload, messages, location)


def _add(
    run: _LoggedRun, event: Mapping[str, Any], payload: object, messages: list[Mapping[str, Any]], location: str
) -> None:
    kind = event["type"]
    if messages:
        run.is_team = True
    for message in messages:
        identity = str(message.get("id") or json.dumps(message, sort_keys=True, default=str))
        if identity not in run.message_ids and not run.conversation.is_full:
            run.message_ids.add(identity)
            add_chat_message(run.conversation, message, location)
    if kind == "MessageHandlerException":
        run.conversation.outcome = "failed"
        run.conversation.say(
            _name(event.get("handling_agent")), as_text(event.get("exception")), error="MessageHandlerException"
        )
    elif run.is_team or messages:
        return
    elif kind == "ToolCall":
        agent = _name(event.get("agent_id"))
        run.conversation.call(agent, as_text(event.get("tool_name")), as_text(event.get("arguments")))
        run.conversation.answer(agent, as_text(event.get("result")))
    elif kind == "Message" and str(event.get("delivery_stage")).endswith("SEND"):
        _add_own(run, event, payload)


def _add_own(run: _LoggedRun, event: Mapping[str, Any], payload: object) -> None:
    """Add a message of a program's own type: its `content`, or all of it."""
    text = as_text(payload.get("content", payload) if isinstance(payload, Mapping) else event.get("payload"))
    if event.get("sender") is None:
        if not len(run.conversation):
            run.conversation.tasks.append(text)
        return
    receiver = event.get("receiver")
    run.conversation.say(_name(event["sender"]), text, recipients=(_name(receiver),) if receiver else ())


def _messages(payload: object) -> Iterator[Mapping[str, Any]]:
    """Yield the chat messages that a payload of AgentChat's holds."""
    if not isinstance(payload, Mapping):
        return
    response = payload.get("response")
    messages = payload.get("messages")
    candidates = [
        *(messages if isinstance(messages, list) else ()),
        payload.get("message"),
        *(_inner(response) if isinstance(response, Mapping) else ()),
    ]
    yield from (message for message in candidates if is_chat_message(message))


def _inner(response: Mapping[str, Any]) -> list[Any]:
    inner = response.get("inner_messages")
    return [*(inner if isinstance(inner, list) else ()), response.get("chat_message")]


def _payload(event: Mapping[str, Any]) -> object:
    text = event.get("payload")
    if not isinstance(text, str) or text[:1] not in ("{", "["):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _team_of(event: Mapping[str, Any]) -> str:
    for key in ("sender", "receiver", "handling_agent", "agent_id"):
        match = _TEAM.search(str(event.get(key) or ""))
        if match:
            return match[1]
    return _NO_TEAM


def _name(agent_id: object) -> str:
    """Read an agent's or topic's name off its id: `critic_<team>/<team>`."""
    return _TEAM.sub("", str(agent_id or "unknown").partition("/")[0]) or "unknown"
