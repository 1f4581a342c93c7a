"""Executions of Flowise's agentflows: rows and pages of its API, its export of all data, answers that tell their nodes.

Source: Flowise 3, `Execution.ts`, `Interface.Agentflow.ts` (`IAgentflowExecutedData`), and what its nodes return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.dialects._values import as_text, counted, number, parse_structure
from blamespan_integrations.importers._node_runs import (
    ELSE,
    BranchCase,
    NodeExecution,
    NodeRuns,
    as_object,
    text_of_outputs,
)
from blamespan_integrations.importers._records import JsonValue, json_objects, objects_in, read_each

_EXPECTED = "an execution of a Flowise agentflow"
_ROW = re.compile(rb'"executionData"\s*:\s*(?:"|\[)')
_MODELS = frozenset({"llm", "agent", "conditionAgent"})
_TOOLS = frozenset({"tool", "http", "customFunction", "retriever", "executeFlow"})
_ROUNDS = frozenset({"iteration", "loop"})
_FAILED = frozenset({"ERROR", "TIMEOUT"})
_OPERATORS: Mapping[str, str] = {
    "equal": "equals",
    "notEqual": "not equals",
    "larger": ">",
    "largerEqual": "≥",
    "smaller": "<",
    "smallerEqual": "≤",
    "isEmpty": "empty",
}
"""Where Flowise has another word for a comparison than other platforms."""
_NUMBERS: Mapping[str, str] = {"equal": "=", "notEqual": "≠"}


class FlowiseImporter:
    """Reads executions of Flowise's agentflows."""

    name = "flowise"
    description = (
        "Flowise agentflow executions and answers that tell their nodes; loses times but of models, and sources"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of an execution or an answer."""
        del path
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return False
        return b'"agentFlowExecutedData"' in head or (
            bool(_ROW.search(head)) and b'"nodeLabel' in head.replace(b"\\", b"")
        )

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per execution, and errors in their place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return read_each(json_objects(path, _EXPECTED), _runs)


def _runs(item: JsonValue) -> Iterator[RecordedRun | UnreadableInput]:
    """Yield the runs of a row, a page of them, an export or an answer."""
    rows = item.value.get("data") if "executionData" not in item.value else None
    rows = item.value.get("Execution") if rows is None else rows
    if not isinstance(rows, list):
        yield from _run(as_object(rows) if "agentFlowExecutedData" in as_object(rows) else item.value, item.location)
        return
    for place, row in enumerate(rows):
        yield from _run(as_object(row), f"{item.location} execution {place}")


def _run(record: Mapping[str, Any], location: str) -> Iterator[RecordedRun | UnreadableInput]:
    executed = parse_structure(record.get("executionData", record.get("agentFlowExecutedData")))
    nodes = [each for each in executed if isinstance(each, dict)] if isinstance(executed, list) else []
    if not nodes:
        yield UnreadableInput(
            f"{location}: expected {_EXPECTED} with what its nodes did, got {as_text(record)[:60]!r}. Export it with "
            "GET /api/v1/executions/ID, of Flowise 3.0 or later."
        )
        return
    flow = _FlowiseRun(location)
    for node in nodes:
        flow.add(node)
    state = as_text(record.get("state"))
    if state in _FAILED or any(as_text(node.get("status")) == "ERROR" for node in nodes):
        flow.told.fail("", flow.told.last)
    question = as_text(record.get("question"))
    if question and not flow.told.conversation.tasks:
        flow.told.conversation.tasks.append(question)
    identity = as_text(record.get("id", record.get("executionId")))
    yield from flow.told.conversation.finish("flowise", identity, waits=state == "STOPPED")


class _FlowiseRun:
    """A run as far as it is known."""

    def __init__(self, location: str) -> None:
        self.told = NodeRuns(location)
        self._last: dict[str, tuple[int, ...]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add what one node did."""
        data = as_object(record.get("data"))
        kind = as_text(data.get("name")).removesuffix("Agentflow")
        node = as_text(record.get("nodeId"))
        inputs, output = as_object(data.get("input")), as_object(data.get("output"))
        execution = self._execution(record, data, kind, output)
        if kind == "start":
            self._ask(output or inputs)
            self._last[node] = ()
            return
        index = self._add(execution, kind, inputs, output)
        self._last[node] = execution.after if index is None else (index,)

    def _execution(
        self, record: Mapping[str, Any], data: Mapping[str, Any], kind: str, output: Mapping[str, Any]
    ) -> NodeExecution:
        before = record.get("previousNodeIds")
        names = [as_text(name) for name in before] if isinstance(before, list) else []
        parent = as_text(data.get("parentNodeId"))
        after = {index for name in (*names, *([parent] if parent else [])) for index in self._last.get(name, ())}
        times, usage = as_object(output.get("timeMetadata")), as_object(output.get("usageMetadata"))
        start, end = number(times.get("start")) or 0, number(times.get("end")) or 0
        is_timed = max(start, end) < 2**63 // 1_000_000
        node = as_text(record.get("nodeId"))
        error = as_text(data.get("error")) or ("node failed" if as_text(record.get("status")) in _FAILED else "")
        return NodeExecution(
            node=node,
            title=as_text(record.get("nodeLabel")) or node,
            type=f"{kind}Agentflow",
            after=tuple(sorted(after)),
            outputs={key: value for key, value in output.items() if key in ("content", "http", "conditions")},
            error=error,
            start_ns=start * 1_000_000 if is_timed else 0,
            end_ns=end * 1_000_000 if is_timed else 0,
            usage=counted(usage, "input_tokens", "output_tokens"),
        )

    def _add(
        self, execution: NodeExecution, kind: str, inputs: Mapping[str, Any], output: Mapping[str, Any]
    ) -> int | None:
        content = as_text(output.get("content"))
        if kind in _MODELS:
            return self._say(execution, inputs, output)
        if kind == "condition":
            cases, taken = _cases(objects_in(output.get("conditions")))
            return self.told.decide(execution, f"takes {taken}", cases, taken)
        if kind in _ROUNDS:
            return self.told.decide(execution, f"rounds over {as_text(inputs)}")
        if kind == "directReply":
            return self.told.return_answer(execution, content)
        if kind == "humanInput":
            return self.told.tell(execution, content)  # what a person is asked; the answer goes on in another part
        if kind in _TOOLS:
            arguments = inputs.get("toolInputArgs", inputs.get("http", inputs))
            return self.told.call(execution, as_text(arguments), content or text_of_outputs(execution.outputs or {}))
        return self.told.tell(execution, content or text_of_outputs(output))

    def _say(self, execution: NodeExecution, inputs: Mapping[str, Any], output: Mapping[str, Any]) -> int:
        """Add what an agent called, and its message; what was called stands among its messages once more."""
        name = self.told.name_of(execution.node, execution.title)
        after = execution.after
        for used in objects_in(output.get("usedTools")):
            answer = as_text(used.get("toolOutput"))
            tool = NodeExecution(
                "",
                as_text(used.get("tool")),
                "tool",
                after,
                outputs={"content": answer},
                error=as_text(used.get("error")),
            )
            after = (self.told.call(tool, as_text(used.get("toolInput") or {}), answer, agent=name),)
        given = "\n\n".join(
            f"{as_text(message.get('role'))}: {as_text(message.get('content'))}"
            for message in objects_in(inputs.get("messages"))
            if message.get("role") != "tool" and not message.get("tool_calls")
        )
        spoken = replace(execution, after=after)
        fulfilled = [each for each in objects_in(output.get("conditions")) if each.get("isFulfilled")]
        chosen = [as_text(each.get("output")) for each in fulfilled]
        return self.told.say(spoken, as_text(output.get("content")) or ", ".join(chosen), given)

    def _ask(self, inputs: Mapping[str, Any]) -> None:
        text = as_text(inputs.get("question")) or text_of_outputs(as_object(inputs.get("form")) or inputs)
        if text and not self.told.conversation.tasks:
            self.told.conversation.tasks.append(text)


def _cases(conditions: Sequence[Mapping[str, Any]]) -> tuple[list[BranchCase], str]:
    """Return the cases of a branch and the one it took; the last of what Flowise lists stands for `else`."""
    cases = [
        BranchCase(
            str(place),
            "and",
            (
                {
                    "actual": condition.get("value1"),
                    "operator": _operator(condition),
                    "expected": condition.get("value2"),
                },
            ),
        )
        for place, condition in enumerate(conditions[:-1])
    ]
    taken = next((str(place) for place, each in enumerate(conditions) if each.get("isFulfilled") is True), ELSE)
    return cases, ELSE if taken == str(len(cases)) else taken


def _operator(condition: Mapping[str, Any]) -> str:
    operation = as_text(condition.get("operation"))
    numbers = _NUMBERS if condition.get("type") == "number" else {}
    return numbers.get(operation) or _OPERATORS.get(operation, operation)
