"""A step model that understands nothing: a logistic regression on plain features of steps.

It is the baseline any tracer must beat on Who&When: trained and tested on the same corpus by
cross-validation, it scores what position, role and surface give away.

Dims: T steps of a run, N steps of all runs, P plain features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace, Step

__all__ = ["PLAIN_FEATURES", "cross_validated_steps", "plain_features"]

Floats: TypeAlias = NDArray[np.float64]

_WORDS = re.compile(r"[^\W\d_]+")

_PATTERNS = {
    "code fence": r"```",
    "hedging": r"\b(?:assum\w*|likely|placeholder|simulat\w*|hypothetical|probably|perhaps|might)\b",
    "error": r"\b(?:error|exception|traceback|failed|exitcode: 1)\b",
    "question": r"\?\s*$",
    "terminates": r"\bTERMINATE\b",
    "apology": r"\b(?:sorry|apolog\w*|unfortunately|unable|cannot)\b",
    "verifies": r"\b(?:verif\w*|check\w*|confirm\w*|validat\w*)\b",
    "plan": r"\b(?:plan|steps?|first|next|then)\b",
    "conclusion": r"\b(?:therefore|thus|final|answer|conclusion|result)\b",
    "link": r"https?://",
    "json": r"^\s*\{",
    "list": r"^\s*(?:[-*]|\d+\.)\s",
}
_COMPILED = {name: re.compile(pattern, re.IGNORECASE | re.MULTILINE) for name, pattern in _PATTERNS.items()}

PLAIN_FEATURES = (
    *("can be blamed", "first step", "second step", "third step", "last step", "relative place", "log place"),
    *("first step of its agent", "last step of its agent", "share of steps", "speaker changes", "agents so far"),
    *("log length", "length against the run", "mean word length", "digits per character", "lines per character"),
    *("words of the task", "words of the step before", "words of the step after", "words of its own step before"),
    *_PATTERNS,
    *("step after is an execution", "step after has an error"),
)
"""What each column means."""

_PENALTY, _STEPS, _FOLDS = 1.0, 50, 5


def plain_features(trace: MessageActionTrace) -> Floats:
    """Compute the (T, P) plain features of a run's steps."""
    words = [set(_WORDS.findall(step.content.lower())) for step in trace.steps]
    task = set(_WORDS.findall(trace.task.lower()))
    lengths = np.log1p([len(step.content) for step in trace.steps])
    rows = []
    for step in trace.steps:
        where = _position(trace, step)
        size = len(step.content) or 1
        found = [bool(pattern.search(step.content)) for pattern in _COMPILED.values()]
        letters = sum(len(word) for word in words[step.index]) / (len(words[step.index]) or 1)
        rows.append(
            [
                trace.can_be_blamed(step),
                *where,
                lengths[step.index],
                lengths[step.index] - lengths.mean(),
                letters,
                sum(char.isdigit() for char in step.content) / size,
                step.content.count("\n") / size,
                _overlap(words[step.index], task),
                *_neighbours(trace, step, words),
                *found,
                *_aftermath(trace, step),
            ]
        )
    return np.array(rows, dtype=np.float64)


def cross_validated_steps(traces: Sequence[MessageActionTrace], decisive: Sequence[int | None]) -> list[int]:
    """Predict the decisive step of every run by models that never saw the run's task.

    Args:
        traces: The runs.
        decisive: The labelled step of each; None where there is no label, and nothing to learn.

    Returns:
        The step with the highest score, per run.
    """
    features = [plain_features(trace) for trace in traces]
    tasks = {task: place for place, task in enumerate(dict.fromkeys(trace.task for trace in traces))}
    shuffled = np.random.default_rng(0).permutation(len(tasks))
    fold = [int(shuffled[tasks[trace.task]]) % _FOLDS for trace in traces]
    answers = [0] * len(traces)
    for one in range(_FOLDS):
        taught = [row for row in range(len(traces)) if fold[row] != one and decisive[row] is not None]
        asked = [row for row in range(len(traces)) if fold[row] == one]
        if not taught or not asked:
            continue
        model = _fit(np.concatenate([features[row] for row in taught]), _targets(features, decisive, taught))
        for row in asked:
            answers[row] = int(_score(model, features[row]).argmax())
    return answers


def _targets(features: Sequence[Floats], decisive: Sequence[int | None], rows: Sequence[int]) -> Floats:
    return np.concatenate([np.arange(len(features[row])) == decisive[row] for row in rows]).astype(np.float64)


def _fit(design: Floats, target: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit an L2-penalised logistic regression on standardised columns by Newton's method."""
    mean, spread = design.mean(axis=0), design.std(axis=0) + 1e-9
    columns = np.column_stack([(design - mean) / spread, np.ones(len(design))])
    weights = np.zeros(columns.shape[1])
    penalty = np.diag([*[_PENALTY] * design.shape[1], 1e-6])  # the bias goes free
    for _ in range(_STEPS):
        probability = 0.5 * (1 + np.tanh(0.5 * columns @ weights))
        slope = columns.T @ (probability - target) + penalty @ weights
        curve = (columns * (probability * (1 - probability))[:, None]).T @ columns + penalty
        move = np.linalg.solve(curve, slope)
        weights = weights - move
        if np.abs(move).max() < 1e-8:
            break
    return mean, spread, weights


def _score(model: tuple[Floats, Floats, Floats], design: Floats) -> Floats:
    mean, spread, weights = model
    scores: Floats = (design - mean) / spread @ weights[:-1] + weights[-1]
    return scores


def _position(trace: MessageActionTrace, step: Step) -> list[float]:
    own = [other.index for other in trace.steps if other.agent == step.agent]
    last = len(trace.steps) - 1
    return [
        step.index == 0,
        step.index == 1,
        step.index == 2,
        step.index == last,
        step.index / max(last, 1),
        np.log1p(step.index),
        step.index == own[0],
        step.index == own[-1],
        len(own) / len(trace.steps),
        step.index > 0 and trace.steps[step.index - 1].agent != step.agent,
        np.log1p(len({other.agent for other in trace.steps[: step.index + 1]})),
    ]


def _neighbours(trace: MessageActionTrace, step: Step, words: Sequence[set[str]]) -> list[float]:
    own = [other.index for other in trace.steps[: step.index] if other.agent == step.agent]
    before = words[step.index - 1] if step.index else set[str]()
    after = words[step.index + 1] if step.index + 1 < len(words) else set[str]()
    mine = words[step.index]
    return [_overlap(mine, before), _overlap(mine, after), _overlap(mine, words[own[-1]] if own else set())]


def _aftermath(trace: MessageActionTrace, step: Step) -> list[bool]:
    if step.index + 1 == len(trace.steps):
        return [False, False]
    after = trace.steps[step.index + 1]
    return [after.kind == "tool_result", bool(_COMPILED["error"].search(after.content))]


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0
