"""The BIG-Bench-Mistake importer: lines of reasoning become steps of one agent, and the first wrong one its label."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from blamespan.analysis.sources import runs_in
from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of
from blamespan.importing.recorded import Fault, RecordedRun, importers
from blamespan_integrations.importers.bigbench_mistake import BigBenchMistakeImporter


def reasoning(**changed: Any) -> dict[str, Any]:
    return {
        "input": "(2 + 3) * 4 =",
        "steps": ["First 2 + 3 = 6.", "Then 6 * 4 = 24.", "So the answer is 24"],
        "target": "20",
        "answer": "24",
        "mistake_index": 0,
        **changed,
    }


def read(tmp_path: Path, *records: Any) -> list[RecordedRun | UnreadableInput]:
    path = tmp_path / "arithmetic.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return list(BigBenchMistakeImporter().read(path))


def test_lines_become_messages_of_one_agent(tmp_path: Path) -> None:
    """Each is a decision that can be blamed; the question is the task, and the index is the label's step."""
    (run,) = read(tmp_path, reasoning(mistake_index=1))

    assert isinstance(run, RecordedRun)
    trace = run.trace
    assert (trace.task, trace.outcome, run.faults) == ("(2 + 3) * 4 =", "failed", (Fault("assistant", step=1),))
    assert [(step.agent, step.kind, step.content, trace.can_be_blamed(step)) for step in trace.steps] == [
        ("assistant", "message", line, True) for line in reasoning()["steps"]
    ]


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
    (run,) = read(tmp_path, reasoning(mistake_index=mistake, answer=answer))

    assert isinstance(run, RecordedRun)
    assert (run.trace.outcome, run.faults) == (outcome, faults)


def test_commas_and_case_make_no_answer_wrong(tmp_path: Path) -> None:
    """Words in the right order are right, however they are set apart; in another order they are not."""
    said = ["aster, Rudolf,  wan.", "rudolf aster wan"]
    right, wrong = read(
        tmp_path, *(reasoning(target="aster rudolf wan", answer=one, mistake_index=None) for one in said)
    )

    assert isinstance(right, RecordedRun)
    assert isinstance(wrong, RecordedRun)
    assert (right.trace.outcome, wrong.trace.outcome) == ("succeeded", "failed")


def test_run_has_the_same_id_wherever_it_lies(tmp_path: Path) -> None:
    """It is made from what was asked and said; another line of reasoning on the same question is another run."""
    first, second, other = read(tmp_path, reasoning(), reasoning(), reasoning(steps=["24"]))

    assert isinstance(first, RecordedRun)
    assert isinstance(second, RecordedRun)
    assert isinstance(other, RecordedRun)
    assert first.trace == second.trace
    assert other.trace.trace_id != first.trace.trace_id


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"input": None}, "'input' as text, got 'None'"),
        ({"steps": None}, "'steps' as a list of lines, got 'None'"),
        ({"steps": ["First.", 2]}, "steps[1] as text, got '2'"),
        ({"steps": [], "mistake_index": None}, "expected a run with an agent's step, got none"),
        ({"target": 20, "mistake_index": None}, "'target' as text, got '20'"),
        ({"answer": [], "mistake_index": None}, "'answer' as text, got '[]'"),
        ({"mistake_index": 3}, "'mistake_index' as an index below 3, or null, got '3'"),
        ({"mistake_index": -1}, "got '-1'"),
        ({"mistake_index": True}, "got 'True'"),
        ({"mistake_index": 1.0}, "got '1.0'"),
        ({"mistake_index": "1"}, "got '1'"),
    ],
)
def test_what_is_no_run_is_an_error_in_its_place(tmp_path: Path, broken: dict[str, Any], says: str) -> None:
    """It names the line, what was expected and what came, and the runs around it are read."""
    before, error, after = read(tmp_path, reasoning(), reasoning(**broken), reasoning())

    assert isinstance(error, UnreadableInput)
    assert "arithmetic.jsonl:2: expected" in str(error)
    assert says in str(error)
    assert isinstance(before, RecordedRun)
    assert isinstance(after, RecordedRun)


def test_run_without_its_label_is_an_error(tmp_path: Path) -> None:
    """A key that is missing is not taken for a run without a mistake."""
    record = reasoning()
    del record["mistake_index"]

    _, error = read(tmp_path, reasoning(), record)

    assert "'mistake_index' as an index below 3, or null, got 'nothing'" in str(error)


def test_line_that_breaks_off_costs_itself_alone(tmp_path: Path) -> None:
    """The next line is read on."""
    path = tmp_path / "cut.jsonl"
    whole = json.dumps(reasoning())
    path.write_text(f"{whole}\n{whole[:40]}\n{whole}\nplain\n{whole}\n", encoding="utf-8")

    found = [type(item).__name__ for item in BigBenchMistakeImporter().read(path)]

    assert found == ["RecordedRun", "UnreadableInput", "RecordedRun", "UnreadableInput", "RecordedRun"]


@pytest.mark.parametrize("first", ["input", "mistake_index"])
def test_file_is_told_from_its_content(tmp_path: Path, first: str) -> None:
    """No other importer takes it for its own, compressed or not, in whichever order the keys stand."""
    path = tmp_path / "anything"
    record = {first: reasoning()[first], **reasoning()}
    path.write_bytes(lzma.compress(json.dumps(record).encode()))
    takers = [importer.name for importer in importers() if importer.matches(path, head_of(path))]

    assert takers == ["bigbench-mistake"]
    assert all(isinstance(run, RecordedRun) for run in runs_in([path]))


def test_file_whose_first_run_is_long_is_told_too(tmp_path: Path) -> None:
    """The label stands last, behind more than an importer sees before it decides."""
    path = tmp_path / "anything"
    path.write_text(json.dumps(reasoning(steps=["One more line."] * 10_000)), encoding="utf-8")

    assert [len(run.trace.steps) for run in runs_in([path]) if isinstance(run, RecordedRun)] == [10_000]


def test_run_of_more_steps_than_any_has_is_refused(tmp_path: Path) -> None:
    """It is one error, and the next run is read."""
    error, after = read(tmp_path, reasoning(steps=["x"] * 20_001), reasoning())

    assert "expected at most 20000 steps in a run, got more" in str(error)
    assert isinstance(after, RecordedRun)


@pytest.mark.data
def test_published_runs_read_whole(recorded_runs: Path) -> None:
    """All 2,186 runs are read as what they are, and every label lies in its run."""
    paths = sorted((recorded_runs / "bigbench_mistake").glob("*.jsonl.xz"))

    runs = [run for run in runs_in(paths) if isinstance(run, RecordedRun)]

    assert Counter((run.trace.outcome, run.faults is None) for run in runs) == {
        ("failed", False): 1_708,
        ("failed", True): 28,
        ("succeeded", False): 450,
    }
    assert len({run.trace.trace_id for run in runs}) == 2_186
