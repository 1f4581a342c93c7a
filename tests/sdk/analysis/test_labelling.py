"""Labels of people: one line each, kept at once, whole after a kill, the last of a person counting."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.analysis.labelling import command
from blamespan.analysis.labelling.choices import parse_mode
from blamespan.analysis.labelling.command import annotate
from blamespan.attribution import TracerIdentity
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.labels.file import LabelsFile, read_labels
from blamespan.labels.people import DecisiveStep, PersonLabel, ShownVerdict, step_of
from blamespan.taxonomy import EXTENSION, MAST
from tests.sdk.builders import TRACE_ID, otlp_lines, small_run
from tests.sdk.fixed_tracer import LongestStepTracer

LABEL = PersonLabel(
    TRACE_ID,
    "corrects",
    "ann",
    "2026-11-21T08:00:00Z",
    DecisiveStep("solver", 3, f"{4:016x}", ("mast:FM-3.2",)),
    "never checked",
    f"{2:016x}",
    ShownVerdict(TracerIdentity("longest", "1"), "solver", 1, "aegis:FM-2.3"),
)
HOSTILE = "a\x1b[31m\u202eb\n\ud800"


def add_many(path: str, by: str) -> None:
    file = LabelsFile(Path(path))
    for number in range(1, 41):
        file.add(PersonLabel(f"{number:032x}", "unsure", by, comment="x" * 500))


def said(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_label_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Writing and reading lose nothing, and the words are those of a generated run's label."""
    file = LabelsFile(tmp_path / "new" / "labels.jsonl")
    file.add(LABEL)

    assert file.read() == [LABEL]
    [line] = said(file.path)
    assert (line["trace_id"], line["outcome"]) == (TRACE_ID, "failure")
    assert line["decisive"] == {"agent": "solver", "step": 3, "span_id": f"{4:016x}", "modes": ["mast:FM-3.2"]}


def test_last_label_of_a_person_counts(tmp_path: Path) -> None:
    """Who changes their mind adds a line; what others say stays."""
    file = LabelsFile(tmp_path / "labels.jsonl")
    for by, answer in (("ann", "unsure"), ("bob", "unsure"), ("ann", "no_failure")):
        file.add(PersonLabel(TRACE_ID, answer, by))  # type: ignore[arg-type]

    assert [(one.by, one.answer) for one in file.read()] == [("bob", "unsure"), ("ann", "no_failure")]
    assert len(said(file.path)) == 3


def test_line_cut_off_by_a_crash_costs_itself_alone(tmp_path: Path) -> None:
    """The next label begins a line of its own, and the broken one is named, not guessed."""
    file = LabelsFile(tmp_path / "labels.jsonl")
    file.add(LABEL)
    file.path.write_bytes(file.path.read_bytes()[:-30])
    file.add(PersonLabel(f"{7:032x}", "unsure", "bob"))

    refused: list[UnreadableInput] = []
    assert [one.by for one in file.read(refused)] == ["bob"]
    assert "labels.jsonl:1: expected a label" in str(refused[0])
    with pytest.raises(UnreadableInput, match="blamespan annotate"):
        file.read()


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """Lines of processes that label at once stay whole."""
    path = tmp_path / "labels.jsonl"
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    writers = [context.Process(target=add_many, args=(str(path), by)) for by in ("ann", "bob", "eve")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert len(read_labels(path)) == 120


def test_labels_of_a_generated_corpus_are_left_alone(tmp_path: Path) -> None:
    """A corpus's own labels are read as said by replay, and never added to."""
    path = tmp_path / "labels.jsonl"
    decisive = {"agent": "solver", "step": 3, "span_id": f"{4:016x}", "modes": ["aegis:FM-3.2"]}
    path.write_text(json.dumps({"trace_id": TRACE_ID, "outcome": "failure", "purpose": "faulty", "decisive": decisive}))
    before = path.read_bytes()

    [label] = read_labels(path)
    assert (label.by, label.decisive) == ("replay", DecisiveStep("solver", 3, f"{4:016x}", ("aegis:FM-3.2",)))
    for refused in (LabelsFile(path).check, lambda: LabelsFile(path).add(LABEL)):
        with pytest.raises(ConfigError, match="--labels FILE"):
            refused()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"trace_id": "x"},
        {"by": ""},
        {"by": 3},
        {"answer": "maybe"},
        {"answer": ["agrees"]},
        {"decisive": None},
        {"decisive": {"agent": "a", "step": -1}},
        {"decisive": {"agent": "a", "step": True}},
        {"decisive": {"agent": "a", "step": 1, "modes": ["mast:FM-9"]}},
        {"shown": {"tracer": 3}},
    ],
)
def test_wrong_label_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A line that is no label is never half read."""
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({**LABEL.as_json(), **wrong}))

    with pytest.raises(UnreadableInput, match=r"labels.jsonl:1: expected a label"):
        read_labels(path)


def test_step_is_found_by_its_span() -> None:
    """Late spans shift indices; the span says which step was meant, and a tool's call rather than its answer."""
    run = small_run()
    moved = PersonLabel(TRACE_ID, "corrects", "ann", decisive=DecisiveStep("solver", 9, f"{4:016x}"))
    call = PersonLabel(TRACE_ID, "corrects", "ann", decisive=DecisiveStep("solver", 2, f"{3:016x}"))
    gone = PersonLabel(TRACE_ID, "corrects", "ann", decisive=DecisiveStep("solver", 1, f"{99:016x}"))

    found = [step_of(label, run) for label in (moved, call, gone)]
    assert [one.index if one else None for one in found] == [3, 1, None]


@pytest.mark.parametrize("step", [0, 2, 5, -1, None])
def test_only_agents_decisions_can_be_labelled(step: int | None) -> None:
    """What a user says and a tool answers is nobody's fault, and there is no step beyond the last."""
    with pytest.raises(ConfigError, match="expected a step of an agent, 0 to 4"):
        PersonLabel.of(small_run(), "corrects", "ann", step=step)


def test_hostile_words_are_made_fit() -> None:
    """What a person types becomes one line without control characters."""
    label = PersonLabel.of(small_run(), "unsure", HOSTILE, comment=HOSTILE)

    assert (label.by, label.comment) == ("a [31m b ?", "a [31m b ?")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("FM-3.2", MAST["FM-3.2"]),
        ("mast:fm-1.1", MAST["FM-1.1"]),
        (" x3 ", EXTENSION["X3"]),
        ("premature", MAST["FM-3.1"]),
        ("Task Derailment", MAST["FM-2.3"]),
    ],
)
def test_mode_is_typed_as_code_or_name(typed: str, found: object) -> None:
    """A code in any case, with or without its taxonomy, or the beginning of a name that only one has."""
    assert parse_mode(typed) is found


@pytest.mark.parametrize(("typed", "near"), [("disobey", "could be"), ("FM-9", "Nearest known"), ("", "Nearest known")])
def test_mode_that_is_none_names_what_it_might_be(typed: str, near: str) -> None:
    """A slip is answered with what is near."""
    with pytest.raises(ConfigError, match=near):
        parse_mode(typed)


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of two runs, judged by the longest step."""
    monkeypatch.setattr(command, "load_tracer", lambda name: LongestStepTracer())
    path = tmp_path / "traces.jsonl"
    second = replace(small_run(), trace_id=f"{2:032x}")
    path.write_text(otlp_lines(small_run(), second))
    return path


def ask(answers: str, *arguments: object) -> Result:
    return CliRunner().invoke(annotate, [*map(str, arguments), "--by", "ann"], input=answers)


def test_answers_become_labels_beside_the_traces(traces: Path) -> None:
    """Agreeing takes the verdict's step and mode; correcting asks for both and for a reason."""
    result = ask("a\ns 3\nFM-3.2\nnever checked\n", traces)

    labels = LabelsFile(traces.parent / "labels.jsonl").read()
    assert result.exit_code == 0
    assert [(one.answer, one.decisive, one.comment) for one in labels] == [
        ("agrees", DecisiveStep("solver", 1, f"{3:016x}", ("aegis:FM-2.3",)), ""),
        ("corrects", DecisiveStep("solver", 3, f"{4:016x}", ("mast:FM-3.2",)), "never checked"),
    ]
    assert labels[0].shown == ShownVerdict(TracerIdentity("longest", "1"), "solver", 1, "aegis:FM-2.3")


def test_same_command_goes_on_where_it_was_left(traces: Path) -> None:
    """After quitting, a closed terminal or all answers, nothing is asked twice."""
    first = ask("u\nq\n", traces)
    second = ask("n\n\n", traces)
    third = ask("", traces)

    assert "1 label added" in first.stderr
    assert "1 label added" in second.stderr
    assert "0 labels added" in third.stderr
    assert "2 were labelled before" in third.stderr
    assert [one.answer for one in LabelsFile(traces.parent / "labels.jsonl").read()] == ["unsure", "no_failure"]


def test_answer_is_kept_when_input_ends_at_why(traces: Path) -> None:
    """Who closes the terminal at the question for a reason has answered: the label is there, without a reason."""
    result = ask("s 3\nFM-3.2\n", traces)

    [label] = LabelsFile(traces.parent / "labels.jsonl").read()
    assert (label.answer, label.decisive, label.comment) == (
        "corrects",
        DecisiveStep("solver", 3, f"{4:016x}", ("mast:FM-3.2",)),
        "",
    )
    assert "1 label added" in result.stderr
    assert "not saved" not in result.stderr


@pytest.mark.parametrize("answers", ["u\ns\n", "u\ns 3\n", "u\nm\n", "u\ns 3\n?\n"])
def test_unfinished_answer_is_told_not_to_be_saved(traces: Path, answers: str) -> None:
    """What was answered before is kept; the answer that input ended in is named as lost, and nothing is made up."""
    result = ask(answers, traces)

    assert [one.answer for one in LabelsFile(traces.parent / "labels.jsonl").read()] == ["unsure"]
    assert f"the answer on run {2:032x} was not finished, and is not saved" in result.stderr
    assert "1 label added" in result.stderr


def test_wrong_answers_are_asked_again(traces: Path) -> None:
    """A slip costs a line, never a label: steps that are none, of nobody, modes that are none, keys that are none."""
    result = ask("zz\n?\ns 99\ns 2\ns abc\ns 3\nFM-9\n?\n\nr 3\nr 99\nv\nm\ntask der\nfine\nk\n", traces)

    [label] = LabelsFile(traces.parent / "labels.jsonl").read()
    assert label.decisive == DecisiveStep("solver", 1, f"{3:016x}", ("mast:FM-2.3",))
    assert "expected a step of an agent" in result.stdout
    assert "It is 5." in result.stdout


def test_blind_labels_are_made_without_the_verdict(traces: Path) -> None:
    """Who labels blind sees no verdict and cannot agree with it; the label says so."""
    result = ask("a\ns 3\n-\n\nq\n", traces, "--blind")

    [label] = LabelsFile(traces.parent / "labels.jsonl").read()
    assert (label.shown, label.decisive) == (None, DecisiveStep("solver", 3, f"{4:016x}"))
    assert "Deviate from main goal" not in result.stdout


def test_hostile_runs_are_shown(traces: Path) -> None:
    """Half characters and escape codes of a trace neither stop the asking nor reach the terminal."""
    run = small_run()
    spoilt = replace(run.steps[3], content=f"It is {HOSTILE}")
    traces.write_text(otlp_lines(replace(run, steps=(*run.steps[:3], spoilt, run.steps[4]))))

    result = ask("r 3\nu\n", traces)

    assert "1 label added" in result.stderr
    assert "\x1b" not in result.stdout


def test_labels_do_not_disturb_the_traces(traces: Path) -> None:
    """A folder that holds labels beside its traces is read as before."""
    from blamespan.analysis.sources import runs_in
    from blamespan.importing.recorded import RecordedRun

    ask("u\nu\n", traces)

    found = list(runs_in([traces.parent]))
    assert [isinstance(item, RecordedRun) for item in found] == [True, True]


def test_traces_from_a_pipe_are_refused_before_anything_is_asked() -> None:
    """Answers come from there: it is said what to do."""
    result = CliRunner().invoke(annotate, ["-"])

    assert isinstance(result.exception, ConfigError)
    assert "answers come from standard input" in str(result.exception)
