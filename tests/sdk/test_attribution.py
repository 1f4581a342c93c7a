"""A verdict cannot contradict itself, and survives the way over the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from blamespan import conventions as words
from blamespan.annotate import annotate, cut, is_verdict, read_verdict, verdict_span, without_verdict
from blamespan.attribution import (
    FAILURE_WORDS,
    AgentBlame,
    Attribution,
    Contradicted,
    Evidence,
    ModeBlame,
    TracerIdentity,
    VerdictWord,
    check_verdict,
)
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild, rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.taxonomy import AEGIS, MAST
from blamespan.trace import MessageActionTrace, Outcome
from tests.sdk.builders import agent, small_run, span
from tests.sdk.strategies import traces

TRACER = TracerIdentity("fixed", "1", "0123456789ab")


def verdict_on(trace: MessageActionTrace) -> Attribution:
    shares = [float(step.index + 1) if trace.can_be_blamed(step) else 0.0 for step in trace.steps]
    culprit = next(step.agent for step in trace.steps if trace.can_be_blamed(step))
    return Attribution.of(
        trace,
        shares,
        failure_score=0.75,
        tracer=TRACER,
        modes=[ModeBlame(AEGIS["FM-2.1"], culprit, 0.5)],
        evidence=[Evidence(len(trace.steps) - 1, "words", 0.9)],
    )


def run_of(trace: MessageActionTrace) -> Run:
    [run] = split_runs(emit(trace))
    return run


def test_shares_are_scaled_and_ranked() -> None:
    """Agents get the sum of their steps, the decisive step is the top agent's highest."""
    verdict = Attribution.of(small_run(), [0, 1, 0, 2, 5], failure_score=1, tracer=TRACER, coverage=0.8)

    assert [step.score for step in verdict.steps] == [0, 0.125, 0, 0.25, 0.625]
    assert verdict.agents == (AgentBlame("checker", 0.625), AgentBlame("solver", 0.375))
    assert (verdict.decisive_step, verdict.step_set) == (4, (3, 4))


def test_decisive_step_is_of_the_most_blamed_agent() -> None:
    """Where one agent's highest step beats the sum of nobody, agent and step still agree."""
    verdict = Attribution.of(small_run(), [0, 3, 0, 3, 4], failure_score=1, tracer=TRACER)

    assert (verdict.agents[0].agent, verdict.decisive_step) == ("solver", 1)


def test_suspects_have_one_order() -> None:
    """The decisive step is first, also where a step of another agent holds more; the others follow by share."""
    verdict = Attribution.of(small_run(), [0, 3, 0, 2, 4], failure_score=1, tracer=TRACER)
    ranks = {
        span.attributes[words.STEP_INDEX]: span.attributes[words.BLAME_RANK]
        for span in annotate(run_of(small_run()), verdict)
        if words.BLAME_RANK in span.attributes
    }

    assert [step.index for step in verdict.ranked_steps()] == [1, 4, 3]
    assert ranks == {1: 1, 4: 2, 3: 3}
    assert [step.index for step in replace(verdict, decisive_step=4).ranked_steps()] == [4, 1, 3]


@pytest.mark.parametrize(
    ("outcome", "score", "abstained", "word"),
    [
        ("unknown", 0.2, None, "no sign of failure"),
        ("unknown", 0.5, None, "no sign of failure"),
        ("unknown", 0.8, None, "looks failed"),
        ("unknown", 0.0, "no steps", "abstained"),
        ("failed", 0.2, None, "failed"),
        ("failed", 0.0, "no steps", "failed"),
        ("succeeded", 0.94, None, "no sign of failure"),
        ("succeeded", 0.0, "no steps", "no sign of failure"),
    ],
)
def test_run_span_says_the_verdict_in_a_word(
    outcome: Outcome, score: float, abstained: str | None, word: VerdictWord
) -> None:
    """What somebody knows counts before what the tracer says. Only a failure has suspects on its spans.

    A run without a sign of failure has its shares and nothing that accuses: in place, beside, and read back.
    """
    trace = replace(small_run(), outcome=outcome)
    verdict = replace(verdict_on(trace), failure_score=score)
    verdict = verdict if abstained is None else Attribution.abstain(trace, abstained, TRACER)
    run = run_of(trace)
    root, *steps = annotate(run, verdict)
    beside = verdict_span(run, verdict)
    back = read_verdict(Run(root, (root, *steps)))
    accusing = {
        key
        for span in (root, *steps, beside)
        for key in span.attributes
        if key.startswith(("blamespan.blame.", "blamespan.error.", "blamespan.evidence", "blamespan.contradiction."))
    } - {words.BLAME_SCORE}

    assert (verdict.word, root.attributes[words.VERDICT], beside.attributes[words.VERDICT]) == (word, word, word)
    assert bool(accusing) == (word in FAILURE_WORDS and abstained is None)
    assert any(words.BLAME_SCORE in span.attributes for span in steps) == (abstained is None)
    assert words.VERDICT not in without_verdict(root).attributes
    if not accusing and run.root is not None:
        assert (beside.parent_id, beside.name) == (run.root.span_id, "verdict")
    assert back is not None
    assert back.word == word
    if abstained is None:  # for who asks: the shares say who would be to blame
        assert (back.decisive_step, back.step_set, back.agents[0].agent) == (
            verdict.decisive_step,
            verdict.step_set,
            verdict.agents[0].agent,
        )


@pytest.mark.parametrize(("part", "is_decisive"), [(1.0, True), (0.5, True), (0.4, False), (0.0, False), (None, True)])
def test_step_is_called_decisive_by_evidence_alone(part: float | None, is_decisive: bool) -> None:
    """Where a prior gives more than half of its share it is the first suspect; a tracer that does not say is believed.

    On the wire no span is called decisive then, score and rank stay, and what is read back names the same step.
    """
    trace = replace(small_run(), outcome="failed")
    shares = [0.0, 1.0, 0.0, 2.0, 5.0]
    by_evidence = None if part is None else [part * share for share in shares]
    verdict = Attribution.of(trace, shares, failure_score=1, tracer=TRACER, by_evidence=by_evidence)
    run = run_of(trace)
    spans = annotate(run, verdict)
    first, beside = next(one for one in spans if one.attributes.get(words.BLAME_RANK) == 1), verdict_span(run, verdict)
    back = read_verdict(Run(spans[0], tuple(spans)))

    assert (verdict.has_evidence, verdict.decisive_step) == (is_decisive, 4)
    assert verdict.steps[4].by_evidence == (None if part is None else 0.625 * part)
    assert [one.attributes[words.BLAME_DECISIVE] for one in (first, beside)] == [is_decisive] * 2
    assert (first.attributes[words.BLAME_SCORE], beside.attributes[words.BLAME_AGENT]) == (0.625, "checker")
    assert (words.BLAME_EVIDENCE_SCORE in first.attributes) == (part is not None)
    assert not any(words.BLAME_EVIDENCE_SCORE in without_verdict(one).attributes for one in spans)
    assert back is not None
    assert (back.has_evidence, back.decisive_step, back.step_set) == (is_decisive, 4, verdict.step_set)
    assert back.steps[4].by_evidence == verdict.steps[4].by_evidence


def test_outcome_of_a_verdict_is_that_of_its_run() -> None:
    """A tracer that was not told how the run ended gives a verdict that is told."""
    trace = replace(small_run(), outcome="succeeded")
    verdict = replace(verdict_on(replace(trace, outcome="unknown")), failure_score=0.94)

    assert verdict.word == "looks failed"
    assert check_verdict(verdict, trace).word == "no sign of failure"


def test_recordings_from_before_the_word_are_read_as_they_were() -> None:
    """Spans of earlier versions accuse a sound run: shares and ranks are read, and the word follows from the score."""
    trace = replace(small_run(), outcome="unknown")
    spans = annotate(run_of(trace), verdict_on(trace))
    old = [
        replace(span, attributes={key: value for key, value in span.attributes.items() if key != words.VERDICT})
        for span in spans
    ]
    old[0] = old[0].with_attributes({words.FAILURE_SCORE: 0.1})
    back = read_verdict(Run(*_as_run(old)))

    assert back is not None
    assert (back.word, back.names_suspects, back.decisive_step) == ("no sign of failure", False, 3)
    assert back.modes == verdict_on(small_run()).modes


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([1.0], r"one share per step \(5\), got 1"),
        ([0, -1, 0, 1, 1], "step 1: a share must be a number >= 0"),
        ([0, float("nan"), 0, 1, 1], "step 1: a share must be a number >= 0"),
        ([1, 0, 0, 0, 0], r"step 0 \(message by 'user'\) cannot be blamed"),
        ([0, 0, 1, 0, 0], r"step 2 \(tool_result by 'solver'\) cannot be blamed"),
        ([0, 0, 0, 0, 0], "use Attribution.abstain"),
    ],
)
def test_shares_that_make_no_sense_are_refused(shares: list[float], message: str) -> None:
    """A tracer's mistake is found where it is made."""
    with pytest.raises(ValueError, match=message):
        Attribution.of(small_run(), shares, failure_score=1, tracer=TRACER)


@given(traces())
@settings(max_examples=50, deadline=None)
def test_annotation_adds_and_never_changes(trace: MessageActionTrace) -> None:
    """Ids, times, statuses, links and what the program said stay as they were."""
    assume(any(trace.can_be_blamed(step) for step in trace.steps))
    run = run_of(trace)

    annotated = annotate(run, verdict_on(trace))

    for before, after in zip(run.spans, annotated, strict=True):
        assert replace(after, attributes=before.attributes) == before
        assert before.attributes.items() <= after.attributes.items()


@given(traces(), st.data())
@settings(max_examples=50, deadline=None)
def test_steps_go_by_the_numbers_their_spans_give_them(trace: MessageActionTrace, data: st.DataObject) -> None:
    """Of a run, whole or in part: no number a sender wrote is changed, and the verdict names its step by it."""
    spans = emit(trace)
    came = [one for one in spans if data.draw(st.booleans())]
    for run in split_runs(came):
        rebuilt = rebuild_run(run)
        assume(any(rebuilt.can_be_blamed(step) for step in rebuilt.steps))
        verdict = replace(verdict_on(rebuilt), outcome="failed")
        annotated = {one.span_id: one for one in annotate(run, verdict)}
        said = next(one.attributes for one in annotated.values() if words.BLAME_STEP in one.attributes)
        later = verdict_span(run, verdict).attributes

        assert all(one.attributes.items() <= annotated[one.span_id].attributes.items() for one in run.spans)
        blamed = annotated[str(said[words.BLAME_SPAN_ID])]
        assert said[words.BLAME_STEP] == later[words.BLAME_STEP] == blamed.attributes[words.STEP_INDEX]


def test_steps_without_a_number_get_one() -> None:
    """Where the sender does not count, the verdict does: the step it names can be found."""
    lone = [agent(2, "a", "x", parent=9), agent(3, "b", "y", parent=9, at_s=2)]
    [run] = split_runs(lone)
    verdict = Attribution.of(rebuild(lone), [1, 2], failure_score=1, tracer=TRACER)

    assert [one.attributes[words.STEP_INDEX] for one in annotate(run, verdict)] == [0, 1]


@pytest.mark.parametrize(
    ("outcome", "unaided_score", "expected"),
    [("unknown", None, 0.7), ("failed", None, None), ("succeeded", None, None), ("failed", 0.25, 0.25)],
)
def test_score_without_the_outcome_stands_beside_the_other(
    outcome: Outcome, unaided_score: float | None, expected: float | None
) -> None:
    """Where nobody says how a run ended there is one score; else the tracer's own, or none: never that which was told.

    It stands on the run's span and is read back.
    """
    trace = replace(small_run(), outcome=outcome)
    verdict = Attribution.of(trace, [0, 1, 0, 0, 0], failure_score=0.7, tracer=TRACER, unaided_score=unaided_score)
    annotated = annotate(run_of(trace), verdict)
    back = read_verdict(Run(*_as_run(annotated)))

    assert verdict.unaided_score == expected
    assert annotated[0].attributes.get("blamespan.failure.unaided_score") == expected
    assert not any("blamespan.failure.unaided_score" in span.attributes for span in annotated[1:])
    assert "blamespan.failure.unaided_score" not in without_verdict(annotated[0]).attributes
    assert back is not None
    assert back.unaided_score == expected


@given(traces())
@settings(max_examples=50, deadline=None)
def test_verdict_survives_the_wire(trace: MessageActionTrace) -> None:
    """What is written on the spans can be read back: shares, agents, suspects, decisive step, tracer."""
    assume(any(trace.can_be_blamed(step) for step in trace.steps))
    verdict = verdict_on(trace)

    back = read_verdict(Run(*_as_run(annotate(run_of(trace), verdict))))

    assert back is not None
    assert (back.tracer, back.failure_score) == (verdict.tracer, verdict.failure_score)
    assert [s.score for s in back.steps] == pytest.approx([s.score for s in verdict.steps], abs=1e-5)
    assert set(verdict.step_set) <= set(back.step_set)


def _as_run(spans: list) -> tuple:  # type: ignore[type-arg]
    return spans[0], tuple(spans)


@pytest.mark.parametrize("index", [None, 0, 2])
def test_what_evidence_contradicts_survives_the_wire(index: int | None) -> None:
    """The words that are contradicted come back with the step that says them; the task has no span."""
    run = small_run()
    quote = run.task if index is None else run.steps[index].content
    contradicts = Contradicted(index, quote)
    verdict = Attribution.of(
        run, [0, 1, 0, 0, 0], failure_score=1, tracer=TRACER, evidence=[Evidence(1, "x", 1.0, contradicts)]
    )

    annotated = annotate(run_of(run), verdict)
    [again] = split_runs(annotated)
    returned = read_verdict(again)

    assert returned is not None
    assert returned.evidence == (Evidence(1, "x", 1.0, contradicts),)
    assert [span.text(words.CONTRADICTION_QUOTE) for span in annotated].count(quote) == 1
    assert not any("contradiction" in key for span in annotated for key in without_verdict(span).attributes)


def test_annotated_run_carries_the_summary() -> None:
    """The run's span answers who, where and how on its own."""
    root, *_ = annotate(run_of(small_run()), verdict_on(small_run()))

    assert {
        k: v for k, v in root.attributes.items() if k.startswith(("blamespan.b", "blamespan.e", "blamespan.f"))
    } == {
        words.FAILURE_SCORE: 0.75,
        words.BLAME_AGENT: "solver",
        words.BLAME_STEP: 3,
        words.BLAME_SPAN_ID: f"{4:016x}",
        words.ERROR_MODE: "FM-2.1",
        words.ERROR_NAME: "Repeat handled tasks",
        words.ERROR_TAXONOMY: "aegis",
        words.ERROR_SCORE: 0.5,
    }


def test_abstention_is_said_on_the_run_only() -> None:
    """No verdict is not a verdict of zero."""
    run = run_of(small_run())

    root, *steps = annotate(run, Attribution.abstain(small_run(), "nothing was said", TRACER))

    assert root.attributes[words.ABSTAINED] == "nothing was said"
    assert steps == list(run.spans[1:])


def test_run_without_a_span_of_its_own_is_summed_up_on_the_decisive_step() -> None:
    """A lone agent's verdict is not lost for want of a run span."""
    lone = [agent(2, "a", "x", parent=9), agent(3, "b", "y", parent=9, at_s=2)]
    [run] = split_runs(lone)
    verdict = Attribution.of(rebuild(lone), [1, 2], failure_score=1, tracer=TRACER)

    annotated = annotate(run, verdict)

    assert [words.TRACER_NAME in s.attributes for s in annotated] == [False, True]


def test_written_values_stay_below_what_backends_cut() -> None:
    """Tempo cuts values at 2,048 bytes; ours end before that, on a character boundary."""
    text = cut("ä" * 2_000)

    assert len(text.encode()) <= 2_047
    assert text.rstrip("…") == "ä" * len(text.rstrip("…"))


def test_unannotated_run_has_no_verdict() -> None:
    """Nothing is read where nothing was written."""
    assert read_verdict(run_of(small_run())) is None


def test_later_verdict_is_a_span_below_the_blamed_one() -> None:
    """It repeats what would stand on the blamed span and on the run's, and links to the blamed one."""
    run = run_of(small_run())
    verdict = verdict_on(small_run())
    blamed = run.spans[[one.span_id for one in run.spans].index(verdict.steps[3].span_id)]
    in_place = {one.span_id: one.attributes for one in annotate(run, verdict)}
    made = verdict_span(run, verdict)

    assert (made.parent_id, [link.span_id for link in made.links]) == (blamed.span_id, [blamed.span_id])
    assert made.attributes[words.BLAME_SPAN_NAME] == blamed.name
    assert {k: v for k, v in in_place[blamed.span_id].items() if blamed.attributes.get(k) != v}.items() <= (
        made.attributes.items()
    )
    assert run.root is not None
    assert {k: v for k, v in in_place[run.root.span_id].items() if k not in run.root.attributes}.items() <= (
        made.attributes.items()
    )
    assert is_verdict(made)


def test_later_verdicts_that_differ_have_different_ids() -> None:
    """A second run changes nothing; another revision, other weights or other blame is another span."""
    run, verdict = run_of(small_run()), verdict_on(small_run())
    other_weights = replace(verdict, tracer=replace(TRACER, weights="fedcba987654"))
    other_blame = Attribution.of(small_run(), [0, 1, 0, 0, 0], failure_score=1, tracer=TRACER)
    said = (verdict, replace(verdict, revision=1), other_weights, other_blame)
    ids = [verdict_span(run, one).span_id for one in said]

    assert verdict_span(run, verdict) == verdict_span(run, verdict)
    assert len(set(ids)) == len(said)


def test_later_abstention_lies_below_the_runs_span() -> None:
    """Where nobody is blamed it says why, below the run."""
    run = run_of(small_run())
    made = verdict_span(run, Attribution.abstain(small_run(), "nobody to blame", TRACER))

    assert run.root is not None
    assert made.parent_id == run.root.span_id
    assert made.attributes[words.ABSTAINED] == "nobody to blame"


def test_later_verdict_is_no_step_of_its_run() -> None:
    """A trace that holds the span of a verdict is rebuilt as if it did not."""
    run = run_of(small_run())
    made = verdict_span(run, verdict_on(small_run()))

    assert rebuild([*run.spans, made]) == small_run()


def test_third_party_taxonomy_is_no_obstacle() -> None:
    """A mode that is not ours to name is left out, the rest of the verdict is read."""
    [run] = split_runs(annotate(run_of(small_run()), verdict_on(small_run())))
    foreign = Run(run.root, tuple(s.with_attributes({words.ERROR_TAXONOMY: "theirs"}) for s in run.spans))

    verdict = read_verdict(foreign)

    assert verdict is not None
    assert verdict.modes == ()
    assert verdict.decisive_step == 3


def test_mast_and_aegis_share_codes_not_meanings() -> None:
    """The same code names different errors: the taxonomy must stand beside it."""
    assert MAST["FM-2.1"].name != AEGIS["FM-2.1"].name
    assert span(1, "x").span_id == f"{1:016x}"
