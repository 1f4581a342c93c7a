"""Measure whether a verdict follows what was said: edited runs beside the untouched ones and their decoys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from blamespan.attribution import Attribution
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.edits.generate import LabelledPair
from blamespan_lab.statistics import interval, percent

__all__ = ["PairFigures", "PairVerdicts", "evaluate_pairs", "join_verdicts", "runs_of_pairs"]


@dataclass(frozen=True, slots=True)
class PairVerdicts:
    """The verdicts on the runs of one pair; None for a decoy that is not there."""

    untouched: Attribution
    edited: Attribution
    decoy: Attribution | None


class PairFigures(TypedDict):
    """What `evaluate pairs` prints; percent, but for `n`, `gain` and `auc`.

    `step` is how often the edited step is blamed most, `top3` how often it is among the three most blamed, `agent` how
    often its agent is. `gain` is the edited step's share in the edited run, less its share in the untouched one.
    `same_step` is how often the untouched run's most blamed step is the same. `decoys` is how often the same words are
    blamed most where their source agrees with them, in runs called failed. `auc` is how well the failure score tells
    edited runs from untouched ones and decoys. `chance` is an even guess among the steps that could be blamed.
    """

    n: int
    step: float
    step_ci: list[float]
    top3: float
    agent: float
    gain: float
    gain_ci: list[float]
    same_step: float
    decoys: float
    n_decoys: int
    auc: float
    chance: float
    by: dict[str, dict[str, dict[str, float]]]


def runs_of_pairs(pairs: Sequence[LabelledPair]) -> list[RecordedRun]:
    """List every run of *pairs* once: many pairs share their untouched run."""
    runs = {
        run.trace.trace_id: run
        for pair in pairs
        for run in (pair.untouched, pair.edited, pair.decoy)
        if run is not None
    }
    return list(runs.values())


def join_verdicts(
    pairs: Sequence[LabelledPair], runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]
) -> list[PairVerdicts]:
    """Join each of *pairs* with the verdicts on its runs.

    Args:
        pairs: The pairs.
        runs: Of `runs_of_pairs`.
        verdicts: One for each of *runs*, in the same order.
    """
    of_run = {run.trace.trace_id: verdict for run, verdict in zip(runs, verdicts, strict=True)}
    return [
        PairVerdicts(
            of_run[pair.untouched.trace.trace_id],
            of_run[pair.edited.trace.trace_id],
            of_run[pair.decoy.trace.trace_id] if pair.decoy is not None else None,
        )
        for pair in pairs
    ]


def evaluate_pairs(pairs: Sequence[LabelledPair], verdicts: Sequence[PairVerdicts]) -> PairFigures:
    """Score *verdicts* on *pairs*.

    Raises:
        ConfigError: if there is none.
    """
    if not pairs:
        raise ConfigError("expected pairs to measure on, got none. Make them: blamespan generate edits")
    rows = list(zip(pairs, verdicts, strict=True))
    hits = [verdict.edited.decisive_step == pair.step for pair, verdict in rows]
    gains = [gain for pair, verdict in rows if (gain := _gain(pair, verdict)) is not None]
    decoys = [
        verdict.decoy.decisive_step == pair.step and verdict.decoy.calls_failed
        for pair, verdict in rows
        if verdict.decoy is not None
    ]
    return {
        "n": len(rows),
        "step": percent(hits),
        "step_ci": list(interval(hits)),
        "top3": percent([pair.step in _rank_steps(verdict.edited)[:3] for pair, verdict in rows]),
        "agent": percent([_blames_agent(pair, verdict.edited) for pair, verdict in rows]),
        "gain": float(np.mean(gains)) if gains else 0.0,
        "gain_ci": _mean_interval(gains),
        "same_step": percent([verdict.edited.decisive_step == verdict.untouched.decisive_step for _, verdict in rows]),
        "decoys": percent(decoys),
        "n_decoys": len(decoys),
        "auc": _measure_auc(verdicts),
        "chance": 100 * float(np.mean([1 / _count_open_steps(pair) for pair, _ in rows])),
        "by": {name: _score_parts(rows, key) for name, key in _PARTS.items()},
    }


_PARTS: Mapping[str, Callable[[LabelledPair], str]] = {
    "kind": lambda pair: pair.kind,
    "source": lambda pair: pair.source,
}


def _score_parts(
    rows: Sequence[tuple[LabelledPair, PairVerdicts]], key: Callable[[LabelledPair], str]
) -> dict[str, dict[str, float]]:
    parts: dict[str, dict[str, float]] = {}
    for name in sorted({key(pair) for pair, _ in rows}):
        part = [(pair, verdict) for pair, verdict in rows if key(pair) == name]
        gains = [gain for pair, verdict in part if (gain := _gain(pair, verdict)) is not None]
        parts[name] = {
            "n": len(part),
            "step": percent([verdict.edited.decisive_step == pair.step for pair, verdict in part]),
            "gain": float(np.mean(gains)) if gains else 0.0,
        }
    return parts


def _gain(pair: LabelledPair, verdict: PairVerdicts) -> float | None:
    """Compute what the edited step's share gains over the untouched run; None where that has no such step."""
    before = pair.untouched_step
    if before is None:
        return None
    return verdict.edited.steps[pair.step].score - verdict.untouched.steps[before].score


def _rank_steps(verdict: Attribution) -> list[int]:
    return [step.index for step in sorted(verdict.steps, key=lambda step: (-step.score, step.index)) if step.score > 0]


def _blames_agent(pair: LabelledPair, verdict: Attribution) -> bool:
    return bool(verdict.agents) and verdict.agents[0].agent == pair.edited.trace.steps[pair.step].agent


def _count_open_steps(pair: LabelledPair) -> int:
    trace = pair.edited.trace
    return max(sum(trace.can_be_blamed(step) for step in trace.steps), 1)


def _measure_auc(verdicts: Sequence[PairVerdicts]) -> float:
    """Compute how often an edited run has a higher failure score than a sound one; a tie counts half."""
    failed = np.array([verdict.edited.failure_score for verdict in verdicts])
    decoys = [verdict.decoy.failure_score for verdict in verdicts if verdict.decoy is not None]
    sound = np.sort([*(verdict.untouched.failure_score for verdict in verdicts), *decoys])
    below, up_to = np.searchsorted(sound, failed, "left"), np.searchsorted(sound, failed, "right")
    return float(np.mean((below + up_to) / 2) / len(sound))


def _mean_interval(values: Sequence[float], *, seed: int = 0) -> list[float]:
    """Bootstrap the 95 % interval of a mean."""
    if not values:
        return [0.0, 0.0]
    draws = np.random.default_rng(seed)
    rows = np.array(values)
    means = [float(rows[draws.integers(len(rows), size=len(rows))].mean()) for _ in range(2_000)]
    return [float(bound) for bound in np.percentile(means, [2.5, 97.5])]
