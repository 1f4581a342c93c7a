"""Executions of n8n workflows: answers of its public API with their data, lists of them, and what its database keeps.

The database keeps an execution's data in the form of `flatted`: one list, in which a text within a value is a place in
that list. Source: n8n 1 and 2, `interfaces.ts`, `run-execution-data.v1.ts`, `flatted` 3.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import MAX_LINE_BYTES
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import MAX_NESTING, parse_json
from blamespan.trace import Usage
from blamespan_integrations.dialects._values import as_text, number
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

_EXPECTED = "an execution of n8n with its data"
_DATA = re.compile(rb'\\?"(?:resultData|runData)\\?"\s*:')
_KEYS = (b'"startedAt"', b'"mode"', b'"workflowId"')
_ROOT = re.compile(r"\d+")
_VERSIONS = (None, 0, 1)

_CHAIN = "@n8n/n8n-nodes-langchain."
_MODELS = frozenset(
    {
        *("agent", "chainLlm", "chainRetrievalQa", "chainSummarization", "informationExtractor", "sentimentAnalysis"),
        *("textClassifier", "openAi", "openAiAssistant", "anthropic", "googleGemini", "ollama", "guardrails"),
    }
)
_BRANCHES = frozenset({"if", "switch"})
_STARTS = frozenset({"webhook", "start", "interval", "cron", "formTrigger"})
_SILENT = frozenset({"noOp", "merge", "stickyNote"})
_ENDS = frozenset({"respondToWebhook", "chat"})
_CALLED = frozenset({"ai_tool", "ai_retriever", "ai_vectorStore", "ai_reranker"})
"""Connections over which an agent asks a node; over the others it is served without asking."""
_ANSWERS = ("output", "text", "response", "content")
_FAILED = frozenset({"error", "crashed", "failed"})
_ASKS_WHETHER_THERE = frozenset({"exists", "notExists", "empty", "notEmpty"})

_PATH = r"((?:\.\w+|\[['\"][^'\"\]]+['\"]\])+)"
_OWN = re.compile(r"=\s*\{\{\s*\$json" + _PATH + r"\s*\}\}\s*")
_OTHER = re.compile(
    r"=\s*\{\{\s*\$(?:\(\s*['\"]([^'\"]+)['\"]\s*\)\.(?:item|first\(\)|last\(\))|node\[['\"]([^'\"]+)['\"]\])\.json"
    + _PATH
    + r"\s*\}\}\s*"
)
_KEY = re.compile(r"\.(\w+)|\[['\"]([^'\"\]]+)['\"]\]")
_MAX_PARAMETERS = 200
_VALUE_CHARS = 64
"""What a value counts beside its text: about what it takes in memory."""


class N8nImporter:
    """Reads executions of n8n."""

    name = "n8n"
    description = "n8n executions with their data, from the API or the database; loses what parameters came to"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of an execution, also within text that holds its data."""
        del path
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return False
        return bool(_DATA.search(head)) or all(key in head for key in _KEYS)

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per execution, and errors in their place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        flat: _FlatFile | None = None
        for item in json_values(path, _EXPECTED):
            if isinstance(item, UnreadableInput):
                yield item
                continue
            if flat is not None and item.is_element and item.group == flat.group:
                flat.add(item.value, len(item.text))
                continue
            if flat is not None:
                yield from _runs(flat.record, flat.location)
                flat = None
            if item.is_element and _is_flat_root(item.value):
                flat = _FlatFile(item.location, item.group)
                flat.add(item.value, len(item.text))
            else:
                yield from _runs(item.value, item.location)
        if flat is not None:
            yield from _runs(flat.record, flat.location)


@dataclass(slots=True)
class _FlatFile:
    """The data of one execution, as a file that is nothing but the database's list."""

    location: str
    group: int
    places: list[Any] = field(default_factory=list)
    size: int = 0

    def add(self, value: object, size: int) -> None:
        """Take up the next place; nothing beyond the size of a value is held."""
        self.size += size
        if self.size <= MAX_LINE_BYTES:
            self.places.append(value)

    @property
    def record(self) -> dict[str, Any]:
        """The execution."""
        return {"data": self.places}


def _is_flat_root(value: object) -> bool:
    return isinstance(value, Mapping) and bool(_ROOT.fullmatch(str(value.get("resultData", ""))))


def _runs(value: object, location: str) -> Iterator[RecordedRun | UnreadableInput]:
    """Yield the runs of a value: an execution, or a page of them."""
    record = as_object(value)
    data = record.get("data")
    is_page = isinstance(data, list) and all(isinstance(each, Mapping) and "mode" in each for each in data)
    if is_page and isinstance(data, list):
        for place, each in enumerate(data):
            yield from _runs(each, f"{location} execution {place}")
        return
    if isinstance(data, Mapping) and "resultData" not in data and ("mode" in data or "data" in data):
        record = dict(data)  # the editor's own API wraps an execution once more
    try:
        yield _Execution(record, location).run()
    except UnreadableInput as error:
        yield error


class _Unflattener:
    """Reads the database's form back; a value that stands in many places is written out in each, up to a limit."""

    def __init__(self, places: Sequence[Any], location: str) -> None:
        self._places = places
        self._location = location
        self._left = MAX_LINE_BYTES
        self._open: set[int] = set()

    def fields(self, *names: str) -> dict[str, Any]:
        """Return some fields of the whole: what waited to be run, and the rest, holds most of it once more.

        Raises:
            UnreadableInput: as `value` does.
        """
        root = as_object(self._places[0]) if self._places else {}
        return {name: self._inner(root[name], 0) for name in names if name in root}

    def value(self, place: int, depth: int) -> Any:
        """Return the value at *place*; what holds itself is None where it comes again.

        Raises:
            UnreadableInput: if a place is not there, or the whole is longer than a value may be.
        """
        if not 0 <= place < len(self._places):
            raise UnreadableInput(
                f"{self._location}: expected data of n8n's database whose places all exist, got place {place} of "
                f"{len(self._places)}. The export breaks off; export the execution again."
            )
        held = self._places[place]
        self._left -= _VALUE_CHARS + (len(held) if isinstance(held, str) else 0)
        if self._left < 0:
            raise UnreadableInput(
                f"{self._location}: expected an execution of at most {MAX_LINE_BYTES} characters, got more. "
                "Export fewer nodes' data."
            )
        if place in self._open or depth > MAX_NESTING or not isinstance(held, Mapping | list):
            return held if isinstance(held, str | int | float | bool) else None
        self._open.add(place)
        if isinstance(held, Mapping):
            value: Any = {key: self._inner(each, depth) for key, each in held.items()}
        else:
            value = [self._inner(each, depth) for each in held]
        self._open.discard(place)
        return value

    def _inner(self, value: object, depth: int) -> Any:
        if isinstance(value, str):
            return self.value(int(value), depth + 1) if value.isdecimal() and len(value) < 12 else value
        self._left -= _VALUE_CHARS
        return value if isinstance(value, int | float | bool) else None


@dataclass(frozen=True, slots=True)
class _NodeRun:
    """One execution of a node, as the export has it.

    Attributes:
        name: The node's.
        number: Which of the node's executions it is.
        record: As it stands there.
        connection: Over which it was reached: `main`, or one of the `ai_...`.
    """

    name: str
    number: int
    record: Mapping[str, Any]
    connection: str

    @property
    def key(self) -> tuple[str, int]:
        """Which it is."""
        return self.name, self.number

    def outputs(self, override: bool = False) -> list[list[dict[str, Any]]]:
        """Return the items of each output, or of what it was given instead of its input."""
        data = as_object(self.record.get("inputOverride" if override else "data")).get(self.connection)
        outputs = data if isinstance(data, list) else []
        return [[as_object(item.get("json")) for item in objects_in(output)] for output in outputs]

    def items(self, override: bool = False) -> list[dict[str, Any]]:
        """Return the items of all outputs, in order."""
        return [item for output in self.outputs(override) for item in output]


class _Execution:
    """One execution.

    Raises:
        UnreadableInput: if it is none, or of a version that is not known.
    """

    def __init__(self, record: Mapping[str, Any], location: str) -> None:
        self._location = location
        self._record = record
        data = self._data(record)
        self._result = as_object(data.get("resultData"))
        workflow = as_object(_structure(record.get("workflowData")))
        self._name = as_text(workflow.get("name"))
        nodes = workflow.get("nodes")
        self._nodes = {as_text(node.get("name")): node for node in (nodes if isinstance(nodes, list) else [])
                       if isinstance(node, Mapping)}  # fmt: skip
        self._connections = as_object(workflow.get("connections"))
        self._told = NodeRuns(location)
        self._by_name: dict[str, list[_NodeRun]] = defaultdict(list)
        self._last: dict[tuple[str, int], tuple[int, ...]] = {}
        self._of_parent: dict[tuple[str, int], list[_NodeRun]] = defaultdict(list)

    def run(self) -> RecordedRun:
        """Make the run.

        Raises:
            UnreadableInput: if no node ran, or too many did.
        """
        runs = self._read_runs()
        for node_run in runs:
            if node_run.connection != "main" and (parent := self._parent(node_run)) is not None:
                self._of_parent[parent].append(node_run)
        self._add_all(runs)
        if not self._told.conversation.tasks and self._name:
            self._told.conversation.tasks.append(self._name)
        error = self._result.get("error")
        if error or as_text(self._record.get("status")) in _FAILED:
            self._told.fail(_error(error), self._told.last)
        trace = self._told.conversation.trace("n8n", as_text(self._record.get("id")))
        return RecordedRun(self._location, trace, waits=self._record.get("status") == "waiting")

    def _data(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        data = record if "resultData" in record else _structure(record.get("data"))
        if isinstance(data, list):
            data = _Unflattener(data, self._location).fields("version", "resultData")
        data = as_object(data)
        if "resultData" not in data:
            got = "a workflow, which has not run" if "connections" in record else f"{as_text(record)[:60]!r}"
            raise UnreadableInput(
                f"{self._location}: expected {_EXPECTED}, got {got}. Export it with "
                "GET /executions/ID?includeData=true."
            )
        if data.get("version") not in _VERSIONS:
            raise UnreadableInput(
                f"{self._location}: expected execution data of version 1 or without one, got version "
                f"{as_text(data.get('version'))[:20]}. Executions of n8n 0.200 to 2 are understood."
            )
        return data

    def _read_runs(self) -> list[_NodeRun]:
        runs: list[_NodeRun] = []
        for name, records in as_object(self._result.get("runData")).items():
            for record in records if isinstance(records, list) else []:
                if isinstance(record, Mapping):
                    node_run = _NodeRun(name, len(self._by_name[name]), record, self._connection(name, record))
                    self._by_name[name].append(node_run)
                    runs.append(node_run)
            if len(runs) > MAX_STEPS:
                raise UnreadableInput(
                    f"{self._location}: expected at most {MAX_STEPS} steps in a run, got more. Split the file."
                )
        is_numbered = all(isinstance(each.record.get("executionIndex"), int) for each in runs)
        key = "executionIndex" if is_numbered else "startTime"
        return sorted(runs, key=lambda each: number(each.record.get(key)) or 0)

    def _connection(self, name: str, record: Mapping[str, Any]) -> str:
        held = {**as_object(record.get("inputOverride")), **as_object(record.get("data"))}
        inner = next((key for key in held if key.startswith("ai_")), "")
        outgoing = as_object(self._connections.get(name))
        if not inner and outgoing and "main" not in outgoing and "main" not in held:
            inner = next((key for key in outgoing if key.startswith("ai_")), "")
        return inner or "main"

    def _parent(self, node_run: _NodeRun) -> tuple[str, int] | None:
        """Return which execution of which node asked a node below it."""
        source = _first_source(node_run.record)
        name = as_text(source.get("previousNode"))
        if not name:
            targets = as_object(self._connections.get(node_run.name)).get(node_run.connection)
            flat = (
                [each for group in targets if isinstance(group, list) for each in group]
                if isinstance(targets, list)
                else []
            )
            name = as_text(as_object(flat[0]).get("node")) if flat else ""
        runs = self._by_name.get(name)
        if not runs or name == node_run.name:
            return None
        return name, min(number(source.get("previousNodeRun")) or 0, len(runs) - 1)

    def _add_all(self, runs: Sequence[_NodeRun]) -> None:
        """Add the executions in their order, each behind those that it needed: its sources, and what it asked."""
        done: set[tuple[str, int]] = set()
        begun: set[tuple[str, int]] = set()
        for node_run in runs:
            waiting = [node_run]
            while waiting:
                current = waiting[-1]
                if current.key in done:
                    waiting.pop()
                elif current.key in begun:
                    waiting.pop()
                    done.add(current.key)
                    if current.connection == "main" or self._parent(current) is None:
                        self._add(current)
                else:
                    begun.add(current.key)
                    needed = self._sources(current) if current.connection == "main" else []
                    waiting += [each for each in reversed(needed) if each.key not in begun]

    def _sources(self, node_run: _NodeRun) -> list[_NodeRun]:
        sources = node_run.record.get("source")
        return [
            runs[min(number(source.get("previousNodeRun")) or 0, len(runs) - 1)]
            for source in (sources if isinstance(sources, list) else [])
            if isinstance(source, Mapping) and (runs := self._by_name.get(as_text(source.get("previousNode"))))
        ]

    def _add(self, node_run: _NodeRun) -> None:
        sources = self._sources(node_run)
        after = tuple(sorted({index for source in sources for index in self._last.get(source.key, ())}))
        node = as_object(self._nodes.get(node_run.name))
        kind = as_text(node.get("type"))
        short = kind.rpartition(".")[2]
        if short in _STARTS or short.lower().endswith("trigger"):
            self._ask(node_run)
            self._last[node_run.key] = ()
            return
        execution = self._execution(node_run, node, kind, after)
        if short in _SILENT and not execution.error:
            self._last[node_run.key] = after
            return
        index = self._add_step(node_run, node, short, execution)
        self._last[node_run.key] = after if index is None else (index,)

    def _add_step(
        self, node_run: _NodeRun, node: Mapping[str, Any], short: str, execution: NodeExecution
    ) -> int | None:
        items = node_run.items()
        if execution.type.startswith(_CHAIN) and short in _MODELS:
            return self._say(node_run, execution, items)
        if short in _BRANCHES:
            cases, taken = self._cases(node_run, node, short)
            chosen = taken or ", ".join(str(place) for place, each in enumerate(node_run.outputs()) if each) or "none"
            return self._told.decide(execution, f"takes {chosen}", cases, taken)
        if short == "splitInBatches":
            return self._told.decide(execution, f"round {node_run.number + 1}")
        if short in _ENDS:
            body = as_object(node.get("parameters")).get("responseBody")
            text = as_text(self._value(body, node_run)[0]) if isinstance(body, str) else ""
            return self._told.return_answer(execution, text or _text(items))
        result = None if execution.outputs is None else _text(items)
        if not execution.type:
            return self._told.tell(execution, result or "")
        parameters = self._resolved(node.get("parameters"), node_run)
        return self._told.call(execution, as_text(parameters) if parameters else "", result)

    def _say(self, node_run: _NodeRun, execution: NodeExecution, items: Sequence[Mapping[str, Any]]) -> int | None:
        """Add what an agent called, and its message; an execution that only asked for tools has none."""
        name = self._told.name_of(execution.node, execution.title)
        after, given, read, written = execution.after, "", 0, 0
        for below in self._of_parent[node_run.key]:
            if below.connection == "ai_languageModel":
                for item in below.items(override=True):
                    given = given or _messages(item.get("messages"))
                usage = [as_object(item.get("tokenUsage") or item.get("tokenUsageEstimate")) for item in below.items()]
                read += sum(number(each.get("promptTokens")) or 0 for each in usage)
                written += sum(number(each.get("completionTokens")) or 0 for each in usage)
            elif below.connection in _CALLED:
                answers = below.items()
                error = _error(below.record.get("error"))
                asked = below.items(override=True)
                arguments = [{key: value for key, value in item.items() if key != "toolCallId"} for item in asked]
                start_ns, end_ns = _times(below.record)
                call = NodeExecution(
                    "",
                    below.name,
                    as_text(as_object(self._nodes.get(below.name)).get("type")),
                    after,
                    outputs=answers[0] if len(answers) == 1 else {},
                    error=error,
                    start_ns=start_ns,
                    end_ns=end_ns,
                )
                text = _text(answers) if answers else None
                written_arguments = (
                    as_text(arguments[0]) if len(arguments) == 1 else as_text(arguments) if arguments else ""
                )
                after = (self._told.call(call, written_arguments, text, agent=name),)
        if execution.outputs is None and not execution.error:
            self._last[node_run.key] = after
            return after[-1] if after else None
        spoken = replace(execution, after=after, usage=Usage(read, written) if read or written else None)
        if not given:
            own = as_object(as_object(self._nodes.get(node_run.name)).get("parameters"))
            given = as_text(self._value(own.get("text"), node_run)[0]) if own.get("text") else ""
        return self._told.say(spoken, _text(items), given)

    def _ask(self, node_run: _NodeRun) -> None:
        tasks = self._told.conversation.tasks
        for item in node_run.items():
            asked = item.get("chatInput")
            body = item.get("body") if isinstance(item.get("body"), Mapping) else item
            text = asked if isinstance(asked, str) else text_of_outputs(as_object(body))
            if text and not tasks:
                tasks.append(text)

    def _execution(
        self, node_run: _NodeRun, node: Mapping[str, Any], kind: str, after: tuple[int, ...]
    ) -> NodeExecution:
        items = node_run.items()
        inputs: dict[str, object] = {}
        sources: dict[str, tuple[int | None, str]] = {}
        for name, text in _expressions(node.get("parameters")):
            value, source = self._value(text, node_run)
            if source is not None:
                inputs[name], sources[name] = value, source
        is_ended = "data" in node_run.record
        start_ns, end_ns = _times(node_run.record)
        return NodeExecution(
            node=as_text(node.get("id")) or node_run.name,
            title=node_run.name,
            type=kind,
            after=after,
            inputs=inputs,
            outputs=(items[0] if len(items) == 1 else {"items": len(items)}) if is_ended else None,
            sources=sources,
            error=_error(node_run.record.get("error")),
            start_ns=start_ns,
            end_ns=end_ns,
        )

    def _value(self, text: object, node_run: _NodeRun) -> tuple[object, tuple[int, str] | None]:
        """Return what an expression that reads one value came to, and where from, where both can be told."""
        own = _OWN.fullmatch(text) if isinstance(text, str) and len(text) < 1_000 else None
        other = _OTHER.fullmatch(text) if isinstance(text, str) and not own and len(text) < 1_000 else None
        if own is None and other is None:
            return text, None
        sources = self._sources(node_run)
        if own is not None:
            source, path = (sources[0] if len(sources) == 1 else None), own[1]
        else:
            assert other is not None
            runs = self._by_name.get(other[1] or other[2])
            source, path = (runs[-1] if runs else None), other[3]
        items = source.items() if source is not None else []
        last = self._last.get(source.key, ()) if source is not None else ()
        if len(items) != 1 or not last:
            return text, None
        keys = [found[1] or found[2] for found in _KEY.finditer(path)]
        value: Any = items[0]
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value, (last[-1], ".".join(keys))

    def _resolved(self, parameters: object, node_run: _NodeRun, depth: int = 0) -> object:
        """Write parameters with what their expressions came to, as far as that can be told."""
        if isinstance(parameters, Mapping) and depth < MAX_NESTING:
            return {key: self._resolved(value, node_run, depth + 1) for key, value in parameters.items()}
        if isinstance(parameters, list) and depth < MAX_NESTING:
            return [self._resolved(value, node_run, depth + 1) for value in parameters]
        return self._value(parameters, node_run)[0]

    def _cases(self, node_run: _NodeRun, node: Mapping[str, Any], short: str) -> tuple[list[BranchCase], str]:
        """Return the cases of a branch and the one it took; nothing where it had several items, or unknown values."""
        parameters = as_object(node.get("parameters"))
        rules = objects_in(as_object(parameters.get("rules")).get("values")) if short == "switch" else [parameters]
        names = [
            "true" if short == "if" else as_text(rule.get("outputKey")) or str(place)
            for place, rule in enumerate(rules)
        ]
        used = [place for place, items in enumerate(node_run.outputs()) if items]
        if len(used) != 1 or len(node_run.items()) != 1:
            return [], ""
        taken = names[used[0]] if used[0] < len(names) else ELSE
        cases: list[BranchCase] = []
        for name, rule in zip(names, rules, strict=True):
            conditions = as_object(rule.get("conditions"))
            tried: list[Mapping[str, object]] = []
            for condition in objects_in(conditions.get("conditions")):
                actual, _ = self._value(condition.get("leftValue"), node_run)
                expected, _ = self._value(condition.get("rightValue"), node_run)
                if any(isinstance(each, str) and each.startswith("=") for each in (actual, expected)):
                    return [], ""
                operator = as_text(as_object(condition.get("operator")).get("operation"))
                tried.append({"actual": actual, "operator": operator, "expected": expected})
            if not tried:
                return [], ""
            cases.append(BranchCase(name, as_text(conditions.get("combinator")) or "and", tuple(tried)))
        return cases, taken


def _structure(value: object) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return None


def _first_source(record: Mapping[str, Any]) -> Mapping[str, Any]:
    sources = record.get("source")
    return as_object(sources[0]) if isinstance(sources, list) and sources else {}


def _times(record: Mapping[str, Any]) -> tuple[int, int]:
    start_ns = (number(record.get("startTime")) or 0) * 1_000_000
    end_ns = start_ns + (number(record.get("executionTime")) or 0) * 1_000_000
    return (start_ns, end_ns) if end_ns < 2**63 else (0, 0)


def _error(error: object) -> str:
    if not error:
        return ""
    record = as_object(error)
    if not record:
        return as_text(error)
    said = [as_text(record.get(key)) for key in ("message", "description")]
    name = as_text(record.get("name"))
    text = ". ".join(dict.fromkeys(each for each in said if each))
    return f"{name}: {text}" if name else text or "node failed"


def _text(items: Sequence[Mapping[str, Any]]) -> str:
    """Write what a node gave: the text of one item's answer, or JSON."""
    if len(items) != 1:
        return as_text(list(items)) if items else ""
    answer = next((items[0][key] for key in _ANSWERS if isinstance(items[0].get(key), str)), None)
    return answer if isinstance(answer, str) and answer else text_of_outputs(items[0])


def _messages(value: object) -> str:
    return "\n\n".join(as_text(message) for message in value) if isinstance(value, list) else as_text(value)


def _expressions(parameters: object) -> list[tuple[str, str]]:
    """Return the parameters that are expressions, by the way to them; not those that ask whether something is there."""
    waiting: list[tuple[str, object]] = [("", parameters)]
    found: list[tuple[str, str]] = []
    while waiting and len(found) < _MAX_PARAMETERS:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            if as_text(as_object(value.get("operator")).get("operation")) in _ASKS_WHETHER_THERE:
                continue
            waiting += [(f"{name}.{key}" if name else str(key), each) for key, each in reversed(list(value.items()))]
        elif isinstance(value, list):
            waiting += [(f"{name}[{place}]", each) for place, each in reversed(list(enumerate(value)))]
        elif isinstance(value, str) and value.startswith("="):
            found.append((name, value))
    return found
