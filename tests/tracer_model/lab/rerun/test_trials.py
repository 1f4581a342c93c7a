"""Trials in AutoGen: a fault that was recorded is put right, and is there still where the step stays as it was."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from blamespan.injecting.injection import inject
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.recorded_run import read_replayable, recording_quietly
from blamespan_lab.rerun.trials import try_corrections
from blamespan_lab.rerun.user_program import load_program
from tests.tracer_model.lab.rerun.recording import record
from tests.tracer_model.lab.rerun.user_programs import SWARM

_TEAM = "tests.tracer_model.lab.rerun.user_programs:team"


def _record(path: Path, *, with_fault: bool) -> MessageActionTrace:
    fault = inject("blamespan:X3", operator="change-number", step=5, seed=1) if with_fault else nullcontext()

    def run() -> None:
        with fault:
            SWARM.run()

    return read_replayable(record(path, run)).script.trace


def test_autogen_team_succeeds_with_the_faulty_step_put_right_and_fails_as_it_was(tmp_path: Path) -> None:
    """The twin's words at the first step that differs mend the run; its own words keep it wrong."""
    twin = _record(tmp_path / "twin.jsonl", with_fault=False)
    faulty = _record(tmp_path / "faulty.jsonl", with_fault=True)
    step = next(
        left.index for left, right in zip(faulty.steps, twin.steps, strict=False) if left.content != right.content
    )
    script = read_replayable(tmp_path / "faulty.jsonl").script
    with recording_quietly() as models:
        program = load_program(_TEAM)
        right, as_it_was = (
            try_corrections(program, script, [Correction(step, text)], faulty.task, models)
            for text in (twin.steps[step].content, faulty.steps[step].content)
        )

    assert (right.ran.succeeded, as_it_was.ran.succeeded) == (True, False)
    assert right.said[0][1] == twin.steps[step].content


def test_program_is_stopped_where_models_are_asked_more_than_allowed(tmp_path: Path) -> None:
    """A live team that goes on and on costs no more than it may; within its bound it ends by itself."""
    trace = _record(tmp_path / "team.jsonl", with_fault=False)
    script, correction = read_replayable(tmp_path / "team.jsonl").script, Correction(0, "I have no plan.")
    with recording_quietly() as models:
        program = load_program(_TEAM)
        stopped, ended = (
            try_corrections(program, script, [correction], trace.task, models, most_asked=most) for most in (1, 100)
        )

    assert "models were asked 1 times, which is all that was allowed" in stopped.trouble
    assert stopped.asked == 1 < ended.asked
    assert ended.trouble == ""
