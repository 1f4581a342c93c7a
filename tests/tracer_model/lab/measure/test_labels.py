"""What people say beside what a tracer says: who is right, how surely, and how far people agree themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.analysis.results.rows import row_of
from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.cli import cli
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import DecisiveStep, LabelAnswer, PersonLabel, ShownVerdict, by_run
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace, Outcome
from blamespan_lab.measure.labels import LabelledVerdict, Opinion, evaluate_labels, join_results, join_runs
from blamespan_lab.statistics import alpha, consensus, kappa, s_score
from tests.tracer_model.runs import trace

TRACER = TracerIdentity("fixed", "1")


class StepOneTracer:
    """Blames step 1 of every run for AEGIS' FM-3.2."""

    identity = TRACER

    def attribute(self, traces: list[MessageActionTrace]) -> list[Attribution]:
        return [
            Attribution.of(
                one,
                [float(step.index == 1) for step in one.steps],
                failure_score=0.8,
                unaided_score=0.8,
                tracer=TRACER,
                modes=[ModeBlame(AEGIS["FM-3.2"], one.steps[1].agent, 0.5)],
            )
            for one in traces
        ]


def run(number: int) -> RecordedRun:
    return RecordedRun(f"made up:{number}", trace(("ann", "a"), ("bob", "b"), ("eve", "c"), number=number))


def label(
    number: int, step: int | None = 1, by: str = "p", answer: LabelAnswer = "corrects", **changes: object
) -> PersonLabel:
    agents = ("ann", "bob", "eve")
    decisive = None if step is None else DecisiveStep(agents[step], step, f"{step + 1:016x}", ("mast:FM-3.2",))
    return PersonLabel(f"{number:032x}", answer, by, decisive=decisive, **changes)  # type: ignore[arg-type]


def judged(labels: list[PersonLabel], numbers: range = range(1, 60)) -> list[LabelledVerdict]:
    return join_runs(map(run, numbers), StepOneTracer(), by_run(labels)).verdicts  # type: ignore[arg-type]


def test_tracer_is_right_where_it_says_what_people_say() -> None:
    """Step, agent and canonical mode are compared with the label; other steps are wrong."""
    found = evaluate_labels(judged([label(n, 1 if n <= 30 else 2) for n in range(1, 41)]))

    assert [found[part]["percent"] for part in ("step", "agent", "mode")] == [75, 75, 100]  # type: ignore[literal-required]
    assert found["step"]["interval"] == pytest.approx([59.81, 85.81], abs=0.01)
    assert found["step_ece"] == pytest.approx(0.25)
    assert (found["few"], found["people"]) == (False, {"p": 40})


def test_runs_without_failure_measure_false_alarms() -> None:
    """A run that people call sound, or nobody's fault, is a false alarm; being unsure says nothing."""
    labels = [label(1, None, answer="no_failure"), label(2, None, answer="no_agent"), label(3, None, answer="unsure")]

    found = evaluate_labels(judged([*labels, label(4)]))
    assert (found["false_alarms"]["n"], found["false_alarms"]["percent"]) == (2, 100)
    assert (found["missed"]["n"], found["missed"]["percent"]) == (1, 0)


@pytest.mark.parametrize(
    ("outcome", "unaided", "alone", "recorded"),
    [
        ("failed", 0.1, (8, 0), (8, 100, 8)),
        ("failed", 0.9, (8, 100), (8, 100, 8)),
        ("succeeded", 0.1, (8, 0), (8, 0, 8)),
        ("unknown", 0.1, (8, 0), (8, 0, 0)),
        ("failed", None, (0, 0), (8, 100, 8)),
    ],
)
def test_recorded_outcomes_are_no_merit_of_the_tracer(
    outcome: Outcome, unaided: float | None, alone: tuple[int, float], recorded: tuple[int, float, int]
) -> None:
    """What the tracer finds of labelled failures alone stands beside what it says once their outcome is recorded."""
    told = {"failed": 1.0, "succeeded": 0.0}
    runs = [replace(run(n), trace=replace(run(n).trace, outcome=outcome)) for n in range(1, 9)]
    verdicts = [replace(one, failure_score=told.get(outcome, unaided), unaided_score=unaided)
                for one in StepOneTracer().attribute([one.trace for one in runs])]  # fmt: skip
    rows = [row_of(one, verdict) for one, verdict in zip(runs, verdicts, strict=True)]

    [joined] = join_results(rows, by_run([label(n) for n in range(1, 9)])).values()
    found = evaluate_labels(joined.verdicts)

    assert (found["failed"]["n"], found["failed"]["percent"]) == alone
    assert (found["missed"]["n"], found["missed"]["percent"]) == (alone[0], 100 - alone[1] if alone[0] else 0)
    assert (found["failed_recorded"]["n"], found["failed_recorded"]["percent"], found["recorded"]) == recorded


def test_most_people_are_right_and_ties_are_disputed() -> None:
    """Of three people two count; of two who differ nobody does, and that is said."""
    labels = [label(1, 1, "p"), label(1, 1, "q"), label(1, 2, "r"), label(2, 0, "p"), label(2, 2, "q")]

    found = evaluate_labels(judged(labels))
    assert (found["step"]["n"], found["step"]["percent"], found["disputed"]) == (1, 100, 1)
    assert (found["among"]["step"]["n"], found["among"]["step"]["percent"]) == (2, 25)


def test_blind_labels_are_counted_apart() -> None:
    """Who saw the verdict may have been led by it: those who did not are shown by themselves."""
    shown = ShownVerdict(TRACER, "bob", 1, "")
    labels = [label(n, 1, shown=shown) for n in range(1, 11)] + [label(n, 2) for n in range(11, 16)]

    found = evaluate_labels(judged(labels))
    assert (found["blind_step"]["n"], found["blind_step"]["percent"]) == (5, 0)


def test_two_people_and_the_tracer_get_kappas() -> None:
    """Each person beside the tracer, and people two by two, where they share ten runs."""
    labels = [label(n, n % 3, "p") for n in range(1, 21)] + [label(n, n % 3, "q") for n in range(1, 13)]
    labels += [label(n, 1, "r") for n in range(1, 5)]

    found = {tuple(pair["who"]): pair["agent"] for pair in evaluate_labels(judged(labels))["kappas"]}
    assert found == {("p", "(tracer)"): pytest.approx(0), ("q", "(tracer)"): pytest.approx(0), ("p", "q"): 1}


def test_no_label_that_says_anything_is_refused() -> None:
    """Figures of nothing are not printed."""
    with pytest.raises(UnreadableInput, match="blamespan annotate"):
        evaluate_labels(judged([label(1, None, answer="unsure")]))


def test_few_labels_are_said() -> None:
    """Figures of a handful of runs are anecdotes, and called so."""
    assert evaluate_labels(judged([label(n) for n in range(1, 30)]))["few"]


def test_kappa_is_the_textbook_one() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no give 0.4."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15

    assert kappa(pairs) == pytest.approx(0.4)
    assert kappa([("y", "y")] * 5) is None


def test_alpha_is_krippendorffs() -> None:
    """His example of four observers and twelve units, nominal, gives 0.743."""
    rows = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    units = [[value for value in column if value != "."] for column in zip(*(row.split() for row in rows), strict=True)]

    assert alpha(units) == pytest.approx(0.743, abs=5e-4)


def test_s_corrects_for_the_choices_of_each_run() -> None:
    """Agreeing on one of two steps is worth less than on one of a hundred."""
    assert s_score([[1, 1], [1, 2]], [2, 2]) == pytest.approx(0)
    assert s_score([[1, 1], [1, 2]], [100, 100]) == pytest.approx((0.5 - 0.01) / 0.99)
    assert consensus([1, 2, 2]) == 2


def test_labels_of_steps_that_are_gone_are_counted() -> None:
    """A label whose step the run no longer has is no answer, and is not forgotten."""
    gone = PersonLabel(f"{1:032x}", "corrects", "p", decisive=DecisiveStep("bob", 9, f"{99:016x}"))

    joined = join_runs([run(1)], StepOneTracer(), by_run([gone]))  # type: ignore[arg-type]
    assert (joined.verdicts, joined.misfits) == ([], 1)


def test_results_and_traces_give_the_same_figures() -> None:
    """It does not matter whether verdicts are read or made."""
    labels = by_run([label(n, n % 3) for n in range(1, 31)])
    runs = [run(n) for n in range(1, 31)]
    verdicts = StepOneTracer().attribute([one.trace for one in runs])
    rows = [row_of(one, verdict) for one, verdict in zip(runs, verdicts, strict=True)]

    [(judge, joined)] = join_results(rows, labels).items()
    assert judge == "fixed 1"
    assert joined.verdicts == join_runs(runs, StepOneTracer(), labels).verdicts  # type: ignore[arg-type]


def test_results_of_two_tracers_are_measured_apart() -> None:
    """Each tracer is compared with people by itself."""
    one = row_of(run(1), StepOneTracer().attribute([run(1).trace])[0])
    other = {**one, "tracer": {"name": "other", "version": "2", "weights": ""}}

    found = join_results([one, other, other], by_run([label(1)]))
    assert {judge: (len(each.verdicts), each.ambiguous) for judge, each in found.items()} == {
        "fixed 1": (1, 0),
        "other 2": (0, 1),
    }


def test_command_prints_figures_of_results(tmp_path: Path) -> None:
    """`blamespan lab evaluate labels RESULTS --labels FILE` says who agrees, and with --json nothing else."""
    runs = [run(n) for n in range(1, 4)]
    verdicts = StepOneTracer().attribute([one.trace for one in runs])
    results, file = tmp_path / "results.jsonl", LabelsFile(tmp_path / "labels.jsonl")
    rows = [row_of(one, verdict) for one, verdict in zip(runs, verdicts, strict=True)]
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for each in (label(1), label(2, 2), label(9)):
        file.add(each)

    asked = ["lab", "evaluate", "labels", str(results), "--labels", str(file.path)]
    plain, document = CliRunner().invoke(cli, asked), CliRunner().invoke(cli, [*asked, "--json"])

    assert "too few" in plain.stdout
    assert "1 label of other runs" in plain.stderr
    found = json.loads(document.stdout)["fixed 1"]
    assert (found["n"], found["step"]["percent"], found["of_other_runs"]) == (2, 50, 1)


def test_labels_of_nothing_here_are_refused(tmp_path: Path) -> None:
    """Labels of other runs give an error that says what to do, not a table of zeros."""
    file = LabelsFile(tmp_path / "labels.jsonl")
    file.add(label(9))
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(row_of(run(1), StepOneTracer().attribute([run(1).trace])[0])) + "\n")

    result = CliRunner().invoke(cli, ["lab", "evaluate", "labels", str(results), "--labels", str(file.path)])

    assert isinstance(result.exception, UnreadableInput)
    assert "got 1 label of which none fits" in str(result.exception)


def test_opinion_without_a_step_says_nothing_of_steps() -> None:
    """A verdict that abstains is wrong about the step of a labelled failure, and raises no alarm."""
    silent = LabelledVerdict(Opinion(False), 0.0, 0.0, 3, {"p": Opinion(True, "bob", 1)})

    found = evaluate_labels([silent])
    assert (found["step"]["percent"], found["missed"]["percent"], found["step_ece"]) == (0, 100, None)
