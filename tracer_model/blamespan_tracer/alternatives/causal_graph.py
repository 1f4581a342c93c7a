"""The tracer `causal-graph`: from the failing output backward through who took what from whom, without training.

Three things are read off the graph of a run's information, whose edges lead from where a value was brought in to who
uses it:

- Origin. The last answer is followed back, value by value, to where its value begins (its `lineage`).
- Oddness. A step is odd where a check says by itself that it contradicts, miscalculates, leaves out or breaks off.
- Change. Sound steps of one phase take alike shares of what they say from the task, from tools and from others. A step
  that says much which nobody said, and is unlike the others, has left what the run depends on. A run need not be alike
  from end to end: its phases are found first, by where those shares change, and a step is held against its phase and
  against the whole run.

The weights of the three are round numbers that say which counts first. They were set on generated runs of other seeds
than those it is measured on; nothing is fitted.

Dims: N merged steps, D decisions among them, K profile columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blamespan._version import __version__
from blamespan.attribution import NOBODY_KNOWS, Attribution, ModeBlame, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.evidence import quote_steps
from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.step_features import step_features
from blamespan_tracer.checks import CHECKS, CheckResult, apply_checks

_ALSO_ODD: Final = ("breaks off", "a wrong sum stands", "lacks what the task gives", "contradicts and stands")
"""What shows a step to be odd beside what networks know for that, and"""
_ODD_IF_BROKEN: Final = ("text-whole", "task-kept")
"""the checks that do."""
_ODD, _BEGINS = "is odd", "begins the last answer"
_PROFILE: Final = ("claims from task", "claims from results", "claims from others", "claims from itself", "new claims")
"""Where what a step says comes from: shares."""
_CHANGE: Final = (("new words", 1.0), ("like the others", -1.0), ("task words covered", -1.0))
"""What shows that a step has left what the others depend on, and which way."""
_FEATURES: Final = (
    _ODD,
    _BEGINS,
    *_ALSO_ODD,
    *_PROFILE,
    *(name for name, _ in _CHANGE),
    *(f"{name}, z" for name, _ in _CHANGE),
)

_ODD_WEIGHT, _BEGINS_WEIGHT, _CHANGE_WEIGHT, _LATER_WEIGHT = 1.0, 0.5, 0.05, 0.01
"""An odd step before a sound one; of odd ones that where the answer's value begins; then the one that changes most
(each standard score counts half for the run and half for its phase); then the earlier."""
_SHARPNESS = 16.0
"""Shares are as the exponential of so many times the score: 0.1 more is five times the blame."""

_LEAST_PHASE = 3
"""Decisions that make up a phase at least."""
_LEAST_GAIN = 1.0
"""By how much two phases must explain the profiles better than one, as a sum of squares of shares."""

_Floats = NDArray[np.float64]


class CausalGraphTracer:
    """Attributes runs by the graph of their information. Needs no weights and no training."""

    @property
    def identity(self) -> TracerIdentity:
        """Name and version."""
        return TracerIdentity("causal-graph", __version__)

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [self._attribute(trace) for trace in traces]

    def _attribute(self, trace: MessageActionTrace) -> Attribution:
        reason = abstention_reason(trace)
        if reason is not None:
            return Attribution.abstain(trace, reason, self.identity)
        results = apply_checks(CHECKS, trace)
        shares = _share_blame(trace, results)
        score = _score_failure(results)
        return Attribution.of(
            trace,
            shares,
            failure_score=1.0 if trace.outcome == "failed" else score,
            unaided_score=score,
            tracer=self.identity,
            modes=_list_modes(trace, results),
            evidence=quote_steps(trace, shares, results),
        )


def find_phases(profiles: _Floats) -> list[tuple[int, int]]:
    """Split a run where what its decisions depend on changes.

    Args:
        profiles: (D, K) for each decision where what it says comes from.

    Returns:
        First decision of each phase and the one behind its last, in order; each phase has three decisions or more.
        Of two parts that explain the profiles better than one, the better split is made first, and each part is split
        again (binary segmentation: Scott and Knott, "A cluster analysis method for grouping means", 1974).
    """
    total = np.concatenate([np.zeros((1, profiles.shape[1])), np.cumsum(profiles, axis=0)])
    squares = np.concatenate([[0.0], np.cumsum((profiles**2).sum(axis=1))])

    def spread(first: int | NDArray[np.int64], end: int | NDArray[np.int64]) -> _Floats:
        n = np.asarray(end) - np.asarray(first)
        within: _Floats = squares[end] - squares[first] - ((total[end] - total[first]) ** 2).sum(axis=-1) / n
        return within

    phases: list[tuple[int, int]] = []
    waiting = [(0, len(profiles))]
    while waiting:
        first, end = waiting.pop()
        places = np.arange(first + _LEAST_PHASE, end - _LEAST_PHASE + 1)
        if len(places):
            gains = spread(first, end) - spread(first, places) - spread(places, end)
            best = int(gains.argmax())
            if gains[best] > _LEAST_GAIN:
                waiting += [(int(places[best]), end), (first, int(places[best]))]
                continue
        phases.append((first, end))
    return phases


def _share_blame(trace: MessageActionTrace, results: Sequence[CheckResult]) -> list[float]:
    """Return each step's share of the blame: a merged step's stands at its first."""
    analysis = analyse(trace)
    table = step_features(analysis, _FEATURES).astype(np.float64)
    column = {name: table[:, number] for number, name in enumerate(_FEATURES)}
    odd = np.any([column[name] > 0 for name in (_ODD, *_ALSO_ODD)], axis=0)
    broken = [one for one in results if one.check.name in _ODD_IF_BROKEN and one.outcome == "fail"]
    odd[[analysis.owner[one.step] for one in broken if one.step is not None]] = True
    odd &= analysis.decides
    decisions = np.flatnonzero(analysis.decides)
    change = np.zeros(len(analysis.steps))
    profiles = np.stack([column[name][decisions] for name in _PROFILE], axis=1)
    phases = find_phases(profiles)
    for name, sign in _CHANGE:
        change += sign * column[f"{name}, z"]
        for first, end in phases:
            rows = decisions[first:end]
            change[rows] += sign * _standardise(column[name][rows])
    scores = (
        _ODD_WEIGHT * odd
        + _BEGINS_WEIGHT * column[_BEGINS]
        + _CHANGE_WEIGHT * change
        - _LATER_WEIGHT * np.arange(len(change))
    )[decisions]
    weights = np.exp(_SHARPNESS * (scores - scores.max()))
    shares = [0.0] * len(trace.steps)
    for row, weight in zip(decisions.tolist(), (weights / weights.sum()).tolist(), strict=True):
        shares[analysis.steps[row].origins[0].index] = weight
    return shares


def _standardise(values: _Floats) -> _Floats:
    spread = float(values.std())
    scores: _Floats = (values - values.mean()) / spread if spread > 1e-9 else np.zeros_like(values)
    return scores


def _score_failure(results: Sequence[CheckResult]) -> float:
    """Return how likely the run failed if each broken check speaks for itself; nobody knows where none is broken."""
    trust = {result.check.name: result.check.trust for result in results if result.outcome == "fail"}
    remainder = 1.0
    for value in trust.values():
        remainder *= 1.0 - value
    return NOBODY_KNOWS if not trust else 1.0 - remainder


def _list_modes(trace: MessageActionTrace, results: Sequence[CheckResult]) -> list[ModeBlame]:
    """Return what the broken checks call what each agent did."""
    best: dict[tuple[str, str], ModeBlame] = {}
    for result in results:
        mode, step = result.mode, result.step
        if result.outcome != "fail" or step is None or mode is None or not trace.can_be_blamed(trace.steps[step]):
            continue
        agent = trace.steps[step].agent
        key = (str(mode), agent)
        if key not in best or best[key].score < result.check.trust:
            best[key] = ModeBlame(mode, agent, result.check.trust)
    return list(best.values())
