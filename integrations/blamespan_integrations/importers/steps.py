"""Runs as plain JSON lines, the simplest form that a program can write: a task, steps, and an outcome if it is known.

{"task": "...", "outcome": "failed", "steps": [{"agent": "planner", "kind": "message", "content": "..."}]}
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Outcome, StepKind
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._records import JsonValue, runs_of_objects, wrong_field

_EXPECTED = "a run with its steps"
_KINDS = get_args(StepKind)
_OUTCOMES = get_args(Outcome)
_USERS = frozenset({"user", "patient", "human"})
"""Names of those who ask and are never to blame."""

_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_STEP = re.compile(
    rb'"steps"\s*:\s*\[\s*\{\s*'
    rb"(?:" + _TEXT + rb"\s*:\s*(?:" + _TEXT + rb'|[^\s"{}\[\],]+)\s*,\s*)*'  # fields with a text, a number or null
    rb'(?:"agent"\s*:\s*"|"content"\s*:\s*"[^"\\]*(?:\\.[^"\\]*)*\\?\Z)',
    re.DOTALL,
)
"""The first step of a run, as far as its agent's name, or a content that is longer than the head."""


class StepsImporter:
    """Reads one run per line. Of a step only `agent` and `content` are needed; a missing kind is a message.

    The answer of a tool (kind `tool_result`) belongs to the oldest call that has none, whatever its agent is called.
    """

    name = "steps"
    description = "JSON lines of task, outcome and steps (agent, kind, content); no times"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check for the first step of a run, with an agent and a content, in the file's first bytes."""
        del path
        return head.lstrip()[:1] == b"{" and b'"content"' in head and bool(_STEP.search(head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per object; for what is none, the error in its place."""
        return runs_of_objects(path, _EXPECTED, _read_run)


def _read_run(record: JsonValue) -> RecordedRun:
    steps = record.value.get("steps")
    if not isinstance(steps, list):
        raise wrong_field(record, _EXPECTED, "'steps' as a list", steps)
    outcome = record.value.get("outcome", "unknown")
    if outcome not in _OUTCOMES:
        raise wrong_field(record, _EXPECTED, f"'outcome' as one of {', '.join(sorted(_OUTCOMES))}", outcome)
    conversation = Conversation(record.location)
    conversation.outcome = cast(Outcome, outcome)
    conversation.tasks.append(_read_text(record, record.value, "task"))
    calls: deque[str] = deque()
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            raise wrong_field(record, _EXPECTED, f"steps[{index}] as an object", step)
        _add_step(conversation, calls, record, step)
    return RecordedRun(record.location, conversation.trace("steps", str(record.value.get("id", ""))))


def _add_step(conversation: Conversation, calls: deque[str], record: JsonValue, step: dict[str, object]) -> None:
    agent, content = _read_text(record, step, "agent"), _read_text(record, step, "content")
    kind = step.get("kind", "message")
    if kind not in _KINDS:
        raise wrong_field(record, _EXPECTED, f"'kind' as one of {', '.join(sorted(_KINDS))}", kind)
    if agent.casefold() in _USERS:
        conversation.join(agent, "user")
    if kind == "tool_result":
        conversation.answer(agent, content, call_id=calls.popleft() if calls else "")
    elif kind == "tool_call":
        calls.append(f"call {len(conversation)}")
        conversation.call_as_text(agent, content, call_id=calls[-1])
    else:
        calls.clear()  # nobody answers a call any more once somebody speaks
        conversation.say(agent, content, kind=cast(StepKind, kind))


def _read_text(record: JsonValue, holder: dict[str, object], key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str) or (key == "agent" and not value):
        raise wrong_field(record, _EXPECTED, f"{key!r} as text", value)
    return value
