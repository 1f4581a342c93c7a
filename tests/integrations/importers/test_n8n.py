"""Executions of n8n, written by hand after the shapes that its source defines, tell the run node by node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan_integrations.importers import n8n
from tests.integrations.importers.files import drawn, errors_in, matching, runs_in, text, traces_in, write
from tests.integrations.importers.platforms import flatted, n8n_execution, n8n_run
from tests.integrations.importers.test_dify import HIDDEN

RUN = text("""
    task: Refund order 7731.
    agents: Clerk, workflow
    0 Clerk: tool_call 'orders({"id": 7731})'
    1 Clerk: tool_result 'paid 60 of 80' after 0
    2 Clerk: message '60 were paid.' after 1, 20+5 tokens
    3 workflow: plan 'Refund?: takes true' after 2
    4 workflow: tool_call 'Pay({"url": "https://pay.example.com", "body": "60 were paid."})' after 3
    5 workflow: tool_result 'paid' after 4
    """)


def stored() -> dict[str, Any]:
    """Write an execution as the database's row has it: its data, and its workflow, as text."""
    execution = n8n_execution()
    return execution | {
        "data": json.dumps(flatted(execution["data"])),
        "workflowData": json.dumps(execution["workflowData"]),
    }


FORMS: dict[str, Callable[[], object]] = {
    "answer": n8n_execution,
    "page": lambda: {"data": [n8n_execution()], "nextCursor": None},
    "list": lambda: [n8n_execution()],
    "editor": lambda: {"data": stored()},
    "row": stored,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_n8n_execution_tells_it(tmp_path: Path, form: str) -> None:
    """Answers, pages, rows and lists tell the same: the agent calls its tool and speaks, the workflow branches."""
    path = write(tmp_path / "export", FORMS[form]())

    assert matching(path) == ["n8n"]
    assert errors_in(path) == []
    assert drawn(path, hide=HIDDEN) == RUN


def test_data_alone_is_read_without_its_workflow(tmp_path: Path) -> None:
    """The database's list in a file of its own has no kinds of nodes: each is a plain step, and none is lost."""
    path = tmp_path / "export"
    path.write_text(json.dumps(flatted(n8n_execution()["data"])))
    [trace] = traces_in(path)

    assert matching(path) == ["n8n"]
    assert [step.content for step in trace.steps][-1] == "Pay: paid"


def test_agent_is_told_with_what_its_model_was_given(tmp_path: Path) -> None:
    """The messages of the model below an agent are what the agent was given, its tokens the agent's."""
    [trace] = traces_in(write(tmp_path / "x", n8n_execution()))

    assert trace.steps[2].input_text == "Human: Refund order 7731."
    assert json.loads(str(trace.steps[3].attributes[words.NODE_CASES]))["taken"] == "true"


def error_of(name: str, message: str) -> dict[str, Any]:
    return {"name": name, "message": message, "description": None, "node": {"name": "Pay"}}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, "unknown"),
        ({"status": "error"}, "failed"),
        ({"status": "crashed"}, "failed"),
        ({"status": "canceled"}, "unknown"),
    ],
)
def test_outcome_is_known_where_the_execution_failed(tmp_path: Path, fields: dict[str, Any], outcome: str) -> None:
    """An execution that ended in order may be wrong; one that waits for an answer is not judged yet."""
    [trace] = traces_in(write(tmp_path / "x", n8n_execution(**fields)))

    assert trace.outcome == outcome


def test_waiting_execution_waits(tmp_path: Path) -> None:
    """An execution that waits for somebody outside is not judged yet."""
    [run] = runs_in(write(tmp_path / "x", n8n_execution(status="waiting", finished=False)))

    assert run.waits


def test_failed_node_is_an_error_told_once(tmp_path: Path) -> None:
    """The node's error is its result; the execution's, which says the same, is no further step."""
    execution = n8n_execution(status="error", finished=False)
    error = error_of("NodeApiError", "The service refused the request")
    result = execution["data"]["resultData"]
    result["runData"]["Pay"] = [n8n_run(5, "Refund?", executionStatus="error", error=error)]
    result["error"] = error
    [trace] = traces_in(write(tmp_path / "x", execution))

    assert trace.outcome == "failed"
    assert [step.content for step in trace.steps if step.error] == ["NodeApiError: The service refused the request"]
    assert trace.steps[-1].error == "NodeApiError"


def test_failed_node_of_an_unknown_kind_says_why(tmp_path: Path) -> None:
    """Without its workflow a node that failed is a plain step, with its error."""
    data = {"A": [n8n_run(0, executionStatus="error", error=error_of("TypeError", "x is not a function"))]}
    execution = n8n_execution(workflowData=None, data={"resultData": {"runData": data}})
    [trace] = traces_in(write(tmp_path / "x", execution))

    assert [step.content for step in trace.steps] == ["A: TypeError: x is not a function"]


def test_error_without_a_node_is_a_step(tmp_path: Path) -> None:
    """Why the platform ended an execution, where no node says it, is the workflow's last step."""
    execution = n8n_execution(status="crashed")
    execution["data"]["resultData"]["error"] = {"name": "WorkflowCrashedError", "message": "Out of memory"}
    [trace] = traces_in(write(tmp_path / "x", execution))

    assert (trace.steps[-1].agent, trace.steps[-1].content) == ("workflow", "WorkflowCrashedError: Out of memory")


def test_rounds_follow_each_other(tmp_path: Path) -> None:
    """A loop over items: each round is a decision, and builds on what the round before gave."""
    nodes = [
        {"name": "Start", "type": "n8n-nodes-base.manualTrigger", "id": "a"},
        {"name": "Loop", "type": "n8n-nodes-base.splitInBatches", "id": "b"},
        {"name": "Sum", "type": "n8n-nodes-base.code", "id": "c"},
    ]
    one = {"main": [[{"json": {"n": 1}}]]}
    data = {
        "Start": [n8n_run(0, data=one)],
        "Loop": [n8n_run(1, "Start", data={"main": [[], one["main"][0]]}),
                 n8n_run(3, "Sum", data={"main": [one["main"][0], []]})],
        "Sum": [n8n_run(2, "Loop", data={"main": [[{"json": {"n": 2}}]]})],
    }  # fmt: skip
    execution = n8n_execution(
        workflowData={"name": "Sums", "nodes": nodes, "connections": {}}, data={"resultData": {"runData": data}}
    )

    assert drawn(write(tmp_path / "x", execution), hide=HIDDEN) == text("""
        task: 1
        agents: workflow
        0 workflow: plan 'Loop: round 1'
        1 workflow: tool_call 'Sum()' after 0
        2 workflow: tool_result '2' after 1
        3 workflow: plan 'Loop: round 2' after 2
        """)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": "1", "mode": "manual", "startedAt": "", "workflowId": "w", "finished": True}, "?includeData=true"),
        ({"nodes": [], "connections": {}, "startedAt": 0}, "got a workflow, which has not run"),
        (n8n_execution(data={"version": 7, "resultData": {}}), "got version 7. Executions of n8n 0.200 to 2 are"),
        (n8n_execution(data={"resultData": {"runData": {}}}), "expected a run with an agent's step, got none"),
        (n8n_execution(data='[{"resultData":"9"}]'), "got place 9 of 1. The export breaks off"),
        ({"data": [{"mode": 1}, 5]}, "expected an execution of n8n with its data"),
    ],
)
def test_what_is_no_execution_is_named(tmp_path: Path, value: object, message: str) -> None:
    """Each is one error that says what was expected and what to do; the executions around it are read."""
    path = write(tmp_path / "x.json", n8n_execution(), value, n8n_execution())

    assert [message in error for error in errors_in(path)] == [True]
    assert len(traces_in(path)) == 2


def test_what_holds_itself_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is part of itself is cut where it comes again, and one that doubles without end is refused."""
    monkeypatch.setattr(n8n, "MAX_LINE_BYTES", 1 << 20)
    places: list[Any] = [{"resultData": "1"}, {"runData": "2"}, {"A": "3"}, ["4"], {"data": "5", "source": "6"}, {},
                         ["4"]]  # fmt: skip
    doubling: list[Any] = [{"resultData": "1"}, {"runData": "2"}, {"A": "3"}]
    doubling += [[str(n + 1)] * 2 for n in range(3, 60)] + [["60"], "x" * 1_000]
    path = write(tmp_path / "x", n8n_execution(data=places), n8n_execution(data=doubling))

    assert ["characters, got more" in error for error in errors_in(path)] == [True]
    assert len(traces_in(path)) == 1


def test_cut_list_of_the_database_is_named(tmp_path: Path) -> None:
    """A file that breaks off within the list gives errors, and no more."""
    path = tmp_path / "export"
    path.write_text(json.dumps(flatted(n8n_execution()["data"]))[:-900])

    assert errors_in(path) != []
    assert traces_in(path) == []


def test_sources_in_a_ring_end(tmp_path: Path) -> None:
    """Executions that each name the other as their source are read, in the order of their numbers."""
    data = {"A": [n8n_run(0, "B", data={"main": [[{"json": {"a": "x"}}]]})],
            "B": [n8n_run(1, "A", data={"main": [[{"json": {"b": "y"}}]]})]}  # fmt: skip
    execution = n8n_execution(workflowData={}, data={"resultData": {"runData": data}})

    assert len(traces_in(write(tmp_path / "x", execution))[0].steps) == 2


@pytest.mark.slow
def test_many_rounds_take_time_that_grows_with_them(tmp_path: Path) -> None:
    """A loop of thousands of rounds is read, and one of more than a run may have is refused."""

    def loop(rounds: int) -> dict[str, Any]:
        data = {"A": [n8n_run(n, "A", data={"main": [[{"json": {"a": "x"}}]]}) for n in range(rounds)]}
        for n, each in enumerate(data["A"]):
            each["source"] = [{"previousNode": "A", "previousNodeRun": max(0, n - 1)}]
        return n8n_execution(workflowData={}, data={"resultData": {"runData": data}})

    path = write(tmp_path / "x", loop(5_000), loop(20_010))

    assert [len(trace.steps) for trace in traces_in(path)] == [5_000]
    assert ["at most 20000 steps" in error for error in errors_in(path)] == [True]
