"""Executions of Flowise, written by hand after the shapes that its source defines, tell the run node by node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blamespan import conventions as words
from tests.integrations.importers.files import drawn, errors_in, matching, runs_in, text, traces_in, write
from tests.integrations.importers.platforms import flowise_nodes
from tests.integrations.importers.test_dify import HIDDEN

RUN = text("""
    task: Refund order 7731.
    agents: Clerk, workflow
    0 Clerk: tool_call 'orders({"id": 7731})'
    1 Clerk: tool_result 'paid 60 of 80' after 0
    2 Clerk: message '60 were paid.' after 1, 20+5 tokens
    3 workflow: plan 'Refund?: takes 0' after 2
    4 workflow: tool_call 'Pay({"method": "POST", "body": "60"})' after 3
    5 workflow: tool_result '{"data": "paid", "status": 200}' after 4
    6 workflow: message '60 are on their way.' after 5
    """)


def row(**fields: Any) -> dict[str, Any]:
    return {"id": "e1", "executionData": json.dumps(flowise_nodes()), "state": "FINISHED", "agentflowId": "f",
            "sessionId": "s", "createdDate": "2026-09-21T14:13:20.000Z"} | fields  # fmt: skip


FORMS: dict[str, Callable[[], object]] = {
    "row": row,
    "page": lambda: {"data": [row()], "total": 1},
    "list": lambda: [row()],
    "export": lambda: {"AgentFlowV2": [], "Execution": [row()]},
    "answer": lambda: {"text": "", "question": "Refund order 7731.", "agentFlowExecutedData": flowise_nodes()},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_flowise_execution_tells_it(tmp_path: Path, form: str) -> None:
    """Rows, pages, exports and answers tell the same: the agent calls its tool and speaks, the workflow branches."""
    path = write(tmp_path / "export", FORMS[form]())

    assert matching(path) == ["flowise"]
    assert errors_in(path) == []
    assert drawn(path, hide=HIDDEN) == RUN


def test_agent_is_told_with_its_prompt_without_its_own_calls(tmp_path: Path) -> None:
    """What an agent was given are the messages that no step of the run says."""
    [trace] = traces_in(write(tmp_path / "x", row()))

    assert trace.steps[2].input_text == "user: Refund order 7731."
    assert json.loads(str(trace.steps[3].attributes[words.NODE_CASES]))["taken"] == "0"


@pytest.mark.parametrize(
    ("state", "outcome", "waits"),
    [
        ("FINISHED", "unknown", False),
        ("ERROR", "failed", False),
        ("TIMEOUT", "failed", False),
        ("STOPPED", "unknown", True),
    ],
)
def test_outcome_is_known_where_the_flow_failed(tmp_path: Path, state: str, outcome: str, waits: bool) -> None:
    """A flow that ended in order may be wrong; one that stopped waits for a person."""
    [run] = runs_in(write(tmp_path / "x", row(state=state)))

    assert (run.trace.outcome, run.waits) == (outcome, waits)


def test_failed_node_fails_its_flow(tmp_path: Path) -> None:
    """A node's error is its result, and the run's outcome."""
    nodes = flowise_nodes()[:4]
    nodes[3] |= {"status": "ERROR"}
    nodes[3]["data"] = {"name": "httpAgentflow", "error": "Request failed with status code 503"}
    [trace] = traces_in(write(tmp_path / "x", row(executionData=nodes, state="INPROGRESS")))

    assert (trace.outcome, trace.steps[-1].content) == ("failed", "Request failed with status code 503")
    assert trace.steps[-1].status == "error"


@pytest.mark.parametrize("value", [row(executionData="[]"), row(executionData="{"), {"data": [5]}, {"nodes": []}])
def test_what_is_no_execution_is_named(tmp_path: Path, value: object) -> None:
    """Each is one error that says what was expected and what to do; the executions around it are read."""
    path = write(tmp_path / "x", row(), value, row())

    assert ["with what its nodes did, got" in error for error in errors_in(path)] == [True]
    assert len(traces_in(path)) == 2
