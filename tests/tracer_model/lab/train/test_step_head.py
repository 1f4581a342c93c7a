"""A head for steps learns from labels who errs in a user's own team, and is used only where that helps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError, TracerUnavailable, UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import DecisiveStep, PersonLabel
from blamespan.rebuilding.emit import emit
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_collector.store import RunWriter
from blamespan_lab.train.step_head import FEWEST, StepFigures, agreed_run, learn_step_head, measure_curve, read_steps
from blamespan_tracer.auto.step_prior import StepPrior
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from blamespan_tracer.outcome_head import outcome_heads_in_use
from blamespan_tracer.step_head import KindHead, StepHead, name_features, step_heads_in_use
from tests.collector.fakes import request
from tests.tracer_model.lab.buying_team import WRONG, trace_of


def _run(number: int, *, step: int = WRONG) -> RecordedRun:
    trace = trace_of(number)
    return RecordedRun(f"x:{number}", trace, (Fault(trace.steps[step].agent, mode("mast:FM-3.2"), step),))


def _label(run: MessageActionTrace, step: int | None = WRONG, by: str = "ada") -> PersonLabel:
    if step is None:
        return PersonLabel.of(run, "no_failure", by)
    named = DecisiveStep(run.steps[step].agent, step, run.steps[step].span_id, ("mast:FM-3.2",))
    return PersonLabel(run.trace_id, "corrects", by, decisive=named)


def _taught(head: StepHead) -> AutoTracer:
    return AutoTracer(AutoWeights.load(BUNDLED), step_heads=(head,))


@pytest.fixture(scope="module")
def learnt(tracer: AutoTracer) -> tuple[StepHead, StepFigures]:
    """A head that learnt from labels which all name the auditor's step, and its figures."""
    return learn_step_head(read_steps([_run(number) for number in range(24)], tracer))


def test_people_agree_on_a_fault_or_there_is_none_to_learn() -> None:
    """Most people decide; a tie, and a step that the run does not have, teach nothing."""
    bare = replace(_run(0), faults=None)
    trace = bare.trace

    most = agreed_run(bare, [_label(trace), _label(trace, by="bob"), _label(trace, 1, "eve")])
    assert most is not None
    assert most.faults == (Fault("Auditor", mode("mast:FM-3.2"), WRONG),)
    assert agreed_run(bare, [_label(trace), _label(trace, 1, "bob")]) is None
    assert agreed_run(bare, [replace(_label(trace), answer="unsure", decisive=None)]) is None
    sound = agreed_run(bare, [_label(trace, None)])
    assert sound is not None
    assert sound.faults == ()


def test_fault_that_was_put_in_is_a_label_where_the_run_failed() -> None:
    """A failed run has erred where the fault is; a sound one teaches nothing by it, and who knows better counts."""
    bare = replace(_run(0), faults=None)
    named = DecisiveStep("Auditor", WRONG, bare.trace.steps[WRONG].span_id, ("mast:FM-3.2",))
    put_in = PersonLabel(bare.trace.trace_id, "injected", "inject", decisive=named, source="injected")
    told = PersonLabel(bare.trace.trace_id, "failed", "learn", source="told")
    sound = replace(bare, trace=replace(bare.trace, outcome="succeeded"))

    failed = agreed_run(bare, [put_in, told])
    assert failed is not None
    assert failed.faults == (Fault("Auditor", mode("mast:FM-3.2"), WRONG),)
    assert agreed_run(sound, [put_in]) is None
    better = agreed_run(bare, [put_in, _label(bare.trace, 1)])
    assert better is not None
    assert better.faults is not None
    assert better.faults[0].step == 1


def test_head_finds_what_people_mean_on_runs_it_has_not_seen(
    tracer: AutoTracer, learnt: tuple[StepHead, StepFigures], tmp_path: Path
) -> None:
    """It is measurably better, survives its file, and names the step of a new run; the tracer by itself does not."""
    head, figures = learnt
    head.save(tmp_path / "steps.safetensors")
    again = StepHead.load(tmp_path / "steps.safetensors")
    new = trace_of(900)

    assert figures.is_better
    assert figures.after >= figures.before + 50
    assert (again.is_better, again.figures) == (True, head.figures)
    assert tracer.attribute([new])[0].decisive_step != WRONG
    assert _taught(again).attribute([new])[0].decisive_step == WRONG
    assert _taught(again).attribute([new]) == _taught(head).attribute([new])


SKIPPED, WITHHELD = "mast:FM-3.2", "mast:FM-2.4"


def _run_of_kind(number: int, kind: str, *, is_short: bool) -> RecordedRun:
    run = _run(number)
    steps = list(run.trace.steps)
    steps[WRONG] = replace(steps[WRONG], content="It can go." if is_short else steps[WRONG].content)
    return replace(run, trace=replace(run.trace, steps=tuple(steps)), faults=(Fault("Auditor", mode(kind), WRONG),))


def test_head_learns_which_kind_of_error_it_is(tracer: AutoTracer, tmp_path: Path) -> None:
    """What looks like one kind in this team is named so on a new run, and its twin is not; the file keeps that."""
    runs = [_run_of_kind(n, WITHHELD if n % 2 else SKIPPED, is_short=bool(n % 2)) for n in range(40)]
    head, figures = learn_step_head(read_steps(runs, tracer))
    head.save(tmp_path / "steps.safetensors")
    again = StepHead.load(tmp_path / "steps.safetensors")
    assert figures.kinds is not None
    assert figures.kinds.is_better
    assert (figures.kinds.n, figures.kinds.after) == (40, 100.0)

    for is_short, kind in ((True, WITHHELD), (False, SKIPPED)):
        new = _run_of_kind(900, kind, is_short=is_short).trace
        verdict = _taught(again).attribute([new])[0]
        assert str(verdict.modes[0].mode) == kind
        assert verdict == _taught(head).attribute([new])[0]


def test_kinds_that_findings_name_as_well_are_not_learnt(tracer: AutoTracer) -> None:
    """The twin: the kind is mostly what the tracer says of such a step, and nothing tells when it is another."""
    [shipped] = {modes[WRONG][1] for modes in read_steps([_run(n) for n in range(3)], tracer).modes}
    draws = Random(3)
    kinds = [draws.choice((str(shipped),) * 5 + ("mast:FM-1.2",)) for _ in range(40)]
    runs = [_run_of_kind(n, kind, is_short=False) for n, kind in enumerate(kinds)]
    head, figures = learn_step_head(read_steps(runs, tracer))

    assert figures.kinds is not None
    assert (head.kinds, figures.kinds.is_better) == (None, False)


def test_kind_that_a_finding_names_goes_first_unless_it_is_worse(tracer: AutoTracer) -> None:
    """A head that does not lead is heard after a contradiction; one that leads, before."""
    said = "The report counts 48 chairs in the hall."
    wrong = "The report counts 84 chairs in the hall."
    trace = trace_of(1)
    steps = (
        replace(trace.steps[0], content="count_chairs({})", kind="tool_call", agent="Planner"),
        replace(trace.steps[1], content=said, kind="tool_result", agent="Planner", inputs=(0,)),
        *(replace(step, content=wrong if step.index == 3 else "I go on.", inputs=(1,)) for step in trace.steps[2:4]),
    )
    run = replace(trace, steps=steps)
    [alone] = tracer.attribute([run])
    assert alone.decisive_step == 3
    named = alone.modes[0].mode
    features = len(name_features(()))
    flat = StepPrior(np.zeros(features, np.float32), np.ones(features, np.float32), np.zeros(features, np.float32))

    for leads in (False, True):
        kinds = KindHead((mode(SKIPPED),), np.zeros((1, features), np.float32), np.zeros(1, np.float32), leads)
        [verdict] = _taught(StepHead(flat, (), 0.9, is_better=True, kinds=kinds)).attribute([run])
        assert (verdict.modes[0].mode == mode(SKIPPED)) is leads
        assert {named, mode(SKIPPED)} <= {item.mode for item in verdict.modes}


def test_head_says_who_erred_and_not_whether(tracer: AutoTracer, learnt: tuple[StepHead, StepFigures]) -> None:
    """Sound run or failed one: shares of the blame change, and add up; the failure score stays the tracer's own."""
    taught = _taught(learnt[0])
    runs = [trace_of(901, outcome=outcome) for outcome in ("failed", "succeeded", "unknown")]

    for with_head, by_itself in zip(taught.attribute(runs), tracer.attribute(runs), strict=True):
        assert with_head.failure_score == by_itself.failure_score
        assert with_head.unaided_score == by_itself.unaided_score
        assert sum(step.score for step in with_head.steps) == pytest.approx(1.0)
        assert with_head.steps != by_itself.steps
        assert with_head.decisive_step in with_head.step_set
        assert {blame.agent for blame in with_head.modes} == {"Auditor"}
    assert taught.settings != tracer.settings


def test_blame_follows_the_labels(tracer: AutoTracer) -> None:
    """Labels that name another agent's step move the blame there."""
    head, _ = learn_step_head(read_steps([_run(number, step=1) for number in range(24)], tracer))

    assert _taught(head).attribute([trace_of(900)])[0].decisive_step == 1


def test_labels_without_a_pattern_change_nothing(
    tracer: AutoTracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each label names a step by chance, the head is no better: it is kept, and left alone."""
    draws = Random(5)
    head, figures = learn_step_head(read_steps([_run(number, step=draws.randrange(6)) for number in range(40)], tracer))
    path = tmp_path / "steps.safetensors"
    head.save(path)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    assert not figures.is_better
    assert step_heads_in_use() == ()


def test_more_labels_are_worth_more(tracer: AutoTracer) -> None:
    """The curve begins with the tracer by itself, and ends where too few tasks are left to measure on."""
    curve = measure_curve(read_steps([_run(number) for number in range(30)], tracer))

    assert [point.n_labels for point in curve] == [0, 8, 16, 24]
    assert curve[0].step_spread < 25
    assert curve[-1].step > curve[0].step + 50


def test_same_labels_give_the_same_head(
    tracer: AutoTracer, learnt: tuple[StepHead, StepFigures], tmp_path: Path
) -> None:
    """Learning twice is bitwise the same."""
    again, _ = learn_step_head(read_steps([_run(number) for number in range(24)], tracer))

    assert again.save(tmp_path / "one") == learnt[0].save(tmp_path / "two")


def test_too_few_labels_are_refused(tracer: AutoTracer) -> None:
    """Below a dozen failures nothing is learnt, and it is said what to do; sound runs do not count."""
    runs = [*map(_run, range(FEWEST - 1)), replace(_run(50), faults=())]

    with pytest.raises(
        UnreadableInput, match=rf"at least {FEWEST} labelled failures.*got {FEWEST - 1}.*blamespan annotate"
    ):
        learn_step_head(read_steps(runs, tracer))


def test_runs_of_one_task_are_split_one_by_one(tracer: AutoTracer) -> None:
    """A team that is always asked the same is measured, too."""
    runs = [replace(run, trace=replace(run.trace, task="Buy chairs.")) for run in map(_run, range(24))]

    _, figures = learn_step_head(read_steps(runs, tracer))
    assert figures.n == 24
    assert figures.is_better


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{}"])
def test_damaged_head_is_named(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no head is refused with its path and what to do; `none` turns it off."""
    path = tmp_path / "steps.safetensors"
    path.write_bytes(content)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    with pytest.raises(TracerUnavailable, match=r"steps\.safetensors.*train --labels"):
        step_heads_in_use()
    monkeypatch.setenv("BLAMESPAN_LEARNT", "none")
    assert step_heads_in_use() == ()


def test_what_was_learnt_is_one_folder(
    learnt: tuple[StepHead, StepFigures], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One variable names the folder, or one file of it; where nothing is, that is said."""
    learnt[0].save(tmp_path / "steps-1a2b3c4d.safetensors")
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(tmp_path))
    assert (len(step_heads_in_use()), outcome_heads_in_use()) == (1, ())

    monkeypatch.setenv("BLAMESPAN_LEARNT", str(tmp_path / "steps-1a2b3c4d.safetensors"))
    assert (len(step_heads_in_use()), outcome_heads_in_use()) == (1, ())

    monkeypatch.setenv("BLAMESPAN_LEARNT", str(tmp_path / "elsewhere"))
    with pytest.raises(ConfigError, match=r"expected BLAMESPAN_LEARNT to name a folder of what .*elsewhere"):
        step_heads_in_use()


def test_labels_teach_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What labels say of the store's runs is learnt, kept beside the store, and told by `blamespan status`."""
    store, labels = tmp_path / "runs.db", tmp_path / "labels.jsonl"
    runs = [trace_of(number) for number in range(14)]
    writer = RunWriter(store)
    writer.put(request(emit(run)).SerializeToString() for run in runs)
    writer.close()
    monkeypatch.setenv("BLAMESPAN_STORE", str(store))
    for run in runs:
        LabelsFile(labels).add(_label(run))

    before = CliRunner().invoke(cli, ["status"]).output
    learnt = CliRunner().invoke(cli, ["lab", "train", "--labels"])
    after = json.loads(CliRunner().invoke(cli, ["status", "--json"]).output)["step_heads"][0]

    assert "step head     none: blamespan lab train --labels" in before
    assert "14 failures, agreed on" in learnt.output
    assert "The collector uses it" in learnt.output
    assert after["is_in_use"]
    assert after["labels"] == 14
    assert "step head     in use: Auditor, Buyer, Clerk, Planner: " in CliRunner().invoke(cli, ["status"]).output
    (tmp_path / "steps.safetensors").write_bytes(b"damaged")
    assert "Learn it again" in CliRunner().invoke(cli, ["status"]).output
