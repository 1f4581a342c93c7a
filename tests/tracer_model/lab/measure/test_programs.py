"""`blamespan lab evaluate programs` holds verdicts on mistakes against those on their sound twins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan.attribution import Attribution, Contradicted, Evidence, ModeBlame, TracerIdentity
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_integrations.importers.transcript import TranscriptImporter
from blamespan_lab.command import evaluate
from blamespan_lab.measure.programs import evaluate_programs

PROGRAM = """=== sum-sound
outcome: succeeded
agents: reader, writer
task:
What is the total?

--- reader calls
total({"of": "May"})
--- reader gets
May 80, June 90
--- reader
May comes to 80.
--- writer
The total is 80.

=== sum-mistake
outcome: failed
begins as: sum-sound, 2 steps
--- reader [mistake blamespan:X3]
May comes to 90.
--- writer [carried]
The total is 90.

=== sum-moved
outcome: failed
begins as: sum-sound, 3 steps
--- writer [mistake mast:FM-2.5]
The total is 90.
"""


class ScriptedTracer:
    """Blames the step that a function picks; calls a run failed where it is told so, or where *alarm* says so."""

    identity = TracerIdentity("scripted", "1")

    def __init__(self, pick: Callable[[MessageActionTrace], int], alarm: Callable[[MessageActionTrace], bool]) -> None:
        self._pick, self._alarm = pick, alarm
        self.outcomes: list[str] = []

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [self._attribute(trace) for trace in traces]

    def _attribute(self, trace: MessageActionTrace) -> Attribution:
        self.outcomes.append(trace.outcome)
        step = trace.steps[self._pick(trace)]
        is_failed = trace.outcome == "failed" or self._alarm(trace)
        return Attribution.of(
            trace,
            [float(other.index == step.index) for other in trace.steps],
            failure_score=0.9 if is_failed else 0.1,
            tracer=self.identity,
            modes=[ModeBlame(mode("blamespan:X3"), step.agent, 0.9)],
            evidence=[Evidence(step.index, step.content, 0.9, Contradicted(None, "the task"))],
        )


def first_wrong(trace: MessageActionTrace) -> int:
    """Pick the first step of an agent that says 90, else its first words."""
    told = [step.index for step in trace.steps if step.kind == "message"]
    return next((index for index in told if "90" in trace.steps[index].content), told[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "programs.txt"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def read(path: Path) -> list[RecordedRun]:
    return [run for run in TranscriptImporter().read(path) if isinstance(run, RecordedRun)]


def counts(figures: Any) -> dict[str, tuple[int, int]]:
    return {key: (share["hits"], share["n"]) for key, share in figures.items()}


def test_tracer_that_sees_each_mistake_is_right_everywhere(path: Path) -> None:
    """It follows the mistake from one agent to the other and leaves the twin alone; only one mode is its own."""
    tracer = ScriptedTracer(first_wrong, lambda trace: "90" in trace.steps[-1].content)

    figures = evaluate_programs(read(path), tracer)

    assert counts(figures) == {
        "false_alarms": (0, 1),
        "step": (2, 2),
        "agent": (2, 2),
        "mode": (1, 2),
        "called_failed": (2, 2),
        "precision": (2, 2),
        "same_step": (1, 2),  # the reader's words are the first ones of the sound run, too
        "followed": (1, 1),
        "evidence": (2, 2),
    }
    assert figures["false_alarms"]["ci"][1] > 50  # one run proves little


def test_tracer_that_goes_by_place_is_found_out(path: Path) -> None:
    """It names the same step in every run, follows no mistake, and calls sound runs failed."""
    figures = evaluate_programs(read(path), ScriptedTracer(lambda trace: 3, lambda trace: True))

    assert counts(figures) | {"evidence": (1, 1)} == counts(figures)
    assert (figures["step"]["hits"], figures["followed"]["hits"]) == (1, 0)
    assert figures["false_alarms"]["percent"] == figures["same_step"]["percent"] == 100.0
    assert figures["precision"]["hits"] == 2


def test_alarms_are_unaided(path: Path) -> None:
    """Of no run is told how it ended when alarms are counted, and a silent tracer raises none."""
    tracer = ScriptedTracer(first_wrong, lambda trace: False)

    figures = evaluate_programs(read(path), tracer)

    assert tracer.outcomes == ["unknown"] * 3 + ["failed"] * 2
    assert figures["called_failed"]["hits"] == figures["precision"]["n"] == 0


def test_quotation_shows_a_mistake_by_the_words_that_the_twin_lacks(path: Path) -> None:
    """A right step with a quotation of what both runs say does not."""

    class Vague(ScriptedTracer):
        def _attribute(self, trace: MessageActionTrace) -> Attribution:
            verdict = super()._attribute(trace)
            step = trace.steps[verdict.decisive_step or 0]
            quote = step.content.partition(" ")[0]
            return Attribution.of(
                trace,
                [blame.score for blame in verdict.steps],
                failure_score=verdict.failure_score,
                tracer=self.identity,
                evidence=[Evidence(step.index, quote, 0.9)],
            )

    assert counts(evaluate_programs(read(path), Vague(first_wrong, lambda trace: False)))["evidence"] == (0, 2)


@pytest.mark.parametrize("options", [[], ["--played"]])
def test_command_reads_folders_and_files(path: Path, options: list[str]) -> None:
    """A folder stands for its transcripts; played or read, the cases are the same."""
    command = ["programs", str(path.parent), str(path), "--json", *options]

    found = json.loads(CliRunner().invoke(evaluate, command, catch_exceptions=False).stdout)

    assert (found["tracer"], found["played"]) == ("auto", bool(options))
    assert {title: figures["step"]["n"] for title, figures in found["paths"].items()} == {
        str(path.parent): 2,
        str(path): 2,
    }


def test_command_prints_what_there_are_cases_for(path: Path) -> None:
    """Rows say how many of how many; without failed runs there is none for them."""
    path.write_text(PROGRAM.partition("=== sum-mistake")[0], encoding="utf-8")

    shown = CliRunner().invoke(evaluate, ["programs", str(path)], catch_exceptions=False).stdout

    assert "sound runs called failed" in shown
    assert "failed: step" not in shown


def test_folder_without_labelled_runs_is_refused(tmp_path: Path) -> None:
    """There is nothing to measure."""
    with pytest.raises(UnreadableInput, match=r"expected labelled runs in .* got none"):
        CliRunner().invoke(evaluate, ["programs", str(tmp_path)], catch_exceptions=False)
