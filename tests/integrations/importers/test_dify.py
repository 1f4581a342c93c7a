"""Exports of Dify, written by hand after the shapes that its source defines, tell the run node by node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from blamespan import conventions as words
from tests.integrations.importers.files import drawn, errors_in, matching, text, traces_in, write
from tests.integrations.importers.platforms import dify_detail, dify_executions, dify_node, dify_stream

HIDDEN = (words.NODE_ID, words.NODE_TYPE, words.NODE_INPUTS, words.NODE_SOURCES, words.NODE_OUTPUTS,
          words.NODE_CASES, words.TOOL_NAME)  # fmt: skip
RUN = text("""
    task: 'order: Order 7731\\ntopic: refund'
    agents: workflow, Writer
    0 workflow: tool_call 'Look up(GET /orders/7731)'
    1 workflow: tool_result '{"status_code": 200, "body": "paid 60 of 80"}' after 0
    2 workflow: plan "A refund?: takes true, where the last case tried is 'refund' is 'refund'" after 1
    3 Writer: message 'You get 60 back.' after 1 2, 20+5 tokens
    """)


def served(events: Iterable[dict[str, Any]]) -> str:
    """Write events as a server sends them, with pings among them."""
    return "event: ping\n\n" + "".join(f"event: {e['event']}\ndata: {json.dumps(e)}\n\n" for e in events)


FORMS: dict[str, Callable[[Path], object]] = {
    "executions": lambda path: path.write_text(json.dumps({"data": dify_executions()})),
    "list": lambda path: path.write_text(json.dumps(dify_executions()[::-1])),
    "lines": lambda path: write(path, *dify_executions()),
    "detail first": lambda path: write(path, dify_detail(), {"data": dify_executions()}),
    "detail last": lambda path: write(path, {"data": dify_executions()}, dify_detail()),
    "events": lambda path: write(path, *dify_stream()),
    "server-sent": lambda path: path.write_text(served(dify_stream())),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_dify_run_tells_it(tmp_path: Path, form: str) -> None:
    """Lists, lines, streams and details tell the same: the workflow calls and branches, the model answers, once."""
    path = tmp_path / "export"
    FORMS[form](path)

    assert matching(path) == ["dify"]
    assert errors_in(path) == []
    assert drawn(path, hide=HIDDEN) == RUN


def test_variables_are_told_with_what_they_read(tmp_path: Path) -> None:
    """The graph, and the names of a model's variables, say which step's output each of them reads."""
    executions = dify_executions()
    executions[-1] |= {"inputs": {"reply": None}, "outputs": {"reply": None}}
    [trace] = traces_in(write(tmp_path / "x.json", dify_detail(), {"data": executions}))
    [lookup, _, branch, writer, end] = trace.steps

    assert lookup.attributes[words.NODE_TYPE] == "http-request"
    assert json.loads(str(writer.attributes[words.NODE_SOURCES])) == {"#http.body#": {"step": 1, "key": "body"}}
    assert json.loads(str(end.attributes[words.NODE_SOURCES])) == {"reply": {"step": 3, "key": "text"}}
    assert json.loads(str(end.attributes[words.NODE_INPUTS])) == {"reply": None}
    assert json.loads(str(branch.attributes[words.NODE_CASES])) == {
        "cases": [
            {
                "name": "true",
                "logic": "and",
                "conditions": [{"actual": "refund", "operator": "is", "expected": "refund"}],
            }
        ],
        "taken": "true",
    }


def test_what_a_node_held_is_shown_shortly(tmp_path: Path) -> None:
    """However much a node held, what is told of its variables stays small: their names, and whether they are empty."""
    many: dict[str, Any] = {f"k{n}": {f"m{m}": "x" * 1_000 for m in range(99)} for n in range(99)}
    node = dify_node(
        "a", "code", None, 1, inputs={"q": ""}, outputs={"none": "", "empty": {}, "text": "y" * 999} | many
    )
    [trace] = traces_in(write(tmp_path / "x.json", {"data": [node]}))
    facts = str(trace.steps[1].attributes[words.NODE_OUTPUTS])
    shown = json.loads(facts)

    assert len(facts) < 40_000
    assert (shown["none"], shown["empty"], shown["text"][:2], len(shown)) == ("", {}, "yy", 64)


def test_models_are_told_with_what_they_were_given_once(tmp_path: Path) -> None:
    """The prompt is what a model was given; in later rounds the same prompt is not told again."""
    executions = [
        dify_node("llm", "llm", None, n, title="Writer", process_data={"prompts": [{"role": "user", "text": "Go."}]},
                  outputs={"text": f"Line {n}."})
        for n in (1, 2)
    ]  # fmt: skip
    [trace] = traces_in(write(tmp_path / "x.json", {"data": executions}))

    assert [step.input_text for step in trace.steps] == ["user: Go.", ""]


def test_agent_is_told_with_the_tools_that_it_called(tmp_path: Path) -> None:
    """Logs of an agent node are its calls and their results, before its message."""
    log = [
        {"id": "a", "label": "ROUND 1", "data": {}, "status": "success"},
        {"id": "b", "parent_id": "a", "label": "CALL orders", "status": "success", "error": None, "data": {"output": {
            "tool_call_name": "orders", "tool_call_input": {"id": 7731}, "tool_response": "paid 60 of 80"}}},
    ]  # fmt: skip
    agent = dify_node("a", "agent", None, 1, title="Clerk", outputs={"text": "60."}, inputs={"query": "How much?"},
                      execution_metadata={"agent_log": log})  # fmt: skip

    assert drawn(write(tmp_path / "x.json", {"data": [agent]}), hide=HIDDEN) == text("""
        task: ''
        agents: Clerk
        0 Clerk: tool_call 'orders({"id": 7731})'
        1 Clerk: tool_result 'paid 60 of 80' after 0
        2 Clerk: message '60.' after 1
        """)


def test_rounds_of_a_loop_build_on_the_round_before(tmp_path: Path) -> None:
    """Nodes in an iteration follow its start, those in a loop the round before; what comes after, all of them."""

    def within(kind: str, node: str, place: int, round_of: int) -> dict[str, Any]:
        metadata = {f"{kind}_id": kind, f"{kind}_index": round_of}
        return dify_node(node, "llm", f"{kind}start", place, outputs={"text": f"{node} {round_of}"},
                         execution_metadata=metadata)  # fmt: skip

    executions = [
        dify_node("iteration", "iteration", None, 1, inputs={"items": [1, 2]}, outputs={"output": []}),
        within("iteration", "each", 2, 0),
        within("iteration", "each", 3, 1),
        dify_node("loop", "loop", "iteration", 4, inputs={"loop_count": 2}, outputs={}),
        within("loop", "again", 5, 0),
        within("loop", "again", 6, 1),
    ]

    assert drawn(write(tmp_path / "x.json", {"data": executions}), hide=HIDDEN) == text("""
        task: ''
        agents: workflow, each, again
        0 workflow: plan 'iteration: rounds over {"items": [1, 2]}'
        1 each: message 'each 0' after 0
        2 each: message 'each 1' after 0
        3 workflow: plan 'loop: rounds over {"loop_count": 2}' after 0 1 2
        4 again: message 'again 0' after 3
        5 again: message 'again 1' after 4
        """)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("failed", "failed"), ("succeeded", "unknown"), ("stopped", "unknown"), ("partial-succeeded", "unknown")],
)
def test_outcome_is_known_where_the_run_failed(tmp_path: Path, status: str, outcome: str) -> None:
    """A run that ended in order may be wrong: only a failed one says how it ended."""
    detail = dify_detail(status=status)
    [trace] = traces_in(write(tmp_path / "x.json", detail, {"data": dify_executions()}))

    assert trace.outcome == outcome


def test_node_that_failed_or_never_ended_is_told(tmp_path: Path) -> None:
    """A failed node is an error, one still at work a call without an answer, and the run's error is told once."""
    events = dify_stream()[:3]
    common = {"task_id": "task-run-1", "workflow_run_id": "run-1"}
    bad = dify_node("tool", "tool", "start", 2, title="Search", inputs={"q": "x"}, status="failed",
                    error="ToolInvokeError: timed out after 60 s")  # fmt: skip
    hung = dify_node("slow", "code", "start", 3, title="Sum up", inputs={"a": 1}, status="running")
    events += [
        {**common, "event": "node_finished", "data": bad},
        {**common, "event": "node_started", "data": hung},
        {**common, "event": "workflow_finished", "data": {"status": "failed", "error": bad["error"]}},
    ]

    assert drawn(write(tmp_path / "x.jsonl", *events), hide=HIDDEN) == text("""
        task: 'order: Order 7731\\ntopic: refund'
        agents: workflow
        outcome: failed
        0 workflow: tool_call 'Search({"q": "x"})'
        1 workflow: tool_result 'ToolInvokeError: timed out after 60 s' after 0, error ToolInvokeError
        2 workflow: tool_call 'Sum up({"a": 1})'
        """)


def test_error_of_the_run_alone_is_a_step(tmp_path: Path) -> None:
    """Why the platform ended a run, where no node says it, is the workflow's last step."""
    [trace] = traces_in(
        write(tmp_path / "x", dify_detail(status="failed", error="Max steps 500 reached."), {"data": dify_executions()})
    )

    assert (trace.steps[-1].content, trace.steps[-1].status) == ("Max steps 500 reached.", "error")


def test_unknown_nodes_are_plain_steps(tmp_path: Path) -> None:
    """A node of a kind that is not known is told by what it gave, and so is one without a title."""
    new = dify_node("x1", "quantum", None, 1, title="", outputs={"result": "3 of 4"})

    assert drawn(write(tmp_path / "x.json", {"data": [new]}), hide=HIDDEN) == text("""
        task: ''
        agents: workflow
        0 workflow: message 'x1: 3 of 4'
        """)


def test_streams_at_once_and_pings_are_told_apart(tmp_path: Path) -> None:
    """Runs whose events are interleaved are runs of their own, and two models of one title are two agents."""
    mixed = [event for pair in zip(dify_stream("a"), dify_stream("b"), strict=True) for event in pair]
    path = tmp_path / "x.sse"
    path.write_text(served(mixed))
    twins = [dify_node(node, "llm", None, n, title="LLM", outputs={"text": f"t{n}"}) for n, node in enumerate("ab")]

    assert [len(trace.steps) for trace in traces_in(path)] == [4, 4]
    [trace] = traces_in(write(tmp_path / "y.json", {"data": twins}))
    assert [agent.name for agent in trace.agents] == ["LLM", "LLM (b)"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"workflow_run_id": "r", "node_type": 1, "data": {"node_id": 1}},
            "a blocking response, which tells of no node",
        ),
        ({"node_type": "llm", "node_id": 5}, "with 'node_id' as text, got 5"),
        ({"node_type": "llm", "node_id": "a", "created_at": "soon"}, "expected a time since 1970, got 'soon'"),
        ({"app": {"mode": "workflow"}, "node_type": "", "kind": "app"}, "of version 0.6 or later, got"),
    ],
)
def test_what_is_no_run_is_named(tmp_path: Path, value: object, message: str) -> None:
    """Each is one error that says what was expected and what to do; the runs around it are read."""
    path = write(tmp_path / "x.json", {"data": dify_executions()}, value, {"data": dify_executions()})
    errors = errors_in(path)

    assert any(message in error for error in errors)
    assert len(traces_in(path)) >= 1


def test_detail_alone_is_no_run(tmp_path: Path) -> None:
    """A detail without the executions of its nodes says where these are to be had."""
    path = write(tmp_path / "x.json", dify_detail())

    assert matching(path) == ["dify"]
    assert ["Fetch workflow-runs/ID/node-executions too" in error for error in errors_in(path)] == [True]


def test_cut_stream_gives_what_was_streamed(tmp_path: Path) -> None:
    """A stream that breaks off within a line is one error, and the run up to there is read."""
    path = tmp_path / "x.sse"
    path.write_text(served(dify_stream())[:-700])

    assert [error.split(": ")[0] for error in errors_in(path)] == ["x.sse:34"]
    assert len(traces_in(path)) == 1


def test_run_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More nodes than a run may have are one error."""
    for module in ("_conversation", "dify"):
        monkeypatch.setattr(f"blamespan_integrations.importers.{module}.MAX_STEPS", 200)
    path = tmp_path / "x.jsonl"
    nodes = (dify_node(f"n{n}", "llm", f"n{n - 1}", n, outputs={"text": "a"}) for n in range(210))
    write(path, *nodes)

    assert ["at most 200 steps" in error for error in errors_in(path)] == [True]


@pytest.mark.parametrize(
    "damage", ['{"a": ', "[" * 200_000, '{"event": 5, "data": []}', "null", '{"event": "\\ud83d"}']
)
@pytest.mark.parametrize("form", ["lines", "events", "server-sent"])
def test_bad_value_at_the_end_costs_no_run(tmp_path: Path, form: str, damage: str) -> None:
    """Behind a whole run, whatever stands there gives errors of one line that name the file, and the run is read."""
    path = tmp_path / "export"
    FORMS[form](path)
    with path.open("a") as more:
        more.write(f"{'data: ' if form == 'server-sent' else ''}{damage}\n")

    assert len(traces_in(path)) == 1
    assert all(error.startswith("export:") and "\n" not in error and len(error) < 1_000 for error in errors_in(path))


def test_logs_of_agents_are_streamed(tmp_path: Path) -> None:
    """Where the node's end does not hold the log, the events of its agent are its calls."""
    common = {"task_id": "t", "workflow_run_id": "r"}
    output = {"tool_call_name": "orders", "tool_call_input": {"id": 1}, "tool_response": "paid"}
    log = {"id": "l", "node_execution_id": "exec-1", "label": "CALL orders", "status": "success"}
    events = [
        {**common, "event": "agent_log", "data": {**log, "status": "start", "data": {}}},
        {**common, "event": "agent_log", "data": {**log, "data": {"output": output}}},
        {**common, "event": "node_finished", "data": dify_node("a", "agent", None, 1, outputs={"text": "Yes."})},
    ]

    assert drawn(write(tmp_path / "x.jsonl", *events), hide=HIDDEN) == text("""
        task: ''
        agents: a
        0 a: tool_call 'orders({"id": 1})'
        1 a: tool_result 'paid' after 0
        2 a: message 'Yes.' after 1
        """)
