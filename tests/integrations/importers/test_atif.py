"""ATIF is read with its subagents and continuations, written so that its published schema holds, and read again."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from blamespan import conventions as words
from blamespan.analysis.results.atif import to_atif
from blamespan.cli import cli
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import importers
from blamespan.trace import MessageActionTrace, Usage
from blamespan_integrations.importers.atif import AtifImporter
from tests.integrations.drawing import draw
from tests.integrations.importers.files import FIXTURES, VALUES, replaced, text
from tests.sdk.strategies import traces
from tests.sdk.talks import talk

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent / "schemas" / "atif.schema.json").read_bytes()))
"""Generated from the models of harbor 0.26.0, which reads v1.0 to v1.8; see its `$comment`."""

COUNTER = {
    "schema_version": "ATIF-v1.7",
    "trajectory_id": "t-counter",
    "agent": {"name": "counter", "version": "1.0"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Count the chairs in room 12."},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "x", "function_name": "count", "arguments": {"room": 12}}],
            "observation": {"results": [{"source_call_id": "x", "content": '{"present": 12}'}]},
        },
        {"step_id": 3, "source": "agent", "message": "There are 12 chairs."},
    ],
}
ROOT: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s1",
    "trajectory_id": "t-root",
    "agent": {"name": "planner", "version": "1.0", "model_name": "gpt-4o"},
    "notes": "made by hand",
    "steps": [
        {"step_id": 1, "source": "system", "message": "You plan."},
        {"step_id": 2, "timestamp": "2026-01-01T00:00:00Z", "source": "user", "message": "How many chairs, of 30?"},
        {
            "step_id": 3,
            "timestamp": "2026-01-01T00:00:05Z",
            "source": "agent",
            "message": "I ask the counter.",
            "reasoning_content": "I need the count.",
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "delegate", "arguments": {"to": "counter"}, "extra": {"n": 1}}
            ],
            "observation": {
                "results": [
                    {
                        "source_call_id": "c1",
                        "content": "12 chairs",
                        "subagent_trajectory_ref": [{"trajectory_id": "t-counter"}],
                    }
                ]
            },
            "metrics": {"prompt_tokens": 120, "completion_tokens": 20, "cached_tokens": 10, "cost_usd": 0.001},
            "llm_call_count": 1,
        },
        {
            "step_id": 4,
            "source": "user",
            "message": [
                {"type": "text", "text": "A photo"},
                {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
            ],
        },
        {"step_id": 5, "source": "agent", "message": "18 chairs are missing.", "extra": {"mine": [1]}},
    ],
    "subagent_trajectories": [COUNTER],
}
DRAWN = text("""
    task: How many chairs, of 30?
    agents: planner, counter, user (user)
    0 planner: plan 'I need the count.', 120+20 tokens
    1 planner: message 'I ask the counter.'
    2 planner: tool_call 'delegate({"to": "counter"})'
    3 counter: tool_call 'count({"room": 12})' after 2
    4 counter: tool_result '{"present": 12}' after 3
    5 counter: message 'There are 12 chairs.' after 4
    6 planner: tool_result '12 chairs' after 2
    7 user: message 'A photo\\n[image: a.png]' after 0 1
    8 planner: message '18 chairs are missing.' after 6 7
    """)


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def read(path: Path) -> MessageActionTrace:
    [run] = AtifImporter().read(path)
    assert not isinstance(run, UnreadableInput), run
    return run.trace


def drawn(trace: MessageActionTrace) -> str:
    return draw(replace(trace, steps=tuple(replace(step, attributes={}) for step in trace.steps)))


def written(trace: MessageActionTrace) -> dict[str, Any]:
    document = json.loads(json.dumps(to_atif(trace, {"step": None}), allow_nan=False))
    assert [error.message for error in SCHEMA.iter_errors(document)] == []
    return dict(document)


def analyze(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["analyze", *map(str, arguments)])


def without_extra(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "extra"}


def test_each_part_of_a_step_is_a_step_and_subagents_speak_within_the_call(tmp_path: Path) -> None:
    """Reasoning, message, calls and answers are steps; what a subagent says only its caller's answer passes on."""
    trace = read(write(tmp_path / "t.json", ROOT))

    assert drawn(trace) == DRAWN
    assert trace.steps[0].input_text == "You plan."
    assert trace.steps[0].attributes[words.STEP_INSTRUCTIONS] == (0, 9)
    assert trace.steps[0].attributes[words.REQUEST_MODEL] == "gpt-4o"
    assert trace.steps[3].input_text == "Count the chairs in room 12."


def test_a_run_in_several_files_is_one_run_whichever_is_read(tmp_path: Path) -> None:
    """Continuations go on where the first file ends, without what they copied; a subagent's file is read."""
    call = {**ROOT["steps"][2], "observation": {"results": [{"source_call_id": "c1", "content": "12 chairs"}]}}
    call["observation"]["results"][0]["subagent_trajectory_ref"] = [{"trajectory_path": "run.counter.json"}]
    first = {**ROOT, "steps": [*ROOT["steps"][:2], call], "continued_trajectory_ref": "run.cont-1.json"}
    copied = {"step_id": 1, "source": "user", "message": "How many chairs, of 30?", "is_copied_context": True}
    second = {**ROOT, "steps": [copied, *ROOT["steps"][3:]]}
    for name, document in (("run", first), ("run.cont-1", second), ("run.counter", COUNTER)):
        write(tmp_path / f"{name}.json", {**document, "subagent_trajectories": None})

    found = [read(tmp_path / name) for name in ("run.json", "run.cont-1.json", "run.counter.json")]

    assert [drawn(trace) for trace in found] == [DRAWN] * 3
    assert len({trace.trace_id for trace in found}) == 1
    assert "3 runs" not in analyze(tmp_path, "--tracer", "checks").output


@pytest.mark.parametrize("reference", ["gone.json", "../secret.json", "/etc/passwd", "s3://bucket/next.json"])
def test_a_file_that_is_not_beside_is_named_and_the_rest_is_read(tmp_path: Path, reference: str) -> None:
    """Nothing outside of the folder is opened, and what lacks is said."""
    folder = tmp_path / "in"
    folder.mkdir()
    write(tmp_path / "secret.json", COUNTER)

    run, error = AtifImporter().read(write(folder / "t.json", {**COUNTER, "continued_trajectory_ref": reference}))

    assert not isinstance(run, UnreadableInput)
    assert len(run.trace.steps) == 3
    assert f"goes on in {reference!r}, which is not read" in str(error)


def test_subagents_that_call_each_other_in_a_circle_are_read_once(tmp_path: Path) -> None:
    """Each file speaks once, however often it is referred to."""
    refs = [{"trajectory_path": name} for name in ("a.json", "b.json", "b.json", "a.json")]
    step = {**ROOT["steps"][2], "observation": {"results": [{"subagent_trajectory_ref": refs}] * 9}}
    for name in "ab":
        write(tmp_path / f"{name}.json", {**ROOT, "steps": [step], "subagent_trajectories": []})

    run, *errors = AtifImporter().read(tmp_path / "a.json")

    assert not isinstance(run, UnreadableInput)
    assert errors == []
    assert [agent.name for agent in run.trace.agents] == ["planner", "planner t-root"]


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_every_published_version_is_read(tmp_path: Path, version: str) -> None:
    """A trajectory of each version says the same."""
    assert drawn(read(write(tmp_path / "t.json", {**ROOT, "schema_version": version}))) == DRAWN


def test_a_newer_version_is_read_with_a_warning_and_another_format_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """v1.9 may add fields, v2 may mean something else by the old ones."""
    with caplog.at_level(logging.WARNING, "blamespan.importing"):
        newer = read(write(tmp_path / "t.json", {**ROOT, "schema_version": "ATIF-v1.9"}))
    [refused] = AtifImporter().read(write(tmp_path / "u.json", {**ROOT, "schema_version": "ATIF-v2.0"}))

    assert drawn(newer) == DRAWN
    assert "is ATIF-v1.9; it is read as ATIF-v1.8" in caplog.text
    assert "expected an ATIF trajectory of version ATIF-v1.0 to v1.8, got the version 'ATIF-v2.0'" in str(refused)


@pytest.mark.parametrize(
    ("name", "agents"), [("agentpile", ["unknown"]), ("nemo", ["counter", "nat-agent"])], ids=["agentpile", "nemo"]
)
def test_what_other_tools_write_is_read_by_this_importer_alone(name: str, agents: list[str]) -> None:
    """Files made with agentpile 0.3.1 and nvidia-nat-atif 1.9.0; several agents in one trajectory keep their names."""
    path = FIXTURES / f"atif.{name}.json"

    trace = read(path)

    assert [importer.name for importer in importers() if importer.matches(path, path.read_bytes()[:65536])] == ["atif"]
    assert [agent.name for agent in trace.agents if agent.role == "agent"] == agents
    assert trace.task == "How many chairs does room 12 need? It seats 30."
    assert trace.steps[-1].content == "Room 12 needs 18 chairs."
    assert written(trace)["steps"] == json.loads(path.read_bytes())["steps"]


@pytest.mark.parametrize(
    ("reward", "outcome"), [(1.0, "succeeded"), (0, "failed"), (0.5, "unknown"), (True, "succeeded")]
)
def test_the_reward_of_harbors_trial_is_the_outcome(tmp_path: Path, reward: object, outcome: str) -> None:
    """Harbor writes `agent/trajectory.json` and, above, `result.json`."""
    (tmp_path / "agent").mkdir()
    write(tmp_path / "result.json", {"verifier_result": {"rewards": {"reward": reward}}})

    assert read(write(tmp_path / "agent" / "trajectory.json", ROOT)).outcome == outcome


def test_a_trajectory_is_written_as_it_was_read(tmp_path: Path) -> None:
    """ATIF to blamespan and back keeps the trajectories, their steps, and all that they say."""
    document = written(read(write(tmp_path / "t.json", ROOT)))

    assert without_extra(document) == ROOT


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces())
def test_any_run_is_valid_atif_and_comes_back_as_it_was(tmp_path: Path, trace: MessageActionTrace) -> None:
    """The published schema holds of every run, and the importer gives the same trace; JSON has no infinity."""
    steps = tuple(
        replace(
            step,
            attributes={
                key: value
                for key, value in step.attributes.items()
                if value not in (float("inf"), float("-inf")) and not isinstance(value, bytes)
            },
        )
        for step in trace.steps
    )
    resource = {key: value for key, value in trace.resource.items() if value not in (float("inf"), float("-inf"))}
    trace = replace(trace, steps=steps, resource=resource)

    assert read(write(tmp_path / "t.json", written(trace))) == trace


def test_calls_answers_and_tokens_stand_where_atif_has_them() -> None:
    """A team's run is one trajectory whose steps hold the calls with their answers, and the tokens."""
    run = talk(1)
    steps = tuple(replace(step, usage=Usage(5, 2) if step.index == 0 else None) for step in run.steps)
    trace = replace(run, steps=steps)

    document = written(trace)

    assert document["steps"][0] == {"step_id": 1, "source": "user", "message": trace.task}
    assert document["final_metrics"] == {"total_prompt_tokens": 5, "total_completion_tokens": 2}
    assert [step["message"] for step in document["steps"][1:]] == [step.content for step in trace.steps]


@pytest.mark.parametrize("name", ["run.atif.json", "run.atif.jsonl", "run.atif.jsonl.gz", "runs.atif"])
def test_a_verdict_is_the_same_after_atif(tmp_path: Path, name: str) -> None:
    """`analyze --out` writes ATIF by the output's name; its verdict is that of the source and of what is written."""
    source = write(tmp_path / "t.json", ROOT)

    made = analyze(source, "--out", tmp_path / name, "--json")
    again = analyze(tmp_path / name, "--json")

    assert (made.exit_code, again.exit_code) == (0, 0), made.output + again.output
    before, after = json.loads(made.output), json.loads(again.output)
    assert {**before, "source": ""} == {**after, "source": ""}
    assert before["agent"] == "planner"


def test_the_verdict_names_the_step_of_the_trajectory(tmp_path: Path) -> None:
    """`extra.blamespan.verdict` says the row of `--json`, and the step by its ATIF number."""
    out = tmp_path / "o.atif.json"
    assert analyze(write(tmp_path / "t.json", ROOT), "--out", out).exit_code == 0

    verdict = json.loads(out.read_bytes())["extra"]["blamespan"]["verdict"]

    assert (verdict["agent"], verdict["step"]) == ("planner", 8)
    assert (verdict["trajectory_id"], verdict["step_id"]) == ("t-root", 5)


def test_one_document_holds_one_run(tmp_path: Path) -> None:
    """Of several runs the message says which names hold them."""
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(ROOT)}\n{json.dumps(COUNTER)}\n")

    result = analyze(tmp_path / "t.jsonl", "--out", tmp_path / "o.atif.json", "--tracer", "checks")

    assert "expected one run for" in str(result.exception)
    assert ".atif.jsonl for a run a line, .atif for a folder" in str(result.exception)
    assert not (tmp_path / "o.atif.json").exists()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"steps": "no"}, "expected an ATIF trajectory with 'agent' and 'steps'"),
        ({"steps": [{"source": "nobody"}]}, "expected steps with a 'source' of system, user or agent"),
        ({"steps": [], "subagent_trajectories": []}, "expected a run with an agent's step, got none"),
        ({"schema_version": None}, "got the version 'None'"),
        (
            {"extra": {"blamespan": {"agents": [3], "trace_id": "x"}}},
            "expected an ATIF trajectory as blamespan wrote it",
        ),
    ],
)
def test_what_is_no_trajectory_is_named(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    """One clear sentence for each."""
    [error] = AtifImporter().read(write(tmp_path / "t.json", {**ROOT, **changed}))

    assert expected in str(error)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 9), path=st.lists(st.integers(0, 9), min_size=1, max_size=5), new=VALUES)
def test_what_is_read_can_be_written_whatever_it_is(tmp_path: Path, place: int, path: list[int], new: Any) -> None:
    """A broken trajectory that is read is written, too: no run of others is lost to it; so are broken attributes."""
    for run in AtifImporter().read(write(tmp_path / "t.json", replaced(ROOT, path, new))):
        if isinstance(run, UnreadableInput):
            continue
        json.dumps(to_atif(run.trace, {"step": None}), allow_nan=False)
        step = run.trace.steps[place % len(run.trace.steps)]
        broken = replace(step, attributes={**step.attributes, words.ATIF_STEP: json.dumps(new, default=str)})
        steps = (*run.trace.steps[: step.index], broken, *run.trace.steps[step.index + 1 :])
        written(replace(run.trace, steps=steps)) if place > 5 else to_atif(replace(run.trace, steps=steps), {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.recursive(st.none() | st.text(max_size=4) | st.integers(-3, 3), lambda one: st.lists(one, max_size=2)))
def test_what_blamespan_wrote_may_be_anything(tmp_path: Path, value: object) -> None:
    """A changed `extra` gives a run or an error, never a crash; what is read from ATIF is written again likewise."""
    run = written(talk(1))
    for place in ("agents", "trace_id", "resource", "task"):
        own = {**run["extra"]["blamespan"], place: value}
        list(AtifImporter().read(write(tmp_path / "t.json", {**run, "extra": {"blamespan": own}})))
    step = {**run["steps"][1], "extra": {"blamespan": {"parts": [{"index": 0, "span_id": value}]}}}
    list(AtifImporter().read(write(tmp_path / "t.json", {**run, "steps": [step]})))
