"""The Who&When importer: both shapes of file become one kind of run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun, load_importer
from blamespan.trace import Agent
from blamespan_integrations.importers.who_and_when import WhoAndWhenImporter


def generated(**changed: Any) -> dict[str, Any]:
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
    speakers = (
        "human",
        "Orchestrator (thought)",
        "Orchestrator (-> WebSurfer)",
        "WebSurfer",
        "Orchestrator (termination condition)",
    )
    return {
        "history": [{"content": speaker, "role": speaker} for speaker in speakers],
        "question": "Who?",
        "question_ID": "q2",
        "mistake_agent": "Orchestrator",
        "mistake_step": "2",
    }


def read(path: Path, content: object) -> RecordedRun | UnreadableInput:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    (run,) = WhoAndWhenImporter().read(path)
    return run


def test_generated_run_lists_who_speaks_then_who_is_described(tmp_path: Path) -> None:
    """Speakers come from `name`; the terminal executes the message before it; silent members are kept."""
    run = read(tmp_path / "1.json", generated())

    assert isinstance(run, RecordedRun)
    assert run.faults == (Fault("Code_Expert", step=1),)
    assert run.trace.agents == (
        Agent("Film_Expert", description="You know films."),
        Agent("Code_Expert"),
        Agent("Computer_terminal", "executor"),
        Agent("Silent_Expert", description="You wait."),
    )
    assert [(step.kind, step.inputs) for step in run.trace.steps] == [
        ("message", ()),
        ("message", ()),
        ("tool_result", (1,)),
    ]
    assert (run.trace.task, run.trace.outcome) == ("Which film?", "failed")


def test_hand_crafted_suffixes_become_kind_and_recipient(tmp_path: Path) -> None:
    """`Orchestrator (thought)` and `Orchestrator (-> X)` are one agent, speaking in different ways."""
    run = read(tmp_path / "2.json", hand_crafted())

    assert isinstance(run, RecordedRun)
    assert [(step.agent, step.kind, step.recipients) for step in run.trace.steps] == [
        ("human", "message", ()),
        ("Orchestrator", "plan", ()),
        ("Orchestrator", "message", ("WebSurfer",)),
        ("WebSurfer", "message", ()),
        ("Orchestrator", "termination", ()),
    ]
    assert [agent.role for agent in run.trace.agents] == ["user", "agent", "agent"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "a Who&When run as a JSON object"),
        ({"messages": []}, "with a 'history' list"),
        (generated(history=[{"content": "no speaker"}]), "history[0]"),
        (generated(mistake_step="soon"), "'soon'"),
        (generated(mistake_step="3"), "an index below 3"),
        (generated(mistake_agent=4), "got 4"),
    ],
)
def test_bad_file_is_an_error_in_its_place(tmp_path: Path, bad: object, says: str) -> None:
    """A file that holds no such run says which, what was expected and what came."""
    error = read(tmp_path / "bad.json", bad)

    assert isinstance(error, UnreadableInput)
    assert str(error).startswith("bad.json: expected")
    assert says in str(error)


def test_run_without_a_labelled_mistake_is_not_labelled(tmp_path: Path) -> None:
    """Without `mistake_agent` nothing is known of faults or outcome."""
    unlabelled = generated()
    del unlabelled["mistake_agent"], unlabelled["mistake_step"]

    run = read(tmp_path / "1.json", unlabelled)

    assert isinstance(run, RecordedRun)
    assert (run.faults, run.trace.outcome) == (None, "unknown")


def test_content_that_is_no_text_is_kept_as_json(tmp_path: Path) -> None:
    """A message of parts keeps its words; a message without content is empty."""
    history = [{"role": "A", "content": [{"type": "text", "text": "hej ø"}]}, {"role": "B", "content": None}]

    run = read(tmp_path / "1.json", generated(history=history, mistake_agent=None))

    assert isinstance(run, RecordedRun)
    assert [step.content for step in run.trace.steps] == ['[{"type": "text", "text": "hej ø"}]', ""]


def test_importer_knows_its_files_by_content(tmp_path: Path) -> None:
    """An object with a `history` list matches under any name; others do not."""
    importer = load_importer("who-and-when")
    heads = (
        json.dumps(generated()).encode(),
        json.dumps(hand_crafted(), indent=4).encode(),
        b'{"resourceSpans": []}',
        b"[]",
    )

    assert [importer.matches(tmp_path / "any.name", head) for head in heads] == [True, True, False, False]


@pytest.mark.data
def test_published_runs_read_whole(recorded_runs: Path) -> None:
    """All 96 published development runs can be read, and every labelled step lies in its run."""
    paths = sorted((recorded_runs / "who_and_when_dev").glob("*/*.json"))

    runs = [run for path in paths for run in WhoAndWhenImporter().read(path)]

    assert len(runs) == 96
    assert all(isinstance(run, RecordedRun) and run.faults and run.faults[0].step is not None for run in runs)
