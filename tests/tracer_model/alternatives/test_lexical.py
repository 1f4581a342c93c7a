"""The bundled tracer keeps a tracer's promises on any run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blamespan.errors import TracerUnavailable
from blamespan.tracers import Tracer, load_tracer
from blamespan_lab.train.lexical import choose_thresholds
from blamespan_tracer.alternatives import lexical
from blamespan_tracer.alternatives.evidence import MAX_QUOTE_CHARS
from blamespan_tracer.alternatives.lexical import (
    LexicalTracer,
    Thresholds,
    answer_weights,
    begin_shares,
    decide,
    suspicion,
)
from blamespan_tracer.numeric import sigmoid
from tests.tracer_model.runs import recorded, trace

TRACER = LexicalTracer.bundled()

texts = st.text(alphabet=st.characters(), max_size=120)
said = st.lists(st.tuples(st.sampled_from(["a", "b", "user", "term"]), texts), max_size=8)


def test_tracer_is_found_by_name() -> None:
    """The entry point gives a tracer that says who it is, down to its weights."""
    tracer = load_tracer("lexical")

    assert isinstance(tracer, Tracer)
    assert tracer.identity == TRACER.identity
    assert (tracer.identity.name, len(tracer.identity.weights)) == ("lexical", 12)


def test_names_cannot_change_a_verdict() -> None:
    """Names are labels of one run: calling agents otherwise moves no blame."""
    run = recorded(1)[0].trace
    renamed = replace(
        run,
        steps=tuple(replace(step, agent=f"<{step.agent}>") for step in run.steps),
        agents=tuple(replace(agent, name=f"<{agent.name}>") for agent in run.agents),
    )

    (verdict,), (other,) = TRACER.attribute([run]), TRACER.attribute([renamed])

    assert [step.score for step in other.steps] == [step.score for step in verdict.steps]
    assert [(blame.agent, blame.score) for blame in other.agents] == [
        (f"<{blame.agent}>", blame.score) for blame in verdict.agents
    ]


def test_only_decisions_are_blamed() -> None:
    """What a user asks and what a tool answers carries no blame, whatever it says."""
    roles = {"user": "user", "term": "executor"}
    run = trace(("user", "do it"), ("a", "I guess"), ("term", "error error"), ("b", "done"), roles=roles)  # type: ignore[arg-type]  # literals

    (verdict,) = TRACER.attribute([run])

    assert [step.score > 0 for step in verdict.steps] == [False, True, False, True]


def test_run_that_ended_with_an_error_is_not_blamed_on_others() -> None:
    """A loud failure needs no reading of words, and must not be laid at the door of whoever spoke."""
    quiet = trace(("a", "I guess, no need to verify"), ("b", "done"))
    loud = replace(quiet, steps=(quiet.steps[0], replace(quiet.steps[1], content="", status="error", error="OSError")))
    retried = replace(quiet, steps=(replace(quiet.steps[0], status="error", error="OSError"), quiet.steps[1]))

    verdicts = TRACER.attribute([quiet, loud, retried])

    assert [verdict.abstained for verdict in verdicts] == [
        None,
        "not a silent failure: b ended the run at step 1 with OSError",
        None,
    ]


def test_lone_agent_is_as_likely_sound_as_not() -> None:
    """What was learnt from failures of lone agents says nothing on whether one failed."""
    (verdict,) = TRACER.attribute([trace(("a", "I skip the verification"), ("a", "I guess it is done"))])

    assert (verdict.failure_score, verdict.agents[0].agent) == (0.5, "a")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (trace(), "nobody to blame"),
        (trace(("user", "hello"), roles={"user": "user"}), "nobody to blame"),
        (trace(("a", ""), ("b", " \n_")), "no agent's step has any text"),
    ],
)
def test_runs_without_anything_to_judge_get_no_verdict(run: object, reason: str) -> None:
    """The tracer abstains and says why, rather than guess."""
    (verdict,) = TRACER.attribute([run])  # type: ignore[list-item]  # a trace

    assert reason in (verdict.abstained or "")
    assert (verdict.decisive_step, verdict.modes, verdict.failure_score) == (None, (), 0.0)


@given(said)
@settings(max_examples=60, deadline=None)
def test_any_run_gets_a_sound_verdict(lines: list[tuple[str, str]]) -> None:
    """Shares add up, probabilities are probabilities, quotes are the step's own words, whatever the text."""
    run = trace(*lines, roles={"user": "user", "term": "executor"})

    (verdict,) = TRACER.attribute([run])

    if verdict.abstained is None:
        assert sum(step.score for step in verdict.steps) == pytest.approx(1)
        assert 0 <= verdict.failure_score <= 1
        assert verdict.modes
        assert all(0 <= blame.score <= 1 and blame.mode.taxonomy == "aegis" for blame in verdict.modes)
        for item in verdict.evidence:
            assert item.quote in run.steps[item.index].content
            assert 0 < len(item.quote) <= MAX_QUOTE_CHARS


def test_step_without_text_does_not_disturb_the_others() -> None:
    """An agent that once says nothing is judged by what else it said."""
    (verdict,) = TRACER.attribute([trace(("a", "we skip the check"), ("a", ""), ("b", "fine"))])

    assert verdict.abstained is None
    assert {item.index for item in verdict.evidence} <= {0, 2}


def test_missing_bundled_weights_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A broken installation is named, not worked around."""
    monkeypatch.setattr(lexical, "BUNDLED", tmp_path / "none.safetensors")

    with pytest.raises(TracerUnavailable, match="Reinstall blamespan, or train them"):
        LexicalTracer.bundled()


def test_bundled_weights_are_small() -> None:
    """They travel in every wheel."""
    assert lexical.BUNDLED.stat().st_size < 8_000_000


def table(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


@pytest.mark.parametrize(
    ("rows", "thresholds", "reported"),
    [
        ([[0.3, 0.25, 0.5], [0.1, 0.0, 0.4]], Thresholds(0.2, 0.9), {(0, 0), (0, 1)}),  # several modes of one agent
        ([[0.3, 0.1, 0.5], [0.1, 0.15, 0.95]], Thresholds(0.2, 0.9), {(0, 0), (1, 1)}),  # who is surely at fault
        ([[0.01, 0.02, 0.1], [0.03, 0.01, 0.1]], Thresholds(0.5, 0.9), {(1, 0)}),  # else the likeliest pair
    ],
)
def test_what_passes_a_threshold_is_reported(
    rows: list[list[float]], thresholds: Thresholds, reported: set[tuple[int, int]]
) -> None:
    """Each likely mode, the likeliest mode of a likely agent, and never nothing."""
    assert decide(table(*rows), thresholds) == reported


def test_thresholds_separate_what_can_be_separated() -> None:
    """Where one threshold tells all pairs right, the choice gets every run right."""
    runs = [table([0.28, 0.02, 0.1], [0.05, 0.02, 0.1]), table([0.02, 0.25, 0.1], [0.02, 0.03, 0.1])]
    labels = [frozenset({(0, 0)}), frozenset({(0, 1)})]

    chosen = choose_thresholds(runs, labels)

    assert [decide(run, chosen) for run in runs] == labels


def test_sigmoid_never_overflows() -> None:
    """Log-odds of any size are probabilities, without a warning."""
    assert sigmoid(np.array([-1e30, 0, 1e30], np.float32)).tolist() == [0, 0.5, 1]


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=60))
def test_shares_add_up_to_one(scores: list[float]) -> None:
    """Whatever the scores, all of the agent's blame is shared out, and none is negative."""
    shares = begin_shares(scores)

    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0


def test_equal_steps_have_equal_hazards() -> None:
    """Where nothing tells three steps apart, each begins the fault with chance 1/3, if none before it did."""
    assert begin_shares([0, 0, 0]) == pytest.approx([9 / 19, 6 / 19, 4 / 19])


def test_scale_of_scores_does_not_matter() -> None:
    """Longer texts give larger scores; only how a step compares with the others counts."""
    assert begin_shares([0.8, 4.0, 1.6]) == pytest.approx(begin_shares([0.1, 0.5, 0.2]))


def test_first_of_two_suspicious_steps_takes_more() -> None:
    """Later suspicious steps are mostly consequences of the first."""
    shares = begin_shares([0, 3, 3, 0])

    assert shares[1] == max(shares)
    assert shares[1] > 1.5 * shares[2]


def test_step_that_stands_out_beats_earlier_ones() -> None:
    """A clear anomaly is not outvoted by harmless steps before it."""
    shares = begin_shares([0, 0, 0, 9, 0])

    assert shares[3] == max(shares)


def test_suspicion_weighs_modes_by_their_probability() -> None:
    """Contributions to a likely mode count; those to an impossible one do not."""
    by_step = np.array([[1, 5, 0.5], [2, 0, 0]], np.float32)

    [weights] = answer_weights(np.array([[0.4, 0.0, 0.5]], np.float32))

    assert suspicion(by_step, weights).tolist() == [1.25, 2.0]
