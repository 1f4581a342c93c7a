"""What the probes find in a corpus: accuracies against chance, over all and for what was held out of learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan_lab.corpus.probes.guesses import BLIND, RUN_PROBES, STEP_PROBES
from blamespan_lab.corpus.probes.surface import Seen
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import BOOTSTRAPS

__all__ = ["TOLERANCE", "Figures", "Report", "leaks", "probed"]

Floats: TypeAlias = NDArray[np.float64]

TOLERANCE = 2.0
"""Points above chance that count as chance: what no tracer could be built on."""

_RESAMPLED = 50
"""Resamplings at once: as many as memory bears."""

_ENOUGH = 60
"""Runs below which a part is shown and not judged: of many small parts, some stray by chance."""

_FEWEST = 20
"""Runs below which a part is not probed."""


class Figures(TypedDict):
    """What one probe found in one part of a corpus, in percent.

    `excess` is the 95 % interval of what it gains over chance, questions resampled; `goes_by` names the feature that
    was chosen on the learning side.
    """

    n: int
    accuracy: float
    chance: float
    excess: list[float]
    goes_by: str


Report: TypeAlias = dict[str, dict[str, dict[str, Figures]]]
"""By what is guessed (`step`, `run`), part (`all`, `family=...`, `topology=...`) and probe."""


def probed(runs: Sequence[Seen]) -> Report:
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
            f"{len(failures)} and {len(clean)}. Generate more: blamespan generate small"
        )
    report: Report = {"step": {}, "run": {}}
    for part, is_in in _parts(runs):
        report["step"][part] = _steps_of(part, failures, clean, is_in)
        report["run"][part] = _runs_of(part, failures, clean, is_in)
    return {what: {part: found for part, found in parts.items() if found} for what, parts in report.items()}


def leaks(report: Report) -> list[str]:
    """Say which probes that read no word do better than chance, surely and by more than `TOLERANCE` points.

    Steps are judged by every part of 60 runs or more; a run is not: how long it is says something of how it went.
    """
    found = []
    for part, probes in report["step"].items():
        for probe, figures in probes.items():
            if probe in BLIND and figures["n"] >= _ENOUGH and figures["excess"][0] > TOLERANCE:
                low, high = figures["excess"]
                goes_by = f" ({figures['goes_by']})" if figures["goes_by"] else ""
                found.append(f"{part}: {probe}{goes_by} is {low:.1f} to {high:.1f} points better than chance")
    return found


_Is: TypeAlias = Callable[[Seen], bool]


def _parts(runs: Sequence[Seen]) -> list[tuple[str, _Is]]:
    parts: list[tuple[str, _Is]] = [("all", lambda run: is_held_out(run.group, percent=50, seed=0))]
    parts += [(f"family={name}", _is_of("family", name)) for name in sorted({run.family for run in runs})]
    parts += [(f"topology={name}", _is_of("topology", name)) for name in sorted({run.topology for run in runs})]
    return parts


def _is_of(what: str, name: str) -> _Is:
    return lambda run: getattr(run, what) == name


def _sides(part: str, runs: Sequence[Seen], is_in: _Is) -> list[tuple[list[Seen], list[Seen]]]:
    """Part *runs* into those to learn from and those to ask about; `all` twice, the halves exchanged."""
    inside, outside = [run for run in runs if is_in(run)], [run for run in runs if not is_in(run)]
    return [(outside, inside), (inside, outside)] if part == "all" else [(outside, inside)]


def _steps_of(part: str, failures: Sequence[Seen], clean: Sequence[Seen], is_in: _Is) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    sides = _sides(part, failures, is_in)
    if min(len(side) for both in sides for side in both) < _FEWEST:
        return found
    asked = [run for _, each in sides for run in each]
    chances = np.array([1 / len(run.names) for run in asked])
    sound = [learnt for learnt, _ in _sides(part, clean, is_in)]
    for name, probe in STEP_PROBES.items():
        more = sound if name == "first anomaly" else [[] for _ in sides]
        guessed = [probe([*learnt, *extra], each) for (learnt, each), extra in zip(sides, more, strict=True)]
        found[name] = _figures(np.concatenate([hits for hits, _ in guessed]), chances, asked, _said(guessed))
    return found


def _runs_of(part: str, failures: Sequence[Seen], clean: Sequence[Seen], is_in: _Is) -> dict[str, Figures]:
    """Score runs so that failed and clean ones weigh the same: chance is 50 %."""
    found: dict[str, Figures] = {}
    sides = _sides(part, [*failures, *clean], is_in)
    if any(len({run.failed for run in side}) < 2 or len(side) < _FEWEST for both in sides for side in both):
        return found
    asked = [run for _, each in sides for run in each]
    failed = np.array([run.failed for run in asked])
    weights = np.where(failed, 0.5 / failed.mean(), 0.5 / (1 - failed.mean()))
    for name, probe in RUN_PROBES.items():
        guessed = [probe(learnt, each) for learnt, each in sides]
        hits = np.concatenate([each for each, _ in guessed]) * weights
        found[name] = _figures(hits, 0.5 * weights, asked, _said(guessed))
    return found


def _said(guessed: Sequence[tuple[Floats, str]]) -> str:
    return " / ".join(dict.fromkeys(goes_by for _, goes_by in guessed if goes_by))


def _figures(hits: Floats, chances: Floats, runs: Sequence[Seen], goes_by: str) -> Figures:
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
