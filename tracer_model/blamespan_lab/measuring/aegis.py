"""Measure a tracer on AEGIS's labelled pairs, beside baselines that read little or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict
from typing import TypeAlias, TypedDict

import numpy as np

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS, ErrorMode, canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.measuring.metrics import f1, micro_interval
from blamespan_tracer.labels import labelled_pairs

__all__ = ["AegisFigures", "Figures", "evaluate_aegis", "figures"]

Pair: TypeAlias = tuple[str, str]
Answer: TypeAlias = Set[Pair]

_RANDOM_DRAWS = 20
"""Random answers are scored this often and averaged."""


class Scores(TypedDict):
    """Percent."""

    micro_f1: float
    macro_f1: float


class Figures(TypedDict):
    """One answer to every run, scored three ways: the pair, its agent alone, its mode alone."""

    pair: Scores
    agent: Scores
    mode: Scores


class AegisFigures(Figures):
    """What `evaluate aegis` prints; see `evaluate_aegis`."""

    n: int
    pair_ci: list[float]
    exact_names: Figures
    unseen_questions: dict[str, object] | None
    baselines: dict[str, Figures]
    abstained: int
    tracer: dict[str, str]


def evaluate_aegis(
    runs: Sequence[RecordedRun],
    verdicts: Sequence[Attribution],
    *,
    tracer: TracerIdentity,
    is_seen: Sequence[bool] | None = None,
    more: dict[str, list[Answer]] | None = None,
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
    baselines = {**_baselines(runs, labels), **{name: figures(labels, each) for name, each in (more or {}).items()}}
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


def figures(labels: Sequence[Answer], answers: Sequence[Answer]) -> Figures:
    """Score pairs, their agents and their modes."""
    sides = (labels, answers)
    agents = [[{agent for agent, _ in each} for each in side] for side in sides]
    modes = [[{mode for _, mode in each} for each in side] for side in sides]
    return {"pair": _scores(*sides), "agent": _scores(*agents), "mode": _scores(*modes)}


def _scores(labels: Sequence[Set[object]], answers: Sequence[Set[object]]) -> Scores:
    scored = f1(labels, answers)
    return {"micro_f1": scored.micro_f1, "macro_f1": scored.macro_f1}


def _answer(verdict: Attribution) -> frozenset[Pair]:
    return frozenset((blame.agent, code) for blame in verdict.modes for code in _codes(blame.mode))


def _codes(mode: ErrorMode) -> list[str]:
    """List the AEGIS codes that a mode stands for; its own name, which no label has, where there is none."""
    if mode.taxonomy == "aegis":
        return [mode.code]
    return [code for code, known in AEGIS.items() if canonical(known)[0] == mode] or [str(mode)]


def _unseen(labels: Sequence[Answer], answers: Sequence[Answer], is_seen: Sequence[bool]) -> dict[str, object]:
    kept = [row for row, seen in enumerate(is_seen) if not seen]
    there, given = [labels[row] for row in kept], [answers[row] for row in kept]
    return {"n": len(kept), **figures(there, given), "pair_ci": list(micro_interval(there, given))}


def _baselines(runs: Sequence[RecordedRun], labels: Sequence[Answer]) -> dict[str, Figures]:
    """Score answers that read no word. The commonest mode is that of these very labels: a generous choice."""
    mode = Counter(code for each in labels for _, code in sorted(each)).most_common(1)[0][0]
    agents = [_blamable(run.trace) for run in runs]
    return {
        "random": _random(agents, labels),
        "every_agent_commonest_mode": figures(labels, [{(agent, mode) for agent in each} for each in agents]),
        "first_agent_commonest_mode": figures(labels, [{(agent, mode) for agent in each[:1]} for each in agents]),
        "every_agent_every_mode": figures(
            labels, [{(agent, code) for agent in each for code in AEGIS} for each in agents]
        ),
    }


def _random(agents: Sequence[Sequence[str]], labels: Sequence[Answer]) -> Figures:
    """Average over draws of one agent and one mode per run."""
    drawn = [figures(labels, list(each)) for each in _draws(agents)]

    def mean(part: str) -> Scores:
        rows = [scored[part] for scored in drawn]  # type: ignore[literal-required]  # one of Figures' three keys
        return {
            "micro_f1": float(np.mean([row["micro_f1"] for row in rows])),
            "macro_f1": float(np.mean([row["macro_f1"] for row in rows])),
        }

    return {"pair": mean("pair"), "agent": mean("agent"), "mode": mean("mode")}


def _draws(agents: Sequence[Sequence[str]]) -> Iterator[list[Answer]]:
    generator = np.random.default_rng(0)
    codes = list(AEGIS)
    for _ in range(_RANDOM_DRAWS):
        yield [
            {(each[int(generator.integers(len(each)))], codes[int(generator.integers(len(codes)))])} if each else set()
            for each in agents
        ]


def _blamable(trace: MessageActionTrace) -> list[str]:
    return list(dict.fromkeys(step.agent for step in trace.steps if trace.can_be_blamed(step)))
