"""AEGIS runs (arXiv 2509.14295): one JSON object per line, faults as (agent, error mode) pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import read_lines
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Step, StepKind
from blamespan_integrations.importers._records import parse_object
from blamespan_integrations.importers._span_values import derive_span_id, derive_trace_id

_EXPECTED = "an AEGIS run"

_ROLES: Mapping[str, AgentRole] = {"user": "user", "system": "user", "computerterminal": "executor"}
"""Who asks and who only runs others' code, by folded name; everybody else decides. `System` is the prompt."""


class AegisImporter:
    """Reads `train.jsonl`, `validation.jsonl` and the like, compressed or not.

    The source has no times, no recipients and no step labels; a fault names an agent by a label that
    may differ from the trace's in case or a trailing digit, or belong to an agent that never speaks.
    Labels are passed on as they stand.
    """

    name = "aegis"
    description = "AEGIS JSON lines: text, agents and labelled faults; no times, recipients or step labels"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first line's keys."""
        line = head.lstrip()[:1_000_000].split(b"\n", 1)[0]
        if not line.startswith(b"{"):
            return False
        if re.search(rb'"trajectory"\s*:\s*\[', line):
            return True
        return bool(re.match(rb'\{\s*"index"\s*:\s*\d+\s*,\s*"question"\s*:', line))  # a question longer than the head

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per line; for a line that is none, the error in its place."""
        for number, line in read_lines(path):
            source = f"{path.name}:{number}"
            try:
                yield _run(parse_object(line, source, _EXPECTED), source)
            except UnreadableInput as error:
                yield error


def _run(record: Mapping[str, Any], source: str) -> RecordedRun:  # Any: a file's JSON, checked field by field
    question = _field(record, "question", str, source)
    entries = _field(record, "trajectory", list, source)
    pairs = [_entry(entry, index, source) for index, entry in enumerate(entries)]
    identity = derive_trace_id("aegis", repr(record.get("index")), question, *(part for pair in pairs for part in pair))
    names = dict.fromkeys(agent for agent, _ in pairs)
    trace = MessageActionTrace(
        trace_id=identity,
        task=question,
        steps=tuple(
            Step(index, derive_span_id(identity, index), agent, _kind(agent), content)
            for index, (agent, content) in enumerate(pairs)
        ),
        agents=tuple(Agent(name, _role(name)) for name in names),
        outcome="failed",  # AEGIS keeps only runs that fail after injection
    )
    return RecordedRun(source, trace, _faults(record, source))


def _entry(entry: object, index: int, source: str) -> tuple[str, str]:
    if isinstance(entry, dict):
        agent, content = entry.get("agent_name"), entry.get("content")
        if isinstance(agent, str) and agent and isinstance(content, str | None):
            return agent, content or ""
    raise UnreadableInput(
        f'{source}: expected {{"agent_name": str, "content": str}} at trajectory[{index}], got {str(entry)[:80]!r}. '
        "Correct the line or remove it."
    )


def _faults(record: Mapping[str, Any], source: str) -> tuple[Fault, ...] | None:
    if record.get("faulty_agents") is None:
        return None
    return tuple(_fault(entry, source) for entry in _field(record, "faulty_agents", list, source))


def _fault(entry: object, source: str) -> Fault:
    if isinstance(entry, dict) and isinstance(entry.get("agent_name"), str) and entry.get("error_type") in AEGIS:
        return Fault(entry["agent_name"], AEGIS[entry["error_type"]])
    raise UnreadableInput(
        f'{source}: expected {{"agent_name": str, "error_type": one of {", ".join(AEGIS)}}} in faulty_agents, '
        f"got {str(entry)[:80]!r}. Correct the line or remove it."
    )


def _field(record: Mapping[str, Any], key: str, kind: type, source: str) -> Any:
    value = record.get(key)
    if not isinstance(value, kind):
        raise UnreadableInput(
            f"{source}: expected {_EXPECTED} with {key!r} of type {kind.__name__}, got {str(value)[:60]!r}. "
            "Is this another format? Name it with --format."
        )
    return value


def _role(name: str) -> AgentRole:
    return _ROLES.get(name.casefold().replace("_", ""), "agent")


def _kind(agent: str) -> StepKind:
    return "tool_result" if _role(agent) == "executor" else "message"
