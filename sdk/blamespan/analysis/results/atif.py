"""Results as ATIF, Harbor's trajectory format: a document per run, its verdict in `extra.blamespan`.

What ATIF has no field for stands in `extra.blamespan` of the step, call or result, so that the importer gives the same
run again. A run that was read from ATIF is written as it stood there. Source: harbor 0.26.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from blamespan import conventions as words
from blamespan.json_text import parse_json
from blamespan.trace import MessageActionTrace, Step

VERSION: Final = "ATIF-v1.7"
"""What is written; a run that holds sound is written as v1.8, which has it first."""
_WITH_SOUND: Final = "ATIF-v1.8"
_UNSAID: Final[Mapping[str, Any]] = {
    "status": "unset",
    "error": None,
    "recipients": (),
    "inputs": (),
    "start_ns": 0,
    "end_ns": 0,
    "usage": None,
    "attributes": {},
    "input_text": "",
}
"""Fields of a step that `extra` names only where they say something else."""


def to_atif(trace: MessageActionTrace, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Lay out a run with its verdict as an ATIF trajectory, as JSON has it.

    Args:
        trace: The run.
        verdict: What is said of it, as in a row of `blamespan.analysis.results.rows`.
    """
    writer: _FromAtif | _FromSteps
    try:
        writer = _FromAtif(trace) if _is_from_atif(trace) else _FromSteps(trace)
        document = writer.document()
    except (KeyError, TypeError, ValueError, AttributeError):  # attributes that somebody else wrote, or changed
        writer = _FromSteps(trace)
        document = writer.document()
    index = verdict.get("step")
    at = {} if index is None else {"step_id": writer.place_of[index][1], "trajectory_id": writer.place_of[index][0]}
    extra = _as_mapping(document.get("extra"))
    own = {**_as_mapping(extra.get("blamespan")), "outcome": trace.outcome, "verdict": {**verdict, **at}}
    document["extra"] = {**extra, "blamespan": own}
    return _plain_mapping(document)


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_from_atif(trace: MessageActionTrace) -> bool:
    return bool(trace.steps) and all(words.ATIF_STEP in step.attributes for step in trace.steps)


class _FromSteps:
    """Writes a run of any source: one trajectory, whose steps name their agents in `extra`."""

    def __init__(self, trace: MessageActionTrace) -> None:
        self._trace = trace
        self._roles = {agent.name: agent.role for agent in trace.agents}
        self._steps: list[dict[str, Any]] = []
        self._step_of: dict[int, dict[str, Any]] = {}
        self.place_of: dict[int, tuple[str, int]] = {}

    def document(self) -> dict[str, Any]:
        """Lay the run out."""
        trace = self._trace
        if trace.task or not trace.steps:
            self._steps.append({"source": "user", "message": trace.task})
        for step in trace.steps:
            self._step_of[step.index] = self._add(step)
        for number, one in enumerate(self._steps, 1):
            one["step_id"] = number
        numbers = {id(one): one["step_id"] for one in self._steps}
        self.place_of = {index: (trace.trace_id, numbers[id(one)]) for index, one in self._step_of.items()}
        deciding = [agent.name for agent in trace.agents if agent.role == "agent"]
        service = trace.resource.get("service.name")
        name = deciding[0] if len(deciding) == 1 else service if isinstance(service, str) and service else "team"
        return {
            "schema_version": VERSION,
            "session_id": trace.trace_id,
            "trajectory_id": trace.trace_id,
            "agent": {"name": name, "version": str(trace.resource.get("service.version") or "unknown")},
            "steps": [{"step_id": one.pop("step_id"), **one} for one in self._steps],
            **_totals(trace),
            "extra": {
                "blamespan": {
                    "trace_id": trace.trace_id,
                    "task": trace.task,
                    "agents": [asdict(agent) for agent in trace.agents],
                    "resource": trace.resource,
                }
            },
        }

    def _add(self, step: Step) -> dict[str, Any]:
        """Write a step into a new one of ATIF, or into the one that it belongs to; return that."""
        source = {"agent": "agent", "user": "user", "executor": "system"}[self._roles[step.agent]]
        latest = self._latest(step, source)
        if step.kind == "tool_call":
            at = latest if latest is not None and "observation" not in latest else self._begin(step, source)
            if source == "agent":
                at.setdefault("tool_calls", []).append(self._call(step, at))
            else:  # ATIF lets an agent alone call tools
                self._say(step, at, "message")
        elif step.kind == "tool_result":
            call = next(
                (self._step_of[index] for index in step.inputs if self._trace.steps[index].kind == "tool_call"), None
            )
            at = call if call is not None else self._steps[-1] if self._steps else self._begin(step, "system")
            at.setdefault("observation", {"results": []})["results"].append(self._result(step, at))
        elif step.kind == "plan" and source == "agent" and step.content:
            at = self._begin(step, source)
            self._say(step, at, "reasoning_content")
        else:
            at = latest if latest is not None and _has_only_reasoned(latest) else self._begin(step, source)
            self._say(step, at, "message")
        return at

    def _latest(self, step: Step, source: str) -> dict[str, Any] | None:
        """Return the step of ATIF that the same agent made just before."""
        if not step.index or source != "agent" or self._trace.steps[step.index - 1].agent != step.agent:
            return None
        before = self._step_of[step.index - 1]
        return before if before is self._steps[-1] and before["source"] == "agent" else None

    def _begin(self, step: Step, source: str) -> dict[str, Any]:
        begun: dict[str, Any] = {}
        if step.start_ns > 0 and (timestamp := _iso(step.start_ns)):
            begun["timestamp"] = timestamp
        begun |= {"source": source}
        model = step.attributes.get(words.RESPONSE_MODEL) or step.attributes.get(words.REQUEST_MODEL)
        if source == "agent" and isinstance(model, str):
            begun["model_name"] = model
        begun["message"] = ""
        begun["extra"] = {"blamespan": {"agent": step.agent}}
        self._steps.append(begun)
        return begun

    def _say(self, step: Step, at: dict[str, Any], key: str) -> None:
        at[key] = step.content
        own = at["extra"]["blamespan"]
        own.setdefault("parts", []).append({**_fields(step), "kind": step.kind, "at": key})
        if step.usage is not None and at["source"] == "agent":
            _add_usage(at, step)

    def _call(self, step: Step, at: dict[str, Any]) -> dict[str, Any]:
        name, arguments = _parse_call(step)
        own = _fields(step)
        if step.content != f"{name}({_as_text(arguments)})":
            own["content"] = step.content
        taken = {call["tool_call_id"] for call in at.get("tool_calls", ())}
        identity = step.attributes.get(words.TOOL_CALL_ID)
        is_free = isinstance(identity, str) and identity and identity not in taken
        if step.usage is not None:
            _add_usage(at, step)
        return {
            "tool_call_id": identity if is_free else f"call_{step.index}",
            "function_name": name,
            "arguments": arguments,
            "extra": {"blamespan": own},
        }

    def _result(self, step: Step, at: dict[str, Any]) -> dict[str, Any]:
        answered = step.inputs[0] if len(step.inputs) == 1 else None
        calls = [call for call in at.get("tool_calls", ()) if call["extra"]["blamespan"]["index"] == answered]
        return {
            **({"source_call_id": calls[0]["tool_call_id"]} if calls else {}),
            "content": step.content,
            "extra": {"blamespan": _fields(step)},
        }


def _has_only_reasoned(at: Mapping[str, Any]) -> bool:
    parts = at["extra"]["blamespan"].get("parts", ())
    return [part["at"] for part in parts] == ["reasoning_content"] and not {"tool_calls", "observation"} & at.keys()


class _FromAtif:
    """Writes a run that was read from ATIF: its trajectories and steps as they stood there."""

    def __init__(self, trace: MessageActionTrace) -> None:
        self._trace = trace
        self._documents: dict[int, dict[str, Any]] = {}
        self._parents: dict[int, int | None] = {}
        self._steps: dict[tuple[int, Any], dict[str, Any]] = {}
        self.place_of: dict[int, tuple[str, int]] = {}

    def document(self) -> dict[str, Any]:
        """Lay the run out.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if the attributes are not what the importer writes.
        """
        keys = [self._add(step) for step in self._trace.steps]
        for number, document in self._documents.items():
            for place, step in enumerate(document["steps"], 1):
                step["step_id"] = place
                for result in step.get("observation", {}).get("results", ()):
                    self._refer(result.get("subagent_trajectory_ref") or ())
            document["steps"] = [{"step_id": step["step_id"], **step} for step in document["steps"]]
            if (parent := self._parents[number]) is not None:
                self._documents[parent].setdefault("subagent_trajectories", []).append(document)
        self.place_of = {
            index: (self._documents[key[0]].get("trajectory_id", ""), self._steps[key]["step_id"])
            for index, key in enumerate(keys)
        }
        return self._documents[0]

    def _add(self, step: Step) -> tuple[int, Any]:
        """Write a step into the one of ATIF that it was read from; return that one's trajectory and number."""
        kept = _parse(step.attributes[words.ATIF_STEP])
        call, result = kept.pop("call", None), kept.pop("result", None)
        key = (kept.pop("trajectory"), kept.pop("step"))
        if words.ATIF_TRAJECTORY in step.attributes:
            self._begin(key[0], _parse(step.attributes[words.ATIF_TRAJECTORY]))
        if key not in self._steps:
            self._steps[key] = {"message": "", **kept}
            self._documents[key[0]]["steps"].append(self._steps[key])
        at = self._steps[key]
        if result is not None:
            results = at.setdefault("observation", {"results": []})["results"]
            results.append({"content": step.content, **result})
        elif call is not None:
            text = step.content.partition("(")[2][:-1]
            at.setdefault("tool_calls", []).append({**call, "arguments": parse_json(text) if text else {}})
        elif step.kind == "plan":
            at["reasoning_content"] = step.content
        elif not isinstance(at["message"], list):
            at["message"] = step.content
        return key

    def _begin(self, number: int, document: dict[str, Any]) -> None:
        self._parents[number] = document.pop("parent")
        before = document.pop("before")
        document.pop("continued_trajectory_ref", None)  # its steps are among these
        document["schema_version"] = _WITH_SOUND if document["schema_version"] == _WITH_SOUND else VERSION
        document["agent"] = {"version": "unknown", **document["agent"]}
        document["steps"] = [{key: value for key, value in step.items() if key != "step_id"} for step in before]
        self._documents[number] = document

    def _refer(self, references: Iterable[dict[str, Any]]) -> None:
        """Name the subagents by what they are called now: the importer numbers them."""
        for reference in references:
            if "trajectory" in reference:
                reference["trajectory_id"] = self._documents[reference.pop("trajectory")]["trajectory_id"]


def _fields(step: Step) -> dict[str, Any]:
    """Return what a step is beside its text, without what goes without saying."""
    usage = None if step.usage is None else (step.usage.input_tokens, step.usage.output_tokens)
    fields = {key: getattr(step, key) for key in _UNSAID} | {"usage": usage}
    told = {key: value for key, value in fields.items() if value != _UNSAID[key]}
    return {"index": step.index, "span_id": step.span_id, "agent": step.agent, **told}


def _parse_call(step: Step) -> tuple[str, dict[str, Any]]:
    """Part a call into its tool and arguments; what is no JSON object stands under `input`."""
    name = step.attributes.get(words.TOOL_NAME)
    said, _, text = step.content.partition("(")
    if isinstance(name, str) and step.content.startswith(f"{name}("):
        said, text = name, step.content[len(name) + 1 :]
    text = text.removesuffix(")")
    try:
        arguments = parse_json(text)
    except ValueError:
        arguments = None
    return said or "tool", arguments if isinstance(arguments, dict) else {"input": text} if text else {}


def _totals(trace: MessageActionTrace) -> dict[str, Any]:
    used = [step.usage for step in trace.steps if step.usage is not None]
    if not used:
        return {}
    read, written = sum(usage.input_tokens for usage in used), sum(usage.output_tokens for usage in used)
    return {"final_metrics": {"total_prompt_tokens": read, "total_completion_tokens": written}}


def _add_usage(at: dict[str, Any], step: Step) -> None:
    assert step.usage is not None  # the callers look
    metrics = at.setdefault("metrics", {"prompt_tokens": 0, "completion_tokens": 0})
    metrics["prompt_tokens"] += step.usage.input_tokens
    metrics["completion_tokens"] += step.usage.output_tokens
    cost = step.attributes.get(words.COST_USD)
    if isinstance(cost, float):
        metrics["cost_usd"] = metrics.get("cost_usd", 0.0) + cost


def _parse(value: object) -> dict[str, Any]:
    try:
        parsed = parse_json(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def _as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _iso(time_ns: int) -> str:
    try:
        return (
            datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
            .replace(microsecond=time_ns // 1_000 % 1_000_000)
            .isoformat()
        )
    except (ValueError, OverflowError, OSError):
        return ""


def _plain_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(item) for key, item in value.items()}


def _plain(value: Any) -> Any:
    """Make plain JSON of a value: tuples as lists, and no NaN, which JSON lacks."""
    if isinstance(value, Mapping):
        return _plain_mapping(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value
