"""What a LangGraph graph streams in the modes `debug` and `tasks`, dumped as JSON lines or a list.

With several modes or subgraphs, each event stands behind its namespace and mode. Messages may be written by
`langchain_core.load.dumpd`, by `model_dump`, or as chat messages. Source: langgraph 1.2, `pregel/debug.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.dialects._values import as_text
from blamespan_integrations.importers._graph_run import GraphRun, named_updates
from blamespan_integrations.importers._records import json_values
from blamespan_integrations.importers._span_values import nanoseconds

_DEBUG = re.compile(rb'"type"\s*:\s*"(task|task_result|checkpoint)"')
_TASKS = (b'"triggers"', b'"interrupts"')
_KINDS = ("task", "task_result", "checkpoint")


class LangGraphStreamImporter:
    """Reads streams of LangGraph graphs."""

    name = "langgraph-stream"
    description = (
        "LangGraph `debug` or `tasks` stream, JSON lines; loses model calls within a node, and times in `tasks`"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first event."""
        del path
        if head.lstrip()[:1] not in (b"{", b"["):
            return False
        is_debug = bool(_DEBUG.search(head)) and b'"payload"' in head and b'"step"' in head
        return is_debug or (any(key in head for key in _TASKS) and b'"id"' in head and b'"name"' in head)

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run once the next begins or the file ends, and errors in their place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        run: _StreamRun | None = None
        for item in _events(path):
            if isinstance(item, UnreadableInput):
                yield item
                continue
            event, location, within = item
            try:
                task = _TaskEvent(event, location)
                if run is None or (not within and run.begins_anew(task)):
                    yield from run.finish() if run else ()
                    run = _StreamRun(location)
                run.add(task, within)
            except UnreadableInput as error:
                yield error
        yield from run.finish() if run else ()


class _TaskEvent:
    """One event: a node that begins or ends; a checkpoint says when a run begins.

    Raises:
        UnreadableInput: if it is none of these.
    """

    def __init__(self, event: Mapping[str, Any], location: str) -> None:
        payload = event.get("payload") if event.get("type") in _KINDS else event
        step = event.get("step")
        if not isinstance(payload, Mapping) or not (payload.keys() & {"name", "values", "metadata"}):
            raise UnreadableInput(
                f"{location}: expected an event of LangGraph's debug or tasks stream, got {str(event)[:60]!r}. "
                "Remove it."
            )
        self.payload = payload
        self.step = step if isinstance(step, int) else None
        self.time_ns = nanoseconds(event["timestamp"], location) if event.get("timestamp") else 0
        self.is_checkpoint = "name" not in payload
        self.is_result = "result" in payload or "error" in payload
        self.node = as_text(payload.get("name"))
        metadata = payload.get("metadata")
        self.is_input = self.is_checkpoint and isinstance(metadata, Mapping) and metadata.get("source") == "input"


class _StreamRun:
    """A run as far as it was streamed."""

    def __init__(self, location: str) -> None:
        self._graph = GraphRun(location)
        self._step: int | None = None
        self._has_ended_any = False
        self._inner: set[str] = set()

    def begins_anew(self, task: _TaskEvent) -> bool:
        """Return whether an event belongs to the next run: its step is an earlier one, or its input is new."""
        if not self._has_ended_any:
            return False
        return task.is_input or (task.step is not None and self._step is not None and task.step < self._step)

    def add(self, task: _TaskEvent, within: str) -> None:
        """Take up one event, of a graph within the node *within*, where that is not empty."""
        if within:
            self._inner.add(within)
        elif task.step is not None:
            self._step = task.step
        if task.is_checkpoint:
            return
        if not task.is_result:
            self._graph.ask(task.payload.get("input"))
            if self._has_ended_any:
                self._graph.begin_round()
            self._has_ended_any = False
            return
        self._has_ended_any = True
        error = task.payload.get("error")
        update = named_updates(task.payload.get("result"))
        if not within and task.node in self._inner:
            update = None  # its own nodes have said it
        self._graph.add(task.node, update, time_ns=task.time_ns, error=as_text(error) if error else None)

    def finish(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the run."""
        return self._graph.conversation.finish("langgraph")


def _events(path: Path) -> Iterator[tuple[Mapping[str, Any], str, str] | UnreadableInput]:
    """Yield each event with its place, and the node that holds the graph it is of, where it is within another."""
    group, within = -1, ""
    for match in json_values(path, "an event of LangGraph"):
        if isinstance(match, UnreadableInput):
            yield match
            continue
        if match.group != group:
            group, within = match.group, ""
        for value in _flat(match.value):
            if isinstance(value, Mapping):
                yield value, match.location, within
                within = ""
            elif ":" in value:
                within = within or value.partition(":")[0]


def _flat(value: Any) -> Iterator[Any]:
    """Yield the events of a value, and before each the texts of its namespace and mode."""
    if isinstance(value, Mapping | str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield {}  # no event: named as such
