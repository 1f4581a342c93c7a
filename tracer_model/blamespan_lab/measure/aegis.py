"""Measure a tracer on AEGIS's labelled pairs, beside baselines that read little: `blamespan lab evaluate aegis`.

The plain baseline of the field is among them: TF-IDF of words and word pairs, one linear classifier per mode. Every
agent is one document; nothing of its seat, its steps or the other agents is known to it.

Dims: N agents, V features, M modes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS, ErrorMode, canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.agent_names import labelled_pairs
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import f1, micro_interval
from blamespan_lab.train.lexical import fit, stack_rows
from blamespan_tracer.numeric import sigmoid
from blamespan_tracer.tokens import Hashes, joint_hash, token_hashes

Pair: TypeAlias = tuple[str, str]
PairAnswer: TypeAlias = Set[Pair]

_RANDOM_DRAWS = 20
"""Random answers are scored this often and averaged."""


class F1Scores(TypedDict):
    """Percent."""

    micro_f1: float
    macro_f1: float


class AnswerFigures(TypedDict):
    """One answer to every run, scored three ways: the pair, its agent alone, its mode alone."""

    pair: F1Scores
    agent: F1Scores
    mode: F1Scores


class AegisFigures(AnswerFigures):
    """What `evaluate aegis` prints; see `evaluate_aegis`."""

    n: int
    pair_ci: list[float]
    exact_names: AnswerFigures
    unseen_questions: dict[str, object] | None
    baselines: dict[str, AnswerFigures]
    abstained: int
    tracer: dict[str, str]


def evaluate_aegis(
    runs: Sequence[RecordedRun],
    verdicts: Sequence[Attribution],
    *,
    tracer: TracerIdentity,
    is_seen: Sequence[bool] | None = None,
    more: dict[str, list[PairAnswer]] | None = None,
) -> AegisFigures:
    """Score *verdicts* on *runs* by the pairs they report.

    The answer to a run is the set of (agent, mode) of its `modes`; an abstention answers nothing. A mode of another
    taxonomy answers every AEGIS code that maps to it; one that none maps to counts for its agent alone. The
    labelled agent is spelled as the trace spells it where `labels.resolve` can tell; a labelled agent
    that never speaks can only be missed. `exact_names` compares the labels as they stand.

    Args:
        runs: With labels.
        verdicts: One per run.
        tracer: Who gave them.
        is_seen: Whether the run's question was trained on, where that is known.
        more: Answers of further baselines, by name.
    """
    labels = [labelled_pairs(run) for run in runs]
    answers = [_answer(verdict) for verdict in verdicts]
    baselines = {
        **_baselines(runs, labels),
        **{name: figures(labels, answers_to_runs) for name, answers_to_runs in (more or {}).items()},
    }
    low, high = micro_interval(labels, answers)
    return {
        "n": len(runs),
        **figures(labels, answers),
        "pair_ci": [low, high],
        "exact_names": figures([labelled_pairs(run, fold=False) for run in runs], answers),
        "unseen_questions": None if is_seen is None else _unseen(labels, answers, is_seen),
        "baselines": baselines,
        "abstained": sum(verdict.abstained is not None for verdict in verdicts),
        "tracer": asdict(tracer),
    }


def figures(labels: Sequence[PairAnswer], answers: Sequence[PairAnswer]) -> AnswerFigures:
    """Score pairs, their agents and their modes."""
    sides = (labels, answers)
    agents = [[{agent for agent, _ in pairs} for pairs in side] for side in sides]
    modes = [[{mode for _, mode in pairs} for pairs in side] for side in sides]
    return {"pair": _scores(*sides), "agent": _scores(*agents), "mode": _scores(*modes)}


def _scores(labels: Sequence[Set[object]], answers: Sequence[Set[object]]) -> F1Scores:
    scored = f1(labels, answers)
    return {"micro_f1": scored.micro_f1, "macro_f1": scored.macro_f1}


def _answer(verdict: Attribution) -> frozenset[Pair]:
    return frozenset((blame.agent, code) for blame in verdict.modes for code in _codes(blame.mode))


def _codes(mode: ErrorMode) -> list[str]:
    """List the AEGIS codes that a mode stands for; its own name, which no label has, where there is none."""
    if mode.taxonomy == "aegis":
        return [mode.code]
    return [code for code, mode_of_code in AEGIS.items() if canonical(mode_of_code)[0] == mode] or [str(mode)]


def _unseen(labels: Sequence[PairAnswer], answers: Sequence[PairAnswer], is_seen: Sequence[bool]) -> dict[str, object]:
    rows = [row for row, was_seen in enumerate(is_seen) if not was_seen]
    unseen_labels, unseen_answers = [labels[row] for row in rows], [answers[row] for row in rows]
    return {
        "n": len(rows),
        **figures(unseen_labels, unseen_answers),
        "pair_ci": list(micro_interval(unseen_labels, unseen_answers)),
    }


def _baselines(runs: Sequence[RecordedRun], labels: Sequence[PairAnswer]) -> dict[str, AnswerFigures]:
    """Score answers that read no word. The commonest mode is that of these very labels: a generous choice."""
    mode = Counter(code for names in labels for _, code in sorted(names)).most_common(1)[0][0]
    agents = [_blamable(run.trace) for run in runs]
    return {
        "random": _score_random(agents, labels),
        "every_agent_commonest_mode": figures(labels, [{(agent, mode) for agent in names} for names in agents]),
        "first_agent_commonest_mode": figures(labels, [{(agent, mode) for agent in names[:1]} for names in agents]),
        "every_agent_every_mode": figures(
            labels, [{(agent, code) for agent in names for code in AEGIS} for names in agents]
        ),
    }


def _score_random(agents: Sequence[Sequence[str]], labels: Sequence[PairAnswer]) -> AnswerFigures:
    """Average over draws of one agent and one mode per run."""
    draws = [figures(labels, list(draw)) for draw in _draw_answers(agents)]

    def mean(part: str) -> F1Scores:
        rows = [scored[part] for scored in draws]  # type: ignore[literal-required]  # one of Figures' three keys
        return {
            "micro_f1": float(np.mean([row["micro_f1"] for row in rows])),
            "macro_f1": float(np.mean([row["macro_f1"] for row in rows])),
        }

    return {"pair": mean("pair"), "agent": mean("agent"), "mode": mean("mode")}


def _draw_answers(agents: Sequence[Sequence[str]]) -> Iterator[list[PairAnswer]]:
    generator = np.random.default_rng(0)
    codes = list(AEGIS)
    for _ in range(_RANDOM_DRAWS):
        yield [
            {(names[int(generator.integers(len(names)))], codes[int(generator.integers(len(codes)))])}
            if names
            else set()
            for names in agents
        ]


def _blamable(trace: MessageActionTrace) -> list[str]:
    return list(dict.fromkeys(step.agent for step in trace.steps if trace.can_be_blamed(step)))


_CODES = tuple(AEGIS)
_MIN_AGENTS, _PENALTY, _ITERATIONS, _HELD_OUT_PERCENT = 3, 0.3, 40, 15
_GRID = np.round(np.arange(0.05, 0.30, 0.01), 2)

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Documents:
    """The agents of many runs: whose run and name, feature counts, labels."""

    runs: int
    run: list[int]
    agents: list[str]
    counts: list[tuple[Hashes, Floats]]
    labels: Floats  # (N, M)


def tfidf_answers(training: Sequence[RecordedRun], runs: Sequence[RecordedRun]) -> list[frozenset[Pair]]:
    """Train on *training*, answer *runs*: of every agent its likeliest mode, from a probability on.

    The threshold comes from held-out questions of *training*.
    """
    is_out = [is_held_out(run.trace.task, percent=_HELD_OUT_PERCENT, seed=0) for run in training]
    fitted = [run for run, out in zip(training, is_out, strict=True) if not out]
    held_out = [run for run, out in zip(training, is_out, strict=True) if out]
    probabilities, documents = _predict(_documents(fitted), _documents(held_out)), _documents(held_out)
    labels = [labelled_pairs(run) for run in held_out]
    threshold = max(
        (float(threshold) for threshold in _GRID),
        key=lambda threshold: f1(labels, _answers(documents, probabilities, threshold)).micro_f1,
    )
    documents = _documents(runs)
    return _answers(documents, _predict(_documents(training), documents), threshold)


def _documents(runs: Iterable[RecordedRun]) -> _Documents:
    run_of, agents, weights_of, labels = [], [], [], []
    n_runs = 0
    for number, run in enumerate(runs):
        n_runs += 1
        pairs = labelled_pairs(run)
        texts: dict[str, list[Hashes]] = {}
        for step in run.trace.steps:
            if run.trace.can_be_blamed(step):
                texts.setdefault(step.agent, []).append(_features(step.content))
        for agent, parts in texts.items():
            features, counts_of = np.unique(np.concatenate(parts), return_counts=True)
            run_of.append(number)
            agents.append(agent)
            weights_of.append((features, (1 + np.log(counts_of)).astype(np.float32)))
            labels.append([(agent, code) in pairs for code in _CODES])
    return _Documents(n_runs, run_of, agents, weights_of, np.array(labels, dtype=np.float32).reshape(-1, len(_CODES)))


def _features(text: str) -> Hashes:
    words = token_hashes(text)
    return np.concatenate([joint_hash(words, np.zeros_like(words), 1), joint_hash(words[:-1], words[1:], 2)])


def _predict(training: _Documents, asked: _Documents) -> Floats:
    """Fit on one set of documents, give the other's (N, M) probabilities."""
    keys, n_agents = np.unique(np.concatenate([features for features, _ in training.counts]), return_counts=True)
    keys, n_agents = keys[n_agents >= _MIN_AGENTS], n_agents[n_agents >= _MIN_AGENTS]
    idf = (np.log((1 + len(training.counts)) / (1 + n_agents)) + 1).astype(np.float32)

    def rows(documents: _Documents) -> Any:
        return stack_rows([_weigh(features, counts, keys, idf) for features, counts in documents.counts], len(keys))

    weights, bias = fit(rows(training), training.labels, penalty=_PENALTY, iterations=_ITERATIONS)
    return sigmoid(rows(asked) @ weights + bias)


def _weigh(hashes: Hashes, counts: Floats, keys: Hashes, idf: Floats) -> tuple[NDArray[np.int64], Floats]:
    rows = np.searchsorted(keys, hashes).clip(max=len(keys) - 1)
    is_known = keys[rows] == hashes
    values = counts[is_known] * idf[rows[is_known]]
    return rows[is_known], (values / max(float(np.linalg.norm(values)), 1e-9)).astype(np.float32)


def _answers(documents: _Documents, probabilities: Floats, threshold: float) -> list[frozenset[Pair]]:
    answers: list[set[Pair]] = [set() for _ in range(documents.runs)]
    for run, agent, row in zip(documents.run, documents.agents, probabilities, strict=True):
        if row.max() >= threshold:
            answers[run].add((agent, _CODES[int(row.argmax())]))
    return [frozenset(answer) for answer in answers]
