"""What the importers' tests share: reading a file, and the drawings of the recorded programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from blamespan.analysis import sources
from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of
from blamespan.importing.recorded import RecordedRun, importers
from blamespan.otlp import request_from_json
from blamespan.trace import MessageActionTrace
from tests.integrations.dialects.recordings import FOLDER, HIDDEN
from tests.integrations.drawing import draw

IMPORTERS = list(importers())
FIXTURES = Path(__file__).parent / "recorded"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """Put *new* at the place that *path* leads to: at each level the nth of what is there."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    if isinstance(value, list):
        place = path[0] % len(value)
        return [*value[:place], replaced(value[place], path[1:], new), *value[place + 1 :]]
    key = list(value)[path[0] % len(value)]
    return {**value, key: replaced(value[key], path[1:], new)}


def write(path: Path, *values: Any) -> Path:
    """Write values as lines of JSON."""
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def text(literal: str) -> str:
    """Write a literal as a drawing."""
    return dedent(literal).strip()


NODES = text("""
    task: Write a line about the sea.
    agents: planner, worker, checker
    0 planner: message 'Plan: the worker writes one line about the sea and counts its words.', 20+5 tokens
    1 worker: message 'count_words({"text": "The sea is wide."})' after 0, 20+5 tokens
    2 worker: tool_call 'count_words({"text": "The sea is wide."})' after 1
    3 worker: tool_result '4' after 2
    4 worker: message 'Four words, as asked.' after 3, 20+5 tokens
    5 checker: message 'The line is about the sea. Approved.' after 4, 20+5 tokens
    """)
"""The graph of plain nodes, as spans tell it."""

NODES_BY_ROUNDS = text("""
    task: Write a line about the sea.
    agents: planner, worker, checker
    0 planner: message 'Plan: the worker writes one line about the sea and counts its words.', 20+5 tokens
    1 worker: tool_call 'count_words({"text": "The sea is wide."})' after 0, 20+5 tokens
    2 worker: tool_result '4' after 1
    3 worker: message 'Four words, as asked.' after 2, 20+5 tokens
    4 checker: message 'The line is about the sea. Approved.' after 3, 20+5 tokens
    """)
"""The same graph, as its state tells it round by round."""

BRANCHES = text("""
    task: Write a line about the sea.
    agents: opener, counter, drafter, polisher, closer
    0 opener: message 'lines: go'
    1 counter: message 'lines: four words' after 0
    2 drafter: message 'lines: a draft' after 0
    3 polisher: message 'lines: a polished draft' after 2
    4 closer: message 'lines: done' after 1 3
    """)
"""The graph of two branches, one a subgraph, joined."""

ROUND_ROBIN = text("""
    task: Write a line about the sea.
    agents: writer, critic
    0 writer: message 'The sea is wide.', 20+5 tokens
    1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0, 20+5 tokens
    2 critic: tool_result '4' after 1
    3 critic: message 'Four words. Make it longer.' after 0 2, 20+5 tokens
    4 writer: message 'The sea is wide and grey.' after 3, 20+5 tokens
    """)
"""The writer and the critic with a tool, as their messages tell it."""

SWARM = text("""
    task: When is the tide?
    agents: desk, expert
    0 desk: tool_call 'transfer_to_expert({})', 20+5 tokens
    1 desk: tool_result 'Transferred to expert, adopting the role of expert immediately.' after 0
    2 desk: handoff 'Transferred to expert, adopting the role of expert immediately.' to expert after 1
    3 expert: message 'The tide is at nine.' after 2, 20+5 tokens
    """)
"""The desk that hands over to an expert, as their messages tell it."""


def with_status(drawing: str) -> str:
    """Write a drawing of a source that says of each span that it went well."""
    head, steps = drawing.split("\n0 ", 1)
    lines = ("0 " + steps).splitlines()
    return "\n".join([head, *(_with_ok(line) for line in lines)])


def _with_ok(line: str) -> str:
    said, comma, tokens = line.rpartition(", 20+5")
    return f"{said}, ok, 20+5{tokens}" if comma else f"{line}, ok"


def read(path: Path) -> list[RecordedRun | UnreadableInput]:
    """Read a file as `blamespan analyze` does: by the first importer that knows it."""
    return list(sources.runs_in([path]))


def runs_in(path: Path) -> list[RecordedRun]:
    """Read the runs of a file."""
    return [item for item in read(path) if isinstance(item, RecordedRun)]


def traces_in(path: Path) -> list[MessageActionTrace]:
    """Read the runs of a file as traces."""
    return [run.trace for run in runs_in(path)]


def errors_in(path: Path) -> list[str]:
    """Read what cannot be read in a file, without the folder's name."""
    return [str(item).replace(f"{path.parent}/", "") for item in read(path) if isinstance(item, UnreadableInput)]


def drawn(path: Path, *, hide: Iterable[str] = ()) -> str:
    """Draw every run of a file."""
    return "\n\n".join(draw(trace, hide={*HIDDEN, *hide}) for trace in traces_in(path))


def matching(path: Path) -> list[str]:
    """List every importer that takes a file for its own."""
    return [each.name for each in IMPORTERS if each.matches(path, head_of(path))]


def groups_of(name: str) -> list[ResourceSpans]:
    """Read a recording of `tests/integrations/dialects` as protobuf."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [group for line in lines for group in request_from_json(line).resource_spans]
