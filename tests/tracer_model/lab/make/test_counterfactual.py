"""Labels: what is called decisive is where the run went wrong, and mending it alone mends the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import blamespan
from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import PlannedFault
from blamespan_lab.make.counterfactual import CounterfactualResult, Recorded, examine
from blamespan_lab.make.decision_steps import blamed_step, changed_steps
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.simulation.program import Program
from tests.tracer_model.lab.make.cases import examined, natural

pytestmark = pytest.mark.slow  # together they examine a hundred programs


def _failures() -> list[tuple[Program, tuple[PlannedFault, ...], CounterfactualResult]]:
    return [one for one in examined() if one[2].runs and one[2].runs[-1].label.outcome == "failure"]


@pytest.mark.slow
def test_every_case_keeps_runs_or_says_why_not() -> None:
    """There are failures by every mechanism that can make one, harmless faults, and few reasons to drop a case."""
    outcomes = Counter(case.dropped or case.runs[-1].label.purpose for _, _, case in examined())
    mechanisms = {faults[0].mechanism for _, faults, _ in _failures()}

    assert set(outcomes) <= {"faulty", "harmless", "not-written", "repair-fails"}
    assert outcomes["faulty"] >= 12
    assert {"response", "tool", "routing"} <= mechanisms


def test_the_labelled_step_is_the_first_that_the_twin_has_not() -> None:
    """Up to it the run and its twin say the same; a fault in the message's way shows only behind it."""
    for program, faults, case in examined():
        if not case.runs or faults[0].mechanism == "routing":
            continue
        twin, run = case.runs
        step = run.label.faults[0].step
        changed = changed_steps(run.trace, twin.trace, -1)

        # a stale answer of a tool is the answer to another call, which the twin has too
        assert not changed or step is None or step in (changed[0], _first_difference(run, twin)), (program, faults)


def _first_difference(run: Recorded, twin: Recorded) -> int | None:
    pairs = zip(run.trace.steps, twin.trace.steps, strict=False)
    return next((one.index for one, other in pairs if one.content != other.content), None)


def test_the_decisive_step_is_an_agents_and_a_tools_answer_belongs_to_its_call() -> None:
    """Blame goes to who can be blamed: the step of the fault, or the call that it answers."""
    for program, faults, case in _failures():
        run = case.runs[-1]
        decisive, fault = run.label.decisive, run.label.faults[0]
        assert decisive is not None
        assert fault.step is not None
        blamed = run.trace.steps[decisive.step]

        assert run.trace.can_be_blamed(blamed), (program, faults)
        assert blamed == blamed_step(run.trace, fault.step)
        assert (blamed.agent, blamed.span_id) == (decisive.agent, decisive.span_id)
        assert decisive.modes == fault.modes


def test_a_failure_fails_without_recording_too_and_succeeds_without_its_fault() -> None:
    """What was verified holds outside the recording: `inject` alone makes it fail, nothing makes it succeed."""
    for number, (program, faults, case) in enumerate(examined()):
        if case not in [failure[2] for failure in _failures()]:
            continue
        with blamespan.inject(*faults, seed=number) as injection:
            failed = program.run()

        assert injection.applied
        assert not failed.succeeded, (program, faults)
        assert program.run().succeeded


def test_twins_succeed_and_are_named_by_their_runs() -> None:
    """The twin comes first, has no fault put in, and its run points at it."""
    for _, _, case in examined():
        if case.runs:
            twin, run = case.runs
            assert (twin.label.purpose, twin.label.outcome) == ("clean", "success")
            assert run.label.twin == twin.label.trace_id == twin.trace.trace_id
            assert {fault.mechanism for fault in twin.label.faults} <= {"natural"}


def test_what_is_carried_on_comes_after_the_decisive_step_and_is_news() -> None:
    """The path of an error lies behind it, in steps that the twin has not."""
    for _, _, case in _failures():
        twin, run = case.runs
        known = {(step.agent, step.kind, step.content) for step in twin.trace.steps}
        assert run.label.decisive is not None
        decisive = run.label.decisive.step
        news = [s.index for s in run.trace.steps if (s.agent, s.kind, s.content) not in known and s.index > decisive]

        assert all(step > decisive for step in run.label.carried_by)
        assert set(news) <= set(run.label.carried_by)


def test_natural_failures_are_labelled_at_the_mistake_whose_repair_mends_them() -> None:
    """The decisive step is a mistake of that agent, and the first thing that the repaired run says otherwise."""
    found = [case for _, case in natural() if case.runs and case.runs[-1].label.purpose == "natural"]
    assert len(found) >= 6
    for case in found:
        twin, run = case.runs
        decisive = run.label.decisive
        assert decisive is not None
        assert twin.label.outcome == "success"
        assert changed_steps(run.trace, twin.trace, -1)[0] == decisive.step
        modes = {mode for fault in run.label.faults if fault.step == decisive.step for mode in fault.modes}
        assert set(decisive.modes) <= modes


def test_natural_successes_are_clean() -> None:
    """Without faults and with a right answer a run is kept alone."""
    clean = [case for _, case in natural() if len(case.runs) == 1]

    assert clean
    assert {(case.runs[0].label.purpose, case.runs[0].label.outcome) for case in clean} == {("clean", "success")}


def test_of_several_faults_the_earliest_whose_repair_flips_is_decisive() -> None:
    """A fault that does no harm is listed and not blamed; of two that each suffice none is, and it says so."""
    program, faults, case = next(one for one in _failures() if one[1][0].mechanism == "response")
    number = [one[2] for one in examined()].index(case)
    harmless = PlannedFault("aegis:FM-3.2", mechanism="prompt")
    with Recording() as recording:
        both = examine(program, (*faults, harmless), seed=number, recording=recording)

    label = both.runs[-1].label
    assert label.purpose == "several"
    assert {fault.kind for fault in label.faults} == {faults[0].kind, "aegis:FM-3.2"}
    assert label.decisive is not None
    assert label.decisive.modes == next(f.modes for f in label.faults if f.kind == faults[0].kind)


def test_harmless_runs_can_be_left_out() -> None:
    """Where they are not wanted, no time is spent on recording them."""
    number, (program, faults, _) = next(
        (number, one)
        for number, one in enumerate(examined())
        if one[2].runs[-1:] and one[2].runs[-1].label.purpose == "harmless"
    )
    with Recording() as recording:
        case = examine(program, faults, seed=number, recording=recording, keeps_harmless=False)

    assert case == CounterfactualResult(dropped="harmless")


def test_spans_and_traces_say_nothing_of_faults() -> None:
    """No attribute, event or name tells that anything was put in, nor where this machine keeps its files."""
    for _, _, case in examined():
        for recorded in case.runs:
            said = " ".join(span.to_json(indent=None) for span in recorded.spans).lower()
            ours = ("inject", "blamespan_tracer", "blamespan_lab", "site-packages", "stacktrace")
            assert not any(word in said for word in ours)


@pytest.mark.slow
def test_the_same_arguments_give_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Order of the runs before, process and hash seed change neither spans nor labels."""
    code = "from tests.tracer_model.lab.rerun.replay.test_counterfactual import digest; print(digest({}))"
    root = Path(__file__).parents[4]
    found = [
        subprocess.run(
            [sys.executable, "-c", code.format(order)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, order in (("1", 1), ("2", -1))
    ]

    assert found[0] == found[1] != ""


def digest(order: int) -> str:
    """Write spans and labels of a few cases as text, examined in one or the other *order*."""
    chosen = [
        Program("lookup", "parallel", "autogen", seed=4),
        Program("tables", "swarm", "langgraph", seed=5),
        Program("multi_hop", "orchestrator", "autogen", seed=6, mistakes=0.05),
        Program("word_problems", "debate", "langgraph", seed=7, cast="people", care=0.2),
    ]
    said: dict[str, str] = {}
    with Recording() as recording:
        for program in chosen[::order]:
            fault = PlannedFault("blamespan:X3", step=2)
            for faults in ((), (fault,)):
                case = examine(program, faults, seed=3, recording=recording)
                spans = [span.to_json(indent=None) for run in case.runs for span in run.spans]
                said[f"{program} {faults}"] = f"{case.dropped} {spans} {[run.label for run in case.runs]}"
    return "\n".join(said[key] for key in sorted(said))


def test_recording_that_somebody_else_has_switched_on_is_refused() -> None:
    """Spans that go elsewhere, as whoever switched on last said, are missed at the first run, with what to do."""
    program = Program("word_problems", "chain", "autogen", seed=1)
    with Recording() as first, Recording(), pytest.raises(ConfigError, match="expected the run to be recorded"):
        first.record("a run", program.run)


def test_a_recorded_run_is_the_run_that_is_not_recorded() -> None:
    """Replays need no spans: with or without them every agent decides the same."""
    with Recording() as recording:
        for topology, framework in (("hierarchy", "langgraph"), ("swarm", "autogen"), ("orchestrator", "autogen")):
            program = Program("lookup", topology, framework, seed=9)  # type: ignore[arg-type]

            def run(program: Program = program) -> list[object]:
                with blamespan.inject("blamespan:X3", "aegis:FM-2.4", step=1, seed=5):
                    return [(one.agent, one.index, one.reply) for one in program.run().decisions]

            recorded, _ = recording.record("a run", run)

            assert recorded == recording.unrecorded(run)


def test_another_recipe_is_another_trace() -> None:
    """Ids follow from all that makes a run, so that corpora can be put together."""
    program = Program("word_problems", "chain", "langgraph", seed=1)
    with Recording() as recording:
        cases = [
            examine(one, seed=0, recording=recording, recipe=name)
            for one in (program, replace(program, seed=2))
            for name in "ab"
        ]

    assert len({case.runs[0].trace.trace_id for case in cases}) == 4
