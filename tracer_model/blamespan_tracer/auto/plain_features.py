"""Plain features of steps, which understand nothing: place, speaker, size, a few words, and what goes on from step to
step.

Dims: T steps of a run, P plain features.
"""

from __future__ import annotations

import re
from collections import Counter
from string import digits

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.continuity import CONTINUITY_FEATURES, continuity_features

Floats = NDArray[np.float64]

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
    *CONTINUITY_FEATURES,
)
"""What each column means."""

_MAX_CHARS = 20_000
"""Of a longer text the first and last half of this many characters are read."""


def plain_features(trace: MessageActionTrace) -> Floats:
    """Compute the (T, P) plain features of a run's steps, in time that grows with its length."""
    steps, texts = trace.steps, [_ends(step.content) for step in trace.steps]
    words = [set(_WORDS.findall(text.lower())) for text in texts]
    task = set(_WORDS.findall(_ends(trace.task).lower()))
    lengths = np.log1p([len(step.content) for step in steps])
    mean_length = lengths.mean() if len(steps) else 0.0
    counts = Counter(step.agent for step in steps)
    last_of = {step.agent: step.index for step in steps}
    latest: dict[str, int] = {}
    last = len(steps) - 1
    rows = []
    for step, text in zip(steps, texts, strict=True):
        index, mine = step.index, words[step.index]
        own_before = latest.get(step.agent)
        latest[step.agent] = index
        size = len(text) or 1
        rows.append(
            [
                trace.can_be_blamed(step),
                index == 0,
                index == 1,
                index == 2,
                index == last,
                index / max(last, 1),
                np.log1p(index),
                own_before is None,
                index == last_of[step.agent],
                counts[step.agent] / len(steps),
                index > 0 and steps[index - 1].agent != step.agent,
                np.log1p(len(latest)),
                lengths[index],
                lengths[index] - mean_length,
                sum(map(len, mine)) / (len(mine) or 1),
                _count_digits(text) / size,
                text.count("\n") / size,
                _overlap(mine, task),
                _overlap(mine, words[index - 1] if index else set()),
                _overlap(mine, words[index + 1] if index < last else set()),
                _overlap(mine, words[own_before] if own_before is not None else set()),
                *(bool(pattern.search(text)) for pattern in _COMPILED.values()),
                index < last and steps[index + 1].kind == "tool_result",
                index < last and bool(_COMPILED["error"].search(texts[index + 1])),
            ]
        )
    own = np.array(rows, np.float64).reshape(len(rows), len(PLAIN_FEATURES) - len(CONTINUITY_FEATURES))
    return np.concatenate([own, continuity_features(trace)], axis=1)


def _ends(text: str) -> str:
    half = _MAX_CHARS // 2
    return text if len(text) <= _MAX_CHARS else f"{text[:half]}\n{text[-half:]}"


def _count_digits(text: str) -> int:
    return sum(map(text.count, digits)) if text.isascii() else sum(map(str.isdigit, text))


def _overlap(words: set[str], others: set[str]) -> float:
    return len(words & others) / len(words | others) if words and others else 0.0
