"""Formats of labelled runs, and of plain steps: each record is a run with its labels, or an error in its place."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, Importer, RecordedRun, load_importer
from blamespan.taxonomy import AEGIS
from blamespan.trace import Agent
from tests.integrations.drawing import draw
from tests.integrations.importers.files import matching, text


def aegis(**changed: Any) -> dict[str, Any]:
    """Write a run of AEGIS."""
    return {
        "index": 7,
        "question": "How many apples are left?",
        "trajectory": [
            {"step": 1, "agent_name": "User", "content": "How many apples are left?"},
            {"step": 2, "agent_name": "Solver", "content": "Three."},
            {"step": 3, "agent_name": "ComputerTerminal", "content": "exit 0"},
        ],
        "faulty_agents": [{"agent_name": "solver1", "error_type": "FM-2.6"}],
        **changed,
    }


def bigbench(**changed: Any) -> dict[str, Any]:
    """Write a run of BIG-Bench-Mistake."""
    return {
        "input": "(2 + 3) * 4 =",
        "steps": ["First 2 + 3 = 6.", "Then 6 * 4 = 24.", "So the answer is 24"],
        "target": "20",
        "answer": "24",
        "mistake_index": 0,
        **changed,
    }


def steps(**changed: Any) -> dict[str, Any]:
    """Write a run as plain steps."""
    return {
        "id": "r1",
        "task": "Add 2 and 3.",
        "outcome": "succeeded",
        "steps": [
            {"agent": "user", "content": "Please."},
            {"agent": "solver", "kind": "tool_call", "content": "GET /sum?a=2&b=3"},
            {"agent": "solver", "kind": "tool_call", "content": "GET /check"},
            {"agent": "server", "kind": "tool_result", "content": "5"},
            {"agent": "server", "kind": "tool_result", "content": "ok"},
            {"agent": "solver", "kind": "message", "content": "It is 5."},
        ],
        **changed,
    }


def tau_bench(**changed: Any) -> dict[str, Any]:
    """Write a result of tau-bench."""
    call = {"id": "c1", "type": "function", "function": {"name": "find_user", "arguments": '{"id":"ann"}'}}
    return {
        "task_id": 3,
        "reward": 1.0,
        "info": {},
        "traj": [
            {"role": "system", "content": "Be polite."},
            {"role": "user", "content": "Cancel my flight."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "find_user", "content": '{"flight": "HAT1"}'},
            {"role": "assistant", "content": "HAT1 is cancelled."},
            {"role": "user", "content": "###STOP###"},
        ],
        "trial": 0,
        **changed,
    }


def generated(**changed: Any) -> dict[str, Any]:
    """Write an algorithm-generated run of Who&When."""
    return {
        "question": "Which film?",
        "question_ID": "q1",
        "history": [
            {"content": "Plan.", "role": "assistant", "name": "Film_Expert"},
            {"content": "```python\n1\n```", "role": "user", "name": "Code_Expert"},
            {"content": "exitcode: 0", "role": "user", "name": "Computer_terminal"},
        ],
        "mistake_agent": "Code_Expert",
        "mistake_step": "1",
        "mistake_reason": "wrong",
        "system_prompt": {"Film_Expert": "You know films.", "Silent_Expert": "You wait."},
        **changed,
    }


def hand_crafted() -> dict[str, Any]:
    """Write a hand-crafted run of Who&When."""
    notes = ("human", "Orchestrator (thought)", "Orchestrator (-> WebSurfer)", "WebSurfer")
    return {
        "history": [
            {"content": speaker, "role": speaker} for speaker in (*notes, "Orchestrator (termination condition)")
        ],
        "question": "Who?",
        "question_ID": "q2",
        "mistake_agent": "Orchestrator",
        "mistake_step": "2",
    }


class Format(NamedTuple):
    """A format whose records are all of one shape.

    Attributes:
        record: Writes a run, with some fields changed.
        place: Where the second record of a file stands, as errors say it; a format without has one run per file.
        is_array: Whether the records of a file are one array.
    """

    record: Callable[..., dict[str, Any]]
    place: str = ""
    is_array: bool = False


FORMATS = {
    "aegis": Format(aegis, "runs:2: "),
    "bigbench-mistake": Format(bigbench, "runs:2: "),
    "steps": Format(steps, "runs:2: "),
    "tau-bench": Format(tau_bench, "runs:1[1]: ", is_array=True),
    "who-and-when": Format(generated),
}


def importer_of(name: str) -> Importer:
    found: Importer = load_importer(name)
    return found


def read(folder: Path, name: str, *records: object) -> list[RecordedRun | UnreadableInput]:
    """Write records as the format has them, and read the file; a text stands there as it is."""
    path = folder / "runs"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text(f"[{','.join(lines)}]" if FORMATS[name].is_array else "\n".join(lines), encoding="utf-8")
    return list(importer_of(name).read(path))


def read_run(folder: Path, name: str, record: object) -> RecordedRun:
    """Read the one run."""
    (run,) = read(folder, name, record)
    assert isinstance(run, RecordedRun)
    return run


@pytest.mark.parametrize(
    ("name", "record", "faults", "drawing"),
    [
        (
            "aegis",
            aegis(),
            (Fault("solver1", AEGIS["FM-2.6"]),),
            """
            task: How many apples are left?
            agents: User (user), Solver, ComputerTerminal (executor)
            outcome: failed
            0 User: message 'How many apples are left?'
            1 Solver: message 'Three.'
            2 ComputerTerminal: tool_result 'exit 0'
            """,
        ),
        (
            "bigbench-mistake",
            bigbench(mistake_index=1),
            (Fault("assistant", step=1),),
            """
            task: (2 + 3) * 4 =
            agents: assistant
            outcome: failed
            0 assistant: message 'First 2 + 3 = 6.'
            1 assistant: message 'Then 6 * 4 = 24.'
            2 assistant: message 'So the answer is 24'
            """,
        ),
        (
            "steps",
            steps(),
            None,
            """
            task: Add 2 and 3.
            agents: user (user), solver
            outcome: succeeded
            0 user: message 'Please.'
            1 solver: tool_call 'GET /sum?a=2&b=3' after 0
            2 solver: tool_call 'GET /check' after 0
            3 solver: tool_result '5' after 1
            4 solver: tool_result 'ok' after 2
            5 solver: message 'It is 5.' after 0 3 4
            """,
        ),
        (
            "tau-bench",
            tau_bench(),
            (),
            """
            task: Cancel my flight.
            agents: assistant, user (user)
            outcome: succeeded
            0 assistant: tool_call 'find_user({"id":"ann"})'
            1 assistant: tool_result '{"flight": "HAT1"}' after 0
            2 assistant: message 'HAT1 is cancelled.' after 1
            3 user: message '###STOP###' after 2
            """,
        ),
        (
            "who-and-when",
            generated(),
            (Fault("Code_Expert", step=1),),
            """
            task: Which film?
            agents: Film_Expert, Code_Expert, Computer_terminal (executor), Silent_Expert
            outcome: failed
            0 Film_Expert: message 'Plan.'
            1 Code_Expert: message '```python\\n1\\n```'
            2 Computer_terminal: tool_result 'exitcode: 0' after 1
            """,
        ),
        (
            "who-and-when",
            hand_crafted(),
            (Fault("Orchestrator", step=2),),
            """
            task: Who?
            agents: human (user), Orchestrator, WebSurfer
            outcome: failed
            0 human: message 'human'
            1 Orchestrator: plan 'Orchestrator (thought)'
            2 Orchestrator: message 'Orchestrator (-> WebSurfer)' to WebSurfer
            3 WebSurfer: message 'WebSurfer'
            4 Orchestrator: termination 'Orchestrator (termination condition)'
            """,
        ),
    ],
)
def test_record_becomes_a_run_with_its_labels(
    tmp_path: Path, name: str, record: object, faults: tuple[Fault, ...] | None, drawing: str
) -> None:
    """Who speaks, in which role, what it builds on and how it ended; labels are passed on as they are spelled."""
    run = read_run(tmp_path, name, record)

    assert draw(run.trace) == text(drawing)
    assert run.faults == faults


@pytest.mark.parametrize("name", ["aegis", "bigbench-mistake", "steps", "tau-bench"])
def test_run_has_the_same_id_wherever_it_lies(tmp_path: Path, name: str) -> None:
    """It is made from what was asked and said; another run has another."""
    record = FORMATS[name].record
    other = record(
        **{"aegis": {"index": 8}, "tau-bench": {"trial": 1}, "steps": {"id": "r2"}}.get(name, {"steps": ["24"]})
    )
    ids = [
        [run.trace.trace_id for run in read(tmp_path, name, *records) if isinstance(run, RecordedRun)]
        for records in ((record(), other), (other, record()))
    ]

    assert ids[0] == ids[1][::-1]
    assert len(set(ids[0])) == 2


BROKEN = {
    "aegis": [
        ("{not json", "an AEGIS run as a JSON object"),
        ("[1, 2]", "got list"),
        (aegis(question=None), "'question' of type str"),
        (aegis(trajectory=[{"agent_name": "", "content": "x"}]), "trajectory[0]"),
        (aegis(trajectory=["hello"]), "'hello'"),
        (aegis(faulty_agents=[{"agent_name": "Solver", "error_type": "FM-9.9"}]), "FM-9.9"),
        ("[" * 100_000, "an AEGIS run as a JSON object"),
    ],
    "bigbench-mistake": [
        ("{not json", "got no JSON"),
        (bigbench(input=None), "'input' as text, got 'None'"),
        (bigbench(steps=None), "'steps' as a list of lines, got 'None'"),
        (bigbench(steps=["First.", 2]), "steps[1] as text, got '2'"),
        (bigbench(steps=[], mistake_index=None), "expected a run with an agent's step, got none"),
        (bigbench(steps=["x"] * 20_001), "expected at most 20000 steps in a run, got more"),
        (bigbench(target=20, mistake_index=None), "'target' as text, got '20'"),
        (bigbench(answer=[], mistake_index=None), "'answer' as text, got '[]'"),
        *((bigbench(mistake_index=wrong), f"an index below 3, or null, got '{wrong}'") for wrong in (3, -1, True, 1.0)),
        ({"input": "2 + 2 =", "steps": ["4", "5", "6"]}, "an index below 3, or null, got 'nothing'"),
    ],
    "steps": [
        (steps(steps="none"), "'steps' as a list"),
        (steps(steps=[1]), "steps[0] as an object"),
        (steps(steps=[{"agent": "", "content": "x"}]), "'agent' as text"),
        (steps(steps=[{"agent": "a", "kind": "guess", "content": "x"}]), "'kind' as one of"),
        (steps(outcome="maybe"), "'outcome' as one of"),
        (steps(task=None), "'task' as text"),
    ],
    "tau-bench": [
        *((tau_bench(traj=wrong), "expected a") for wrong in (None, [1], [])),
        *((tau_bench(reward=wrong), "a number as 'reward'") for wrong in ("1", True, None)),
    ],
    "who-and-when": [
        ("", "a Who&When run as a JSON object"),
        ({"messages": []}, "with a 'history' list"),
        (generated(history=[{"content": "no speaker"}]), "history[0]"),
        (generated(mistake_step="soon"), "'soon'"),
        (generated(mistake_step="3"), "an index below 3"),
        (generated(mistake_agent=4), "got 4"),
    ],
}


@pytest.mark.parametrize(("name", "broken", "says"), [(name, *case) for name in BROKEN for case in BROKEN[name]])
def test_what_is_no_run_is_an_error_in_its_place(tmp_path: Path, name: str, broken: object, says: str) -> None:
    """It names the place, what was expected and what came; the runs around it are read."""
    kind = FORMATS[name]
    around = [kind.record()] if kind.place else []
    *before, error = read(tmp_path, name, *around, broken, *around)[: len(around) + 1]
    after = read(tmp_path, name, *around, broken, *around)[len(around) + 1 :]

    assert isinstance(error, UnreadableInput)
    assert f"{kind.place or 'runs: '}expected" in str(error)
    assert says in str(error)
    assert [type(run) for run in (*before, *after)] == [RecordedRun] * 2 * len(around)


@pytest.mark.parametrize("packed", [bytes, lzma.compress, gzip.compress])
@pytest.mark.parametrize("name", FORMATS)
def test_file_is_told_from_its_content(tmp_path: Path, name: str, packed: Callable[[bytes], bytes]) -> None:
    """No other importer takes it for its own, however it is called and compressed, and it is read alike."""
    run = read_run(tmp_path, name, FORMATS[name].record())
    path = tmp_path / "anything"
    path.write_bytes(packed((tmp_path / "runs").read_bytes()))
    (found,) = importer_of(name).read(path)

    assert matching(path) == [name]
    assert isinstance(found, RecordedRun)
    assert found.trace == run.trace


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("aegis", aegis(question="x" * 500_000)),
        ("bigbench-mistake", bigbench(steps=["One more line."] * 10_000)),
        ("bigbench-mistake", {"mistake_index": 0, **bigbench()}),
        ("who-and-when", json.dumps(hand_crafted(), indent=4)),
        ("steps", {"task": "Add 2 and 3.", "steps": [{"agent": "solver", "content": "It is 6."}]}),
        ("steps", {"steps": [{"n": 0, "kind": "message", "content": 'A "5"}.', "agent": "solver"}], "task": "Add."}),
        ("steps", {"steps": [{"content": "x" * 500_000, "agent": "solver"}], "task": "Add."}),
        ("steps", json.dumps(dict(reversed(steps().items())), indent=4)),
    ],
)
def test_file_is_told_whatever_comes_first(tmp_path: Path, name: str, record: object) -> None:
    """What tells a run may stand behind more than an importer sees before it decides, or before everything else."""
    run = read_run(tmp_path, name, record)

    assert matching(tmp_path / "runs") == [name]
    assert run.trace.steps


def test_run_that_nobody_labelled_is_not_labelled_as_sound(tmp_path: Path) -> None:
    """Nobody looked, which is not the same as no fault."""
    unlabelled = {key: value for key, value in aegis().items() if key != "faulty_agents"}
    unmarked = {key: value for key, value in generated().items() if not key.startswith("mistake_")}

    assert read_run(tmp_path, "aegis", unlabelled).faults is None
    assert read_run(tmp_path, "aegis", aegis(faulty_agents=[])).faults == ()
    assert read_run(tmp_path, "tau-bench", tau_bench(reward=0.0)).faults is None
    run = read_run(tmp_path, "who-and-when", unmarked)
    assert (run.faults, run.trace.outcome) == (None, "unknown")


@pytest.mark.parametrize(
    ("mistake", "answer", "outcome", "faults"),
    [
        (0, "24", "failed", (Fault("assistant", step=0),)),
        (2, "20", "failed", (Fault("assistant", step=2),)),
        (None, "20", "succeeded", ()),
        (None, " 20. ", "succeeded", ()),
        (None, "24", "failed", None),
        (None, None, "failed", None),
    ],
)
def test_outcome_is_the_labels_then_the_answers(
    tmp_path: Path, mistake: int | None, answer: str | None, outcome: str, faults: tuple[Fault, ...] | None
) -> None:
    """A mistake fails a run even if its answer is right; a wrong answer without a labelled mistake has no label."""
    run = read_run(tmp_path, "bigbench-mistake", bigbench(mistake_index=mistake, answer=answer))

    assert (run.trace.outcome, run.faults) == (outcome, faults)


@pytest.mark.parametrize(("answer", "outcome"), [("aster, Rudolf,  wan.", "succeeded"), ("rudolf aster wan", "failed")])
def test_commas_and_case_make_no_answer_wrong(tmp_path: Path, answer: str, outcome: str) -> None:
    """Words in the right order are right, however they are set apart; in another order they are not."""
    record = bigbench(target="aster rudolf wan", answer=answer, mistake_index=None)

    assert read_run(tmp_path, "bigbench-mistake", record).trace.outcome == outcome


def test_texts_of_any_kind_make_a_run(tmp_path: Path) -> None:
    """Text that is no valid Unicode, odd names, a content of parts and none at all are kept as far as they go."""
    entries = [{"agent_name": "a\u0000 [red]", "content": "\ud800 x"}, {"agent_name": "🦊", "content": None}]
    history = [{"role": "A", "content": [{"type": "text", "text": "hej ø"}]}, {"role": "B", "content": None}]
    odd = read_run(tmp_path, "aegis", aegis(trajectory=entries))
    parts = read_run(tmp_path, "who-and-when", generated(history=history, mistake_agent=None))

    assert [step.content for step in odd.trace.steps] == ["\ufffd x", ""]
    assert [step.content for step in parts.trace.steps] == ['[{"type": "text", "text": "hej ø"}]', ""]


def test_what_agents_say_of_themselves_is_kept(tmp_path: Path) -> None:
    """Who&When lists the whole team with its prompts, silent members too."""
    agents = read_run(tmp_path, "who-and-when", generated()).trace.agents

    assert agents[0] == Agent("Film_Expert", description="You know films.")
    assert agents[-1] == Agent("Silent_Expert", description="You wait.")


def test_missing_file_says_so(tmp_path: Path) -> None:
    """A path to nothing is an error of its own, not an empty file."""
    with pytest.raises(UnreadableInput, match="expected a readable file, got"):
        list(importer_of("aegis").read(tmp_path / "none.jsonl"))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("aegis", "aegis/validation.jsonl.xz", {("failed", True): 1_787}),
        (
            "bigbench-mistake",
            "bigbench_mistake/*.jsonl.xz",
            {("failed", True): 1_708, ("failed", False): 28, ("succeeded", True): 450},
        ),
        (
            "tau-bench",
            "tau_bench/gpt-4o-airline.json.xz",
            {("succeeded", True): 84, ("failed", False): 116},
        ),
        ("who-and-when", "who_and_when_dev/*/*.json", {("failed", True): 96}),
    ],
)
def test_published_runs_read_whole(
    recorded_runs: Path, name: str, files: str, expected: dict[tuple[str, bool], int]
) -> None:
    """Every published run is read, with an id of its own; the count is by outcome and whether it has labels."""
    runs = [run for path in sorted(recorded_runs.glob(files)) for run in importer_of(name).read(path)]
    traces = [run for run in runs if isinstance(run, RecordedRun)]

    assert Counter((run.trace.outcome, run.faults is not None) for run in traces) == expected
    assert len({run.trace.trace_id for run in traces}) == len(runs)
