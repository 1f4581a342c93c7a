"""Numbers that a step brings in and nothing explains, and numbers that were only ever said of something else."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Mask, is_long
from blamespan_tracer.ledger.equations import equations, is_common

_KNOWN, _FRESH = 48, 16
"""Numbers known before that are tried, the latest, and new ones of a step that are looked at, the first."""

_LEAST_DIGITS = 2
"""A number of one digit is like too many others to be mistaken for one."""

_SIGNS = "0123456789-"
"""What a number in ASCII is spelled with, but for its point."""

_MAX_SOURCES, _MAX_NUMBERS, _MAX_NAMES = 12, 96, 24
"""Earlier sentences that a number is looked up in, the first; numbers of a step that are looked at; names of a sentence
up to which a tool ties them to each other."""


def explain_numbers(run: Analysis) -> tuple[Floats | Mask, ...]:
    """Look at the new numbers that no sum and no two known numbers give, and which of them are like known ones."""
    reading, claims, steps = run.reading, run.claims, run.segments.speaking_steps
    unexplained, mistakable, total = np.zeros((3, len(run.steps)))
    known: deque[str] = deque(maxlen=_KNOWN)
    chosen = np.flatnonzero(claims.is_number & ~claims.in_code)
    order = chosen[np.argsort(claims.segment[chosen], kind="stable")]
    bounds = np.searchsorted(claims.segment[order], np.arange(len(reading.texts) + 1))
    for segment in np.unique(claims.segment[order]).tolist():
        own = order[bounds[segment] : bounds[segment + 1]]
        numbers = [reading.tokens[claims.token[claim]] for claim in claims.claim[own].tolist()]
        is_fresh = (claims.source[own] == segment).tolist()
        fresh = [number for number, is_new in zip(numbers, is_fresh, strict=True) if is_new]
        row = steps[segment]
        if row >= 0:
            tried = [*run.inputs.few_until(segment), *known, *numbers]
            strange = _list_strange_numbers(fresh[:_FRESH], tried, reading.texts[segment])
            total[row] += len(numbers)
            unexplained[row] += len(strange)
            sources = [*run.inputs.numbers_until(segment), *known]
            mistakable[row] += sum(_is_mistakable(number, sources) for number in strange)
        known.extend(fresh)
    size = np.where(total > 0, total, 1.0)
    return unexplained / size, mistakable / size, unexplained > 0, mistakable > 0


FIGURES = Evidence(
    explain_numbers,
    ("unexplained numbers", "mistakable numbers", "a number nothing explains", "a mistakable number"),
    shares=frozenset(("unexplained numbers", "mistakable numbers")),
)


def digits_do_not_slip(run: Analysis) -> Floats:
    """Look for steps that state a new number, without a sum, that is a known one but for a digit or its sign."""
    slips = np.zeros(len(run.steps))
    latest: deque[str] = deque(maxlen=_KNOWN)
    known: set[int] = set()
    n_looked_at: Counter[int] = Counter()
    steps, tokens = run.segments.speaking_steps, run.reading.tokens
    for sentence in run.sentences:
        if not sentence.numbers:
            continue
        new = [
            number
            for number in dict.fromkeys(sentence.numbers)
            if number not in known and not run.inputs.has(tokens[number], sentence.segment)
        ]
        if not new:
            continue
        row = steps[sentence.segment]
        is_stated = len(sentence.numbers) == 1 and sentence.value == new[0]
        if row >= 0 and is_stated and n_looked_at[row] < _FRESH:
            n_looked_at[row] += 1
            sources = [*run.inputs.numbers_until(sentence.segment), *latest]
            slips[row] = max(slips[row], is_slip(tokens[new[0]], sources))
        latest.extend(tokens[number] for number in new)
        known.update(new)
    return slips


DIGITS_DO_NOT_SLIP = Evidence(lambda run: (digits_do_not_slip(run),), ("a digit slips",))


def is_slip(number: str, known: Iterable[str]) -> bool:
    """Check whether a number, as `Reading.tokens` spells it, is one of *known* but for a digit, the order or a sign."""
    if number.startswith("-"):
        return number[1:] in known
    return len(number.replace(".", "")) > _LEAST_DIGITS and _is_mistakable(number, known)


def _list_strange_numbers(fresh: list[str], known: list[str], text: str) -> list[str]:
    """Choose those of the *fresh* numbers that no written sum and no two *known* ones come to."""
    if not fresh:
        return []
    sums = {round(equation.right, 6) for equation in equations(text)}
    remaining = [number for number in fresh if round(float(number), 6) not in sums and not is_common(float(number))]
    if not remaining:
        return []
    values = np.unique([float(number) for number in known[-2 * _KNOWN :]])
    left, right = values[:, None], values[None, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reached = np.stack([left + right, left - right, left * right, left / right, left * right / 100])
    strange = []
    for number in remaining:
        value = float(number)
        decimals = len(number.partition(".")[2])
        is_near = np.abs(reached - value) <= max(1e-9 * abs(value), 10.0**-decimals * ("." in number))
        is_near &= (left != value) & (right != value)
        if not is_near.any():
            strange.append(number)
    return strange


def _is_mistakable(number: str, known: Iterable[str]) -> bool:
    """Check whether a number has the digits of a known one in another order, or all of its but one.

    What it may be mistaken for is looked up among the known ones, which are never compared one by one.
    """
    digits = _strip_point(number)
    if len(digits) < _LEAST_DIGITS:
        return False
    others = set(map(_strip_point, known))
    others.discard(digits)
    signs = "".join(others)
    misspellings = _list_misspellings(digits, _SIGNS if signs.isascii() else "".join(sorted({*signs})))
    return not others.isdisjoint(misspellings) or _sort_digits(digits) in map(_sort_digits, others)


@lru_cache(maxsize=8_192)
def _strip_point(number: str) -> str:
    return number.replace(".", "")


@lru_cache(maxsize=8_192)
def _sort_digits(digits: str) -> str:
    return "".join(sorted(digits))


@lru_cache(maxsize=1_024)
def _list_misspellings(digits: str, signs: str) -> frozenset[str]:
    """List what a number becomes with one of *signs* more or one less, and, of a long one, with another one."""
    heads_tails = [(digits[:at], digits[at:]) for at in range(len(digits) + 1)]
    changed = {head + tail[1:] for head, tail in heads_tails[:-1]}
    changed.update([f"{head}{sign}{tail}" for head, tail in heads_tails for sign in signs])
    if len(digits) > _LEAST_DIGITS:
        changed.update([f"{head}{sign}{tail[1:]}" for head, tail in heads_tails[:-1] for sign in signs])
    return frozenset(changed)


def numbers_keep_their_names(run: Analysis) -> Floats:
    """Count each step's numbers, of those said before, that stood beside other names only.

    "Units of West are 412" is odd where 412 was always said of North, unless a tool said that North is in West. What a
    tool answers is read together with what it was asked.
    """
    reading, segments = run.reading, run.segments
    n_judged, n_strange = np.zeros((2, len(run.steps)))
    names_of: dict[int, list[frozenset[int]]] = defaultdict(list)
    results = [step for step in run.trace.steps if step.kind == "tool_result" and step.inputs]
    call_of = {step.index + 1: step.inputs[-1] + 1 for step in results}
    asked: dict[int, frozenset[int]] = defaultdict(frozenset)
    tied: dict[int, set[int]] = defaultdict(set)
    steps, is_call, is_result = segments.speaking_steps, segments.is_call.tolist(), segments.is_result.tolist()
    is_of_tool = (segments.is_call | segments.is_result).tolist()
    for sentence in (sentence for sentence in run.sentences if sentence.numbers or is_of_tool[sentence.segment]):
        segment, row = sentence.segment, steps[sentence.segment]
        names = frozenset(sentence.names) | asked[call_of.get(segment, -1)]
        numbers = [number for number in sentence.numbers if is_long(reading.tokens[number])]
        if is_call[segment]:
            asked[segment] |= names
        elif is_result[segment]:
            for name in sentence.names if len(sentence.names) <= _MAX_NAMES else ():
                tied[name] |= sentence.names
        elif row >= 0:
            is_plain = not numbers or len(names) > _MAX_NAMES
            with_tied = names if is_plain else names.union(*(tied[name] for name in names))
            for number in numbers[: _MAX_NUMBERS - int(n_judged[row])]:
                if names_of[number]:
                    n_judged[row] += 1
                    n_strange[row] += all(names - others and not with_tied >= others for others in names_of[number])
        for number in numbers:
            if len(names_of[number]) < _MAX_SOURCES:
                names_of[number].append(names)
    shares: Floats = n_strange / n_judged.clip(min=1)
    return shares


NUMBERS_KEEP_THEIR_NAMES = Evidence(
    lambda run: (numbers_keep_their_names(run),), ("numbers of others",), shares=frozenset(("numbers of others",))
)


def values_keep_their_things(run: Analysis) -> Floats:
    """Look for steps that state a number of one thing, without a sum, that was only ever said of others.

    Things without a name are told by the task's and the tools' words: "684 pages a week" is odd where 684 were the
    pages of the reports.
    """
    is_strange = np.zeros(len(run.steps))
    words_of: dict[int, list[frozenset[int]]] = defaultdict(list)
    steps, tokens = run.segments.speaking_steps, run.reading.tokens
    for sentence in run.sentences:
        if not sentence.numbers:
            continue
        words = frozenset((sentence.words | sentence.names) & run.facts.subject_tokens)
        row = steps[sentence.segment]
        number = sentence.numbers[0] if len(sentence.numbers) == 1 else -1
        if row >= 0 and number >= 0 and words and is_long(tokens[number]) and words_of[number]:
            is_others = all(words - others and others - words for others in words_of[number])
            is_strange[row] = max(is_strange[row], is_others)
        for number in sentence.numbers:
            if len(words_of[number]) < _MAX_SOURCES:
                words_of[number].append(words)
    return is_strange


VALUES_KEEP_THEIR_THINGS = Evidence(lambda run: (values_keep_their_things(run),), ("a value of others",))
