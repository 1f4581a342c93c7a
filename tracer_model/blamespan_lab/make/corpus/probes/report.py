"""What the probes find in a corpus: accuracies against chance, over all and for what was held out of learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan_lab.make.corpus.probes.guesses import BLIND, RUN_PROBES, STEP_PROBES
from blamespan_lab.make.corpus.probes.surface import ProbedRun
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import BOOTSTRAPS

__all__ = ["TOLERANCE", "ProbeFigures", "Report", "find_leaks", "run_probes"]

Floats: TypeAlias = NDArray[np.float64]

TOLERANCE = 2.0
"""Points above chance that count as chance: what no tracer could be built on."""

_RESAMPLED = 50
"""Resamplings at once: as many as memory bears."""

_ENOUGH = 60
"""Runs below which a part is shown and not judged: of many small parts, some stray by chance."""

_FEWEST = 20
"""Runs below which a part is not probed."""


class ProbeFigures(TypedDict):
    """What one probe found in one part of a corpus, in percent.

    `excess` is the 95 % interval of what it gains over chance, questions resampled; `goes_by` names the feature that
    was chosen on the learning side.
    """

    n: int
    accuracy: float
    chance: float
    excess: list[float]
    goes_by: str


Report: TypeAlias = dict[str, dict[str, dict[str, ProbeFigures]]]
"""By what is guessed (`step`, `run`), part (`all`, `family=...`, `topology=...`) and probe."""


def run_probes(runs: Sequence[ProbedRun]) -> Report:
    """Try every probe on *runs*.

    The part `all` is guessed in two halves by question, each by what the other taught. A family or topology is guessed
    by what all others taught.

    Raises:
        ConfigError: if there are too few failures to learn from.
    """
    failures = [run for run in runs if run.failed and run.decisive >= 0]
    clean = [run for run in runs if not run.failed]
    if min(len(failures), len(clean)) < _FEWEST:
        raise ConfigError(
            f"expected at least {_FEWEST} failed runs with a decisive step and {_FEWEST} that succeeded to probe, got "
            f"{len(failures)} and {len(clean)}. Generate more: blamespan lab generate small"
        )
    report: Report = {"step": {}, "run": {}}
    for part, is_in in _parts(runs):
        report["step"][part] = _probe_steps(part, failures, clean, is_in)
        report["run"][part] = _probe_runs(part, failures, clean, is_in)
    return {what: {part: figures for part, figures in parts.items() if figures} for what, parts in report.items()}


def find_leaks(report: Report) -> list[str]:
    """List which probes that read no word do better than chance, surely and by more than `TOLERANCE` points.

    Steps are judged by every part of 60 runs or more; a run is not: how long it is says something of how it went.
    """
    leaks = []
    for part, probes in report["step"].items():
        for probe, figures in probes.items():
            if probe in BLIND and figures["n"] >= _ENOUGH and figures["excess"][0] > TOLERANCE:
                low, high = figures["excess"]
                goes_by = f" ({figures['goes_by']})" if figures["goes_by"] else ""
                leaks.append(f"{part}: {probe}{goes_by} is {low:.1f} to {high:.1f} points better than chance")
    return leaks


_Predicate: TypeAlias = Callable[[ProbedRun], bool]


def _parts(runs: Sequence[ProbedRun]) -> list[tuple[str, _Predicate]]:
    parts: list[tuple[str, _Predicate]] = [("all", lambda run: is_held_out(run.group, percent=50, seed=0))]
    parts += [(f"family={name}", _make_predicate("family", name)) for name in sorted({run.family for run in runs})]
    parts += [
        (f"topology={name}", _make_predicate("topology", name)) for name in sorted({run.topology for run in runs})
    ]
    return parts


def _make_predicate(what: str, name: str) -> _Predicate:
    return lambda run: getattr(run, what) == name


def _sides(part: str, runs: Sequence[ProbedRun], is_in: _Predicate) -> list[tuple[list[ProbedRun], list[ProbedRun]]]:
    """Part *runs* into those to learn from and those to ask about; `all` twice, the halves exchanged."""
    inside, outside = [run for run in runs if is_in(run)], [run for run in runs if not is_in(run)]
    return [(outside, inside), (inside, outside)] if part == "all" else [(outside, inside)]


def _probe_steps(
    part: str, failures: Sequence[ProbedRun], clean: Sequence[ProbedRun], is_in: _Predicate
) -> dict[str, ProbeFigures]:
    figures: dict[str, ProbeFigures] = {}
    sides = _sides(part, failures, is_in)
    if min(len(side) for both in sides for side in both) < _FEWEST:
        return figures
    asked = [run for _, asked_side in sides for run in asked_side]
    chances = np.array([1 / len(run.names) for run in asked])
    sound = [learnt for learnt, _ in _sides(part, clean, is_in)]
    for name, probe in STEP_PROBES.items():
        more = sound if name == "first anomaly" else [[] for _ in sides]
        guessed = [
            probe([*learnt, *extra], asked_side) for (learnt, asked_side), extra in zip(sides, more, strict=True)
        ]
        figures[name] = _measure(np.concatenate([hits for hits, _ in guessed]), chances, asked, _join_features(guessed))
    return figures


def _probe_runs(
    part: str, failures: Sequence[ProbedRun], clean: Sequence[ProbedRun], is_in: _Predicate
) -> dict[str, ProbeFigures]:
    """Score runs so that failed and clean ones weigh the same: chance is 50 %."""
    figures: dict[str, ProbeFigures] = {}
    sides = _sides(part, [*failures, *clean], is_in)
    if any(len({run.failed for run in side}) < 2 or len(side) < _FEWEST for both in sides for side in both):
        return figures
    asked = [run for _, asked_side in sides for run in asked_side]
    failed = np.array([run.failed for run in asked])
    weights = np.where(failed, 0.5 / failed.mean(), 0.5 / (1 - failed.mean()))
    for name, probe in RUN_PROBES.items():
        guessed = [probe(learnt, asked_side) for learnt, asked_side in sides]
        hits = np.concatenate([shares for shares, _ in guessed]) * weights
        figures[name] = _measure(hits, 0.5 * weights, asked, _join_features(guessed))
    return figures


def _join_features(guessed: Sequence[tuple[Floats, str]]) -> str:
    return " / ".join(dict.fromkeys(goes_by for _, goes_by in guessed if goes_by))


def _measure(hits: Floats, chances: Floats, runs: Sequence[ProbedRun], goes_by: str) -> ProbeFigures:
    low, high = _interval(hits - chances, [run.group for run in runs])
    return {
        "n": len(runs),
        "accuracy": 100 * float(hits.mean()),
        "chance": 100 * float(chances.mean()),
        "excess": [low, high],
        "goes_by": goes_by,
    }


def _interval(excess: Floats, groups: Sequence[str]) -> tuple[float, float]:
    """Bootstrap the mean of *excess* in percent, resampling whole questions: their runs are alike."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    rows = np.array([numbers[group] for group in groups])
    sums, sizes = np.bincount(rows, weights=excess), np.bincount(rows)
    generator = np.random.default_rng(0)
    means = []
    for _ in range(BOOTSTRAPS // _RESAMPLED):
        drawn = generator.integers(len(sums), size=(_RESAMPLED, len(sums)))
        means.append(100 * sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)
