"""How well causes are found: suspects put to the test and failures shared out, on failures of simulated teams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.benchmarks.causes_simulated import SimulatedFailure, SimulatedTrials, TwinCorrections

from blamespan.analysis.summary.statistics import Share
from blamespan.tracers import Tracer
from blamespan_lab.make.recording import Recording
from blamespan_lab.rerun.causes.shapley import Coalition, shapley
from blamespan_lab.rerun.causes.verify import CallBudget, list_suspects, verified_verdict, verify
from blamespan_lab.rerun.script import script_of

_SAME = 1e-9
"""Shares that differ by less are equal: they differ by rounding."""
_PAIRS = 10
"""Of orders of agents and their reverses, where there are too many coalitions to try all."""
_ANY = 1_000_000
"""A budget of calls that nothing comes up to: simulated agents cost none."""


@dataclass(frozen=True, slots=True)
class VerifyFigures:
    """What verifying does to verdicts.

    Attributes:
        before: How often the decisive step was named before any suspect was tried.
        after: How often it is named by the later verdict.
        worse: How often it was named before, and no more.
        confirmed: Of the confirmed suspects, how many are the decisive step or carry its error on.
        chance: Of the tried suspects that are neither, how many were confirmed.
    """

    before: Share
    after: Share
    worse: Share
    confirmed: Share
    chance: Share


def measure_verify(
    failures: Iterable[SimulatedFailure], tracer: Tracer, recording: Recording, *, most: int = 5
) -> VerifyFigures:
    """Verify the verdicts of *tracer*, *most* suspects of each failure, with what the sound twin says."""
    before, after, worse, confirmed, wrongly = [], [], [], [], []
    for failure in failures:
        assert failure.label.decisive is not None  # it was made with one
        decisive, carrying = failure.label.decisive.step, failure.label.carried_by
        trace = replace(failure.trace, outcome="failed")
        script = script_of(trace)
        [verdict] = tracer.attribute([trace])
        results = verify(
            list_suspects(script, verdict, most),
            script,
            [TwinCorrections(failure)],
            SimulatedTrials(failure, recording),
            repeats=1,
            budget=CallBudget(_ANY),
        )
        later = verified_verdict(trace, verdict, results)
        before.append(verdict.decisive_step == decisive)
        after.append(later.decisive_step == decisive)
        worse.append(before[-1] and not after[-1])
        for result in results:
            is_it, carries = result.suspect.step == decisive, result.suspect.step in carrying
            if result.outcome == "confirmed":
                confirmed.append(is_it or carries)
            if not is_it and not carries:
                wrongly.append(result.outcome == "confirmed")
    return VerifyFigures(*(Share(sum(hits), len(hits)) for hits in (before, after, worse, confirmed, wrongly)))


def measure_shapley(failures: Iterable[SimulatedFailure], recording: Recording) -> Share:
    """Share failures out by running coalitions of corrected agents; how often has the culprit the largest share?"""
    hits = []
    for failure in failures:
        assert failure.label.decisive is not None  # it was made with one
        members = [agent.name for agent in failure.trace.agents if agent.role == "agent"]

        def worth(coalitions: Sequence[Coalition], failure: SimulatedFailure = failure) -> list[float]:
            return [float(failure.put_agents_right(coalition, recording).succeeded) for coalition in coalitions]

        shares = shapley(members, worth, pairs=_PAIRS).shares
        hits.append(shares[failure.label.decisive.agent] >= max(shares.values()) - _SAME)
    return Share(sum(hits), len(hits))
