"""Failures that are alike: the same agent, the same error mode, and like words at the decisive step.

Within an agent and a mode, texts are bags of words and pairs of words, weighed by how rare they are among all failures.
A failure joins the group whose middle it is nearest to, if that is near enough, else it begins a new one; then all are
placed once more. How many groups there are follows from the texts.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from blamespan.analysis.summary.facts import Fact

Weights: TypeAlias = dict[str, float]

_NEAR: Final = 0.25
"""Cosine from which on a failure belongs to a group: half of it apart, two texts that share a template still do."""
_MOST_GROUPS: Final = 24
"""Of one agent and mode; what is near to none of them then stands alone."""
_MOST_WORDS: Final = 40
"""Of a text, its rarest: longer ones would only cost time."""
_MOST_MIDDLE: Final = 120
_TELLING: Final = 5
_WORD = re.compile(r"[^\W_]{2,}|\d")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures that are alike.

    Attributes:
        agent: Who is blamed for them.
        mode: For what, as `taxonomy:code`.
        mode_name: In words.
        words: What their texts say that those of others do not.
        count: How many there are in the sample.
        example: The one in their middle.
    """

    agent: str
    mode: str
    mode_name: str
    words: tuple[str, ...]
    count: int
    example: Fact


@dataclass(frozen=True, slots=True)
class _FailureText:
    """A failure with its words: `vector` has length 1, or none for a text without words."""

    fact: Fact
    vector: Weights
    words: frozenset[str]


class _Group:
    """Failures that belong together, and their middle."""

    def __init__(self) -> None:
        self.texts: list[_FailureText] = []
        self._sum: Weights = defaultdict(float)
        self._middle: Weights = {}

    def add(self, text: _FailureText) -> None:
        self.texts.append(text)
        for word, weight in text.vector.items():
            self._sum[word] += weight
        size = len(self.texts)
        if size & (size - 1) == 0 or size % 64 == 0:  # a middle hardly moves when one more joins many
            self.settle()

    def settle(self) -> None:
        strongest = sorted(self._sum.items(), key=lambda item: (-item[1], item[0]))[:_MOST_MIDDLE]
        length = math.sqrt(math.fsum(weight * weight for _, weight in strongest)) or 1.0
        self._middle = {word: weight / length for word, weight in strongest}

    def nearness(self, text: _FailureText) -> float:
        """Cosine to the middle; texts without words are alike."""
        if not text.vector:
            return 1.0 if not self._middle else 0.0
        middle = self._middle
        return math.fsum(weight * middle[word] for word, weight in text.vector.items() if word in middle)


def clusters_of(facts: Sequence[Fact]) -> list[Cluster]:
    """Find groups among *facts*, the largest first; groups of one are groups, too."""
    words = [_words(fact.text) for fact in facts]
    rarity = _rarity(words)
    common = Counter(word for some in words for word in set(some) if " " not in word)
    by_key: dict[tuple[str, str], list[_FailureText]] = defaultdict(list)
    for fact, some in zip(facts, words, strict=True):
        text = _FailureText(fact, _vector(some, rarity), frozenset(word for word in some if " " not in word))
        by_key[fact.agent, fact.mode].append(text)
    clusters = [
        _cluster(group, common, len(facts)) for _, texts in sorted(by_key.items()) for group in _group_texts(texts)
    ]
    return sorted(clusters, key=lambda cluster: (-cluster.count, cluster.agent, cluster.mode, cluster.example.trace_id))


def _words(text: str) -> list[str]:
    """Cut a text into words and pairs of words; numbers are all alike."""
    plain = [_DIGITS.sub("0", word) for word in _WORD.findall(text.casefold())]
    return [*plain, *(f"{first} {two}" for first, two in pairwise(plain))]


def _rarity(texts: Sequence[Sequence[str]]) -> Mapping[str, float]:
    counts = Counter(word for text in texts for word in set(text))
    return {word: math.log((1 + len(texts)) / (1 + count)) + 1 for word, count in counts.items()}


def _vector(words: Sequence[str], rarity: Mapping[str, float]) -> Weights:
    weights = {word: (1 + math.log(count)) * rarity[word] for word, count in Counter(words).items()}
    kept = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:_MOST_WORDS]
    length = math.sqrt(math.fsum(weight * weight for _, weight in kept)) or 1.0
    return {word: weight / length for word, weight in kept}


def _group_texts(texts: Sequence[_FailureText]) -> list[_Group]:
    """Part the failures of one agent and mode."""
    groups: list[_Group] = []
    for text in texts:
        nearest = _nearest(groups, text)
        if nearest is None and len(groups) < _MOST_GROUPS:
            nearest = _Group()
            groups.append(nearest)
        if nearest is not None:
            nearest.add(text)
    for group in groups:
        group.settle()
    return _assign_texts(texts, [group for group in groups if len(group.texts) > 1] or groups[:1])


def _assign_texts(texts: Sequence[_FailureText], groups: Sequence[_Group]) -> list[_Group]:
    """Place every failure by the middles found; those near to none stand alone."""
    placed: dict[int, _Group] = {}
    alone: list[_Group] = []
    for text in texts:
        nearest = _nearest(groups, text)
        if nearest is None:
            alone.append(_Group())
            alone[-1].add(text)
        else:
            placed.setdefault(id(nearest), _Group()).add(text)
    all_groups = [*placed.values(), *alone]
    for group in all_groups:
        group.settle()
    return all_groups


def _nearest(groups: Sequence[_Group], text: _FailureText) -> _Group | None:
    best, nearness = None, _NEAR
    for group in groups:
        score = group.nearness(text)
        if score >= nearness and (best is None or score > nearness):
            best, nearness = group, score
    return best


def _cluster(group: _Group, common: Mapping[str, int], total: int) -> Cluster:
    middle = min(group.texts, key=lambda text: (-group.nearness(text), text.fact.trace_id, text.fact.span_id))
    fact = middle.fact
    return Cluster(fact.agent, fact.mode, fact.mode_name, _telling(group, common, total), len(group.texts), middle.fact)


def _telling(group: _Group, common: Mapping[str, int], total: int) -> tuple[str, ...]:
    """Name the words that many of the group and few others have."""
    own, size = Counter(word for text in group.texts for word in text.words), len(group.texts)
    others = total - size

    def worth(word: str) -> float:
        inside = own[word] / size
        outside = (common[word] - own[word] + 0.5) / (others + 1)
        return inside * math.log((inside + 0.01) / (outside + 0.01))

    ranked = sorted((word for word in own if not word.isdigit()), key=lambda word: (-worth(word), word))
    return tuple(word for word in ranked[:_TELLING] if others == 0 or worth(word) > 0)
