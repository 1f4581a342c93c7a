"""Hold every value that a step states against what the step could know: the task, its inputs, the steps before."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger.derivations import derivation_surprise
from blamespan_tracer.ledger.values import OPPOSITES, Form, Value, find_values

__all__ = ["TASK", "Claim", "Contradiction", "HeldStep", "Ledger", "LedgerReader", "Mention", "read_ledger"]

TASK: Final = -1
"""Stands for the task where a step's index is meant."""

ContradictionKind: TypeAlias = Literal["near", "context", "row", "unit", "opposite"]
"""How a source contradicts a claim.

- near: the source has a value that differs in one character, digit, sign or word, and no source has the claim's.
- context: the source has another value between the same words, and no source has the claim's.
- row: the source has the claim's value, but beside other words, and beside the claim's words another value.
- unit: the source has the number with another unit.
- opposite: the source has the opposite word between the same words.
"""

_WORD = re.compile(r"\w+")
_MAX_CONTEXT_WORDS = 8
_ROW_WORDS = 14
"""Words on each side of a value that say what the value is of."""

_MAX_VALUES = 400
"""Values of one text that are read; the rest of a huge table says nothing that can be held against a claim."""

_MAX_TEXT_CHARS = 40_000
"""Of a longer text the first and last half of this many characters are read."""

_MAX_SAME = 20
"""Latest mentions of one value, or of one context, that a claim is held against."""

_MAX_ROWS = 120
"""Values of one source that a claim's row is looked for among."""

_MAX_SOURCES = 3
"""Latest sources of one value whose rows are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """A value where a text states it.

    Attributes:
        step: Index of the step that states it, or that was given it; `TASK` for the task.
        is_input: Whether the step was given it.
        value: The value.
        left: Words before it, the nearest first.
        right: Words after it, the nearest first.
        around: Words of its row: those near it on both sides.
    """

    step: int
    is_input: bool
    value: Value
    left: tuple[str, ...]
    right: tuple[str, ...]
    around: frozenset[str]

    def count_agreement(self, other: Mention) -> int:
        """Count the words right before and right after both values that agree."""
        return _count_common(self.left, other.left) + _count_common(self.right, other.right)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A source that contradicts a claim.

    Attributes:
        kind: How.
        source: The value in the source.
        surprise: How unlikely it is that a sound claim looks like that by chance, in nats.
        agreement: How many words around the two values agree.
        is_unused: Whether no agent states the source's value anywhere in the run.
        is_repaired: Whether a later step of an agent states the source's value, and none the claim's any more.
        share_alike: Share of the values of this form and length in the sources that have such a twin there, too.
    """

    kind: ContradictionKind
    source: Mention
    surprise: float
    agreement: int = 0
    is_unused: bool = False
    is_repaired: bool = False
    share_alike: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that an agent's step states, beside what its sources say.

    Attributes:
        mention: The value, and the step that states it.
        support: The mention of the same value in a source whose words agree most; None where no source has the value.
        agreement: How many words around the value agree with that source.
        derivation: How much better a calculation from supported numbers explains it than chance, in nats.
        contradictions: At most one of each kind.
        is_repeated: Whether a later step of an agent states the value again.
        is_argument: Whether the step calls a tool with it.
    """

    mention: Mention
    support: Mention | None
    agreement: int
    derivation: float
    contradictions: tuple[Contradiction, ...]
    is_repeated: bool
    is_argument: bool

    @property
    def information(self) -> float:
        """How much the value says by itself, in nats: a 2 may stand anywhere, an order number only from its source."""
        return _information(self.mention.value)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The claims of a run.

    Attributes:
        claims: Of each step, in order; none for what a tool answered and what nobody can be blamed for.
    """

    claims: tuple[tuple[Claim, ...], ...]


def read_ledger(trace: MessageActionTrace) -> Ledger:
    """Read what every step of a run states, and hold it against what the step could know.

    Time grows with the length of the run: each claim is looked up, never compared with all others.
    """
    reader = LedgerReader(trace.task)
    read: list[HeldStep] = []
    for step in trace.steps:
        reader.hear(step.index, step.input_text)
        held = reader.hold(step.index, step.content, decides=trace.can_be_blamed(step))
        reader.take(held)
        read.append(held)
    return Ledger(
        tuple(
            reader.finish(held, is_argument=step.kind == "tool_call")
            for step, held in zip(trace.steps, read, strict=True)
        )
    )


class LedgerReader:
    """Reads the ledger of a run step by step, while the run goes on; a step costs the same however long the run is.

    Args:
        task: What the run was asked.
    """

    def __init__(self, task: str) -> None:
        self._sources = _Sources()
        self._last_use: dict[tuple[Form, str], int] = {}
        for mention in _read_mentions(TASK, task):
            self._sources.add(mention)

    def hear(self, index: int, text: str) -> None:
        """Take up what a step was given."""
        for mention in _read_mentions(index, text, is_input=True):
            self._sources.add(mention)

    def hold(self, index: int, text: str, *, decides: bool) -> HeldStep:
        """Hold what a step states against what is known; nothing is taken up.

        Args:
            index: Of the step.
            text: What it says.
            decides: Whether an agent can be blamed for it; what nobody can be blamed for makes no claims.
        """
        mentions = tuple(_read_mentions(index, text))
        return HeldStep(mentions, tuple(self._sources.hold(mentions)) if decides else (), decides)

    def take(self, step: HeldStep) -> None:
        """Take up what a step states: later ones are held against it."""
        if step.decides:
            self._last_use.update(((mention.value.form, mention.value.key), mention.step) for mention in step.mentions)
        vouched = {id(one.mention) for one in step.held if one.is_vouched} if step.held else None
        for mention in step.mentions:
            self._sources.add(mention, is_operand=vouched is None or id(mention) in vouched)

    def finish(self, step: HeldStep, *, is_argument: bool) -> tuple[Claim, ...]:
        """Return the claims of a step, with what is known by now of how their values were used since."""
        return tuple(one.finish(self._last_use, is_argument=is_argument) for one in step.held)


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step held against what was known before it.

    Attributes:
        mentions: What it states.
        held: Its claims; none where nobody can be blamed for it.
        decides: Whether somebody can.
    """

    mentions: tuple[Mention, ...]
    held: tuple[_Held, ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim held against the sources before it; what comes later is not known yet."""

    mention: Mention
    support: Mention | None
    agreement: int
    derivation: float
    contradictions: tuple[Contradiction, ...]

    @property
    def is_vouched(self) -> bool:
        return self.support is not None or self.derivation > 1.0

    def finish(self, last_use: dict[tuple[Form, str], int], *, is_argument: bool) -> Claim:
        value, step = self.mention.value, self.mention.step
        last = last_use.get((value.form, value.key), step)
        contradictions = []
        for one in self.contradictions:
            used = last_use.get((one.source.value.form, one.source.value.key), -1)
            contradictions.append(
                Contradiction(
                    one.kind,
                    one.source,
                    one.surprise,
                    one.agreement,
                    used < 0,
                    used > step and last <= step,
                    one.share_alike,
                )
            )
        return Claim(
            self.mention, self.support, self.agreement, self.derivation, tuple(contradictions), last > step, is_argument
        )


class _Sources:
    """What was said so far: by value, by nearly the same value, by the words around a value, and by row."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Form, str], list[Mention]] = {}
        self._by_pattern: dict[tuple[Form, str], list[Mention]] = defaultdict(list)
        self._by_context: dict[tuple[Form, tuple[str, ...]], list[Mention]] = defaultdict(list)
        self._n_keys: dict[tuple[Form, int], int] = defaultdict(int)
        self._n_twins: dict[tuple[Form, int], int] = defaultdict(int)
        self._rows: dict[tuple[int, bool, Form], list[Mention]] = defaultdict(list)
        self._operands: dict[float, None] = {}
        self._columns: dict[tuple[int, bool], list[float]] = {}

    def add(self, mention: Mention, *, is_operand: bool = True) -> None:
        """Take a mention up: later claims are held against it."""
        value = mention.value
        key = value.form, value.key
        if key in self._by_key:
            self._by_key[key].append(mention)
        else:
            self._by_key[key] = [mention]
            size = value.form, len(value.key)
            self._n_keys[size] += 1
            patterns = list(_patterns(value))
            self._n_twins[size] += any((value.form, pattern) in self._by_pattern for pattern in patterns)
            for pattern in patterns:
                self._by_pattern[value.form, pattern].append(mention)
        self._rows[mention.step, mention.is_input, value.form].append(mention)
        for context in _contexts(mention):
            self._by_context[value.form, context].append(mention)
        if value.form == "number" and is_operand:
            number = float(value.key)
            self._operands.pop(number, None)
            self._operands[number] = None
            self._columns.setdefault((mention.step, mention.is_input), []).append(number)

    def hold(self, mentions: Sequence[Mention]) -> list[_Held]:
        """Hold the claims of one step against the sources, in order."""
        numbers = [(m.value.start, float(m.value.key)) for m in mentions if m.value.form == "number"]
        numbers.sort()
        return [self._hold(mention, numbers) for mention in mentions]

    def _hold(self, mention: Mention, numbers: Sequence[tuple[int, float]]) -> _Held:
        value = mention.value
        if value.form == "opposite":
            return self._hold_opposite(mention)
        same = self._by_key.get((value.form, value.key), [])[-_MAX_SAME:]
        if same:
            support = max(same, key=mention.count_agreement)
            contradictions = [*self._other_row(mention, same), *_other_unit(mention, same)]
            return _Held(mention, support, mention.count_agreement(support), 0.0, tuple(contradictions))
        derivation = self._derive(mention, numbers) if value.form == "number" else 0.0
        return _Held(mention, None, 0, derivation, (*self._nearest(mention), *self._in_context(mention)))

    def _hold_opposite(self, mention: Mention) -> _Held:
        """Look for the opposite word between the same words, where the word itself stands between them nowhere."""
        support, agreement = None, 0
        best, most = None, 1
        for context in _contexts(mention):
            for other in self._by_context.get(("opposite", context), ())[-_MAX_SAME:]:
                words = mention.count_agreement(other)
                if other.value.key == mention.value.key and words >= agreement:
                    support, agreement = other, words
                elif other.value.key in OPPOSITES[mention.value.key] and words > most:
                    best, most = other, words
        found = () if best is None or agreement >= most else (Contradiction("opposite", best, 2.0 * most, most),)
        return _Held(mention, support, agreement, 0.0, found)

    def _nearest(self, mention: Mention) -> Iterator[Contradiction]:
        value = mention.value
        near: dict[int, tuple[Mention, int]] = {}
        for rank, pattern in enumerate(_patterns(value)):
            for other in self._by_pattern.get((value.form, pattern), ())[-_MAX_SAME:]:
                if other.value.key != value.key:
                    near.setdefault(id(other), (other, rank))
        if not near:
            return
        best = max((other for other, _ in near.values()), key=lambda other: self._best_agreement(mention, other))
        size = value.form, len(value.key)
        alike = self._n_twins[size] / self._n_keys[size] if self._n_keys[size] > 1 else 0.0
        agreement = self._best_agreement(mention, best)
        yield Contradiction("near", best, self._near_surprise(value), agreement, share_alike=alike)

    def _best_agreement(self, mention: Mention, near: Mention) -> int:
        same = self._by_key[near.value.form, near.value.key][-_MAX_SAME:]
        return max(mention.count_agreement(other) for other in same)

    def _near_surprise(self, value: Value) -> float:
        if value.form in ("name", "quotation"):
            return 1.5 * value.key.count(" ")
        length = len(value.key)
        alike = 9.0 * length * max(self._n_keys[value.form, length], 1)
        letters = 10.0 if value.form in ("number", "date", "time") else 20.0
        return max(0.0, length * math.log(letters) - math.log(alike))

    def _in_context(self, mention: Mention) -> Iterator[Contradiction]:
        best, most = None, 0
        rivals: set[str] = set()
        for context in _contexts(mention):
            for other in self._by_context.get((mention.value.form, context), ())[-_MAX_SAME:]:
                if other.value.key == mention.value.key:
                    continue
                rivals.add(other.value.key)
                words = mention.count_agreement(other)
                if words > most:
                    best, most = other, words
        if best is not None:
            yield Contradiction("context", best, max(0.0, 1.5 * most - math.log(len(rivals))), most)

    def _other_row(self, mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
        """Look whether the claim's words stand beside another value in every source that has the claim's value."""
        texts = list(dict.fromkeys((other.step, other.is_input) for other in reversed(same)))[:_MAX_SOURCES]
        fits = [_fit_row(mention, self._rows[step, is_input, mention.value.form]) for step, is_input in texts]
        if fits and all(gain > 0 for gain, _ in fits):
            gain, rival = min(fits, key=lambda fit: fit[0])
            assert rival is not None
            yield Contradiction("row", rival, gain, mention.count_agreement(rival))

    def _derive(self, mention: Mention, numbers: Sequence[tuple[int, float]]) -> float:
        key = mention.value.key
        if len(key.lstrip("-").replace(".", "")) < 2:
            return 0.0
        own = float(key)
        start = mention.value.start
        low = bisect_left(numbers, (start - 160, -math.inf))
        beside = [number for at, number in numbers[low : low + 16] if abs(at - start) <= 160 and number != own]
        best = derivation_surprise(key, beside) if beside else 0.0
        if best < 1.0:
            columns = list(self._columns.values())[-3:]
            best = max(best, derivation_surprise(key, [*list(self._operands)[-32:], *beside], columns))
        return best


def _fit_row(mention: Mention, rows: Sequence[Mention]) -> tuple[float, Mention | None]:
    """Return by how many nats the claim's words fit another value of a source better than its own, and that value.

    A word counts the more, the fewer values of the source it stands beside.
    """
    rows = rows[:_MAX_ROWS]
    frequency: dict[str, int] = defaultdict(int)
    for row in rows:
        for word in row.around & mention.around:
            frequency[word] += 1
    weight = {word: math.log(len(rows) / count) for word, count in frequency.items()}
    own, best, rival = 0.0, 0.0, None
    for row in rows:
        fit = math.fsum(weight[word] for word in mention.around & row.around)  # exact: in whatever order
        if row.value.key == mention.value.key:
            own = max(own, fit)
        elif fit > best and abs(len(row.value.key) - len(mention.value.key)) <= 1:
            best, rival = fit, row
    return (best - own, rival) if rival is not None else (0.0, None)


def _other_unit(mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
    unit = mention.value.unit
    if mention.value.form != "number" or not unit or len(mention.value.key) < 2:
        return
    with_unit = [other for other in same if other.value.unit]
    if with_unit and all(other.value.unit != unit for other in with_unit):
        best = max(with_unit, key=mention.count_agreement)
        yield Contradiction("unit", best, _information(mention.value), mention.count_agreement(best))


def _read_mentions(index: int, text: str, *, is_input: bool = False) -> Iterator[Mention]:
    if not text:
        return
    for part, shift in _readable(text):
        text_words = _Words(part)
        for number, value in enumerate(find_values(part)):
            if number >= _MAX_VALUES:
                break
            left, right = text_words.beside(value)
            yield Mention(
                index,
                is_input,
                value if not shift else Value(value.text, value.form, value.start + shift, value.key, value.unit),
                left[:_MAX_CONTEXT_WORDS],
                right[:_MAX_CONTEXT_WORDS],
                frozenset(word for word in (*left, *right) if len(word) > 1),
            )


def _readable(text: str) -> Iterator[tuple[str, int]]:
    if len(text) <= _MAX_TEXT_CHARS:
        yield text, 0
    else:
        half = _MAX_TEXT_CHARS // 2
        yield text[:half], 0
        yield text[-half:], len(text) - half


class _Words:
    """The words of a text, in order."""

    def __init__(self, text: str) -> None:
        self._text = text

    @lazy_property
    def _words(self) -> tuple[list[int], list[str]]:
        matches = list(_WORD.finditer(self._text.lower()))
        return [match.start() for match in matches], [match.group() for match in matches]

    def beside(self, value: Value) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words before a value, the nearest first, and those after it."""
        starts, words = self._words
        first, after = bisect_left(starts, value.start), bisect_left(starts, value.stop)
        return tuple(reversed(words[max(0, first - _ROW_WORDS) : first])), tuple(words[after : after + _ROW_WORDS])


def _contexts(mention: Mention) -> Iterator[tuple[str, ...]]:
    left, right = mention.left, mention.right
    if len(left) > 1:
        yield ("<", left[0], left[1])
    if len(right) > 1:
        yield (">", right[0], right[1])
    if left and right:
        yield ("<>", left[0], right[0])


def _count_common(words: Sequence[str], others: Sequence[str]) -> int:
    count = 0
    for word, other in zip(words, others, strict=False):
        if word != other:
            break
        count += 1
    return count


def _patterns(value: Value) -> Iterator[str]:
    """Yield what two values have in common that differ in one character or word: of each place, all but it."""
    key = value.key
    if value.form in ("name", "quotation"):
        words = key.split(" ")
        if len(words) > 1:
            for index in range(len(words)):
                yield " ".join([*words[:index], "?", *words[index + 1 :]])
    elif value.form != "opposite" and 2 <= len(key.lstrip("-")) <= 24:
        digits = key.lstrip("-")
        yield f"±{digits}"
        for index in range(len(digits)):
            yield f"{digits[:index]}?{digits[index + 1 :]}"
        if len(digits) > 3:
            yield "~" + "".join(sorted(digits))


def _information(value: Value) -> float:
    if value.form in ("name", "quotation"):
        return 3.0 + value.key.count(" ")
    if value.form == "opposite":
        return 0.7
    return 2.3 * min(len(value.key.lstrip("-").replace(".", "").rstrip("0")) or 1, 8)
