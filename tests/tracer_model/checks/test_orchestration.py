"""Failures of orchestration are seen in runs of workflow platforms, and in their sound twins nothing is.

The runs are read from exports written by hand in the platforms' shapes: importers and checks are tried together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from blamespan.attribution import NOBODY_KNOWS
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.checks import CHECKS, ChecksTracer, apply_checks
from tests.integrations.importers.platforms import dify_detail, dify_executions, flowise_nodes, n8n_execution, n8n_run

NAMES = ("branch-holds", "variable-filled", "output-mapped", "service-answers", "limit-kept")

Executions = list[dict[str, Any]]


def read(path: Path, name: str, *values: object) -> MessageActionTrace:
    """Read the one run of an export."""
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    [run] = load_importer(name).read(path)
    assert isinstance(run, RecordedRun)
    return run.trace


def dify(path: Path, change: Callable[[Executions], object] = lambda executions: None) -> MessageActionTrace:
    """Read the run of the refund, after a change of its executions."""
    executions = dify_executions()
    change(executions)
    return read(path / "dify.json", "dify", dify_detail(), {"data": executions})


def n8n(path: Path, change: Callable[[dict[str, Any]], object] = lambda execution: None) -> MessageActionTrace:
    """Read the execution of the refund, after a change of it."""
    execution = n8n_execution()
    change(execution)
    return read(path / "n8n.json", "n8n", execution)


def judged(trace: MessageActionTrace) -> dict[str, str]:
    """What each check of orchestration comes to, with the step, unless it is kept or finds nothing to judge."""
    results = apply_checks([check for check in CHECKS if check.name in NAMES], trace)
    return {each.check.name: f"{each.outcome} {each.step}" for each in results if each.step is not None}


def conditions(executions: Executions) -> dict[str, Any]:
    condition: dict[str, Any] = executions[2]["inputs"]["conditions"][0]
    return condition


def take(executions: Executions, *, result: bool) -> None:
    executions[2]["outputs"] = {"result": result, "selected_case_id": "true" if result else None}
    executions[2]["process_data"]["condition_results"][0]["final_result"] = result


def fail_lookup(error: str) -> Callable[[Executions], object]:
    return lambda executions: executions[1].update(status="failed", error=error, outputs={})


def test_sound_runs_keep_every_check(tmp_path: Path) -> None:
    """In a run of either platform that went well every check that has something to judge is kept."""
    assert judged(dify(tmp_path)) == {}
    assert judged(n8n(tmp_path)) == {}


DIFY: Mapping[str, tuple[Callable[[Executions], object], dict[str, str]]] = {
    "takes the other branch": (lambda run: take(run, result=False), {"branch-holds": "fail 2"}),
    "takes a case that does not hold": (
        lambda run: conditions(run).update(actual_value="complaint"),
        {"branch-holds": "fail 2"},
    ),
    "a value differs by its case": (
        lambda run: (conditions(run).update(actual_value="Refund "), take(run, result=False)),
        {"branch-holds": "inconclusive 2"},
    ),
    "a variable arrives empty": (lambda run: run[3].update(inputs={"#http.body#": ""}), {"variable-filled": "fail 3"}),
    "a placeholder is left": (
        lambda run: run[3]["process_data"]["prompts"][1].update(text="Order {{#start.oder#}}"),
        {"variable-filled": "fail 3"},
    ),
    "an output of another name is read": (
        lambda run: run[3].update(inputs={"#http.text#": None}),
        {"output-mapped": "fail 3"},
    ),
    "nothing is returned": (
        lambda run: run[4].update(inputs={"reply": None}, outputs={"reply": None}),
        {"output-mapped": "fail 4"},
    ),
    "a service times out": (
        fail_lookup("HttpRequestNodeError: Reached maximum retries (0), timed out"),
        {"service-answers": "fail 0"},
    ),
    "a credential is missing": (
        fail_lookup('NodeOperationError: Credential with ID "a" does not exist for type "b"'),
        {"service-answers": "fail 0"},
    ),
    "a rate is exhausted": (fail_lookup("InvokeRateLimitError: 429 Too Many Requests"), {"limit-kept": "fail 0"}),
}
SOUND: Mapping[str, Callable[[Executions], object]] = {
    "takes the other branch as it must": lambda run: (
        conditions(run).update(actual_value="praise"), take(run, result=False)),
    "a variable is empty as its source is": lambda run: (
        run[1]["outputs"].update(body=""), run[3].update(inputs={"#http.body#": ""})),
    "a prompt speaks of placeholders": lambda run: run[3]["process_data"]["prompts"][0].update(text="Write {{name}}."),
    "an empty output is returned as it was given": lambda run: (
        run[3].update(outputs={"text": ""}), run[4].update(inputs={"reply": ""}, outputs={"reply": ""})),
    "a value was cut by the platform": lambda run: run[3].update(inputs={"#http.body#": ""}, inputs_truncated=True),
    "a service speaks of time-outs": lambda run: run[1]["outputs"].update(body="error 429: timed out"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFY)
def test_failure_of_orchestration_in_dify_is_seen(tmp_path: Path, name: str) -> None:
    """Each failure breaks the check of its kind alone, at the step that the workflow decided."""
    change, expected = DIFY[name]

    assert judged(dify(tmp_path, change)) == expected


@pytest.mark.parametrize("name", SOUND)
def test_sound_twin_in_dify_keeps_every_check(tmp_path: Path, name: str) -> None:
    """What only looks like a failure breaks nothing."""
    assert judged(dify(tmp_path, SOUND[name])) == {}


def runs_of(execution: dict[str, Any]) -> dict[str, Any]:
    runs: dict[str, Any] = execution["data"]["resultData"]["runData"]
    return runs


def clerk_says(text: str) -> Callable[[dict[str, Any]], object]:
    items = [{"json": {"output": text}}]
    return lambda execution: runs_of(execution)["Clerk"][0].update(data={"main": [items]})


def node(execution: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in execution["workflowData"]["nodes"] if each["name"] == name)
    return found


N8N: Mapping[str, tuple[Callable[[dict[str, Any]], object], dict[str, str]]] = {
    "takes the other branch": (
        lambda run: runs_of(run)["Refund?"][0]["data"]["main"].reverse(), {"branch-holds": "fail 3"}),
    "takes a case that does not hold": (clerk_says("Nothing was paid."), {"branch-holds": "fail 3"}),
    "an output of another name is read": (
        lambda run: node(run, "Pay")["parameters"].update(body="={{ $('Clerk').item.json.answer }}"),
        {"output-mapped": "fail 4"}),
    "an object stands in a text": (clerk_says("[object Object] 60"), {}),
    "a service is not there": (
        lambda run: runs_of(run).update(Pay=[n8n_run(5, "Refund?", error={"message": "connect ECONNREFUSED"})]),
        {"service-answers": "fail 4"}),
}  # fmt: skip


@pytest.mark.parametrize("name", N8N)
def test_failure_of_orchestration_in_n8n_is_seen(tmp_path: Path, name: str) -> None:
    """Each failure breaks the check of its kind alone, at the step that the workflow decided."""
    change, expected = N8N[name]
    found = judged(n8n(tmp_path, change))

    assert found == (expected or {"variable-filled": "fail 3"})


FLOWISE: Mapping[str, tuple[Callable[[Executions], object], dict[str, str]]] = {
    "nothing": (lambda nodes: None, {}),
    "takes the other branch": (
        lambda nodes: [
            each.update(isFulfilled=not each["isFulfilled"]) for each in nodes[2]["data"]["output"]["conditions"]
        ],
        {"branch-holds": "fail 3"},
    ),
    "nothing is returned": (lambda nodes: nodes[4]["data"].update(output={"content": ""}), {"output-mapped": "fail 6"}),
}


@pytest.mark.parametrize("name", FLOWISE)
def test_failure_of_orchestration_in_flowise_is_seen(tmp_path: Path, name: str) -> None:
    """Each failure breaks the check of its kind alone, and the sound flow none."""
    change, expected = FLOWISE[name]
    nodes = flowise_nodes()
    change(nodes)

    assert judged(read(tmp_path / "x", "flowise", {"executionData": nodes, "state": "FINISHED"})) == expected


def test_checks_tracer_blames_the_workflow_with_the_mode(tmp_path: Path) -> None:
    """A variable that arrives empty is blamed on who passed it on, by its own mode; the sound twin on nobody."""
    change, _ = DIFY["nothing is returned"]
    tracer = ChecksTracer([check for check in CHECKS if check.name in NAMES])
    broken, sound = tracer.attribute([dify(tmp_path, change), dify(tmp_path)])

    assert [str(blame.mode) for blame in broken.modes] == ["blamespan:X10"]
    assert broken.modes[0].agent == "workflow"
    assert sound.abstained


@pytest.fixture(scope="module")
def auto() -> AutoTracer:
    return AutoTracer.bundled()


def test_auto_blames_what_a_workflow_contradicts(tmp_path: Path, auto: AutoTracer) -> None:
    """The default tracer names the failure of orchestration; in the sound twin it suspects as models do."""
    change, _ = DIFY["a variable arrives empty"]
    broken, sound = auto.attribute([dify(tmp_path, change), dify(tmp_path)])

    assert (broken.decisive_step, str(broken.modes[0].mode)) == (3, "blamespan:X9")
    assert broken.failure_score >= NOBODY_KNOWS
    assert {str(blame.mode) for blame in sound.modes}.isdisjoint({"blamespan:X8", "blamespan:X9", "blamespan:X10"})
    assert sound.failure_score < NOBODY_KNOWS


@pytest.mark.parametrize(("status", "is_named"), [("failed", True), ("succeeded", False)])
def test_auto_blames_a_failed_node_where_the_run_failed(
    tmp_path: Path, auto: AutoTracer, status: str, is_named: bool
) -> None:
    """A node's time-out is to blame for a run that failed; a workflow that went on without it may be built to do so."""
    executions = dify_executions()
    executions[1] |= {"status": "exception", "error": "ConnectError: timed out", "outputs": {}}
    executions[3] |= {"inputs": {}}
    trace = read(tmp_path / "x", "dify", dify_detail(status=status), {"data": executions})
    [verdict] = auto.attribute([trace])

    assert ("blamespan:X4" in {str(blame.mode) for blame in verdict.modes[:1]}) == is_named
    assert not is_named or verdict.unaided_score == 0  # nobody would have said so of a run that went well


def test_auto_blames_a_variable_for_the_error_that_ended_the_run(tmp_path: Path, auto: AutoTracer) -> None:
    """An error that ends a run is no silent failure; where a rule says what led to it, that is named all the same."""

    def change(executions: Executions) -> None:
        executions[3] |= {
            "inputs": {"#http.body#": ""},
            "status": "failed",
            "error": "ValueError: no text",
            "outputs": {},
        }
        del executions[4]

    def fail_alone(executions: Executions) -> None:
        executions[3] |= {"status": "failed", "error": "ValueError: no text", "outputs": {}}
        del executions[4]

    broken, loud = auto.attribute([dify(tmp_path, change), dify(tmp_path, fail_alone)])

    assert (broken.decisive_step, str(broken.modes[0].mode)) == (3, "blamespan:X9")
    assert loud.abstained is not None
    assert "not a silent failure" in loud.abstained


def test_runs_of_other_sources_are_not_judged(tmp_path: Path) -> None:
    """Where no node is told there is nothing to judge, whatever is said."""
    steps = [{"agent": "a", "kind": "message", "content": "It timed out: {{#a.b#}} 429 [object Object]"}]
    trace = read(tmp_path / "x.jsonl", "steps", {"task": "t", "outcome": "failed", "steps": steps})
    results = apply_checks([check for check in CHECKS if check.name in NAMES], trace)

    assert {each.outcome for each in results} == {"inconclusive"}
    assert judged(trace) == {}
