"""Hold every value that a step states against what the step could know: the task, its inputs, the steps before."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Reversible, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, TypeAlias, TypeVar

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger.dating import dates_itself
from blamespan_tracer.ledger.derivations import Explanation, date_surprise, differences, explain_number, time_surprise
from blamespan_tracer.ledger.values import LENGTH_WITHOUT_YEAR, OPPOSITES, Form, Value, find_values

__all__ = ["TASK", "Claim", "Contradiction", "HeldStep", "Ledger", "LedgerReader", "Mention", "read_ledger"]

_V = TypeVar("_V")

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

Operands: TypeAlias = Literal["beside", "latest", "known", ""]
"""Which numbers give a value: those that stand beside it, the latest ones, any that are known; empty for none."""

_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[^\W_]+")
"""A part of a name such as `total_price`."""
_STEM_CHARS = 6
"""Words that begin with the same so many characters say the same of a value: `departs`, `departure`."""

_MAX_CONTEXT_WORDS = 8
_ROW_WORDS = 14
"""Words on each side of a value that say what the value is of."""

_LEAST_ROW_WORDS = 3
"""A record or line with fewer words beside a value does not say what the value is of."""

_HALF_WORDS = 4.0
"""A word so many words away from a value says half as much of it as one right beside it."""

_ROW_CHARS = 400
_RECORD, _LINE = re.compile(r"[{}]"), re.compile(r"\n")

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

_MAX_MOMENTS, _MAX_SPANS = 6, 12
"""Latest dates, times, and numbers of days or hours that a date or time may be counted from."""

_TIME_UNITS = ("minute", "hour", "day", "week", "month", "year")
_OF_ANY_YEAR = "day "
"""Begins the patterns by which a date without a year is nearly a date with one."""

_BESIDE = 160
"""Characters: what stands nearer to a number may have been calculated with."""

_MAX_LATEST = 16
"""Numbers that were said last: what is calculated is calculated from them more often than from older ones."""

_MAX_BESIDE = 16
"""Most values of the same step that a claim is seen beside."""

_TELLING_WEIGHT, _LEAST_TELLING = 0.5, 2
"""Two amounts in two units are of the same where so many words agree, each at most four words away from both."""

_MAX_NEAR = 6
"""Values that nearly equal a claim's whose rows are looked at: those between whose words it stands best."""


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """A value where a text states it.

    Attributes:
        step: Index of the step that states it, or that was given it; `TASK` for the task.
        is_input: Whether the step was given it.
        value: The value.
        left: Words before it, the nearest first.
        right: Words after it, the nearest first.
        around: Words of its row: the stems of those near it on both sides, each once, in the order of the alphabet, and
            how much each says, 0..1: the nearer, the more.
    """

    step: int
    is_input: bool
    value: Value
    left: tuple[str, ...]
    right: tuple[str, ...]
    around: tuple[tuple[str, float], ...]

    def count_agreement(self, other: Mention) -> int:
        """Count the words right before and right after both values that agree."""
        count = 0
        if self.left[:1] == other.left[:1]:  # most do not agree in one word
            count += _count_common(self.left, other.left)
        if self.right[:1] == other.right[:1]:
            count += _count_common(self.right, other.right)
        return count


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
        n_around: How many values near the claim have a source, and
        n_alongside: how many of them stand in a text that states the source's value.
    """

    kind: ContradictionKind
    source: Mention
    surprise: float
    agreement: int = 0
    is_unused: bool = False
    is_repaired: bool = False
    share_alike: float = 0.0
    n_alongside: int = 0
    n_around: int = 0


@dataclass(frozen=True, slots=True)
class Derivation:
    """Whether a value is calculated from others.

    Attributes:
        surprise: How much better a calculation explains it than chance, in nats.
        operands: The nearest numbers that give it.
        expected: Logarithm of how many calculations would give it by chance.
    """

    surprise: float = 0.0
    operands: Operands = ""
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that an agent's step states, beside what its sources say.

    Attributes:
        mention: The value, and the step that states it.
        support: The mention of the same value in a source whose words agree most; None where no source has the value.
        agreement: How many words around the value agree with that source.
        calculated: Whether it is calculated from supported numbers.
        contradictions: At most one of each kind.
        is_repeated: Whether a later step of an agent states the value again.
        is_argument: Whether the step calls a tool with it.
        n_known: How many values of its form the sources have.
        rival_agreement: How many words around it agree with those around another value of a source.
    """

    mention: Mention
    support: Mention | None
    agreement: int
    calculated: Derivation
    contradictions: tuple[Contradiction, ...]
    is_repeated: bool
    is_argument: bool
    n_known: int = 0
    rival_agreement: int = 0

    @property
    def derivation(self) -> float:
        """How much better a calculation from supported numbers explains the value than chance, in nats."""
        return self.calculated.surprise

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
        return HeldStep(mentions, tuple(self._sources.hold(mentions, text)) if decides else (), decides)

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
    calculated: Derivation
    contradictions: tuple[Contradiction, ...]
    n_known: int
    rival_agreement: int = 0

    @property
    def is_vouched(self) -> bool:
        return self.support is not None or self.calculated.surprise > 1.0

    def finish(self, last_use: dict[tuple[Form, str], int], *, is_argument: bool) -> Claim:
        value, step = self.mention.value, self.mention.step
        last = last_use.get((value.form, value.key), step)
        contradictions = []
        for one in self.contradictions:
            used = last_use.get((one.source.value.form, one.source.value.key), -1)
            contradictions.append(replace(one, is_unused=used < 0, is_repaired=used > step and last <= step))
        return Claim(
            self.mention,
            self.support,
            self.agreement,
            self.calculated,
            tuple(contradictions),
            last > step,
            is_argument,
            self.n_known,
            self.rival_agreement,
        )


class _Sources:
    """What was said so far: by value, by nearly the same value, by the words around a value, and by row."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Form, str], list[Mention]] = {}
        self._full_dates: dict[str, list[Mention]] = defaultdict(list)
        self._by_quantity: dict[str, list[Mention]] = defaultdict(list)
        self._by_dimension: dict[str, list[Mention]] = defaultdict(list)
        self._by_pattern: dict[tuple[Form, str], list[Mention]] = defaultdict(list)
        self._by_context: dict[tuple[Form, tuple[str, ...]], list[Mention]] = defaultdict(list)
        self._n_keys: dict[tuple[Form, int], int] = defaultdict(int)
        self._n_values: dict[Form, int] = defaultdict(int)
        self._n_twins: dict[tuple[Form, int], int] = defaultdict(int)
        self._rows: dict[tuple[int, bool, Form], _Rows] = defaultdict(_Rows)
        self._operands: dict[float, None] = {}
        self._columns: dict[tuple[int, bool], list[float]] = {}
        self._moments: dict[Form, dict[str, None]] = {"date": {}, "time": {}}
        self._spans: dict[tuple[float, str], None] = {}

    def add(self, mention: Mention, *, is_operand: bool = True) -> None:
        """Take a mention up: later claims are held against it."""
        value = mention.value
        key = value.form, value.key
        if value.form == "date" and len(value.key) > LENGTH_WITHOUT_YEAR:
            self._full_dates[value.key[-LENGTH_WITHOUT_YEAR:]].append(mention)
        if value.quantity:
            self._add_quantity(mention)
        if key in self._by_key:
            self._by_key[key].append(mention)
        else:
            self._by_key[key] = [mention]
            size = value.form, len(value.key)
            self._n_keys[size] += 1
            self._n_values[value.form] += 1
            patterns = list(_patterns(value))
            self._n_twins[size] += any((value.form, pattern) in self._by_pattern for pattern in patterns)
            for pattern in patterns:
                self._by_pattern[value.form, pattern].append(mention)
        self._rows[mention.step, mention.is_input, value.form].add(mention)
        for context in _contexts(mention):
            self._by_context[value.form, context].append(mention)
        if not is_operand:
            return
        if value.form in self._moments:
            self._moments[value.form].pop(value.key, None)
            self._moments[value.form][value.key] = None
        if value.form == "number":
            number = float(value.key)
            if value.unit in _TIME_UNITS:
                self._spans.pop((number, value.unit), None)
                self._spans[number, value.unit] = None
            self._operands.pop(number, None)
            self._operands[number] = None
            self._columns.setdefault((mention.step, mention.is_input), []).append(number)

    def _add_quantity(self, mention: Mention) -> None:
        value = mention.value
        self._by_quantity[value.quantity].append(mention)
        self._by_dimension[_dimension(value)].append(mention)
        if value.plain and not value.quantity.startswith("#"):
            self._by_quantity[f"# {value.plain}"].append(mention)

    def hold(self, mentions: Sequence[Mention], text: str) -> list[_Held]:
        """Hold the claims of one step against the sources, in order.

        By which moments a message dates itself, or says when it speaks next, nobody else can know: they are claims only
        where a source has them, or the task or an input has another one between the same words.
        """
        values = sorted((mention.value for mention in mentions), key=lambda value: value.start)
        held = []
        for mention in mentions:
            if mention.value.form in self._moments and dates_itself(text, mention.value):
                if (own := self._hold_moment(mention)) is not None:
                    held.append(own)
            else:
                held.append(self._hold(mention, values))
        texts: dict[tuple[Form, str], set[tuple[int, bool]]] = {}
        return [self._count_alongside(one, values, texts) if one.contradictions else one for one in held]

    def _count_alongside(
        self, held: _Held, values: Sequence[Value], texts: dict[tuple[Form, str], set[tuple[int, bool]]]
    ) -> _Held:
        """Count, of the values near a claim that have a source, how many stand in that of what contradicts it."""
        value = held.mention.value
        around = [
            known
            for form, key in {
                (other.form, other.key)
                for other in _find_beside(value, values)
                if other.form not in ("opposite", "quotation")
            }
            if (known := self._find_texts(form, key, texts))
        ]
        counted = []
        for one in held.contradictions:
            own = self._find_texts(one.source.value.form, one.source.value.key, texts)
            alongside = max((sum(text in known for known in around) for text in own), default=0)
            counted.append(replace(one, n_alongside=alongside, n_around=len(around)))
        return replace(held, contradictions=tuple(counted))

    def _find_texts(
        self, form: Form, key: str, texts: dict[tuple[Form, str], set[tuple[int, bool]]]
    ) -> set[tuple[int, bool]]:
        """List the latest texts that state a value."""
        if (form, key) not in texts:
            texts[form, key] = {(one.step, one.is_input) for one in self._by_key.get((form, key), ())[-_MAX_SAME:]}
        return texts[form, key]

    def _hold(self, mention: Mention, values: Sequence[Value]) -> _Held:
        value = mention.value
        if value.form == "opposite":
            return self._hold_opposite(mention)
        same = self._find_same(value)
        rival, agreement, n_rivals = self._find_rival(mention)
        if same:
            support = max(same, key=mention.count_agreement)
            contradictions = [*self._other_row(mention, same), *_other_unit(mention, same)]
            return _Held(
                mention,
                support,
                mention.count_agreement(support),
                Derivation(),
                tuple(contradictions),
                self._n_values[value.form],
                agreement,
            )
        contradictions = [*self._nearest(mention)]
        if rival is None and value.quantity:
            contradictions += self._other_amount(mention)
        if rival is not None:
            surprise = max(0.0, 1.5 * agreement - math.log(n_rivals))
            contradictions.append(Contradiction("context", rival, surprise, agreement))
        return _Held(
            mention,
            None,
            0,
            self._derive(value, values),
            tuple(contradictions),
            self._n_values[value.form],
            agreement,
        )

    def _hold_moment(self, mention: Mention) -> _Held | None:
        """Hold a moment by which a message dates itself against what others gave it; None where that says nothing."""
        if self._find_same(mention.value):
            return self._hold(mention, ())
        given = [
            (mention.count_agreement(other), other)
            for context in _contexts(mention)
            for other in self._by_context.get((mention.value.form, context), ())[-_MAX_SAME:]
            if other.step == TASK or other.is_input
        ]
        if not given:
            return None
        agreement, rival = max(given, key=lambda one: one[0])
        found = Contradiction("context", rival, 1.5 * agreement, agreement)
        return _Held(mention, None, 0, Derivation(), (found,), self._n_values[mention.value.form], agreement)

    def _find_same(self, value: Value) -> list[Mention]:
        """List the latest mentions of a value; of a date also those of its day that name a year, or none.

        Of a number also those that give it in another unit.
        """
        same = self._by_key.get((value.form, value.key), [])[-_MAX_SAME:]
        if value.form == "number":
            restated = [*self._by_quantity.get(value.quantity or f"# {value.key}", ())]
            if plain := value.plain:
                restated += self._by_quantity.get(f"# {plain}", ())
                restated += self._by_key.get(("number", plain), ())
            same += [one for one in restated[-_MAX_SAME:] if one.value.key != value.key and value.equals(one.value)]
        if not same and value.form == "date":
            if len(value.key) > LENGTH_WITHOUT_YEAR:
                same = self._by_key.get(("date", value.key[-LENGTH_WITHOUT_YEAR:]), [])[-_MAX_SAME:]
            else:
                same = self._full_dates.get(value.key, [])[-_MAX_SAME:]
        return same

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
        return _Held(mention, support, agreement, Derivation(), found, self._n_values["opposite"])

    def _nearest(self, mention: Mention) -> Iterator[Contradiction]:
        value = mention.value
        near: dict[str, Mention] = {}
        for pattern in _patterns(value):
            for other in self._by_pattern.get((value.form, pattern), ())[-_MAX_SAME:]:
                if other.value.key != value.key and (
                    not pattern.startswith(_OF_ANY_YEAR) or len(other.value.key) != len(value.key)
                ):
                    near.setdefault(other.value.key, other)
        if not near:
            return
        found = [self._best_agreement(mention, other) for other in near.values()]
        found.sort(key=lambda one: -one[0])  # of equal ones the first that was found
        fits = [self._fit(mention, other) for _, other in found[:_MAX_NEAR]]
        best = max(range(len(fits)), key=lambda index: found[index][0] + fits[index])
        size = value.form, len(value.key)
        alike = self._n_twins[size] / self._n_keys[size] if self._n_keys[size] > 1 else 0.0
        agreement, source = found[best]
        yield Contradiction("near", source, self._near_surprise(value), agreement, share_alike=alike)

    def _best_agreement(self, mention: Mention, near: Mention) -> tuple[int, Mention]:
        """Return between how many of the same words a value stands where it stands best, and that mention of it."""
        same = self._by_key[near.value.form, near.value.key][-_MAX_SAME:]
        best = max(same, key=mention.count_agreement)
        return mention.count_agreement(best), best

    def _fit(self, mention: Mention, source: Mention) -> float:
        """Return how much a claim's words tell a value of a text from its other values, in nats."""
        rows = self._rows[source.step, source.is_input, source.value.form]
        fits = zip(rows.mentions, rows.fit(mention), strict=True)
        return max((fit for row, fit in fits if row.value.key == source.value.key), default=0.0)

    def _near_surprise(self, value: Value) -> float:
        if value.form in ("name", "quotation"):
            return 1.5 * value.key.count(" ")
        length = len(value.key)
        alike = 9.0 * length * max(self._n_keys[value.form, length], 1)
        letters = 10.0 if value.form in ("number", "date", "time") else 20.0
        return max(0.0, length * math.log(letters) - math.log(alike))

    def _find_rival(self, mention: Mention) -> tuple[Mention | None, int, int]:
        """Find the other value between whose words a claim stands best, how many agree, and how many such values."""
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
        return best, most, len(rivals)

    def _other_row(self, mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
        """Look whether the claim's words stand beside another value in every source that has the claim's value."""
        texts = list(dict.fromkeys((other.step, other.is_input) for other in reversed(same)))[:_MAX_SOURCES]
        fits = [_fit_row(mention, self._rows[step, is_input, mention.value.form]) for step, is_input in texts]
        if fits and all(gain > 0 for gain, _ in fits):
            gain, rival = min(fits, key=lambda fit: fit[0])
            assert rival is not None
            yield Contradiction("row", rival, gain, mention.count_agreement(rival))

    def _other_amount(self, mention: Mention) -> Iterator[Contradiction]:
        """Look for another amount of the same, in another unit: the words near both agree."""
        value, own = mention.value, _telling_words(mention)
        others = [
            (len(own & _telling_words(other)), other)
            for other in self._by_dimension.get(_dimension(value), ())[-_MAX_SAME:]
            if other.value.unit != value.unit
        ]
        agreement, best = max(others, key=lambda one: one[0], default=(0, None))
        if best is not None and agreement >= _LEAST_TELLING:
            yield Contradiction("context", best, 1.5 * agreement, agreement)

    def _derive(self, value: Value, values: Sequence[Value]) -> Derivation:
        """Return how well a calculation from what is known, or stands beside it, explains a value.

        Args:
            value: The value.
            values: All of its step, in order.
        """
        if value.form not in ("number", "date", "time"):
            return Derivation()
        beside = _find_beside(value, values)
        numbers = [float(other.key) for other in beside if other.form == "number"]
        days = [other.key for other in beside if other.form == "date"]
        hours = [other.key for other in beside if other.form == "time"]
        known_days, known_hours = (_latest(self._moments[form], _MAX_MOMENTS) for form in ("date", "time"))
        if value.form != "number":
            spans = [*_latest(self._spans, _MAX_SPANS), *((float(o.key), o.unit) for o in beside if o.form == "number")]
            if value.form == "date":
                surprise = date_surprise(value.key, [*known_days, *days], spans)
            else:
                surprise = time_surprise(value.key, [*known_hours, *hours], spans)
            return Derivation(surprise, "known" if surprise else "")
        if len(value.key.lstrip("-").replace(".", "")) < 2:
            return Derivation()
        found = explain_number(value.key, numbers, others=differences(days, hours))
        if found.surprise >= 1.0:
            return Derivation(found.surprise, "beside", found.expected)
        operands = _latest(self._operands, 32)
        columns = _latest(self._columns.values(), 3)
        others = differences([*known_days, *days], [*known_hours, *hours])
        latest = explain_number(value.key, [*operands[-_MAX_LATEST:], *numbers], columns[-1:], others)
        known = explain_number(value.key, [*operands, *numbers], columns, others)
        surprise = max(found.surprise, known.surprise)
        nearest: tuple[tuple[Operands, Explanation], ...] = (("beside", found), ("latest", latest), ("known", known))
        for where, one in nearest:
            if one.is_found:
                return Derivation(surprise, where, one.expected)
        return Derivation(0.0, "", known.expected)


def _dimension(value: Value) -> str:
    return value.quantity.partition(" ")[0]


def _telling_words(mention: Mention) -> set[str]:
    """Return the words near a value that are no articles and the like, those few of its row that say the most."""
    return {word for word, weight in mention.around if weight >= _TELLING_WEIGHT and len(word) > 3}


def _latest(values: Reversible[_V], count: int) -> list[_V]:
    """List the last values of a dictionary, in order, without a look at those before them."""
    return list(islice(reversed(values), count))[::-1]


def _find_beside(value: Value, values: Sequence[Value]) -> list[Value]:
    """List the values of the same step that stand near one, in order; at most 16."""
    low = bisect_left(values, value.start - _BESIDE, key=lambda other: other.start)
    return [
        other
        for other in values[low : low + 16]
        if abs(other.start - value.start) <= _BESIDE and other.key != value.key
    ]


class _Rows:
    """The values of one form in one text, and beside which of them each word stands."""

    def __init__(self) -> None:
        self.mentions: list[Mention] = []
        self._by_word: dict[str, list[tuple[int, float]]] = {}
        self._n_indexed = 0

    def add(self, mention: Mention) -> None:
        """Take a value up."""
        if len(self.mentions) < _MAX_ROWS:
            self.mentions.append(mention)

    def fit(self, mention: Mention) -> list[float]:
        """Return how well a claim's words fit each value: a word counts the more, the fewer values it stands beside."""
        for index in range(self._n_indexed, len(self.mentions)):
            for word, weight in self.mentions[index].around:
                self._by_word.setdefault(word, []).append((index, weight))
        self._n_indexed = count = len(self.mentions)
        fits = [0.0] * count
        for word, own in mention.around:
            rows = self._by_word.get(word, ())
            if 0 < len(rows) < count:
                rarity = own * math.log(count / len(rows))
                for index, weight in rows:
                    fits[index] += rarity * weight
        return fits


def _fit_row(mention: Mention, rows: _Rows) -> tuple[float, Mention | None]:
    """Return by how many nats the claim's words fit another value of a source better than its own, and that value."""
    own, best, rival = 0.0, 0.0, None
    for row, fit in zip(rows.mentions, rows.fit(mention), strict=True):
        if row.value.equals(mention.value):
            own = max(own, fit)
        elif fit > best and abs(len(row.value.key) - len(mention.value.key)) <= 1:
            best, rival = fit, row
    return (best - own, rival) if rival is not None else (0.0, None)


def _other_unit(mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
    unit = mention.value.unit
    if mention.value.form != "number" or not unit or len(mention.value.key) < 2:
        return
    with_unit = [other for other in same if other.value.unit]
    if with_unit and not any(other.value.unit == unit or other.value.restates(mention.value) for other in with_unit):
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
                replace(value, start=value.start + shift) if shift else value,
                left[:_MAX_CONTEXT_WORDS],
                right[:_MAX_CONTEXT_WORDS],
                text_words.row_of(value),
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

    def row_of(self, value: Value) -> tuple[tuple[str, float], ...]:
        """Return the words that say what a value is of: those near it in its record or line, else all near it."""
        starts, words = self._words
        first, after = bisect_left(starts, value.start), bisect_left(starts, value.stop)
        low, high = max(0, first - _ROW_WORDS), min(len(words), after + _ROW_WORDS)
        for borders in (_RECORD, _LINE):
            begin, end = _find_borders(self._text, value, borders)
            first_in, last_in = max(low, bisect_left(starts, begin)), min(high, bisect_left(starts, end))
            if (first_in > low or last_in < high) and first - first_in + last_in - after >= _LEAST_ROW_WORDS:
                low, high = first_in, last_in
                break
        weights: dict[str, float] = {}
        for index in (*range(low, first), *range(after, high)):
            distance = first - 1 - index if index < first else index - after
            for part in _NAME_PART.findall(words[index]):
                if len(part) > 1:
                    stem = part[:_STEM_CHARS]
                    weights[stem] = max(weights.get(stem, 0.0), _HALF_WORDS / (_HALF_WORDS + distance))
        return tuple(sorted(weights.items()))


def _find_borders(text: str, value: Value, borders: re.Pattern[str]) -> tuple[int, int]:
    """Return where the record or line around a value begins and ends; where there is no border near, further away."""
    begin = max((m.end() for m in borders.finditer(text, max(0, value.start - _ROW_CHARS), value.start)), default=-1)
    after = borders.search(text, value.stop, value.stop + _ROW_CHARS)
    return begin, after.start() if after else len(text)


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
        if value.form == "number" and len(digits) > 2:
            yield f"+{digits}"  # one digit more, or one less
            yield from dict.fromkeys(f"+{digits[:index]}{digits[index + 1 :]}" for index in range(len(digits)))
        if value.form == "date":
            day = digits[-LENGTH_WITHOUT_YEAR:]
            yield from (f"{_OF_ANY_YEAR}{day[:index]}?{day[index + 1 :]}" for index in range(len(day)))


def _information(value: Value) -> float:
    if value.form in ("name", "quotation"):
        return 3.0 + value.key.count(" ")
    if value.form == "opposite":
        return 0.7
    return 2.3 * min(len(value.key.lstrip("-").replace(".", "").rstrip("0")) or 1, 8)
