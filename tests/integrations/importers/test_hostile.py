"""Exports that are broken, cut, mixed or made to harm: each trouble is named in its place, and the rest is read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import ormsgpack
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan_integrations.importers._span_files import rebuild_runs
from blamespan_integrations.importers.langfuse import spans_of_observation
from tests.integrations.importers.files import FIXTURES, NODES, VALUES, drawn, errors_in, matching, replaced, traces_in
from tests.integrations.importers.platforms import (
    dify_detail,
    dify_executions,
    dify_stream,
    flatted,
    flowise_nodes,
    n8n_execution,
)
from tests.integrations.importers.shapes import jaeger, langfuse, trail
from tests.integrations.importers.test_atif import ROOT as ATIF


def lines_of(name: str) -> list[Any]:
    return [json.loads(line) for line in (FIXTURES / name).read_bytes().splitlines()]


DOCUMENTS: dict[str, list[Any]] = {
    "agent-framework": [json.loads((FIXTURES / "agent-framework.response.json").read_bytes())],
    "atif": [json.loads((FIXTURES / "atif.nemo.json").read_bytes()), ATIF],
    "autogen-events": lines_of("autogen-events.swarm.jsonl"),
    "autogen-messages": [json.loads((FIXTURES / "autogen-result.round-robin.json").read_bytes())],
    "bigbench-mistake": [{"input": "1 + 1 =", "steps": ["3"], "target": "2", "answer": "3", "mistake_index": 0}],
    "dify": [dify_detail(), {"data": dify_executions()}, *dify_stream()],
    "flowise": [{"executionData": json.dumps(flowise_nodes())}, {"agentFlowExecutedData": flowise_nodes()}],
    "jaeger": [jaeger("openinference.langgraph-branches")],
    "langfuse": langfuse("langfuse.langgraph-branches"),
    "langgraph-stream": lines_of("langgraph-debug.nodes.jsonl"),
    "langsmith": lines_of("langsmith.langgraph-branches.jsonl"),
    "mlflow": [json.loads((FIXTURES / "mlflow.langgraph-branches.json").read_bytes())],
    "n8n": [n8n_execution(), n8n_execution(data=flatted(n8n_execution()["data"]))],
    "phoenix": [{"context.trace_id": "1" * 32, "context.span_id": "2" * 16, "name": "a", "start_time": "2026-01-01"}],
    "steps": [{"task": "t", "outcome": "failed", "steps": [{"agent": "a", "kind": "message", "content": "x"}]}],
    "tempo": [{"batches": [{"scopeSpans": [{"spans": [{"traceId": "1" * 32, "spanId": "2" * 16}]}]}]}],
    "trail": [trail("openinference.langgraph-branches")],
}


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 99), path=st.lists(st.integers(0, 99), min_size=1, max_size=7), new=VALUES)
def test_any_value_anywhere_gives_runs_and_errors(
    tmp_path: Path, name: str, place: int, path: list[int], new: Any
) -> None:
    """Whatever stands where a field should, reading ends, and gives nothing but runs and errors that name the file."""
    documents = list(DOCUMENTS[name])
    documents[place % len(documents)] = replaced(documents[place % len(documents)], path, new)
    (tmp_path / "export").write_text("".join(f"{json.dumps(document)}\n" for document in documents))

    for item in load_importer(name).read(tmp_path / "export"):
        assert isinstance(item, RecordedRun) or str(item).startswith(str(tmp_path / "export"))


@pytest.mark.parametrize("name", ["phoenix.parquet", "langgraph-checkpoints.nodes.sqlite"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 60_000), data=st.binary(max_size=40), is_cut=st.booleans())
def test_damaged_tables_give_runs_and_errors(tmp_path: Path, name: str, place: int, data: bytes, is_cut: bool) -> None:
    """A database or table with bytes overwritten or its end lost is an error or still read."""
    whole = (FIXTURES / name).read_bytes()
    (tmp_path / "export").write_bytes(whole[:place] + data + (b"" if is_cut else whole[place + len(data) :]))
    importer = load_importer("phoenix" if name.startswith("phoenix") else "langgraph-checkpoints")

    assert all(isinstance(item, RecordedRun | UnreadableInput) for item in importer.read(tmp_path / "export"))


def test_table_of_more_rows_than_its_bytes_can_hold_is_refused(tmp_path: Path) -> None:
    """Rows that are all alike take no bytes: a table of them costs no more than a look; a small whole one is read."""
    row = {"context.trace_id": "1" * 32, "context.span_id": "2" * 16, "name": "a", "start_time": "2026-01-01"}
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    sound = errors_in(path)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row] * 20_000), path)

    assert sound == []
    assert [message.split(", at least")[0] for message in errors_in(path)] == [
        "rows.parquet: expected rows with an id of their own"
    ]


def test_clock_nonsense_costs_its_record_alone(tmp_path: Path) -> None:
    """A time that is none is named with its record; the others are read, and an end before the start is no length."""
    rows = langfuse("langfuse.langgraph-nodes")
    odd = [{**rows[0], "id": f"{n:016x}", "startTime": t} for n, t in enumerate(("soon", "1066-10-14", -5, 1e300), 1)]
    rows[-1] = {**rows[-1], "endTime": "2001-01-01 00:00:00"}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*odd, *rows]))

    assert [message.split(". ")[0] for message in errors_in(path)] == [
        "rows.jsonl:1: expected a time since 1970, got 'soon'",
        "rows.jsonl:2: expected a time since 1970, got '1066-10-14 00:00:00'",
        "rows.jsonl:3: expected a time since 1970, got '-5'",
        "rows.jsonl:4: expected a time since 1970, got '1e+300'",
    ]
    assert len(traces_in(path)) == 1


def test_mixed_formats_are_named_line_by_line(tmp_path: Path) -> None:
    """A file whose lines are of several formats is read as its first; the others are named."""
    rows = [json.dumps(row) for row in DOCUMENTS["langsmith"]]
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join([*rows, '{"resourceSpans": []}', "plain text", "[1]"]))

    assert matching(path)[0] == "langsmith"
    assert [message.split(", got")[0] for message in errors_in(path)] == [
        f"mixed.jsonl:{len(rows) + 1}: expected a time since 1970",
        f"mixed.jsonl:{len(rows) + 2}: expected a run from LangSmith",
        f"mixed.jsonl:{len(rows) + 3}[0]: expected a run from LangSmith, a JSON object",
    ]
    assert len(traces_in(path)) == 1


def test_line_in_another_encoding_is_named_with_its_byte(tmp_path: Path) -> None:
    """A line in Latin-1 among lines in UTF-8 is refused with what to do; guessing would change what was said."""
    rows = [json.dumps(row).encode() for row in langfuse("langfuse.langgraph-nodes")]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([*rows, rows[0].replace(b"sea", b"s\xe9a")]))

    assert ["got the byte 0xe9" in message and "iconv" in message for message in errors_in(path)] == [True]
    assert drawn(path) == NODES


def test_python_file_that_is_no_list_of_literals_is_refused(tmp_path: Path) -> None:
    """Nothing in a file is ever run: calls, names and endless nesting are refused, with what was expected."""
    path = tmp_path / "history.json"
    for trick in ("__import__('os').abort()", "[" * 5_000, "-" * 50_000 + "1", "x", "(" * 90 + ")" * 90 + "**9"):
        path.write_text(f"[{{'role': 'user', 'content': {trick}}}]")

        assert [message.split(", got")[0] for message in errors_in(path)] == [
            "history.json: expected a list of messages as JSON or Python literals"
        ]


def test_checkpoint_of_a_hostile_type_is_data(tmp_path: Path) -> None:
    """A checkpoint that names a class to import and call is read as what it says, and pickles are refused."""
    path = tmp_path / "state.sqlite"
    marker = tmp_path / "ran"
    path.write_bytes((FIXTURES / "langgraph-checkpoints.nodes.sqlite").read_bytes())
    trick = ormsgpack.Ext(0, ormsgpack.packb(["os", "mkdir", str(marker)]))
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE writes SET channel = 'notes', value = ? WHERE channel = 'messages'",
            (ormsgpack.packb({"a": trick}),),
        )
        database.execute("UPDATE checkpoints SET type = 'pickle' WHERE CAST(metadata AS TEXT) LIKE '%\"step\": 5%'")
    database.close()

    assert not marker.exists()
    assert ["got 'pickle'" in message for message in errors_in(path)] == [True]
    assert "__class__: mkdir" in traces_in(path)[0].steps[0].content
    assert not marker.exists()


def test_teams_that_talk_at_once_are_runs_of_their_own(tmp_path: Path) -> None:
    """Two teams whose events are interleaved in one log are two runs, and a third, silent one is none."""
    first = (FIXTURES / "autogen-events.swarm.jsonl").read_text().splitlines()
    second = (FIXTURES / "autogen-events.round-robin.jsonl").read_text().splitlines()
    mixed = [line for pair in zip(first, second, strict=False) for line in pair]
    path = tmp_path / "events.log"
    path.write_text("\n".join(f"2026-11-21 09:00:00 INFO {line}" for line in [*mixed, *second[len(first) :]]))

    assert sorted(len(trace.steps) for trace in traces_in(path)) == [4, 5]


def test_graph_runs_one_after_the_other_are_told_apart(tmp_path: Path) -> None:
    """A step number that starts over begins the next run."""
    once = (FIXTURES / "langgraph-debug.nodes.jsonl").read_text()
    path = tmp_path / "debug.jsonl"
    path.write_text(once + once)

    assert len(traces_in(path)) == 2


def test_half_a_surrogate_pair_survives_the_way_over_disk(tmp_path: Path) -> None:
    """Text that is no valid Unicode, anywhere in a span, neither breaks the spill to disk nor loses the run."""
    half = "\ud800"
    rows = langfuse("langfuse.langgraph-nodes")
    odd = [{**row, "statusMessage": half, "metadata": {**row["metadata"], half: half}} for row in rows]
    odd = [{**row, "name": f"model {half}"} if row["type"] == "GENERATION" else row for row in odd]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in odd))
    told = [item for row in odd for item in spans_of_observation(row, "here")]
    [held] = rebuild_runs(path, told)
    [spilled] = rebuild_runs(path, told, held_characters=0)

    assert isinstance(held, RecordedRun)
    assert isinstance(spilled, RecordedRun)
    assert [step.agent for step in held.trace.steps] == ["planner", "worker", "worker", "worker", "worker", "checker"]
    assert [step.kind for step in spilled.trace.steps] == [step.kind for step in held.trace.steps]


@pytest.mark.parametrize("name", ["autogen-messages.swarm.jsonl", "autogen-events.swarm.jsonl"])
def test_run_without_end_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A run of more steps than any team takes is one error, and holds no more than that in memory."""
    for module in ("_conversation", "autogen_messages"):
        monkeypatch.setattr(f"blamespan_integrations.importers.{module}.MAX_STEPS", 200)
    template = (FIXTURES / "autogen-messages.swarm.jsonl").read_text().splitlines()[-1]
    messages = [template.replace('"id":"', f'"id":"{n}-') for n in range(205)]
    if name.startswith("autogen-events"):
        messages = [json.dumps({"type": "Message", "payload": json.dumps({"message": json.loads(m)}), "sender": "a/b"})
                    for m in messages]  # fmt: skip
    path = tmp_path / name
    path.write_text("\n".join(messages))

    assert [message.split(": ")[1] for message in errors_in(path)] == [
        "expected at most 200 steps in a run, got more. Split the file."
    ]


def test_runs_are_yielded_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    """Of results line by line the first comes before the last is read: memory does not grow with the file."""
    result = json.dumps(json.loads((FIXTURES / "autogen-result.swarm.json").read_text()))
    path = tmp_path / "results.jsonl"
    path.write_text(f"{result}\n" * 5_000)
    runs = load_importer("autogen-messages").read(path)
    first = next(iter(runs))
    path.write_text("")

    assert isinstance(first, RecordedRun)
    assert sum(1 for _ in runs) < 4_999
