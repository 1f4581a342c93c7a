"""Whatever a run is like, each embedded tracer gives one verdict or one reason for none: the same one each time."""

from __future__ import annotations

import math
from functools import cache
from random import Random

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import Tracer
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.checks import CHECKS, ChecksTracer
from tests.tracer_model.teams import random_team, team

TRACERS = ("auto", "checks", "lexical")
MANY = 2_000


@cache
def tracer(name: str) -> Tracer:
    if name == "lexical":
        return LexicalTracer.bundled()
    if name == "checks":
        return ChecksTracer(CHECKS)
    return AutoTracer.bundled()


def binary(size: int) -> str:
    """Draw bytes, read as Latin letters."""
    return Random(0).randbytes(size).decode("latin-1")  # a test's


def said(*texts: str) -> MessageActionTrace:
    return team(*[("ABC"[place % 3], text) for place, text in enumerate(texts)])


@cache
def many_steps() -> MessageActionTrace:
    return random_team(1, MANY)


ODD = {
    "no step": team(),
    "one step": said("The sum is 2 + 2 = 5."),
    "one agent": team(*[("A", f"Step {number} gives {number * 7}.") for number in range(12)]),
    "no text at all": said("", "", ""),
    "some without text": said("", "The total is 12.", "", "No, it is 13."),
    "blanks": said(" \n\t ", "\u2003" * 9),
    "300 kB of one word": said("x" * 300_000, "ok"),
    "300 kB of sentences": said("It is 12. " * 30_000, "No, 13."),
    "300 kB of sums": said("1 + 1 = 3\n" * 30_000, "right"),
    "300 kB of marks": said("=" * 300_000, '"' * 300_000),
    "300 kB of bytes": said(binary(300_000), binary(1_000)),
    "Chinese": said("总价是十二欧元。" * 40, "不对, 应该是十三。"),
    "Arabic": said("المجموع هو ١٢ يورو.", "لا، إنه ١٣."),
    "Hindi": said("कुल १२ है।", "नहीं, १३ है।"),
    "emoji": said("👩‍👩‍👧‍👦" * 50, "🤷🏽‍♀️ = 12?"),
    "lone surrogates": said("\ud800\udfff\udc00", "12 \ud83d"),
    "control characters": said("\x00\x1b[31m\x07", "\u202e12\u2066"),
    "digits of other scripts": said("² ٣ ४ 五 = Ⅻ", "1,2,3,,4.5.6 = 7..8"),
    "same thing forty times": team(*[("AB"[place % 2], "again") for place in range(40)]),
    "names like text": MessageActionTrace(
        "1" * 32, "", (Step(0, "1" * 16, "\x00\ud800\n", content="It is 12."),), (Agent("\x00\ud800\n"),)
    ),
}


@pytest.mark.parametrize("name", TRACERS)
@pytest.mark.parametrize("odd", ODD)
def test_odd_runs_get_a_verdict_or_a_reason(odd: str, name: str) -> None:
    """Empty, huge, in any script or none: shares add up to one, scores are chances, quotes stand in the step."""
    run = ODD[odd]

    verdict = tracer(name).attribute([run])[0]

    assert (verdict.abstained is None) == (verdict.decisive_step is not None)
    assert 0 <= verdict.failure_score <= 1
    assert all(math.isfinite(step.score) and step.score >= 0 for step in verdict.steps)
    if verdict.abstained is None:
        assert sum(step.score for step in verdict.steps) == pytest.approx(1)
    assert all(item.quote in run.steps[item.index].content for item in verdict.evidence)


@pytest.mark.parametrize("name", TRACERS)
def test_two_thousand_steps_are_judged(name: str) -> None:
    """A run of 2,000 steps is read whole."""
    verdict = tracer(name).attribute([many_steps()])[0]

    assert len(verdict.steps) in (0, MANY)
    assert (verdict.abstained is None) == (verdict.decisive_step is not None)


@pytest.mark.parametrize("name", TRACERS)
def test_company_and_order_change_no_verdict(name: str) -> None:
    """On a CPU the same run gives the same verdict to the last bit: alone, beside any other, and again."""
    runs = [random_team(seed, 2 + seed % 9) for seed in range(12)]
    runs += [ODD[odd] for odd in ODD if not odd.startswith("300 kB")]
    order = Random(1).sample(range(len(runs)), len(runs))  # a test's

    together = tracer(name).attribute(runs)
    shuffled = tracer(name).attribute([runs[place] for place in order])

    assert [together[place] for place in order] == shuffled
    assert together == [tracer(name).attribute([run])[0] for run in runs]


@pytest.mark.parametrize("name", TRACERS)
def test_no_run_at_all_gives_no_verdict_at_all(name: str) -> None:
    """An empty batch is a batch."""
    assert tracer(name).attribute([]) == []
