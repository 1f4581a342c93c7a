"""The parts of a run that paused are one run, in whatever files and order they stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan import conventions as words
from blamespan.analysis.command import analyze
from blamespan.analysis.outcomes import annotated_spans, attribute_recorded
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.sources import runs_in
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.continuing import WAITS
from blamespan.spans import Span, SpanLink
from tests.sdk.builders import otlp_lines
from tests.sdk.rebuilding.test_continuing import BlamesSaying, part

FIRST = part(1, "plan", "The sum is wrong", waits=True)
SECOND = part(2, "ask", waits=True, task="yes")
THIRD = part(3, "write", task="no")
OPEN = [replace(span, trace_id=f"{0xA:032x}") for span in FIRST]
"""A run that nobody has answered yet."""


def write(path: Path, *parts: Sequence[Span]) -> Path:
    """Write parts as OTLP-JSON lines, in that order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(otlp_lines(*parts))
    return path


def read(*sources: Path) -> list[RecordedRun]:
    """Read runs; nothing among them is unreadable."""
    runs = list(runs_in(sources))
    assert all(isinstance(run, RecordedRun) for run in runs), runs
    return [run for run in runs if isinstance(run, RecordedRun)]


def rows(*arguments: object) -> list[dict[str, Any]]:
    """Analyze, and return the rows."""
    result = CliRunner().invoke(analyze, [*map(str, arguments), "--json", "--tracer", "checks"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


LAYOUTS: dict[str, Sequence[Sequence[Sequence[Span]]]] = {
    "one file": [[FIRST, SECOND, THIRD]],
    "one file, the last first": [[THIRD, SECOND, FIRST]],
    "a file each": [[FIRST], [SECOND], [THIRD]],
    "a file each, the last first": [[THIRD], [SECOND], [FIRST]],
    "two in one": [[THIRD, FIRST], [SECOND]],
    "the first twice": [[FIRST], [FIRST, SECOND], [THIRD]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_are_one_run_wherever_they_stand(layout: str, tmp_path: Path) -> None:
    """Its task is the first one's, its id the last one's, and the verdict is on all of its steps."""
    for number, parts in enumerate(LAYOUTS[layout]):
        write(tmp_path / f"{number}.jsonl", *parts)
    [run] = read(tmp_path)
    [result] = attribute_recorded([run], BlamesSaying())

    assert [step.content for step in run.trace.steps] == ["plan", "The sum is wrong", "ask", "write"]
    assert (run.trace.trace_id, run.trace.task) == (f"{3:032x}", "What is 12 * 3?")
    assert result.verdict.decisive_step == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_analyze_has_one_row_for_a_run_in_parts(layout: str, tmp_path: Path) -> None:
    """Whoever reads the files: this process, or two workers; an unanswered run has a row that says so."""
    for number, parts in enumerate(LAYOUTS[layout]):
        write(tmp_path / f"{number}.jsonl", *parts)
    write(tmp_path / "open.jsonl", OPEN)
    by_workers = rows(tmp_path, "--processes", 2) if layout == "a file each" else rows(tmp_path)

    assert rows(tmp_path) == by_workers
    assert sorted((row["trace_id"][-1], len(row["steps"]), row["abstained"] == WAITS) for row in by_workers) == [
        ("3", 4, False),
        ("a", 2, True),
    ]


def test_run_whose_earlier_part_is_missing_is_judged_alone(tmp_path: Path) -> None:
    """What is not there cannot be joined: the part that is there is a run."""
    [run] = read(write(tmp_path / "a.jsonl", THIRD))
    [result] = attribute_recorded(read(tmp_path), BlamesSaying())

    assert [step.content for step in run.trace.steps] == ["write"]
    assert result.verdict.decisive_step == 0


def test_filters_hold_for_the_whole_run(tmp_path: Path) -> None:
    """A filter that only one part fits takes the run with all of its parts."""
    write(tmp_path / "0.jsonl", FIRST)
    write(tmp_path / "1.jsonl", SECOND, THIRD)

    assert [len(row["steps"]) for row in rows(tmp_path, "--filter", f"trace_id={3:032x}")] == [4]
    assert [len(row["steps"]) for row in rows(tmp_path, "--filter", "agent=agent-1")] == [4]
    assert rows(tmp_path, "--limit", 1) == rows(tmp_path)


def test_parts_survive_an_interruption(tmp_path: Path) -> None:
    """A part of a finished file is kept for the run that goes on in another: `--resume` joins them."""
    write(tmp_path / "in" / "0.jsonl", FIRST)
    write(tmp_path / "in" / "1.jsonl", SECOND, THIRD)
    out = tmp_path / "rows.jsonl"
    arguments = [str(tmp_path / "in"), "--out", str(out), "--tracer", "checks"]
    full = CliRunner().invoke(analyze, arguments)
    expected = out.read_text()
    out.unlink()

    class Interrupted(Exception):
        pass

    def stop(journal: Journal, outcome: object) -> None:
        add(journal, outcome)  # type: ignore[arg-type]
        if journal._finished:
            raise Interrupted

    add = Journal.add
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "add", stop)
        assert isinstance(CliRunner().invoke(analyze, arguments).exception, Interrupted)
    resumed = CliRunner().invoke(analyze, [*arguments, "--resume"])

    assert (full.exit_code, resumed.exit_code) == (0, 0), resumed.output
    assert out.read_text() == expected
    assert len(expected.splitlines()) == 1


def test_annotated_spans_of_a_run_in_parts_are_each_parts_own(tmp_path: Path) -> None:
    """The part with the decisive step has the verdict, in its own step numbers; read again they are the same run."""
    path = write(tmp_path / "0.jsonl", THIRD, FIRST, SECOND)
    [result] = attribute_recorded(_with_spans(path), BlamesSaying())
    spans = annotated_spans(result)
    [again] = read(write(tmp_path / "annotated" / "0.jsonl", spans))

    assert [span.span_id for span in spans] == [span.span_id for span in (*FIRST, *SECOND, *THIRD)]
    assert [span.attributes.get("blamespan.blame.step") for span in (spans[0], spans[3])] == [1, None]
    assert [step.content for step in again.trace.steps] == [step.content for step in result.run.trace.steps]


def _with_spans(path: Path) -> list[RecordedRun]:
    return [run for run in runs_in([path], with_spans=True) if isinstance(run, RecordedRun)]


def test_links_in_a_circle_lose_no_run(tmp_path: Path) -> None:
    """Parts that go on from each other, as nobody but an attacker writes them, are each told."""
    back = SpanLink(SECOND[0].trace_id, SECOND[0].span_id, {words.LINK_RELATION: "continues"})
    circle = [replace(FIRST[0], links=(back,)), *FIRST[1:]]

    assert len(read(write(tmp_path / "a.jsonl", circle, SECOND))) == 2
    assert len(read(write(tmp_path / "b" / "0.jsonl", circle), write(tmp_path / "b" / "1.jsonl", SECOND))) == 2
