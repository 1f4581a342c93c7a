"""Transcripts: runs as plain text that people read and write, labels and all.

A file holds any number of runs, each under a line `=== NAME`:

    === refund-1
    outcome: failed
    agents: Triage, Refunds, Sandbox (executor), Ann (user)
    task:
    Ann wants her money back for order 7731.

    --- Triage -> Refunds
    Order 7731 arrived late.
    --- Refunds calls
    get_order({"id": 7731})
    --- Refunds gets
    {"total": 80, "paid": 60}
    --- Refunds [mistake blamespan:X3]
    I am refunding 80.
    --- Triage [carried]
    Ann was told that 80 are on their way.

Steps stand under `--- AGENT`, followed by `-> OTHER, OTHER` (addressed to), `thinks` (a plan), `calls` (a tool),
`gets` (the answer to the oldest of its calls without one) or `fails` (likewise, an error), and by marks: `[mistake
MODE]` for the step that decided the failure, `[error MODE]` for others that are wrong, `[carried]` for those that only
pass a mistake on. What an `(executor)` says is the output of what it ran. `begins as: NAME, N steps` takes the first N
steps of an earlier run of the file without their marks, its task and its agents; the two are twins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.files import read_bytes
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import ErrorMode, mode
from blamespan.trace import AgentRole, Outcome, StepKind
from blamespan_integrations.importers._conversation import MAX_STEPS, Conversation

_START = re.compile(rb"\s*+(?:#[^\n]*+\n\s*+)*=== \S")
_NAME = re.compile(r"=== (?P<name>\S.*)")
_HEADER = re.compile(r"(?P<key>outcome|agents|team|begins as): *(?P<value>.*)")
_STEP = re.compile(
    r"--- (?P<agent>[^\[\]]*?[^\s\[\]])(?: \((?P<role>executor|user)\))?"
    r"(?: (?P<verb>thinks|calls|gets|fails)| -> (?P<others>[^\[\]]*?[^\s\[\]]))?"
    r"(?P<marks>(?: *\[[^\[\]]*\])*) *"
)
_MARK = re.compile(r"\[(?P<what>mistake|error|carried)(?: (?P<mode>[^\s\]]+))?\]")
_AGENT = re.compile(r"(?P<name>.*?\S)(?: \((?P<role>executor|user)\))?")
_BEGINS = re.compile(r"(?P<name>.*\S), (?P<steps>[0-9]{1,5}) steps?")
_CALL = re.compile(r"(?P<tool>[^(]*)\((?P<arguments>.*)\)", re.DOTALL)

_MAX_STEP_LINE = 1_000
"""Characters of a line that begins a step: `_STEP` takes their square."""

_MAX_STEPS = 10 * MAX_STEPS
"""Of all runs of a file, which are held in memory: those that share a beginning could be far longer than the file."""

_ROLES: Mapping[str | None, AgentRole] = {None: "agent", "executor": "executor", "user": "user"}
_OUTCOMES: Mapping[str, Outcome] = {"failed": "failed", "succeeded": "succeeded", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class _WrittenStep:
    """One step as it is written: `role` and `verb` may be empty, `marks` are (what, mode or empty)."""

    location: str
    agent: str
    role: str
    verb: str
    others: tuple[str, ...]
    marks: tuple[tuple[str, str], ...]
    content: str


@dataclass(frozen=True, slots=True)
class _WrittenRun:
    """One run as it is written; `begins_as` names the run that it shares its first steps with."""

    location: str
    task: str
    outcome: Outcome
    roles: Mapping[str, AgentRole]
    team: str
    steps: Sequence[_WrittenStep]
    begins_as: str = ""


class TranscriptImporter:
    """Reads runs written as plain text; see the module for how."""

    name = "transcript"
    description = "runs as plain text, one `--- AGENT` per step, with labels if any; no times"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first line that is no comment (`#`): the name of a run."""
        del path
        return bool(_START.match(head))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run of the file; for one that cannot be read, the error in its place.

        Raises:
            UnreadableInput: if the file is no UTF-8 text.
        """
        try:
            lines = read_bytes(path).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise UnreadableInput(f"{path.name}: expected transcripts as UTF-8 text, got {error}.") from error
        scripts: dict[str, _WrittenRun] = {}
        runs: dict[str, RecordedRun | UnreadableInput] = {}
        n_steps = 0
        for location, name, block in _blocks(lines, path.name):
            try:
                if name in runs:
                    raise UnreadableInput(f"{location}: expected another name for each run, got {name!r} twice.")
                script = _script(location, block, scripts)
                n_steps += len(script.steps)
                if n_steps > _MAX_STEPS:
                    runs[location] = UnreadableInput(
                        f"{location}: expected {_MAX_STEPS} steps at most, got more. Part the file."
                    )
                    break
                runs[name], scripts[name] = _run(script), script
            except UnreadableInput as error:
                runs[location] = error
        pairs = {name: script.begins_as for name, script in scripts.items() if script.begins_as}
        twins = {other: name for name, other in pairs.items()} | pairs
        for name, run in runs.items():
            twin = runs.get(twins.get(name, ""))
            yield _with_twin(run, twin) if isinstance(run, RecordedRun) and isinstance(twin, RecordedRun) else run


_Lines = Sequence[tuple[str, str]]
"""Where each line stands, and what it says."""


def _blocks(lines: Sequence[str], source: str) -> Iterator[tuple[str, str, _Lines]]:
    """Part a file into runs: place, name, lines."""
    starts = [number for number, line in enumerate(lines) if _NAME.fullmatch(line)]
    for start, end in pairwise([*starts, len(lines)]):
        block = [(f"{source}:{number + 1}", lines[number]) for number in range(start + 1, end)]
        yield f"{source}:{start + 1}", lines[start].removeprefix("=== ").strip(), block


def _script(location: str, block: _Lines, earlier: Mapping[str, _WrittenRun]) -> _WrittenRun:
    """Read a run as it is written.

    Raises:
        UnreadableInput: if a header or a step is not as it should be.
    """
    starts = [number for number, (_, line) in enumerate(block) if line.startswith("--- ")]
    headers, task = _headers(block[: starts[0] if starts else len(block)])
    steps = [_parse_step(block[start:end]) for start, end in pairwise([*starts, len(block)])]
    outcome = _OUTCOMES.get(headers.get("outcome", "unknown"))
    if outcome is None:
        raise UnreadableInput(
            f"{location}: expected the outcome failed, succeeded or unknown, got {headers['outcome']!r}."
        )
    roles = _roles(headers.get("agents", "")) | {step.agent: _ROLES[step.role] for step in steps if step.role}
    script = _WrittenRun(location, task, outcome, roles, headers.get("team", ""), steps)
    return _prepend_shared(script, headers["begins as"], earlier) if "begins as" in headers else script


def _headers(block: _Lines) -> tuple[dict[str, str], str]:
    """Read what stands above the first step: headers, then the task."""
    headers: dict[str, str] = {}
    for number, (location, line) in enumerate(block):
        if line.strip() == "task:":
            return headers, "\n".join(text for _, text in block[number + 1 :]).strip()
        match = _HEADER.fullmatch(line)
        if match is None and line.strip():
            raise UnreadableInput(
                f"{location}: expected outcome:, agents:, team:, begins as:, task: or `--- AGENT`, got {line[:60]!r}."
            )
        if match is not None:
            headers[match["key"]] = match["value"].strip()
    return headers, ""


def _parse_step(block: _Lines) -> _WrittenStep:
    location, line = block[0]
    match = _STEP.fullmatch(line) if len(line) <= _MAX_STEP_LINE else None
    marks = tuple((mark["what"], mark["mode"] or "") for mark in _MARK.finditer(match["marks"])) if match else ()
    if match is None or len(marks) != match["marks"].count("["):
        raise UnreadableInput(
            f"{location}: expected `--- AGENT`, then `-> OTHER`, thinks, calls, gets or fails, then [mistake MODE], "
            f"[error MODE] or [carried], got {line[:60]!r}."
        )
    others = tuple(name.strip() for name in (match["others"] or "").split(",") if name.strip())
    content = "\n".join(text for _, text in block[1:]).strip()
    return _WrittenStep(location, match["agent"], match["role"] or "", match["verb"] or "", others, marks, content)


def _roles(listed: str) -> dict[str, AgentRole]:
    matches = [_AGENT.fullmatch(name.strip()) for name in listed.split(",")]
    return {match["name"]: _ROLES[match["role"]] for match in matches if match}


def _prepend_shared(script: _WrittenRun, begins: str, earlier: Mapping[str, _WrittenRun]) -> _WrittenRun:
    """Put the beginning of an earlier run before a run that shares it."""
    match = _BEGINS.fullmatch(begins)
    other = earlier.get(match["name"]) if match else None
    if match is None or other is None or not 0 < int(match["steps"]) <= len(other.steps):
        raise UnreadableInput(
            f"{script.location}: expected `begins as: NAME, N steps` of a run above that has as many, "
            f"got {begins[:60]!r}."
        )
    shared = [replace(step, marks=()) for step in other.steps[: int(match["steps"])]]
    return replace(
        script,
        task=script.task or other.task,
        roles={**other.roles, **script.roles},
        team=script.team or other.team,
        steps=[*shared, *script.steps],
        begins_as=match["name"],
    )


def _run(script: _WrittenRun) -> RecordedRun:
    conversation = Conversation(script.location)
    conversation.tasks = [script.task]
    conversation.outcome = script.outcome
    for name, role in script.roles.items():
        conversation.join(name, role)
    waiting: dict[str, list[int]] = {}
    for number, step in enumerate(script.steps):
        role = script.roles.get(step.agent, "agent")
        if step.verb == "calls":
            match = _CALL.fullmatch(step.content)
            tool, arguments = (match["tool"], match["arguments"]) if match else (step.content, "")
            conversation.call(step.agent, tool, arguments, call_id=str(number))
            waiting.setdefault(step.agent, []).append(number)
        elif step.verb in ("gets", "fails"):
            if not waiting.get(step.agent):
                raise UnreadableInput(f"{step.location}: expected an answer to a call of {step.agent!r}, got no call.")
            call = waiting[step.agent].pop(0)
            conversation.answer(step.agent, step.content, call_id=str(call), is_error=step.verb == "fails")
        elif role == "executor":
            conversation.execute(step.agent, step.content)
        else:
            kind: StepKind = "plan" if step.verb == "thinks" else "message"
            conversation.say(step.agent, step.content, kind=kind, recipients=step.others)
    faults = _faults(script)
    origin = Origin(
        "faulty" if script.outcome == "failed" else "clean",
        family=script.team,
        topology="",
        framework="",
        recipe="transcript",
        decisive=next(iter(_marked_steps(script, "mistake")), None),
        carried_by=_marked_steps(script, "carried"),
    )
    return RecordedRun(
        script.location, conversation.trace("transcript"), faults, origin if faults is not None else None
    )


def _faults(script: _WrittenRun) -> tuple[Fault, ...] | None:
    """List what is marked as wrong, the mistake first; None for a run that nobody has labelled.

    Raises:
        UnreadableInput: if several steps, or one of a run that succeeded, decide the failure, or a mode is unknown.
    """
    faults: dict[str, list[Fault]] = {"mistake": [], "error": []}
    for number, step in enumerate(script.steps):
        for what, code in step.marks:
            if what != "carried":
                faults[what].append(Fault(step.agent, _mode(code, step.location) if code else None, number))
    steps = {fault.step for fault in faults["mistake"]}
    if len(steps) > 1 or (steps and script.outcome == "succeeded"):
        raise UnreadableInput(
            f"{script.location}: expected one [mistake] in a run that failed and none in one that succeeded, got it at "
            f"{len(steps)} steps of one that {script.outcome}. Mark others as [error]."
        )
    if not steps and script.outcome != "succeeded":
        return None
    return (*faults["mistake"], *faults["error"])


def _marked_steps(script: _WrittenRun, what: str) -> tuple[int, ...]:
    """List the steps with a mark."""
    return tuple(index for index, step in enumerate(script.steps) if any(mark == what for mark, _ in step.marks))


def _mode(code: str, location: str) -> ErrorMode:
    try:
        return mode(code)
    except ConfigError as error:
        raise UnreadableInput(f"{location}: {error}") from error


def _with_twin(run: RecordedRun, twin: RecordedRun) -> RecordedRun:
    return replace(run, origin=replace(run.origin, twin=twin.trace.trace_id)) if run.origin is not None else run
