"""What a step leaves out of what it was handed, and what it brings in: figures and words, nothing understood.

A mistake often shows by what does not go on: the figures of the step before stand in no later step, and others take
their place. Of runs that are the same but for the mistake, the one with it leaves out more three times in four.

Dims: T steps of a run, C columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace

Floats = NDArray[np.float64]
_Words: TypeAlias = tuple[Set[str], Set[str]]
"""Figures of a text, which are what begins with a digit, and its other words."""

_FIGURES, _OTHERS = 0, 1
_KINDS = ("figures", "words")
CONTINUITY_FEATURES = (
    *(
        f"{kind} {how} {source}"
        for source in ("the step before", "the last message of another agent")
        for how in ("left out of", "not in")
        for kind in _KINDS
    ),
    *(f"{kind} that end here" for kind in _KINDS),
    *(f"share of new {kind}" for kind in _KINDS),
    "new figures",
    "new figures that go on",
    "figures of sources that no agent stated",
)
"""What each column means."""

_WORD = re.compile(r"\d[\d.,:/-]*\d|\d|[^\W\d_]+")
_MAX_CHARS = 8_000
"""Of a longer text the beginning is read."""
_LATELY = 4
"""Texts before a step whose words may end there."""


def continuity_features(trace: MessageActionTrace) -> Floats:
    """Compute the (T, C) features of the steps of a run, in time that grows with its length."""
    rows = list(_describe_steps(trace, _read(trace.task), [_read(step.content) for step in trace.steps]))
    return np.array(rows, np.float64).reshape(-1, len(CONTINUITY_FEATURES))


def _describe_steps(trace: MessageActionTrace, task: _Words, texts: Sequence[_Words]) -> Iterator[list[float]]:
    last_use = {word: index for index, own in enumerate(texts) for words in own for word in words}
    times = Counter(word for words in task for word in words)
    stated = set(task[_FIGURES])
    messages: dict[str, _Words] = {}  # the last one of each agent, the latest at the end
    lately = [task]
    for step, own in zip(trace.steps, texts, strict=True):
        other = next((words for agent, words in reversed(messages.items()) if agent != step.agent), None)
        row = [
            len(lost[kind] - kept[kind]) / (len(lost[kind]) + 1)
            for source in (lately[-1], other or own)
            for lost, kept in ((source, own), (own, source))
            for kind in (_FIGURES, _OTHERS)
        ]
        new = [{word for word in words if word not in times} for words in own]
        for kind in (_FIGURES, _OTHERS):
            known = set[str]().union(*(words[kind] for words in lately)) - own[kind]
            row.append(np.log1p(sum(times[word] > 1 and last_use.get(word, -1) < step.index for word in known)))
        row += [len(words) / (len(own[kind]) + 1) for kind, words in enumerate(new)]
        row.append(np.log1p(len(new[_FIGURES])))
        row.append(np.log1p(sum(last_use[word] > step.index for word in new[_FIGURES])))
        row.append(np.log1p(len(own[_FIGURES] - new[_FIGURES] - stated)))
        yield row
        times.update(word for words in own for word in words)
        lately = [*lately[1 - _LATELY :], own]
        if trace.can_be_blamed(step):
            stated |= own[_FIGURES]
            if step.kind == "message":
                messages.pop(step.agent, None)
                messages[step.agent] = own


def _read(text: str) -> _Words:
    words = {word.replace(",", "") for word in _WORD.findall(text[:_MAX_CHARS].casefold())}
    figures = {word for word in words if word[0].isdigit()}
    return figures, {word for word in words - figures if len(word) > 1}
