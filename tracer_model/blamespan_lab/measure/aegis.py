"""Measure a tracer on AEGIS's labelled pairs, beside baselines that read little: `blamespan lab evaluate aegis`.

The plain baseline of the field is among them: TF-IDF of words and word pairs, one linear classifier per mode. Every
agent is one document; nothing of its seat, its steps or the other agents is known to it.

Dims: N agents, V features, M modes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS, ErrorMode, canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.agent_names import labelled_pairs
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import f1, micro_interval
from blamespan_lab.train.lexical import fit
from blamespan_tracer.numeric import sigmoid
from blamespan_tracer.tokens import joint_hash, token_hashes

Pair: TypeAlias = tuple[str, str]
PairAnswer: TypeAlias = Set[Pair]
Floats: TypeAlias = NDArray[np.float32]


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
    """Score an answer that reads no word. The commonest mode is that of these very labels: a generous choice."""
    mode = Counter(code for names in labels for _, code in sorted(names)).most_common(1)[0][0]
    agents = [_blamable(run.trace) for run in runs]
    return {"every_agent_commonest_mode": figures(labels, [{(agent, mode) for agent in names} for names in agents])}


def _blamable(trace: MessageActionTrace) -> list[str]:
    return list(dict.fromkeys(step.agent for step in trace.steps if trace.can_be_blamed(step)))


_CODES = tuple(AEGIS)
_MIN_AGENTS, _PENALTY, _ITERATIONS, _HELD_OUT_PERCENT = 3, 0.3, 40, 15
_GRID = np.round(np.arange(0.05, 0.30, 0.01), 2)


@dataclass(frozen=True, slots=True)
class _Documents:
    """The agents of many runs: whose run and name, the texts of each, labels."""

    runs: int
    run: list[int]
    agents: list[str]
    texts: list[list[str]]
    labels: Floats  # (N, M)


def tfidf_answers(training: Sequence[RecordedRun], runs: Sequence[RecordedRun]) -> list[frozenset[Pair]]:
    """Train on *training*, answer *runs*: of every agent its likeliest mode, from a probability on.

    The threshold comes from held-out questions of *training*.
    """
    is_out = [is_held_out(run.trace.task, percent=_HELD_OUT_PERCENT, seed=0) for run in training]
    fitted = [run for run, out in zip(training, is_out, strict=True) if not out]
    held_out = [run for run, out in zip(training, is_out, strict=True) if out]
    documents = _documents(held_out)
    probabilities = _predict(_documents(fitted), documents)
    labels = [labelled_pairs(run) for run in held_out]
    threshold = max(
        (float(threshold) for threshold in _GRID),
        key=lambda threshold: f1(labels, _answers(documents, probabilities, threshold)).micro_f1,
    )
    documents = _documents(runs)
    return _answers(documents, _predict(_documents(training), documents), threshold)


def _documents(runs: Sequence[RecordedRun]) -> _Documents:
    documents = _Documents(len(runs), [], [], [], np.zeros((0, len(_CODES)), dtype=np.float32))
    labels: list[list[bool]] = []
    for number, run in enumerate(runs):
        pairs = labelled_pairs(run)
        texts: dict[str, list[str]] = {}
        for step in run.trace.steps:
            if run.trace.can_be_blamed(step):
                texts.setdefault(step.agent, []).append(step.content)
        for agent, parts in texts.items():
            documents.run.append(number)
            documents.agents.append(agent)
            documents.texts.append(parts)
            labels.append([(agent, code) in pairs for code in _CODES])
    return replace(documents, labels=np.array(labels, dtype=np.float32).reshape(-1, len(_CODES)))


def _features(texts: Sequence[str]) -> list[int]:
    """List the words and word pairs of an agent's steps, hashed."""
    parts = [token_hashes(text) for text in texts]
    pairs = [joint_hash(words[:-1], words[1:], 2) for words in parts]
    return [int(feature) for part in (*parts, *pairs) for feature in part]


def _predict(training: _Documents, asked: _Documents) -> Floats:
    """Fit on one set of documents, give the other's (N, M) probabilities."""
    vectors = TfidfVectorizer(analyzer=_features, min_df=_MIN_AGENTS, sublinear_tf=True, dtype=np.float32)
    rows = csr_array(vectors.fit_transform(training.texts))
    weights, bias = fit(rows, training.labels, penalty=_PENALTY, iterations=_ITERATIONS)
    return sigmoid(vectors.transform(asked.texts) @ weights + bias)


def _answers(documents: _Documents, probabilities: Floats, threshold: float) -> list[frozenset[Pair]]:
    answers: list[set[Pair]] = [set() for _ in range(documents.runs)]
    for run, agent, row in zip(documents.run, documents.agents, probabilities, strict=True):
        if row.max() >= threshold:
            answers[run].add((agent, _CODES[int(row.argmax())]))
    return [frozenset(answer) for answer in answers]
