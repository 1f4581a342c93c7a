"""Each export tells the run that its program made: whole traces, compared with a literal."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from blamespan.importing.recorded import importers
from tests.integrations.importers.files import (
    BRANCHES,
    FIXTURES,
    NODES,
    NODES_BY_ROUNDS,
    ROUND_ROBIN,
    SWARM,
    drawn,
    errors_in,
    matching,
    text,
    traces_in,
    with_status,
)
from tests.integrations.importers.shapes import jaeger, langfuse, trail

SERVED = text("""
    task: Write a line about the sea.
    agents: writer, critic
    0 writer: message 'The sea is wide.'
    1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0
    2 critic: tool_result '4' after 1
    3 critic: message 'Four words. Make it longer.' after 0 2
    4 writer: message 'The sea is wide and grey.' after 3
    """)
"""A served AutoGen team without links and model calls: who was addressed and the tokens are lost with them."""

THREE_AGENTS = text("""
    task: Write a line about the sea.
    agents: writer, critic, editor
    0 writer: message 'The sea is wide.'
    1 critic: tool_call 'count_words({"text": "The sea is wide."})' after 0
    2 critic: tool_result '4' after 1
    3 critic: message 'Four words. Make it longer.' after 0 2
    4 editor: message 'The sea is wide and grey.' after 0 3
    """)

ONE_AGENT = text("""
    task: ''
    agents: critic
    0 critic: tool_call 'count_words({"text": "The sea is wide."})'
    1 critic: tool_result '4' after 0
    2 critic: message 'Four words. Make it longer.' after 1
    """)

RECORDED = {
    "agent-framework.conversation.json": ("agent-framework", THREE_AGENTS),
    "agent-framework.response.json": ("agent-framework", ONE_AGENT),
    "autogen-events.round-robin.jsonl": ("autogen-events", ROUND_ROBIN),
    "autogen-events.swarm.jsonl": ("autogen-events", SWARM),
    "autogen-messages.round-robin.jsonl": ("autogen-messages", ROUND_ROBIN),
    "autogen-messages.swarm.jsonl": ("autogen-messages", SWARM),
    "autogen-result.round-robin.json": ("autogen-messages", ROUND_ROBIN),
    "autogen-result.swarm.json": ("autogen-messages", SWARM),
    "langgraph-checkpoints.nodes.sqlite": ("langgraph-checkpoints", NODES_BY_ROUNDS),
    "langgraph-debug.nodes.jsonl": ("langgraph-stream", NODES_BY_ROUNDS),
    "langgraph-tasks.nodes.jsonl": ("langgraph-stream", NODES_BY_ROUNDS),
    "langsmith.langgraph-branches.jsonl": ("langsmith", BRANCHES),
    "langsmith.langgraph-nodes.jsonl": ("langsmith", NODES),
    "mlflow.langgraph-branches.json": ("mlflow", with_status(BRANCHES)),
    "mlflow.langgraph-nodes.json": ("mlflow", with_status(NODES)),
    "phoenix.parquet": ("phoenix", f"{SERVED}\n\n{with_status(NODES)}"),
}
"""Written by the released packages; scripts/record-importers says which."""


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_export_tells_its_run(name: str) -> None:
    """One importer takes the file for its own, nothing in it is unreadable, and the whole trace is the literal's."""
    importer, drawing = RECORDED[name]

    assert matching(FIXTURES / name) == [importer]
    assert errors_in(FIXTURES / name) == []
    assert drawn(FIXTURES / name) == drawing


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.endswith((".parquet", ".sqlite"))])
def test_recorded_export_reads_the_same_compressed_and_recoded(tmp_path: Path, name: str) -> None:
    """Compression and encoding change neither the trace nor its ids."""
    data = (FIXTURES / name).read_bytes()
    forms = {"gzip": gzip.compress(data), "utf-16": data.decode().encode("utf-16")}
    for form, written in forms.items():
        (tmp_path / form).write_bytes(written)

        assert matching(tmp_path / form) == [RECORDED[name][0]]
        assert traces_in(tmp_path / form) == traces_in(FIXTURES / name)


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def table(rows: list[dict[str, Any]]) -> bytes:
    """Write CSV: what is no text is JSON, nothing is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Write parquet as Langfuse does: metadata and usage as JSON text."""
    flat = [{key: None if value is None else _cell(value) for key, value in row.items()} for row in rows]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat), out)
    return out.getvalue()


def one_trace(rows: list[dict[str, Any]]) -> bytes:
    """Write what the API answers about one trace: its observations within it."""
    inner = [{key: value for key, value in row.items() if key != "traceId"} for row in rows]
    return json.dumps({"id": rows[0]["traceId"], "name": "desk", "observations": inner, "scores": []}).encode()


HANDED_ON = text("""
    task: When is the tide?
    agents: desk, expert
    0 desk: tool_call 'transfer_to_expert({})'
    1 desk: tool_result 'Transferred to expert, adopting the role of expert immediately.' after 0
    2 desk: handoff 'Transferred to expert, adopting the role of expert immediately.' to expert after 1, 20+5 tokens
    3 expert: message 'The tide is at nine.' to desk after 2, 20+5 tokens
    """)


def langfuse_nodes(*, blob: bool = False) -> list[dict[str, Any]]:
    return langfuse("langfuse.langgraph-nodes", blob=blob)


def phoenix_rows() -> list[dict[str, Any]]:
    return pyarrow.parquet.read_table(FIXTURES / "phoenix.parquet").to_pylist()


def swarm_messages() -> Any:
    return json.loads((FIXTURES / "autogen-result.swarm.json").read_text())["messages"]


def team_state() -> dict[str, Any]:
    thread = {"message_thread": swarm_messages()}
    return {"type": "TeamState", "agent_states": {"desk": {}, "SwarmManager": thread}}


FORMS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "Langfuse, lines": ("langfuse", lambda: lines(langfuse_nodes()), NODES),
    "Langfuse, list": ("langfuse", lambda: _dumped(langfuse_nodes(), indent=1), NODES),
    "Langfuse, page": ("langfuse", lambda: _dumped({"data": langfuse_nodes(), "meta": {"page": 1}}), NODES),
    "Langfuse, trace": ("langfuse", lambda: one_trace(langfuse_nodes()), NODES),
    "Langfuse, blob lines": ("langfuse", lambda: lines(langfuse_nodes(blob=True)), NODES),
    "Langfuse, blob lines gzip": ("langfuse", lambda: gzip.compress(lines(langfuse_nodes(blob=True))), NODES),
    "Langfuse, CSV": ("langfuse", lambda: table(langfuse_nodes()), NODES),
    "Langfuse, blob CSV gzip": ("langfuse", lambda: gzip.compress(table(langfuse_nodes(blob=True))), NODES),
    "Langfuse, blob parquet": ("langfuse", lambda: parquet(langfuse_nodes(blob=True)), NODES),
    "Jaeger, download": ("jaeger", lambda: _dumped(jaeger("openinference.autogen-swarm")), HANDED_ON),
    "TRAIL": ("trail", lambda: _dumped(trail("openinference.langgraph-nodes"), indent=2), with_status(NODES)),
    "Phoenix, dataframe as JSON": (
        "phoenix",
        lambda: lines(json.loads(_dumped(phoenix_rows()))),
        RECORDED["phoenix.parquet"][1],
    ),
    "Phoenix, page": (
        "phoenix",
        lambda: _dumped({"data": [_rest(row) for row in phoenix_rows()], "next_cursor": None}),
        RECORDED["phoenix.parquet"][1],
    ),
    "LangSmith, runs within runs": ("langsmith", lambda: _dumped(nested_runs(), indent=1), NODES),
    "AutoGen, state of a team": ("autogen-messages", lambda: _dumped(team_state()), SWARM),
    "AutoGen, list": ("autogen-messages", lambda: _dumped(swarm_messages()), SWARM),
    "AutoGen, list as Python writes it": ("autogen-messages", lambda: repr(swarm_messages()).encode(), SWARM),
}
"""What else each importer reads, by the documents of who writes it: its importer, how it is written, and the run."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_run_that_its_spans_tell(tmp_path: Path, form: str) -> None:
    """However it is written down, one importer takes it for its own, and the whole trace is the literal's."""
    importer, written, drawing = FORMS[form]
    path = tmp_path / "export"
    path.write_bytes(written())

    assert matching(path) == [importer]
    assert errors_in(path) == []
    assert drawn(path) == drawing


def _dumped(value: Any, **options: Any) -> bytes:
    return json.dumps(value, default=str, **options).encode()


def _rest(row: dict[str, Any]) -> dict[str, Any]:
    attributes = {key.removeprefix("attributes."): value for key, value in row.items() if key.startswith("attributes.")}
    context = {"trace_id": row["context.trace_id"], "span_id": row["context.span_id"]}
    kept = ("name", "span_kind", "parent_id", "start_time", "end_time", "status_code", "status_message")
    flat = {key: value for key, value in _flat(attributes) if value is not None}
    kind = flat.pop("openinference.span.kind", "UNKNOWN")
    fields = {**{key: row[key] for key in kept}, "span_kind": kind}
    return {"id": "x", **fields, "context": context, "attributes": flat, "events": []}


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten as Phoenix's API does: objects, and lists that hold some."""
    for key, item in value.items():
        read = json.loads(item) if key == "metadata" and isinstance(item, str) else item
        if isinstance(read, list) and any(isinstance(part, dict) for part in read):
            read = {str(place): part for place, part in enumerate(read)}
        if isinstance(read, dict):
            yield from _flat(read, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", read


def nested_runs() -> list[dict[str, Any]]:
    """Nest LangSmith's runs under their parents, as a tracer holds them."""
    flat = [json.loads(line) for line in (FIXTURES / "langsmith.langgraph-nodes.jsonl").read_bytes().splitlines()]
    children: dict[str | None, list[dict[str, Any]]] = {}
    for run in flat:
        children.setdefault(run.pop("parent_run_id"), []).append(run)
        del run["trace_id"], run["dotted_order"]
    for run in flat:
        run["child_runs"] = children.get(run["id"], [])
    return children[None]


def test_history_of_autogen_0_2_tells_its_run(tmp_path: Path) -> None:
    """Tools' answers go to who called, code's output to all; who proxies the user asks."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [
        {"content": "Count.", "role": "user", "name": "user_proxy"},
        {"content": "First load, then count.", "role": "user", "name": "planner"},
        {"content": "", "tool_calls": [call], "role": "assistant", "name": "coder"},
        {"content": "a page", "tool_responses": [{"tool_call_id": "c1", "role": "tool", "content": "a page"}],
         "role": "tool", "name": "coder"},
        {"content": "print(1)", "role": "user", "name": "coder"},
        {"content": "exitcode: 1 (execution failed)\nCode output: Error", "role": "user", "name": "executor"},
    ]  # fmt: skip
    path = tmp_path / "history.json"
    path.write_text(repr(history))

    assert drawn(path) == text(r"""
        task: Count.
        agents: planner, coder, executor (executor)
        0 planner: message 'First load, then count.'
        1 coder: tool_call 'look({})' after 0
        2 coder: tool_result 'a page' after 1
        3 coder: message 'print(1)' after 0 2
        4 executor: tool_result 'exitcode: 1 (execution failed)\nCode output: Error' after 3, error exit_code
        """)


def test_each_importer_says_what_its_source_loses() -> None:
    """The description that `blamespan analyze --help` shows names a loss, or says that there is none."""
    silent = [
        each.name for each in importers() if not any(w in each.description for w in ("lose", "no ", "not", "cut"))
    ]

    assert silent == []


@pytest.mark.data
def test_real_logs_of_other_programs_are_read(recorded_runs: Path) -> None:
    """Every log of the bioagent benchmark, JSON or Python literals, is one run of several agents."""
    files = sorted((recorded_runs / "bioagent_logs").glob("*.json"))
    found = [traces_in(path) for path in files]

    assert len(files) == 15
    assert [len(traces) for traces in found] == [1] * 15
    assert all(len(trace.agents) > 1 and trace.task for [trace] in found)
