"""Runs of Dify workflows: executions of nodes as its APIs list them, and the events it streams, as lines or by SSE.

`workflow-runs/{id}/node-executions` gives `{"data": [...]}`; the run's detail, before or after it in the file, adds
the task, the status, and the graph, which tells what each variable reads. Source: Dify 0.6 to 1.9,
`workflow_run_fields.py`, `task_entities.py`, and what its nodes give as results.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of, read_lines
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import parse_json
from blamespan_integrations.dialects._values import as_text, counted, parse_structure
from blamespan_integrations.importers._conversation import MAX_STEPS
from blamespan_integrations.importers._node_runs import (
    ELSE,
    BranchCase,
    NodeExecution,
    NodeRuns,
    as_object,
    text_of_outputs,
)
from blamespan_integrations.importers._records import json_values, objects_in
from blamespan_integrations.importers._span_values import nanoseconds

_EXPECTED = "node executions, a run's detail or streamed events of Dify"
_EVENT = re.compile(
    rb'"event"\s*:\s*"(?:workflow_started|workflow_finished|node_started|node_finished|iteration_started|loop_started)"'
)
_NODE = re.compile(rb'"node_type"\s*:\s*"')
_DETAIL = re.compile(rb'"total_steps"\s*:')
_STREAM = re.compile(rb"\s*+(?:data|event|id|retry|:)[:\s]")
_FIELD = re.compile(r"(?:event|id|retry)\s*:|:")
_REFERENCE = re.compile(r"#?([^.#{}\s]+)\.([^#{}\s]+?)#?")
_TEMPLATE = re.compile(r"\{\{#([^.#{}\s]+)\.([^#{}\s]+)#\}\}")

_MODELS = frozenset({"llm", "agent", "question-classifier", "parameter-extractor"})
_TOOLS = frozenset(
    {
        *("tool", "http-request", "code", "knowledge-retrieval", "template-transform", "variable-aggregator"),
        *("variable-assigner", "assigner", "document-extractor", "list-operator", "datasource", "knowledge-index"),
    }
)
_ROUNDS = frozenset({"iteration", "loop"})
_STARTS = frozenset({"start", "trigger-webhook", "trigger-schedule", "trigger-plugin"})
_SILENT = frozenset({"iteration-start", "loop-start", "loop-end"})
_ENDS = frozenset({"end", "answer"})
_OUTSIDE = frozenset({"sys", "env", "conversation"})
"""What stands where a node's id does in variables that are no node's."""
_FAILED = frozenset({"failed", "exception", "retry"})
_MAX_OPEN = 64
"""Runs that may be streamed at once; of more, the one that was silent longest has ended."""
_MAX_TAILS = 32


class DifyImporter:
    """Reads runs of Dify."""

    name = "dify"
    description = "Dify node executions, with the run's detail or without, and streamed events; loses most model calls"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first event, execution or run."""
        del path
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start[:1] not in (b"{", b"[") and not _STREAM.match(start):
            return False
        if _EVENT.search(head):
            return b'"workflow_run_id"' in head or b'"task_id"' in head
        is_execution = bool(_NODE.search(head)) and b'"node_id"' in head
        return is_execution or (bool(_DETAIL.search(head)) and b'"graph"' in head and b'"inputs"' in head)

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run once it ends, and errors in their place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        reader = _DifyReader()
        for location, value in _values(path):
            if isinstance(value, UnreadableInput):
                yield value
                continue
            try:
                yield from reader.take(value, location)
            except UnreadableInput as error:
                yield error
        yield from reader.finish()


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of a file, those of a server-sent stream too; for what is none, the error."""
    if not _STREAM.match(head_of(path).lstrip(b"\xef\xbb\xbf")):
        for item in json_values(path, _EXPECTED):
            is_error = isinstance(item, UnreadableInput)
            yield (str(path), item) if is_error else (item.location, item.value)  # type: ignore[union-attr]
        return
    refused: list[UnreadableInput] = []
    try:
        for number_of_line, raw in read_lines(path, refused=refused):
            yield from ((str(path), error) for error in refused)
            refused.clear()
            location = f"{path}:{number_of_line}"
            text = raw.decode("utf-8", "replace").lstrip("\ufeff").strip().removeprefix("data:").strip()
            if not text or text == "[DONE]" or _FIELD.match(text):
                continue
            try:
                yield location, parse_json(text)
            except ValueError as error:
                yield (
                    location,
                    UnreadableInput(
                        f"{location}: expected {_EXPECTED}, got no JSON: {text[:60]!a} ({error}). Remove the line."
                    ),
                )
    except UnreadableInput as error:
        yield str(path), error
    yield from ((str(path), error) for error in refused)


class _DifyReader:
    """Puts together what belongs to one run: a detail and its executions, or the events of a stream."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _DifyRun] = OrderedDict()
        self._detail: tuple[Mapping[str, Any], str] | None = None
        self._listed: tuple[list[Any], str] | None = None
        self._listed_run: object = None
        self._is_loose = False

    def take(self, value: object, location: str) -> Iterator[RecordedRun | UnreadableInput]:
        """Take up one value of the file.

        Raises:
            UnreadableInput: if it is nothing that Dify writes of a run.
        """
        record = as_object(value)
        data = record.get("data")
        if isinstance(record.get("event"), str):
            yield from self._take_event(record, location)
        elif isinstance(data, list) and data and all(_is_execution(each) for each in data):
            yield from self._flush(keep_detail=True)
            self._listed, self._is_loose = (data, location), False
            yield from self._pair()
        elif _is_execution(record):
            run = record.get("workflow_run_id")
            if self._listed is None or not self._is_loose or run != self._listed_run:
                yield from self._flush(keep_detail=True)
                self._listed, self._is_loose, self._listed_run = ([], location), True, run
            if len(self._listed[0]) <= MAX_STEPS:  # of more the run is refused, and no more need be held
                self._listed[0].append(record)
        elif "status" in record and record.keys() & {"graph", "inputs", "total_steps"}:
            if self._detail is not None:
                yield from self._flush()
            self._detail = (record, location)
            if not self._is_loose:
                yield from self._pair()
        elif isinstance(data, dict) and "workflow_run_id" in record:
            raise UnreadableInput(
                f"{location}: expected {_EXPECTED}, got a blocking response, which tells of no node. Fetch "
                f"workflow-runs/{record.get('workflow_run_id')}/node-executions, or ask for response_mode streaming."
            )
        else:
            raise UnreadableInput(
                f"{location}: expected {_EXPECTED}, of version 0.6 or later, got {as_text(value)[:60]!r}. "
                "Export a run, not the app."
            )

    def finish(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield what has not ended when the file does."""
        yield from self._flush()
        for run in self._open.values():
            yield from run.finish()

    def _pair(self) -> Iterator[RecordedRun | UnreadableInput]:
        if self._detail is not None and self._listed is not None:
            yield from self._flush()

    def _flush(self, *, keep_detail: bool = False) -> Iterator[RecordedRun | UnreadableInput]:
        if self._listed is not None:
            executions, location = self._listed
            detail = self._detail[0] if self._detail else {}
            self._listed = self._detail = None
            run = _DifyRun(location, str(detail.get("id") or self._listed_run or ""))
            run.know(detail)
            for execution in sorted(executions, key=_place):
                try:
                    run.end(execution)
                except UnreadableInput as error:
                    yield error
            if detail:
                run.close(detail)
            yield from run.finish()
        elif self._detail is not None and not keep_detail:
            _, location = self._detail
            self._detail = None
            yield UnreadableInput(
                f"{location}: expected the executions of the run's nodes beside its detail, got the detail alone. "
                "Fetch workflow-runs/ID/node-executions too, and put both into one file."
            )

    def _take_event(self, event: Mapping[str, Any], location: str) -> Iterator[RecordedRun | UnreadableInput]:
        key = as_text(event.get("workflow_run_id") or event.get("task_id"))
        name, data = event["event"], as_object(event.get("data"))
        if not key or name in ("ping", "message", "text_chunk", "text_replace", "message_end"):
            return
        run = self._open.get(key)
        if run is None:
            run = self._open[key] = _DifyRun(location, key)
        self._open.move_to_end(key)
        while len(self._open) > _MAX_OPEN:
            yield from self._open.popitem(last=False)[1].finish()
        run.hear(name, data, event)
        if name == "workflow_finished":
            yield from self._open.pop(key).finish()


def _is_execution(value: object) -> bool:
    return isinstance(value, Mapping) and "node_type" in value and "node_id" in value


def _place(execution: Mapping[str, Any]) -> tuple[float, float]:
    index, created = execution.get("index"), execution.get("created_at")
    return (
        float(index) if isinstance(index, int) and abs(index) < 2**53 else 0.0,
        float(created) if isinstance(created, int | float) and abs(created) < 2**53 else 0.0,
    )


class _DifyRun:
    """A run as far as it is known."""

    def __init__(self, location: str, run_id: str) -> None:
        self._location = location
        self._id = run_id
        self._nodes = NodeRuns(location)
        self._last: dict[tuple[str, object], tuple[int, ...]] = {}
        self._tails: dict[str, dict[object, int]] = defaultdict(dict)
        self._reads: dict[str, dict[str, tuple[str, str]]] = {}
        self._edges: dict[str, list[str]] = defaultdict(list)
        self._logs: dict[str, dict[str, Any]] = defaultdict(dict)
        self._begun: dict[str, Mapping[str, Any]] = {}
        self._kinds: dict[str, str] = {}
        self._waits = False
        self._n_logs = 0
        self._ended: set[str] = set()
        self._silent: set[str] = set()

    def know(self, detail: Mapping[str, Any]) -> None:
        """Take the task and the graph from a run's detail."""
        self._ask(parse_structure(detail.get("inputs")))
        graph = as_object(parse_structure(detail.get("graph")))
        for node in objects_in(graph.get("nodes")):
            self._reads[as_text(node.get("id"))] = _variables(as_object(node.get("data")))
        for edge in objects_in(graph.get("edges")):
            self._edges[as_text(edge.get("target"))].append(as_text(edge.get("source")))

    def hear(self, name: str, data: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Take up one event of a stream.

        Raises:
            UnreadableInput: if it tells of a node without naming it, or of a time that is none.
        """
        key = as_text(data.get("id") or data.get("node_id"))
        if name == "workflow_started":
            self._ask(data.get("inputs"))
        elif name in ("iteration_started", "loop_started"):
            self.end({"node_type": name.partition("_")[0], **data, "outputs": {}})
        elif name in ("iteration_completed", "loop_completed"):
            self._end_rounds(data)
        elif self._nodes.conversation.is_full:
            return
        elif name == "node_started" and len(self._begun) <= MAX_STEPS:
            self._begun[key] = data
        elif name in ("node_finished", "node_retry"):
            self._begun.pop(key, None)
            self.end(data)
        elif name == "agent_log" and self._n_logs < MAX_STEPS:
            self._n_logs += 1
            self._logs[as_text(data.get("node_execution_id"))][key] = data
        elif name == "workflow_finished":
            self.close(data)
        elif name == "error":
            self._nodes.fail(as_text(event.get("message")), self._nodes.last)

    def end(self, record: Mapping[str, Any]) -> None:
        """Add the execution of a node that has ended, or was still at work when it was exported.

        Raises:
            UnreadableInput: if it names no node, or a time that is none.
        """
        if self._nodes.conversation.is_full:
            return
        execution = self._execution(record)
        round_of, container = _round(record)
        index = self._add(execution, record)
        self._ended.add(execution.node)
        if index is None:
            self._silent.add(execution.node)
            self._last[execution.node, round_of] = self._last[execution.node, None] = execution.after
            return
        if execution.type in _ROUNDS:
            self._kinds[execution.node] = execution.type
            self._last[f"{execution.node}start", None] = (index,)
        self._last[execution.node, round_of] = self._last[execution.node, None] = (index,)
        if container:
            self._tails[container][round_of] = index

    def close(self, detail: Mapping[str, Any]) -> None:
        """Take up how the run ended."""
        self._waits = detail.get("status") == "paused"
        if detail.get("status") == "failed":
            self._nodes.fail(as_text(detail.get("error")), self._nodes.last)

    def finish(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the run; nodes that began and did not end are its last steps."""
        errors: list[UnreadableInput] = []
        for record in self._begun.values():
            try:
                self.end({**record, "status": "running"})
            except UnreadableInput as error:
                errors.append(error)
        yield from errors
        yield from self._nodes.conversation.finish("dify", self._id, waits=self._waits)

    def _ask(self, inputs: object) -> None:
        tasks = self._nodes.conversation.tasks
        task = _task(as_object(inputs))
        if task and not tasks:
            tasks.append(task)

    def _execution(self, record: Mapping[str, Any]) -> NodeExecution:
        node = record.get("node_id")
        if not isinstance(node, str) or not node:
            raise UnreadableInput(
                f"{self._location}: expected the execution of a node with 'node_id' as text, got {node!r}. "
                "Export the run again."
            )
        inputs = as_object(parse_structure(record.get("inputs")))
        process = as_object(parse_structure(record.get("process_data")))
        outputs = as_object(parse_structure(record.get("outputs")))
        usage = as_object(outputs.get("usage")) or as_object(process.get("usage"))
        start_ns, end_ns = self._times(record)
        node_type = as_text(record.get("node_type"))
        status = as_text(record.get("status"))
        reads = self._reads_of(node, node_type, inputs, process)
        held = inputs
        if node_type == "if-else":
            held = dict(_conditions_by_variable(inputs, process))
        elif node_type in _ENDS and not inputs:
            held = {name: value for name, value in outputs.items() if name != "files"}
        return NodeExecution(
            node=node,
            title=as_text(record.get("title")) or node,
            type=node_type,
            after=self._after(record, node, reads),
            inputs=held,
            outputs=None if status in ("running", "paused") else outputs,
            sources={name: self._source(*reads[name]) for name in held if name in reads},
            error=(as_text(record.get("error")) or "node failed") if status in _FAILED else "",
            start_ns=start_ns,
            end_ns=end_ns,
            usage=counted(usage, "prompt_tokens", "completion_tokens"),
            is_cut=any(record.get(f"{each}_truncated") is True for each in ("inputs", "outputs", "process_data")),
        )

    def _times(self, record: Mapping[str, Any]) -> tuple[int, int]:
        start, end = record.get("created_at"), record.get("finished_at")
        start_ns = nanoseconds(start, self._location) if start else 0
        return start_ns, nanoseconds(end, self._location) if end else start_ns

    def _add(self, execution: NodeExecution, record: Mapping[str, Any]) -> int | None:
        kind, outputs = execution.type, execution.outputs or {}
        process = as_object(parse_structure(record.get("process_data")))
        if kind in _STARTS:
            self._ask(outputs or execution.inputs)
            return None
        if kind in _SILENT:
            return None
        if kind in _MODELS:
            return self._say(execution, record, process)
        if kind == "human-input":
            return self._nodes.hear(execution, text_of_outputs(outputs))
        if kind == "if-else":
            cases, taken = _cases(as_object(parse_structure(record.get("inputs"))), process, outputs)
            return self._nodes.decide(execution, _say_branch(cases, taken), cases, taken)
        if kind in _ROUNDS:
            return self._nodes.decide(execution, f"rounds over {as_text(execution.inputs)}")
        if kind in _ENDS:
            return self._nodes.return_answer(execution, text_of_outputs(outputs))
        result = None if execution.outputs is None else text_of_outputs(outputs)
        if kind in _TOOLS:
            arguments = execution.inputs or process.get("request") or {}
            return self._nodes.call(execution, as_text(arguments), result)
        return self._nodes.tell(execution, result or "")

    def _say(self, execution: NodeExecution, record: Mapping[str, Any], process: Mapping[str, Any]) -> int:
        outputs = execution.outputs or {}
        metadata = as_object(parse_structure(record.get("execution_metadata")))
        logs = objects_in(metadata.get("agent_log")) or list(self._logs.pop(as_text(record.get("id")), {}).values())
        name = self._nodes.name_of(execution.node, execution.title)
        after = execution.after
        for log in logs:
            answer = as_object(as_object(log.get("data")).get("output"))
            if "tool_call_name" not in answer:
                continue
            tool, arguments = as_text(answer["tool_call_name"]), as_text(answer.get("tool_call_input") or {})
            call = NodeExecution(
                "", tool, "agent-tool", after, outputs={"response": answer.get("tool_response")},
                error=as_text(log.get("error")) if log.get("status") == "error" else "",
            )  # fmt: skip
            after = (self._nodes.call(call, arguments, as_text(answer.get("tool_response")), agent=name),)
        prompts = "\n\n".join(
            f"{as_text(prompt.get('role'))}: {as_text(prompt.get('text'))}"
            for prompt in objects_in(process.get("prompts"))
        )
        given = prompts or (as_text(execution.inputs) if execution.inputs else "")
        text = as_text(outputs.get("class_name")) or as_text(outputs.get("text")) or text_of_outputs(outputs)
        return self._nodes.say(replace(execution, after=after), text, given)

    def _end_rounds(self, data: Mapping[str, Any]) -> None:
        """Add why rounds failed; what they gave was said by the nodes within."""
        error = as_text(data.get("error")) if as_text(data.get("status")) in _FAILED else ""
        if error:
            node = as_text(data.get("node_id"))
            title = as_text(data.get("title")) or node
            kind = as_text(data.get("node_type"))
            self._nodes.decide(NodeExecution(node, title, kind, self._before(node, None), error=error), error)

    def _after(self, record: Mapping[str, Any], node: str, reads: Mapping[str, tuple[str, str]]) -> tuple[int, ...]:
        """Return the steps that an execution builds on: of its predecessor, and of those whose outputs it reads."""
        round_of, container = _round(record)
        before = as_text(record.get("predecessor_node_id"))
        sources = [before] if before else list(self._edges.get(node, ()))
        if container and (before == f"{container}start" or not sources):
            is_loop = isinstance(round_of, int) and self._kinds.get(container) != "iteration"
            earlier = self._tails[container].get(round_of - 1) if is_loop and isinstance(round_of, int) else None
            after = [earlier] if earlier is not None else [*self._last.get((container, None), ())]
        else:
            after = [index for source in sources for index in self._before(source, round_of)]
        after += [index for source, _ in reads.values() for index in self._before(source, round_of)]
        if not after and not sources and as_text(record.get("node_type")) not in _STARTS:
            after = [*self._nodes.last]
        return tuple(sorted(set(after)))

    def _before(self, node: str, round_of: object) -> tuple[int, ...]:
        last = self._last.get((node, round_of)) or self._last.get((node, None), ())
        return (*last, *list(self._tails[node].values())[-_MAX_TAILS:]) if node in self._tails else last

    def _reads_of(
        self, node: str, node_type: str, inputs: Mapping[str, Any], process: Mapping[str, Any]
    ) -> dict[str, tuple[str, str]]:
        """Return which node's output each variable reads, as far as its name, the graph or the conditions tell."""
        if node_type == "variable-aggregator":
            return {}  # its purpose is to read what may not be there
        reads = {name: read for name in inputs if (read := _reference(name)) is not None}
        if node_type == "if-else":
            reads = {name: read for name, _ in _conditions_by_variable(inputs, process) if (read := _reference(name))}
        reads |= self._reads.get(node, {})
        return {
            name: read
            for name, read in reads.items()
            if (read[0] in self._ended or read[0] in self._reads)
            and read[0] not in _OUTSIDE
            and read[0] not in self._silent
        }

    def _source(self, node: str, key: str) -> tuple[int | None, str]:
        steps = self._last.get((node, None), ())
        return (steps[-1] if steps else None), key


def _task(inputs: Mapping[str, Any]) -> str:
    """Write what a run was asked: the query of a chat, and the other variables it was started with."""
    own = {
        name: value
        for name, value in inputs.items()
        if not name.startswith("sys.") and name != "#files#" and value not in (None, "", [], {})
    }
    query = as_text(inputs.get("sys.query"))
    if not query and len(own) == 1:
        return as_text(*own.values())
    return "\n".join([*([query] if query else []), *(f"{name}: {as_text(value)}" for name, value in own.items())])


def _round(record: Mapping[str, Any]) -> tuple[object, str]:
    """Return in which round of which iteration or loop an execution was; None and empty outside of them."""
    metadata = as_object(parse_structure(record.get("execution_metadata")))
    for kind in ("loop", "iteration"):
        container = record.get(f"{kind}_id") or metadata.get(f"{kind}_id")
        if isinstance(container, str) and container:
            index = metadata.get(f"{kind}_index", record.get(f"{kind}_index"))
            return (index if isinstance(index, int) else None), container
    return None, ""


def _variables(data: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Read from a node of the graph which output each of its variables reads."""
    reads: dict[str, tuple[str, str]] = {}
    for variable in (*objects_in(data.get("variables")), *objects_in(data.get("outputs"))):
        selector = variable.get("value_selector")
        if isinstance(selector, list) and len(selector) > 1:
            path = ".".join(as_text(part) for part in selector[1:])
            reads[as_text(variable.get("variable"))] = as_text(selector[0]), path
    answer = _TEMPLATE.fullmatch(as_text(data.get("answer")).strip())
    if answer:
        reads["answer"] = answer[1], answer[2]
    return reads


def _reference(name: str) -> tuple[str, str] | None:
    found = _REFERENCE.fullmatch(name)
    return (found[1], found[2]) if found else None


def _tried(process: Mapping[str, Any]) -> tuple[str, str, list[dict[str, Any]]]:
    """Return name, logic and conditions of the case that a branch tried last: the only one whose values are told."""
    results = objects_in(process.get("condition_results"))
    group = as_object(results[-1].get("group")) if results else {}
    name = as_text(group.get("case_id") or group.get("id")) or "true"
    return name, as_text(group.get("logical_operator")) or "and", objects_in(group.get("conditions"))


def _conditions_by_variable(inputs: Mapping[str, Any], process: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    _, _, conditions = _tried(process)
    for number_of, condition in enumerate(objects_in(inputs.get("conditions"))):
        selector = conditions[number_of].get("variable_selector") if number_of < len(conditions) else None
        is_known = isinstance(selector, list) and len(selector) > 1
        name = ".".join(as_text(part) for part in selector) if is_known and selector else f"condition {number_of + 1}"
        yield name, condition.get("actual_value")


def _cases(
    inputs: Mapping[str, Any], process: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[list[BranchCase], str]:
    name, logic, _ = _tried(process)
    conditions = tuple(
        {
            "actual": condition.get("actual_value"),
            "operator": as_text(condition.get("comparison_operator")),
            "expected": condition.get("expected_value"),
        }
        for condition in objects_in(inputs.get("conditions"))
    )
    taken = outputs.get("selected_case_id")
    is_else = taken in (None, "", "false") or (taken is not None and outputs.get("result") is False)
    return ([BranchCase(name, logic, conditions)] if conditions else []), (ELSE if is_else else as_text(taken))


def _say_branch(cases: Iterable[BranchCase], taken: str) -> str:
    told = [
        f"{as_text(each['actual'])!r} {each['operator']} {as_text(each['expected'])!r}"
        for case in cases
        for each in case.conditions
    ]
    return f"takes {taken}" + (f", where the last case tried is {'; '.join(told)}" if told else "")
