"""Probes: how well the labels of a corpus can be guessed from what should tell nothing, and from words alone.

Each probe learns from some runs and guesses about others. A *step probe* scores every step that could be decisive, and
guesses the step with the highest score. A *run probe* guesses whether a run failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from blamespan.errors import UnreadableInput
from blamespan_lab.make.corpus.surface import RUN_SURFACE, SURFACE, ProbedRun
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import BOOTSTRAPS

Floats: TypeAlias = NDArray[np.float64]

TOLERANCE = 2.0
"""Points above chance that count as chance: what no tracer could be built on."""

BLIND = ("position", "single feature", "agent's name")
"""Probes that read nothing of what is said: by these nothing may be found out."""

_ENOUGH = 60
"""Runs below which a part is shown and not judged: of many small parts, some stray by chance."""

_FEWEST = 20
"""Runs below which a part is not probed."""

_WORDS = 1 << 17
"""Buckets that words and pairs of words are hashed into."""


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
        UnreadableInput: if there are too few failures to learn from.
    """
    failures = [run for run in runs if run.failed and run.decisive >= 0]
    sound = [run for run in runs if not run.failed]
    if min(len(failures), len(sound)) < _FEWEST:
        raise UnreadableInput(
            f"expected at least {_FEWEST} failed runs with a decisive step and {_FEWEST} that succeeded to probe, got "
            f"{len(failures)} and {len(sound)}. Generate more: blamespan lab generate small"
        )
    report: Report = {"step": {}, "run": {}}
    for part, is_in in _list_parts(runs).items():
        report["step"][part] = _probe_steps(_split(part, failures, is_in))
        report["run"][part] = _probe_runs(_split(part, [*failures, *sound], is_in))
    return {what: {part: figures for part, figures in parts.items() if figures} for what, parts in report.items()}


def find_leaks(report: Report) -> list[str]:
    """List which probes that read no word do better than chance, surely and by more than `TOLERANCE` points.

    Steps are judged by every part of 60 runs or more; a run is not: how long it is says something of how it went.
    """
    leaks = []
    for part, probes in report["step"].items():
        for probe in BLIND:
            figures = probes[probe]
            if figures["n"] >= _ENOUGH and figures["excess"][0] > TOLERANCE:
                low, high = figures["excess"]
                goes_by = f" ({figures['goes_by']})" if figures["goes_by"] else ""
                leaks.append(f"{part}: {probe}{goes_by} is {low:.1f} to {high:.1f} points better than chance")
    return leaks


_Predicate: TypeAlias = Callable[[ProbedRun], bool]
_Sides: TypeAlias = list[tuple[list[ProbedRun], list[ProbedRun]]]


def _list_parts(runs: Sequence[ProbedRun]) -> dict[str, _Predicate]:
    def having(what: str, name: str) -> _Predicate:
        return lambda run: getattr(run, what) == name

    names = {(what, getattr(run, what)) for run in runs for what in ("family", "topology")}
    parts: dict[str, _Predicate] = {"all": lambda run: is_held_out(run.group, percent=50, seed=0)}
    return parts | {f"{what}={name}": having(what, name) for what, name in sorted(names)}


def _split(part: str, runs: Sequence[ProbedRun], is_in: _Predicate) -> _Sides:
    """Split *runs* into those to learn from and those to ask about; `all` twice, the halves exchanged."""
    inside, outside = [run for run in runs if is_in(run)], [run for run in runs if not is_in(run)]
    return [(outside, inside), (inside, outside)] if part == "all" else [(outside, inside)]


def _probe_steps(sides: _Sides) -> dict[str, ProbeFigures]:
    if min(len(side) for both in sides for side in both) < _FEWEST:
        return {}
    asked = [run for _, side in sides for run in side]
    chances = np.array([1 / len(run.names) for run in asked])
    figures = {}
    for name, probe in _STEP_PROBES.items():
        answers = [probe(learnt, side) for learnt, side in sides]
        hits = [_hit_shares(scores, side) for (scores, _), (_, side) in zip(answers, sides, strict=True)]
        figures[name] = _measure(np.concatenate(hits), chances, asked, [goes_by for _, goes_by in answers])
    return figures


def _probe_runs(sides: _Sides) -> dict[str, ProbeFigures]:
    """Score runs so that failed and sound ones weigh the same: chance is 50 %."""
    if any(len({run.failed for run in side}) < 2 or len(side) < _FEWEST for both in sides for side in both):
        return {}
    asked = [run for _, side in sides for run in side]
    failed = np.array([run.failed for run in asked])
    weights = np.where(failed, 0.5 / failed.mean(), 0.5 / (1 - failed.mean()))
    figures = {}
    for name, probe in _RUN_PROBES.items():
        answers = [probe(learnt, side) for learnt, side in sides]
        hits = (np.concatenate([guesses for guesses, _ in answers]) == failed) * weights
        figures[name] = _measure(hits, 0.5 * weights, asked, [goes_by for _, goes_by in answers])
    return figures


def _measure(hits: Floats, chances: Floats, runs: Sequence[ProbedRun], goes_by: Sequence[str]) -> ProbeFigures:
    return {
        "n": len(runs),
        "accuracy": 100 * float(hits.mean()),
        "chance": 100 * float(chances.mean()),
        "excess": _interval(hits - chances, [run.group for run in runs]),
        "goes_by": " / ".join(dict.fromkeys(name for name in goes_by if name)),
    }


def _interval(excess: Floats, groups: Sequence[str]) -> list[float]:
    """Bootstrap the mean of *excess* in percent, resampling whole questions: their runs are alike."""
    rows = np.unique(np.array(groups, object), return_inverse=True)[1]
    sums, sizes = np.bincount(rows, weights=excess), np.bincount(rows)
    draws = np.random.default_rng(0)
    chosen = (draws.integers(len(sums), size=len(sums)) for _ in range(BOOTSTRAPS))
    means = [100 * sums[rows].sum() / sizes[rows].sum() for rows in chosen]
    return [float(end) for end in np.percentile(means, [2.5, 97.5])]


def _hit_shares(scores: Floats, runs: Sequence[ProbedRun]) -> Floats:
    """Return for each run the chance that its highest score is at its decisive step, ties drawn fairly."""
    ends = np.cumsum([len(run.names) for run in runs])
    shares = []
    for run, own in zip(runs, np.split(scores, ends[:-1]), strict=True):
        is_best = own >= own.max() - 1e-12
        shares.append(is_best[run.decisive] / is_best.sum())
    return np.array(shares)


_Guess: TypeAlias = tuple[Any, str]
"""Scores of all steps, or guesses about runs; and the one feature that was gone by, where there is one."""


def _fit_steps(model: Any, learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun], see: Callable[..., Any]) -> _Guess:
    """Fit *model*, a classifier, to which steps of runs are decisive, and score those of others."""
    is_decisive = np.concatenate([np.arange(len(run.names)) == run.decisive for run in learnt])
    return model.fit(see(learnt), is_decisive).decision_function(see(asked)), ""


def _classifier() -> LogisticRegression:
    return LogisticRegression(class_weight="balanced", max_iter=300)


def _score_by_position(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    model = make_pipeline(StandardScaler(), _classifier())
    return _fit_steps(model, learnt, asked, lambda runs: np.concatenate([run.position for run in runs]))


def _score_by_name(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), _classifier())
    return _fit_steps(model, learnt, asked, lambda runs: [[name] for run in runs for name in run.names])


def _score_by_words(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    model = make_pipeline(_make_bags(), _classifier())
    return _fit_steps(model, learnt, asked, lambda runs: [text for run in runs for text in run.texts])


def _score_by_single_feature(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    """Go by the feature that finds most decisive steps by its most or its least."""
    rows = np.concatenate([run.surface for run in learnt])
    ways = [(column, sign) for column in range(len(SURFACE)) for sign in (1.0, -1.0)]
    column, sign = max(ways, key=lambda way: _hit_shares(way[1] * rows[:, way[0]], learnt).mean())
    scores = sign * np.concatenate([run.surface for run in asked])[:, column]
    return scores, f"{'most' if sign > 0 else 'least'} {SURFACE[column]}"


def _guess_by_single_feature(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    stump = DecisionTreeClassifier(max_depth=1, class_weight="balanced", random_state=0)
    stump.fit([run.run_surface for run in learnt], [run.failed for run in learnt])
    column = int(stump.tree_.feature[0])
    return stump.predict([run.run_surface for run in asked]), RUN_SURFACE[column] if column >= 0 else ""


def _guess_by_words(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> _Guess:
    model = make_pipeline(_make_bags(), _classifier())
    model.fit(["\n".join(run.texts) for run in learnt], [run.failed for run in learnt])
    return model.predict(["\n".join(run.texts) for run in asked]), ""


def _make_bags() -> HashingVectorizer:
    """Make what reads a text as its words and pairs of words; a number is one word, for its digits are the task's."""
    return HashingVectorizer(
        n_features=_WORDS,
        ngram_range=(1, 2),
        binary=True,
        preprocessor=_hide_digits,
        tokenizer=re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[^\sa-z\d]").findall,
        token_pattern=None,
    )


def _hide_digits(text: str) -> str:
    return re.sub(r"\d+", "0", text.lower())


_Probe: TypeAlias = Callable[[Sequence[ProbedRun], Sequence[ProbedRun]], _Guess]

_STEP_PROBES: Mapping[str, _Probe] = {
    "position": _score_by_position,
    "single feature": _score_by_single_feature,
    "agent's name": _score_by_name,
    "bag of words": _score_by_words,
}
"""Which step was decisive."""

_RUN_PROBES: Mapping[str, _Probe] = {"single feature": _guess_by_single_feature, "bag of words": _guess_by_words}
"""Whether a run failed."""
