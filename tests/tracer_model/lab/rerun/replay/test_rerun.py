"""Replay of recorded runs, in every topology: the label's step is where a correction by hand helps too."""

from __future__ import annotations

import pytest

from blamespan.otlp.sdk import span_from_sdk
from blamespan_lab.make.counterfactual import Recorded
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.rerun.replay.rerun import recording_quietly, rerun
from blamespan_lab.rerun.replay.script import Script, script_of
from blamespan_lab.rerun.replay.user_program import UserProgram
from tests.tracer_model.lab.make.cases import examined

pytestmark = pytest.mark.slow  # together they examine a hundred programs


def _script(run: Recorded) -> Script:
    return script_of(run.trace, [span_from_sdk(span) for span in run.spans])


def _program(program: Program) -> UserProgram:
    task = program.task()
    return UserProgram("simulated", lambda: lambda _: program.run().final_text, lambda answer, _: task.check(answer))


def test_every_recording_plays_back_to_its_own_outcome_and_its_twins_words_mend_it() -> None:
    """What the twin says at the decisive step, said there, turns the failure into a success, whatever the team."""
    mended = set()
    for program, faults, case in examined():
        if not case.runs or case.runs[-1].label.decisive is None or faults[0].mechanism != "response":
            continue
        twin, run = case.runs
        step = run.label.decisive.step if run.label.decisive is not None else -1
        right = twin.trace.steps[step] if step < len(twin.trace.steps) else None
        wrong = run.trace.steps[step]
        if right is None or (right.agent, right.kind) != (wrong.agent, wrong.kind):
            continue
        with recording_quietly() as told:
            done = rerun(_program(program), _script(run), step, right.content, run.trace.task, told)

        assert done.original.succeeded is False, (program, step)
        assert done.replay.succeeded is True, (program, step)
        assert done.answered >= 1
        mended.add((program.topology, program.framework))

    assert len(mended) >= 6


def test_without_model_spans_a_recording_is_read_off_its_steps() -> None:
    """Messages are answers and calls are calls: files of other formats hold no more."""
    program, _, case = next(one for one in examined() if one[0].topology == "chain" and one[2].runs)
    twin = case.runs[0]
    full, bare = _script(twin), script_of(twin.trace)

    with recording_quietly() as told:
        last = len(twin.trace.steps) - 1
        done = rerun(_program(program), bare, last, "I give up.", twin.trace.task, told)

    assert [one.said.text for one in bare.answers if one.said.text][-1] == full.answers[-1].said.text
    assert done.answered == len(bare.answers)
    assert done.replay.answer == "I give up."
