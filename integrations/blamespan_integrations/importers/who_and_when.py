"""Who&When runs (arXiv 2505.00212): one JSON object per file, one labelled agent and step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import read_bytes
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Outcome, Step, StepKind
from blamespan_integrations.importers._records import parse_object
from blamespan_integrations.importers._span_values import derive_span_id, derive_trace_id

_EXPECTED = "a Who&When run"

_ROLES: Mapping[str, AgentRole] = {"human": "user", "user": "user", "computerterminal": "executor"}
"""Who asks and who only runs others' code, by name without case and underscores; everybody else decides."""

_SUFFIX = re.compile(r"^(?P<agent>.+?)\s+\((?P<note>[^()]*)\)$")
"""`Orchestrator (thought)`, `Orchestrator (-> WebSurfer)`: the speaker, then how or to whom it speaks."""

_KIND_OF_NOTE: Mapping[str, StepKind] = {"thought": "plan", "termination condition": "termination"}


class WhoAndWhenImporter:
    """Reads one run per file, algorithm-generated (speaker in `name`) or hand-crafted (speaker in `role`).

    The source has no times. Recipients are known only where a speaker's suffix names one; a
    terminal's output is taken as the answer to the message before it.
    """

    name = "who-and-when"
    description = "Who&When JSON: text, agents and the labelled agent and step; no times"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys in *head*: an object with a `history` list."""
        return head.lstrip().startswith(b"{") and bool(re.search(rb'"history"\s*:\s*\[', head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the file's run, or the error in its place."""
        try:
            yield _run(parse_object(read_bytes(path), path.name, _EXPECTED), path.name)
        except UnreadableInput as error:
            yield error


def _run(record: Mapping[str, Any], source: str) -> RecordedRun:  # Any: a file's JSON, checked field by field
    history = record.get("history")
    if not isinstance(history, list):
        raise UnreadableInput(
            f"{source}: expected {_EXPECTED} with a 'history' list, got {str(history)[:60]!r}. "
            "Is this another format? Name it with --format."
        )
    pairs = [_message(message, index, source) for index, message in enumerate(history)]
    task = record.get("question") if isinstance(record.get("question"), str) else ""
    identity = derive_trace_id(
        "who-and-when", str(record.get("question_ID")), *(part for pair in pairs for part in pair)
    )
    steps = tuple(_step(index, speaker, content, identity) for index, (speaker, content) in enumerate(pairs))
    outcome: Outcome = "failed" if record.get("mistake_agent") is not None else "unknown"  # the set holds failures only
    trace = MessageActionTrace(identity, task or "", steps, _agents(steps, record.get("system_prompt")), outcome)
    return RecordedRun(source, trace, _faults(record, len(steps), source))


def _message(message: object, index: int, source: str) -> tuple[str, str]:
    if isinstance(message, dict):
        speaker, content = message.get("name") or message.get("role"), message.get("content")
        if isinstance(speaker, str) and speaker.strip():
            is_written = isinstance(content, str | None)
            return speaker.strip(), (content or "") if is_written else json.dumps(content, ensure_ascii=False)
    raise UnreadableInput(
        f'{source}: expected {{"role" or "name": str, "content": str}} at history[{index}], got {str(message)[:80]!r}. '
        "Correct the file or remove it."
    )


def _step(index: int, speaker: str, content: str, trace: str) -> Step:
    suffix = _SUFFIX.match(speaker)
    agent, note = (suffix["agent"], suffix["note"].strip()) if suffix else (speaker, "")
    is_execution = _role(agent) == "executor"
    return Step(
        index,
        derive_span_id(trace, index),
        agent,
        "tool_result" if is_execution else _KIND_OF_NOTE.get(note, "message"),
        content,
        recipients=(note.removeprefix("->").strip(),) if note.startswith("->") else (),
        inputs=(index - 1,) if is_execution and index else (),
    )


def _agents(steps: tuple[Step, ...], prompts: object) -> tuple[Agent, ...]:
    """List who speaks, then who is only described: the source lists the team in `system_prompt`."""
    described = prompts if isinstance(prompts, dict) else {}
    names = dict.fromkeys([*(step.agent for step in steps), *(str(name) for name in described)])
    return tuple(Agent(name, _role(name), description=_as_description(described.get(name))) for name in names)


def _as_description(prompt: object) -> str | None:
    return prompt if isinstance(prompt, str) else None


def _faults(record: Mapping[str, Any], n_steps: int, source: str) -> tuple[Fault, ...] | None:
    agent, step = record.get("mistake_agent"), record.get("mistake_step")
    if agent is None:
        return None
    index = int(step) if isinstance(step, str | int) and re.fullmatch(r"\d+", str(step).strip()) else None
    if not isinstance(agent, str) or (step is not None and (index is None or index >= n_steps)):
        raise UnreadableInput(
            f"{source}: expected 'mistake_agent' as a name and 'mistake_step' as an index below {n_steps}, "
            f"got {agent!r} and {step!r}. Correct the file or remove it."
        )
    return (Fault(agent, step=index),)


def _role(name: str) -> AgentRole:
    return _ROLES.get(name.casefold().replace("_", ""), "agent")
