"""How well causes are found: suspects put to the test and failures shared out, on failures of simulated teams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.benchmarks.causes_simulated import SimulatedFailure, SimulatedTrials, TwinCorrections

from blamespan.analysis.summary.statistics import Share
from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.make.recording import Recording
from blamespan_lab.rerun.causes.shapley import MOST_EXACT, Coalition, NoShares, shapley
from blamespan_lab.rerun.causes.verify import CallBudget, list_suspects, verified_verdict, verify
from blamespan_lab.rerun.causes.worth import MaskedWorth
from blamespan_lab.rerun.script import script_of

_SAME = 1e-9
"""Shares that differ by less are equal: they differ by rounding."""
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
        confirmed_exactly: How many of them are the decisive step.
        missed: How often the decisive step was tried, and not confirmed.
        chance: Of the tried suspects that are neither, how many were confirmed.
    """

    before: Share
    after: Share
    worse: Share
    confirmed: Share
    confirmed_exactly: Share
    missed: Share
    chance: Share


def measure_verify(
    failures: Iterable[SimulatedFailure], tracer: Tracer, recording: Recording, *, most: int = 5
) -> VerifyFigures:
    """Verify the verdicts of *tracer*, *most* suspects of each failure, with what the sound twin says."""
    before, after, worse, missed = [], [], [], []
    confirmed, exactly, wrongly = [], [], []
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
                exactly.append(is_it)
            if is_it:
                missed.append(result.outcome != "confirmed")
            elif not carries:
                wrongly.append(result.outcome == "confirmed")
    return VerifyFigures(
        *(Share(sum(hits), len(hits)) for hits in (before, after, worse, confirmed, exactly, missed, wrongly))
    )


@dataclass(frozen=True, slots=True)
class ShapleyFigures:
    """How failures are shared out.

    Attributes:
        culprit: By replay, how often the agent of the decisive step has the largest share, or as large a one as any.
        culprit_alone: How often it has a larger one than all others.
        adds_up: How often the shares add up to 1 within 0.01.
        exact: How many were shared out by all coalitions, of all.
        within: Of the agents of those, drawn shares within two standard errors of the exact ones.
        by_tracer: How often it has the largest share by the tracer's word, without a program.
        by_verdict: How often the tracer blames it most, for comparison.
        unshared: By the tracer's word, how often there was nothing to share out.
    """

    culprit: Share
    culprit_alone: Share
    adds_up: Share
    exact: Share
    within: Share
    by_tracer: Share
    by_verdict: Share
    unshared: Share


def measure_shapley(
    failures: Iterable[SimulatedFailure], tracer: Tracer, recording: Recording, *, pairs: int = 10
) -> ShapleyFigures:
    """Share failures out: by running coalitions of corrected agents, and by the word of *tracer*."""
    culprit, alone, adds_up, exact, within = [], [], [], [], []
    by_tracer, by_verdict, unshared = [], [], []
    for failure in failures:
        assert failure.label.decisive is not None  # it was made with one
        name = failure.label.decisive.agent
        worth = _RememberedWorth(failure, recording)
        members = [agent.name for agent in failure.trace.agents if agent.role == "agent"]
        shares = shapley(members, worth, pairs=pairs)
        others = [share for agent, share in shares.shares.items() if agent != name]
        culprit.append(all(shares.shares[name] >= share - _SAME for share in others))
        alone.append(all(shares.shares[name] > share + _SAME for share in others))
        adds_up.append(abs(sum(shares.shares.values()) - 1) <= 0.01)
        exact.append(len(members) <= MOST_EXACT)
        if exact[-1]:
            drawn = shapley(members, worth, is_exact=False, pairs=pairs, seed=len(exact))
            within += [
                abs(drawn.shares[agent] - share) <= 2 * drawn.errors[agent] + _SAME
                for agent, share in shares.shares.items()
            ]
        trace = replace(failure.trace, outcome="failed")
        [verdict] = tracer.attribute([trace])
        by_verdict.append(bool(verdict.agents) and verdict.agents[0].agent == name)
        masked = _mask_shares(trace, verdict, tracer)
        unshared.append(masked is None)
        by_tracer.append(masked is not None and max(masked, key=masked.__getitem__) == name)
    hits = (culprit, alone, adds_up, exact, within, by_tracer, by_verdict, unshared)
    return ShapleyFigures(*(Share(sum(each), len(each)) for each in hits))


class _RememberedWorth:
    """Whether a simulated run succeeds with the agents of a coalition put right; each is run once."""

    def __init__(self, failure: SimulatedFailure, recording: Recording) -> None:
        self._failure = failure
        self._recording = recording
        self._known: dict[Coalition, float] = {}

    def __call__(self, coalitions: Sequence[Coalition]) -> list[float]:
        for coalition in coalitions:
            if coalition not in self._known:
                outcome = self._failure.put_agents_right(coalition, self._recording)
                self._known[coalition] = float(outcome.succeeded)
        return [self._known[coalition] for coalition in coalitions]


def _mask_shares(trace: MessageActionTrace, verdict: Attribution, tracer: Tracer) -> Mapping[str, float] | None:
    members = [blame.agent for blame in verdict.agents][:MOST_EXACT]
    try:
        return shapley(members, MaskedWorth(trace, verdict, tracer)).shares if members else None
    except NoShares:
        return None
