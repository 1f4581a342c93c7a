"""An outcome that was told is heard, whoever judges: a failed run scores 1, one that succeeded scores 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blamespan.attribution import check_verdict
from blamespan.errors import MalformedVerdict
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import ask_tracer, load_tracer

TEXTS = ("12 * 31 = 362, so 3 crates hold 1086 lamps.", "Looks right: 1086 lamps.")


def _run(outcome: Any) -> MessageActionTrace:
    steps = tuple(
        Step(index, f"{index + 1:016x}", name, "message", text)
        for index, (name, text) in enumerate(zip(("solver", "checker"), TEXTS, strict=True))
    )
    task = "A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?"
    return MessageActionTrace("1" * 32, task, steps, (Agent("solver"), Agent("checker")), outcome=outcome)


@pytest.mark.parametrize("name", ["auto", "lexical", "checks"])
def test_told_outcome_is_heard(name: str) -> None:
    """The failure score says what was told, the unaided score what the tracer thinks, and shares stay as they are."""
    tracer = load_tracer(name)
    unknown, failed, succeeded = ask_tracer(tracer, [_run("unknown"), _run("failed"), _run("succeeded")])

    assert (failed.failure_score, succeeded.failure_score) == (1.0, 0.0)
    assert failed.unaided_score == succeeded.unaided_score == unknown.unaided_score == unknown.failure_score
    assert [step.score for step in succeeded.steps] == pytest.approx([step.score for step in unknown.steps])
    assert (failed.calls_failed, succeeded.calls_failed) == (True, False)


def test_abstention_is_left_as_it_is() -> None:
    """Who says nothing of a run is given no score by its outcome."""
    verdict = load_tracer("lexical").attribute([_run("failed")])[0]
    abstained = replace(verdict, abstained="no text", failure_score=0.0)

    assert check_verdict(abstained, _run("failed")).failure_score == 0.0


def test_missing_verdicts_are_named() -> None:
    """A tracer that returns fewer verdicts than runs is told how many were expected."""

    class Silent:
        identity = load_tracer("checks").identity

        def attribute(self, traces: Any) -> list[Any]:
            return []

    with pytest.raises(MalformedVerdict, match="expected 1 verdicts, got 0"):
        ask_tracer(Silent(), [_run("unknown")])
