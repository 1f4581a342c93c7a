"""ATIF, the Agent Trajectory Interchange Format of Harbor: a trajectory per document, its subagents in or beside it.

A step of ATIF holds a reasoning, a message, tool calls and what came of them; each becomes a step of its own. Subagents
speak between the call that refers to them and its answer. Files that a trajectory names are read where they lie beside
it, and whichever of them is read, the run is the same. Source: harbor 0.26, `harbor.models.trajectories`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast, get_args

from blamespan import conventions as words
from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.importing.files import read_bytes
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Outcome, Step, StepKind, StepStatus, Usage
from blamespan_integrations.dialects._values import as_text, counted
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._records import json_objects, parse_object
from blamespan_integrations.importers._span_values import nanoseconds

_EXPECTED = "an ATIF trajectory"
_VERSION = re.compile(r"ATIF-v(\d{1,3})\.(\d{1,3})")
_HEAD = re.compile(rb'"schema_version"\s*:\s*"ATIF-')
_STEP = re.compile(rb'"step_id"\s*:\s*1\b')
_SOURCE = re.compile(rb'"source"\s*:\s*"(?:system|user|agent)"')
_NEWEST_MINOR = 8
_MOST_FILES = 32
"""A folder with more files that begin alike is not searched for the one that names a file."""
_MOST_DEPTH = 16
_MOST_INPUTS = 64
_UNKEPT = ("prompt_token_ids", "completion_token_ids", "logprobs")
"""Metrics that are many numbers and nothing to read."""
_REWARDS: Final[Mapping[float, Outcome]] = {1.0: "succeeded", 0.0: "failed"}
_logger = logging.getLogger("blamespan.importing")


class AtifImporter:
    """Reads ATIF v1.0 to v1.8: one document, one per line, or an array of them."""

    name = "atif"
    description = "ATIF trajectories (Harbor and others), subagents and continuations joined; loses token ids, logprobs"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check for a schema version of ATIF, or for the first step where the version stands further on."""
        del path
        if head.lstrip()[:1] not in (b"{", b"["):
            return False
        return bool(_HEAD.search(head) or (_STEP.search(head) and _SOURCE.search(head)))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run of the file; for one that cannot be read, the error in its place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        first = _first_file(path)
        for item in json_objects(first, _EXPECTED):
            if isinstance(item, UnreadableInput):
                yield item
                continue
            reader = _Reader(item.location, first)
            try:
                yield reader.run(item.value)
            except UnreadableInput as error:
                yield error
            yield from reader.troubles


class _Room:
    """Who heard what in one trajectory: what is said in that of a subagent, only its own agents hear."""

    def __init__(self, number: int, caller: int | None) -> None:
        self.number = number
        self.spoken: list[tuple[str, int]] = [] if caller is None else [("", caller)]
        self._heard_until: dict[str, int] = defaultdict(int)
        self._answers: dict[str, list[int]] = defaultdict(list)

    def inputs(self, agent: str) -> tuple[int, ...]:
        """Return what an agent's next step builds on, and note that it was heard."""
        others = [index for name, index in self.spoken[self._heard_until[agent] :] if name != agent]
        self._heard_until[agent] = len(self.spoken)
        return tuple(sorted({*others, *self._answers.pop(agent, ())})[-_MOST_INPUTS:])

    def answer(self, agent: str, index: int) -> None:
        """Note what a tool answered to an agent."""
        self._answers[agent].append(index)


class _Reader:
    """Reads one run: a trajectory, its continuations and its subagents."""

    def __init__(self, source: str, path: Path) -> None:
        self.troubles: list[UnreadableInput] = []
        self._source = source
        self._path = path
        self._conversation = Conversation(source)
        self._names: set[str] = set()
        self._ids: set[str] = set()
        self._rooms = 0
        self._first: dict[str, Any] = {}
        self._contents: list[str] = []
        self._clock_ns = 0
        self._called: set[int | str] = {path.name}
        self._documents: list[Mapping[str, Any]] = []
        """All that were read: `_called` knows subagents by the objects that they are."""

    def run(self, document: Mapping[str, Any]) -> RecordedRun:
        """Read the run.

        Raises:
            UnreadableInput: if it is none, or of another version.
        """
        self._check(document)
        own = _own(document)
        if own is not None and isinstance(own.get("agents"), list):
            return RecordedRun(self._source, _restore(document, own, self._source))
        self._read(document, None, None, 0)
        self._conversation.outcome = _outcome(own, self._path)
        identity = (as_text(document.get("trajectory_id")), as_text(document.get("session_id")))
        return RecordedRun(self._source, self._conversation.trace("atif", *identity))

    def _check(self, document: Mapping[str, Any]) -> None:
        version = _VERSION.fullmatch(as_text(document.get("schema_version")))
        if version is None or version[1] != "1":
            raise UnreadableInput(
                f"{self._source}: expected {_EXPECTED} of version ATIF-v1.0 to v1.{_NEWEST_MINOR}, got the version "
                f"{str(document.get('schema_version'))[:40]!r}. Write it in one of these, or name another format with "
                "analyze --format."
            )
        if int(version[2]) > _NEWEST_MINOR:
            _logger.warning(
                "%s is %s; it is read as ATIF-v1.%d, and what is new in it is left out",
                self._source,
                version[0],
                _NEWEST_MINOR,
            )
        if not isinstance(document.get("agent"), Mapping) or not isinstance(document.get("steps"), list):
            raise UnreadableInput(
                f"{self._source}: expected {_EXPECTED} with 'agent' and 'steps', got {str(sorted(document))[:80]}. "
                "Export it again."
            )

    def _read(self, document: Mapping[str, Any], caller: int | None, parent: int | None, depth: int) -> int | None:
        """Add a trajectory's steps, called by the step *caller*; return the last step of its agent."""
        self._documents.append(document)
        room = _Room(self._rooms, caller)
        self._rooms += 1
        name = self._unique(_text(document["agent"].get("name")) or "agent", self._names, document)
        identity = _text(document.get("trajectory_id")) or f"trajectory-{room.number}"
        before: list[Mapping[str, Any]] = []
        self._first = {
            **{key: value for key, value in document.items() if key not in ("steps", "subagent_trajectories")},
            **({"trajectory_id": self._unique(identity, self._ids, {})} if parent is not None else {}),
            "parent": parent,
            "before": before,
        }
        given: list[tuple[str, str]] = []
        last: int | None = None
        for step, owner in self._steps(document):
            if last is None and step.get("source") in ("system", "user") and not step.get("observation"):
                before.append(step)
                text = _content(step.get("message"))
                if caller is None and step["source"] == "user":
                    self._conversation.tasks.append(text)
                elif text and (caller is None or text not in self._contents[caller]):
                    given.append((step["source"], text))
                continue
            last = self._add(step, owner, room, name, given, depth)
            given = []
        for child in _children(document).values():
            if not self._has_come(id(child)):
                self._read(child, caller, room.number, depth + 1)
        return last

    def _steps(self, document: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Yield each step with its document: those of the continuations, too, without what they copied."""
        seen = {self._path.name}
        is_continuation = False
        while True:
            for step in document["steps"]:
                if not isinstance(step, Mapping) or step.get("source") not in ("system", "user", "agent"):
                    raise UnreadableInput(
                        f"{self._source}: expected steps with a 'source' of system, user or agent, got "
                        f"{str(step)[:60]!r}. Correct it or remove it."
                    )
                if not (is_continuation and step.get("is_copied_context")):
                    yield step, document
            reference = _text(document.get("continued_trajectory_ref"))
            if not reference or reference in seen:
                return
            seen.add(reference)
            found = self._beside(reference, "goes on")
            if found is None:
                return
            document, is_continuation = found, True

    def _add(
        self,
        step: Mapping[str, Any],
        document: Mapping[str, Any],
        room: _Room,
        name: str,
        given: list[tuple[str, str]],
        depth: int,
    ) -> int:
        """Add one step of ATIF as steps of the run; return the index of the first."""
        source = step["source"]
        agent = _actor(step, name) if source == "agent" else source
        if source != "agent":
            self._conversation.join(source, "user")
        at = {"trajectory": room.number, "step": step.get("step_id")}
        rest: dict[str, Any] = {
            key: _without_numbers(value) if key == "metrics" else value
            for key, value in step.items()
            if key not in ("step_id", "reasoning_content", "tool_calls", "observation")
            and (key != "message" or not isinstance(value, str))
        }
        inputs = room.inputs(agent)
        time_ns = self._clock_ns = _time(step.get("timestamp")) or self._clock_ns
        message, reasoning = _content(step.get("message")), as_text(step.get("reasoning_content"))
        calls = [call for call in _list(step.get("tool_calls")) if isinstance(call, Mapping)]
        spoken: list[tuple[StepKind, str, Mapping[str, Any]]] = []
        if reasoning:
            spoken.append(("plan", reasoning, {}))
        if message or not (reasoning or calls):
            spoken.append(("message", message, {}))
        for call in calls:
            text = f"{as_text(call.get('function_name'))}({as_text(call.get('arguments'))})"
            spoken.append(("tool_call", text, call))
        by_id: dict[str, int] = {}
        indices: list[int] = []
        for kind, text, call in spoken:
            is_first = not indices
            own = {key: value for key, value in call.items() if key != "arguments"}
            index = self._put(
                agent,
                kind,
                text,
                inputs,
                {**at, **(rest if is_first else {}), **({"call": own} if call else {})},
                self._attributes(step, document, call, is_first=is_first) if source == "agent" else {},
                time_ns,
                usage=_usage(step.get("metrics")) if is_first else None,
                given=given if is_first else [],
            )
            indices.append(index)
            if call:
                by_id[as_text(call.get("tool_call_id"))] = index
            else:
                room.spoken.append((agent, index))
        self._answer(step, document, room, agent, by_id, indices[-1], at, time_ns, depth)
        return indices[0]

    def _answer(
        self,
        step: Mapping[str, Any],
        document: Mapping[str, Any],
        room: _Room,
        agent: str,
        calls: Mapping[str, int],
        latest: int,
        at: Mapping[str, Any],
        time_ns: int,
        depth: int,
    ) -> None:
        """Add what came of a step, and the subagents that it called."""
        observation = step.get("observation")
        results = _list(observation.get("results")) if isinstance(observation, Mapping) else []
        for result in results:
            if not isinstance(result, Mapping):
                continue
            call = calls.get(as_text(result.get("source_call_id")), latest)
            references = []
            last: int | None = None
            for reference in _list(result.get("subagent_trajectory_ref")):
                child = self._child(reference, document) if isinstance(reference, Mapping) else None
                if child is None or depth >= _MOST_DEPTH:
                    references.append(reference)
                    continue
                number = self._rooms
                last = self._read(child, call, room.number, depth + 1)
                references.append({"trajectory": number, **{k: v for k, v in reference.items() if k == "extra"}})
            content = result.get("content")
            text = self._contents[last] if content is None and last is not None else _content(content)
            kept = {key: value for key, value in result.items() if key != "content" or not isinstance(value, str)}
            if references:
                kept["subagent_trajectory_ref"] = references
            failed = _has_failed(result)
            index = self._put(agent, "tool_result", text, (call,), {**at, "result": kept}, {}, time_ns, failed=failed)
            room.answer(agent, index)

    def _put(
        self,
        agent: str,
        kind: StepKind,
        text: str,
        inputs: tuple[int, ...],
        kept: Mapping[str, Any],
        attributes: Mapping[str, Any],
        time_ns: int,
        *,
        usage: Usage | None = None,
        failed: bool = False,
        given: list[tuple[str, str]] | None = None,
    ) -> int:
        first = {words.ATIF_TRAJECTORY: _json(self._first)} if self._first else {}
        self._first = {}
        input_text, instructions = _given(given or [])
        marked = {words.STEP_INSTRUCTIONS: instructions} if instructions else {}
        self._contents.append(text)
        return self._conversation.add(
            agent,
            kind,
            text,
            inputs,
            usage=usage,
            start_ns=time_ns,
            error="tool_error" if failed else None,
            attributes={**attributes, **marked, words.ATIF_STEP: _json(kept), **first},
            input_text=input_text,
        )

    def _attributes(
        self, step: Mapping[str, Any], document: Mapping[str, Any], call: Mapping[str, Any], *, is_first: bool
    ) -> dict[str, Any]:
        metrics = step.get("metrics")
        cost = metrics.get("cost_usd") if isinstance(metrics, Mapping) else None
        said = {
            words.REQUEST_MODEL: step.get("model_name") or document["agent"].get("model_name"),
            words.TOOL_NAME: call.get("function_name"),
            words.TOOL_CALL_ID: call.get("tool_call_id"),
        }
        attributes = {key: value for key, value in said.items() if isinstance(value, str) and value}
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and is_first
        return {**attributes, **({words.COST_USD: float(cost)} if is_cost and cost is not None else {})}

    def _child(self, reference: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Find the trajectory that is referred to, the first time; v1.6 and older name the run."""
        children = _children(document)
        for key in (reference.get("trajectory_id"), reference.get("session_id")):
            if isinstance(key, str) and key in children:
                return None if self._has_come(id(children[key])) else children[key]
        path = _text(reference.get("trajectory_path"))
        return self._beside(path, "has a subagent") if path and not self._has_come(path) else None

    def _has_come(self, key: int | str) -> bool:
        """Check whether a subagent was called before: a circle of them, or several at each level, would never end."""
        had = key in self._called
        self._called.add(key)
        return had

    def _beside(self, name: str, what: str) -> Mapping[str, Any] | None:
        """Read a trajectory's file in the same folder or below; one that is not there is a trouble."""
        folder = self._path.resolve().parent
        try:
            path = (folder / name).resolve()
            if "://" in name or not path.is_relative_to(folder) or not path.is_file():
                raise UnreadableInput("no such file beside it")
            document = parse_object(read_bytes(path), str(path), _EXPECTED)
            self._check(document)
        except (BlamespanError, OSError, ValueError) as error:
            self.troubles.append(
                UnreadableInput(
                    f"{self._source}: {what} in {name[:200]!r}, which is not read ({error}). Put that file beside it."
                )
            )
            return None
        return document

    def _unique(self, name: str, taken: set[str], document: Mapping[str, Any]) -> str:
        """Return a name that no other agent, or trajectory, of the run has."""
        chosen, count = name, 1
        while chosen in taken or chosen in ("user", "system"):
            count += 1
            identity = _text(document.get("trajectory_id")) if count == 2 else ""
            chosen = f"{name} {identity or count}"
        taken.add(chosen)
        return chosen


def _first_file(path: Path) -> Path:
    """Find the file of the whole run: the one that names *path*, or names one that does.

    Looked at are those beside it whose names begin alike, up to the first dot: `trajectory.json` names
    `trajectory.cont-1.json`.
    """
    seen = {path.name}
    try:
        beside = sorted(other for other in path.parent.iterdir() if _stem(other) == _stem(path) and other.is_file())
    except OSError:
        return path
    if not 1 < len(beside) <= _MOST_FILES:
        return path
    names: dict[str, str] = {}
    for other in beside:
        with contextlib.suppress(OSError):
            names.update((name, other.name) for name in _files_named_in(other, other.stat().st_mtime_ns))
    while (before := names.get(path.name)) is not None and before not in seen:
        seen.add(before)
        path = path.with_name(before)
    return path


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


@lru_cache(maxsize=1024)
def _files_named_in(path: Path, changed_ns: int) -> tuple[str, ...]:
    """Read which files a trajectory names, once for all that lie beside it; *changed_ns* tells a newer one."""
    del changed_ns
    try:
        return tuple(_named_files(parse_object(read_bytes(path), str(path), _EXPECTED)))
    except UnreadableInput:
        return ()


def _named_files(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that a trajectory names."""
    if reference := _text(document.get("continued_trajectory_ref")):
        yield reference
    for step in _list(document.get("steps")):
        observation = step.get("observation") if isinstance(step, Mapping) else None
        for result in _list(observation.get("results")) if isinstance(observation, Mapping) else []:
            for ref in _list(result.get("subagent_trajectory_ref")) if isinstance(result, Mapping) else []:
                if isinstance(ref, Mapping) and (path := _text(ref.get("trajectory_path"))):
                    yield path


def _children(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        as_text(child.get("trajectory_id") or child.get("session_id") or place): child
        for place, child in enumerate(_list(document.get("subagent_trajectories")))
        if isinstance(child, Mapping)
        and isinstance(child.get("agent"), Mapping)
        and isinstance(child.get("steps"), list)
    }


def _own(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    extra = value.get("extra")
    own = extra.get("blamespan") if isinstance(extra, Mapping) else None
    return own if isinstance(own, Mapping) else None


def _actor(step: Mapping[str, Any], name: str) -> str:
    """Name who acts: of several agents in one trajectory, agentpile and NVIDIA NeMo say it in `extra`."""
    extra = step.get("extra")
    if isinstance(extra, Mapping):
        for holder, key in (("blamespan", "agent"), ("agentpile", "actor"), ("ancestry", "function_name")):
            said = extra.get(holder)
            actor = _text(said.get(key)) if isinstance(said, Mapping) else ""
            if actor and actor not in ("root", "<workflow>", "user", "system"):
                return actor
    return name


def _outcome(own: Mapping[str, Any] | None, path: Path) -> Outcome:
    """Read how a run ended: from what blamespan wrote, or from the reward of Harbor's trial, one folder above."""
    if (told := _told_outcome(own or {})) != "unknown":
        return told
    result = path.resolve().parent.parent / "result.json"
    try:
        if path.resolve().parent.name != "agent" or not result.is_file():
            return "unknown"
        verified = parse_object(read_bytes(result), str(result), "a result of Harbor").get("verifier_result")
    except (UnreadableInput, OSError):
        return "unknown"
    rewards = verified.get("rewards") if isinstance(verified, Mapping) else None
    reward = rewards.get("reward") if isinstance(rewards, Mapping) else None
    return _REWARDS.get(reward, "unknown") if isinstance(reward, int | float) else "unknown"


def _told_outcome(own: Mapping[str, Any]) -> Outcome:
    told = own.get("outcome")
    return cast(Outcome, told) if told in ("succeeded", "failed") else "unknown"


def _given(given: list[tuple[str, str]]) -> tuple[str, tuple[int, ...]]:
    """Join what an agent was given, and mark the stretches of it that are instructions."""
    text, marks = "", list[int]()
    for source, part in given:
        text += "\n\n" if text else ""
        if source == "system":
            marks += [len(text), len(text) + len(part)]
        text += part
    return text, tuple(marks)


def _content(value: object) -> str:
    """Read a message as text; a picture or a sound as where it lies."""
    if not isinstance(value, list):
        return as_text(value)
    texts = []
    for part in value:
        if not isinstance(part, Mapping):
            continue
        source = part.get("source")
        path = as_text(source.get("path")) if isinstance(source, Mapping) else ""
        texts.append(as_text(part["text"]) if part.get("text") is not None else f"[{part.get('type')}: {path}]")
    return "\n".join(texts)


def _has_failed(result: Mapping[str, Any]) -> bool:
    """Check whether the writer says that a call failed: ATIF has no field for it, Harbor's agents use `extra`."""
    extra = result.get("extra")
    if not isinstance(extra, Mapping):
        return False
    return any(extra.get(key) is True for key in ("is_error", "tool_result_is_error")) or extra.get("status") == "error"


def _usage(metrics: object) -> Usage | None:
    return counted(metrics, "prompt_tokens", "completion_tokens") if isinstance(metrics, Mapping) else None


def _without_numbers(metrics: object) -> object:
    if not isinstance(metrics, Mapping):
        return metrics
    return {key: value for key, value in metrics.items() if key not in _UNKEPT}


def _time(value: object) -> int:
    """Read a time; 0 where it is none: some writers number their steps there."""
    try:
        return nanoseconds(value, "") if isinstance(value, str) and value else 0
    except UnreadableInput:
        return 0


def _restore(document: Mapping[str, Any], own: Mapping[str, Any], source: str) -> MessageActionTrace:
    """Read a run that blamespan wrote: each part says its place and all that ATIF has no field for."""
    try:
        parts = sorted(_parts(document), key=lambda part: cast(int, part["index"]))
        return MessageActionTrace(
            trace_id=own["trace_id"],
            task=as_text(own.get("task")),
            steps=tuple(_restore_step(part, index) for index, part in enumerate(parts)),
            agents=tuple(map(_restore_agent, own["agents"])),
            outcome=_told_outcome(own),
            resource=_mapping(own.get("resource") or {}),
        )
    except (BlamespanError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableInput(
            f"{source}: expected {_EXPECTED} as blamespan wrote it, got one that was changed ({error}). "
            "Remove 'extra.blamespan' at its top to have it read like any other."
        ) from error


def _parts(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what blamespan says of each part of a trajectory, with the part's text."""
    for step in document["steps"]:
        own = _own(step) if isinstance(step, Mapping) else None
        for part in _list(own.get("parts")) if own else []:
            yield {"content": step.get(part.get("at", "message")) or "", **part}
        for call in _list(step.get("tool_calls")):
            said = _own(call)
            if said:
                text = f"{call.get('function_name')}({as_text(call.get('arguments'))})"
                yield {"content": text, "kind": "tool_call", **said}
        for result in _list((step.get("observation") or {}).get("results")):
            said = _own(result)
            if said:
                yield {"content": result.get("content") or "", "kind": "tool_result", **said}


def _restore_step(part: Mapping[str, Any], index: int) -> Step:
    if part["index"] != index:
        raise ValueError(f"expected a part with index {index}, got {part['index']!r}")
    usage, status = part.get("usage"), part.get("status", "unset")
    if status not in get_args(StepStatus):
        raise ValueError(f"expected a status as one of {get_args(StepStatus)}, got {status!r}")
    return Step(
        index,
        part["span_id"],
        part["agent"],
        part.get("kind", "message"),
        as_text(part["content"]),
        tuple(map(str, part.get("recipients", ()))),
        tuple(part.get("inputs", ())),
        status,
        None if part.get("error") is None else as_text(part["error"]),
        _count(part.get("start_ns", 0)),
        _count(part.get("end_ns", 0)),
        Usage(*map(_count, usage)) if usage else None,
        _mapping(part.get("attributes") or {}),
        as_text(part.get("input_text")),
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"expected a count or a time, got {str(value)[:60]!r}")
    return value


def _restore_agent(said: Mapping[str, Any]) -> Agent:
    if said["role"] not in get_args(AgentRole):
        raise ValueError(f"expected a role as one of {get_args(AgentRole)}, got {said['role']!r}")
    about = [None if said.get(key) is None else as_text(said[key]) for key in ("id", "description")]
    return Agent(as_text(said["name"]), said["role"], *about)


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected attributes, got {str(value)[:60]!r}")
    return cast(Mapping[str, Any], _tuples(value))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
