"""Numbers that a step brings in and nothing explains: neither a source, nor a sum, nor two numbers known before.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import is_common
from blamespan_tracer.representation.equations import equations

__all__ = ["Figures", "find_figures", "is_slip", "slipped_digits"]

Floats = NDArray[np.float64]

_KNOWN, _FRESH = 48, 16
"""Numbers known before that are tried, the latest, and new ones of a step that are looked at, the first."""

_LEAST_DIGITS = 2
"""A number of one digit is like too many others to be mistaken for one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Per merged step: (N,) each.

    Attributes:
        unexplained: New numbers that no sum and no two known numbers give, as a share of the step's numbers.
        mistakable: Those of them that have the digits of a known one in another order, or all of its but one.
    """

    unexplained: Floats
    mistakable: Floats


def find_figures(run: Analysis) -> Figures:
    """Look at the new numbers of every step."""
    reading, claims, steps = run.reading, run.claims, run.segments.speaking_steps()
    unexplained, mistakable, total = np.zeros((3, len(run.steps)))
    known: deque[str] = deque(maxlen=_KNOWN)
    chosen = np.flatnonzero(claims.is_number & ~claims.in_code)
    order = chosen[np.argsort(claims.segment[chosen], kind="stable")]
    bounds = np.searchsorted(claims.segment[order], np.arange(len(reading.texts) + 1))
    for segment in np.unique(claims.segment[order]).tolist():
        own = order[bounds[segment] : bounds[segment + 1]]
        names = [reading.tokens[claims.token[claim]] for claim in claims.claim[own].tolist()]
        is_fresh = claims.source[own] == segment
        step = steps[segment]
        if step >= 0:
            fresh = [name for name, new in zip(names, is_fresh.tolist(), strict=True) if new][:_FRESH]
            strange = _unexplained(fresh, [*run.inputs.few_until(segment), *known, *names], reading.texts[segment])
            total[step] += len(names)
            unexplained[step] += len(strange)
            sources = [*run.inputs.numbers_until(segment), *known]
            mistakable[step] += sum(_is_mistakable(name, sources) for name in strange)
        known.extend(name for name, new in zip(names, is_fresh.tolist(), strict=True) if new)
    size = np.where(total > 0, total, 1.0)
    return Figures(unexplained / size, mistakable / size)


def slipped_digits(run: Analysis) -> Floats:
    """Return which steps state a new number, without a sum, that is a known one but for a digit or its sign: (N,)."""
    found = np.zeros(len(run.steps))
    latest: deque[str] = deque(maxlen=_KNOWN)
    known: set[int] = set()
    looked_at: Counter[int] = Counter()
    steps, tokens = run.segments.speaking_steps(), run.reading.tokens
    for sentence in run.sentences:
        new = [
            number
            for number in dict.fromkeys(sentence.numbers)
            if number not in known and not run.inputs.has(tokens[number], sentence.segment)
        ]
        if not new:
            continue
        step = steps[sentence.segment]
        is_stated = len(sentence.numbers) == 1 and sentence.value == new[0]
        if step >= 0 and is_stated and looked_at[step] < _FRESH:
            looked_at[step] += 1
            sources = [*run.inputs.numbers_until(sentence.segment), *latest]
            found[step] = max(found[step], is_slip(tokens[new[0]], sources))
        latest.extend(tokens[number] for number in new)
        known.update(new)
    return found


def is_slip(name: str, known: Iterable[str]) -> bool:
    """Check whether a number, as `Reading.tokens` spells it, is one of *known* but for a digit, the order or a sign."""
    if name.startswith("-"):
        return name[1:] in known
    return len(name.replace(".", "")) > _LEAST_DIGITS and _is_mistakable(name, known)


def _unexplained(fresh: list[str], known: list[str], text: str) -> list[str]:
    """Choose those of the *fresh* numbers that no written sum and no two *known* ones come to."""
    if not fresh:
        return []
    sums = {round(equation.right, 6) for equation in equations(text)}
    left = [name for name in fresh if round(float(name), 6) not in sums and not is_common(float(name))]
    values = np.unique([float(name) for name in known[-2 * _KNOWN :]])
    one, other = values[:, None], values[None, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reached = np.stack([one + other, one - other, one * other, one / other, one * other / 100])
    strange = []
    for name in left:
        value = float(name)
        near = np.abs(reached - value) <= max(1e-9 * abs(value), 10.0 ** -len(name.partition(".")[2]) * ("." in name))
        near &= (one != value) & (other != value)
        if not near.any():
            strange.append(name)
    return strange


def _is_mistakable(name: str, known: Iterable[str]) -> bool:
    digits = name.replace(".", "")
    return len(digits) >= _LEAST_DIGITS and any(_alike(digits, other.replace(".", "")) for other in known)


def _alike(one: str, other: str) -> bool:
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    if len(one) != len(other):
        short, long = sorted((one, other), key=len)
        return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
    return sorted(one) == sorted(other) or (
        len(one) > _LEAST_DIGITS and sum(a != b for a, b in zip(one, other, strict=True)) == 1
    )
