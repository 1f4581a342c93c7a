"""Coefficients of agreement between people, or people and a tracer: 1 is full agreement, 0 as much as by chance.

Sources: Cohen, "A coefficient of agreement for nominal scales", 1960; Krippendorff, "Content analysis", 2004,
chapter 11 (nominal, any number of people, missing answers); Bennett et al., "Communications through limited-response
questioning", 1954, for answers among a number of choices that differs from question to question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import TypeVar

__all__ = ["alpha", "consensus", "kappa", "pairwise", "s_score"]

_AnswerT = TypeVar("_AnswerT", bound=Hashable)


def consensus(answers: Sequence[_AnswerT]) -> _AnswerT | None:
    """Give the answer that more people give than any other; None where two are as frequent, or there is none."""
    ranked = Counter(answers).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Compute Cohen's kappa of two who answered the same questions; None where chance alone would agree fully."""
    if not pairs:
        return None
    seen = sum(one == two for one, two in pairs) / len(pairs)
    ones, twos = Counter(one for one, _ in pairs), Counter(two for _, two in pairs)
    by_chance = sum(count * twos[answer] for answer, count in ones.items()) / len(pairs) ** 2
    return None if by_chance >= 1 else (seen - by_chance) / (1 - by_chance)


def alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Compute Krippendorff's alpha for names.

    Args:
        units: The answers to each question; a question with fewer than two says nothing.

    Returns:
        At most 1; None where nothing can be compared, or all answers are the same.
    """
    pairable = [Counter(unit) for unit in units if len(unit) > 1]
    total = sum(counts.total() for counts in pairable)
    if not total:
        return None
    differing = sum(_unequal(counts) / (counts.total() - 1) for counts in pairable) / total
    every = sum(pairable, Counter[Hashable]())
    by_chance = _unequal(every) / (total * (total - 1))
    return None if by_chance == 0 else 1 - differing / by_chance


def pairwise(units: Sequence[Sequence[Hashable]]) -> list[bool]:
    """Tell of each pair of answers to the same question whether they are equal."""
    return [one == two for unit in units for one, two in combinations(unit, 2)]


def s_score(units: Sequence[Sequence[Hashable]], choices: Sequence[int]) -> float | None:
    """Compute Bennett's S: agreement over chance where chance picks any of a question's choices alike.

    Args:
        units: The answers to each question.
        choices: How many answers each question has, at least 1.
    """
    pairs = [
        (one == two, 1 / many) for unit, many in zip(units, choices, strict=True) for one, two in combinations(unit, 2)
    ]
    if not pairs:
        return None
    seen, by_chance = sum(same for same, _ in pairs) / len(pairs), sum(chance for _, chance in pairs) / len(pairs)
    return None if by_chance >= 1 else (seen - by_chance) / (1 - by_chance)


def _unequal(counts: Counter[Hashable]) -> float:
    """Count ordered pairs of unequal answers."""
    total = counts.total()
    return float(total * total - sum(count * count for count in counts.values()))
