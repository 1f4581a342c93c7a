"""Hold every value that a step states against what the step could know: the task, its inputs, the steps before."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, islice
from sys import intern
from typing import Final, Literal, TypeAlias, TypeVar

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger.answers import ToolRecords
from blamespan_tracer.ledger.dating import dates_itself
from blamespan_tracer.ledger.derivations import (
    MOST_OPERANDS,
    date_surprise,
    differences,
    explain_number,
    time_surprise,
)
from blamespan_tracer.ledger.values import LENGTH_WITHOUT_YEAR, OPPOSITES, Form, Value, find_values

_V = TypeVar("_V")

TASK: Final = -1
"""Stands for the task where a step's index is meant."""

ContradictionKind: TypeAlias = Literal["near", "context", "row", "unit", "opposite", "record"]
"""How a source contradicts a claim.

- near: the source has a value that differs in one character, digit, sign or word, and no source has the claim's.
- context: the source has another value between the same words, and no source has the claim's.
- row: the source has the claim's value, but beside other words, and beside the claim's words another value.
- unit: the source has the number with another unit.
- opposite: the source has the opposite word between the same words.
- record: the source is a tool's answer about the thing that the claim's sentence names, and has another number of this
  kind; no source has the claim's.
"""

Operands: TypeAlias = Literal["beside", "latest", "known", ""]
"""Which numbers give a value: those that stand beside it, the latest ones, any that are known; empty for none."""

_WORD = re.compile(r"\w+")
_STEM_CHARS = 6
"""Words that begin with the same so many characters say the same of a value: `departs`, `departure`."""

_MAX_CONTEXT_WORDS = 8
_ROW_WORDS = 14
"""Words on each side of a value that say what the value is of."""

_LEAST_ROW_WORDS = 3
"""A record or line with fewer words beside a value does not say what the value is of."""

_HALF_WORDS = 4.0
"""A word so many words away from a value says half as much of it as one right beside it."""
_WEIGHTS = tuple(_HALF_WORDS / (_HALF_WORDS + distance) for distance in range(_ROW_WORDS))
"""How much a word says by how many words are between."""

_ROW_CHARS = 400
_BORDERS = re.compile(r"[{}]"), re.compile(r"\n")
"""Between records, and between lines."""

_MAX_VALUES = 400
"""Values of one text that are read; the rest of a huge table says nothing that can be held against a claim."""

_MAX_TEXT_CHARS = 40_000
"""Of a longer text the first and last half of this many characters are read."""

_MANY_CLAIMS, _MAX_CLAIMS, _FEW_CLAIMS = 10_000, 2 * _MAX_VALUES, 16
"""Once a run has many claims, few of each further step are held against their sources, and all are sources of others.

No recorded run states so many values: the most are 8,998, in 922 steps.
"""

_MAX_SAME = 20
"""Latest mentions of one value, or of one context, that a claim is held against."""

_MAX_NOTED = 50_000
"""Contexts, and parts of values, that are kept of the values of one form: no recorded run has half as many."""

_MAX_INDEXED = 500
"""Texts whose rows are kept in the form in which claims are looked for in them."""

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

_MAX_OPERANDS, _MAX_LATEST, _MAX_COLUMNS = 32, 16, 3
"""Numbers that were said last: what is calculated is calculated from them more often than from older ones."""

_RECORD_SURPRISE = 6.0
"""Of a record that contradicts a claim, in nats."""

_MAX_BESIDE = 16
"""Most values of the same step that a claim is seen beside."""

_TELLING_WORDS, _LEAST_TELLING = 4, 2
"""Two amounts in two units are of the same where so many words agree, each at most four words away from both."""

_MAX_ALIKE, _MAX_NEAR = 40, 6
"""Values that nearly equal a claim's, and those of them between whose words it stands best: only their rows are read.

In 92 recorded runs no claim has more than 18 that nearly equal it.
"""


class TextWords:
    """The words of a text, in order, and where its records and lines end.

    Args:
        text: The text, or a part of it.
        start: Offset of the part in the text; all offsets count from the beginning of the text.
    """

    __slots__ = "_borders", "_starts", "_stems", "words"

    def __init__(self, text: str = "", start: int = 0) -> None:
        matches = list(_WORD.finditer(text.lower()))
        self.words = [intern(match.group()) for match in matches]
        self._starts = array("q", [match.start() + start for match in matches])
        self._borders = tuple(array("q", [match.start() + start for match in one.finditer(text)]) for one in _BORDERS)
        self._stems: list[tuple[str, ...]] | None = None

    def place(self, value: Value) -> tuple[int, int]:
        """Return the index of the first word that is not before a value, and of the first one behind it."""
        return bisect_left(self._starts, value.start), bisect_left(self._starts, value.stop)

    def list_stems(self, value: Value, first: int, after: int) -> list[tuple[str, int]]:
        """List the stems of a value's row, each once, with the number of words between the nearest one and the value.

        They are in the order of the alphabet.
        """
        if self._stems is None:
            of_words = {word: _stems(word) for word in set(self.words)}
            self._stems = [of_words[word] for word in self.words]
        stems, (low, high) = self._stems, self.find_row(value, first, after)
        distances: dict[str, int] = {}
        for index in range(low, first):  # of a word that stands there twice the nearest comes last
            for stem in stems[index]:
                distances[stem] = first - 1 - index
        for distance, own in enumerate(stems[after:high]):
            for stem in own:
                if distances.get(stem, distance) >= distance:
                    distances[stem] = distance
        return sorted(distances.items())

    def find_row(self, value: Value, first: int, after: int) -> tuple[int, int]:
        """Return the first and behind the last word of a value's record or line near it, else of all that is near."""
        low, high = max(0, first - _ROW_WORDS), min(len(self.words), after + _ROW_WORDS)
        for borders in self._borders:
            index, end = bisect_left(borders, value.start), bisect_left(borders, value.stop)
            first_in, last_in = low, high
            if index and borders[index - 1] >= value.start - _ROW_CHARS:
                first_in = bisect_left(self._starts, borders[index - 1] + 1, low, first)
            if end < len(borders) and borders[end] < value.stop + _ROW_CHARS:
                last_in = bisect_left(self._starts, borders[end], after, high)
            if (first_in > low or last_in < high) and first - first_in + last_in - after >= _LEAST_ROW_WORDS:
                return first_in, last_in
        return low, high


_NO_WORDS: Final = TextWords()


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """A value where a text states it.

    Attributes:
        step: Index of the step that states it, or that was given it; `TASK` for the task.
        is_input: Whether the step was given it.
        value: The value.
        text: The words of the text, and
        first: the index of the first one of these that is not before the value, and
        after: that of the first one behind it.
    """

    step: int
    is_input: bool
    value: Value
    text: TextWords = _NO_WORDS
    first: int = 0
    after: int = 0

    @property
    def around(self) -> list[tuple[str, int]]:
        """Words of its row: the stems of those near it on both sides, each once, in the order of the alphabet.

        With each stands how many words are between it and the value.
        """
        return self.text.list_stems(self.value, self.first, self.after)

    def count_agreement(self, other: Mention) -> int:
        """Count the words right before and right after both values that agree."""
        own, others = self.text.words, other.text.words
        here, there, before, behind = self.first, other.first, 1, 0
        most = min(here, there, _MAX_CONTEXT_WORDS)
        while before <= most and own[here - before] == others[there - before]:
            before += 1
        here, there = self.after, other.after
        most = min(len(own) - here, len(others) - there, _MAX_CONTEXT_WORDS)
        while behind < most and own[here + behind] == others[there + behind]:
            behind += 1
        return before - 1 + behind


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


_NOT_CALCULATED: Final = Derivation()


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
    is_repeated: bool = False
    is_argument: bool = False
    n_known: int = 0
    rival_agreement: int = 0

    @property
    def derivation(self) -> float:
        """How much better a calculation from supported numbers explains the value than chance, in nats."""
        return self.calculated.surprise

    @property
    def is_vouched(self) -> bool:
        """Whether a source has the value, or a calculation gives it."""
        return self.support is not None or self.derivation > 1.0

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
    held: deque[HeldStep] = deque()
    for step in trace.steps:
        reader.hear(step.index, step.input_text)
        if step.kind == "tool_result" and step.index:
            call = trace.steps[step.inputs[-1] if step.inputs else step.index - 1]
            reader.hear_answer(step.index, call.content if call.kind == "tool_call" else "", step.content)
        decides, is_call = trace.can_be_blamed(step), step.kind == "tool_call"
        read = reader.hold(step.index, step.content, decides=decides, is_call=is_call)
        reader.take(read)
        held.append(replace(read, mentions=()))
    return Ledger(tuple(reader.finish(held.popleft()) for _ in trace.steps))


class LedgerReader:
    """Reads the ledger of a run step by step, while the run goes on; a step costs the same however long the run is.

    Args:
        task: What the run was asked.
    """

    def __init__(self, task: str) -> None:
        self._sources = _Sources()
        self._answers = ToolRecords()
        self._last_use: dict[tuple[Form, str], int] = {}
        self._n_claims = 0
        self._sources.add(TASK, list(read_mentions(TASK, task)))

    def hear(self, index: int, text: str) -> None:
        """Take up what a step was given."""
        self._sources.add(index, list(read_mentions(index, text, is_input=True)), is_input=True)

    def hear_answer(self, index: int, call: str, text: str) -> None:
        """Take up what a tool answered as records of the things that it was asked about; `take` takes up its values.

        Args:
            index: Of the step that answers.
            call: The call, as the step that makes it says it; empty where it is not known.
            text: The answer.
        """
        self._answers.add(index, call, text)

    def hold(self, index: int, text: str, *, decides: bool, is_call: bool = False) -> HeldStep:
        """Hold what a step states against what is known; nothing is taken up.

        Args:
            index: Of the step.
            text: What it says.
            decides: Whether an agent can be blamed for it; what nobody can be blamed for makes no claims.
            is_call: Whether it calls a tool: what comes before the first bracket is the tool's name.
        """
        mentions = tuple(read_mentions(index, text))
        most = _MAX_CLAIMS if self._n_claims < _MANY_CLAIMS else _FEW_CLAIMS
        tool = text.partition("(")[0] if is_call else None
        held = self._sources.hold(mentions, text, most, tool) if decides else ()
        return HeldStep(mentions, tuple(self._hold_against_answers(claim, text) for claim in held), decides, tool)

    def _hold_against_answers(self, claim: Claim, text: str) -> Claim:
        """Look for what a tool answered about the thing of a number that has no source and is not calculated from it.

        Numbers of two digits are calculated from something in any run: one that is so by chance is none.
        """
        value = claim.mention.value
        if value.form != "number" or claim.is_vouched or claim.calculated.operands == "beside":
            return claim
        answered = self._answers.find_other(value, text)
        if answered is None or self._sources.calculates(value, answered.value):
            return claim
        found = Contradiction("record", Mention(answered.step, False, answered.value), _RECORD_SURPRISE)
        return replace(claim, contradictions=(*claim.contradictions, found))

    def take(self, step: HeldStep) -> None:
        """Take up what a step states: later ones are held against it."""
        if not step.mentions:
            return
        if step.decides:
            self._n_claims += len(step.held)
            self._last_use.update(((mention.value.form, mention.value.key), mention.step) for mention in step.mentions)
        vouched = {id(one.mention) for one in step.held if one.is_vouched} if step.held else None
        self._sources.add(step.mentions[0].step, step.mentions, vouched=vouched, tool=step.tool)

    def finish(self, step: HeldStep) -> tuple[Claim, ...]:
        """Return the claims of a step, with what is known by now of how their values were used since."""
        return tuple(self._note_use(claim, is_argument=step.tool is not None) for claim in step.held)

    def _note_use(self, claim: Claim, *, is_argument: bool) -> Claim:
        value, step = claim.mention.value, claim.mention.step
        last = self._last_use.get((value.form, value.key), step)
        if not (claim.contradictions or is_argument or last > step):  # most are as they were
            return claim
        contradictions = []
        for one in claim.contradictions:
            if one.kind == "record" and (is_argument or self._answers.is_confirmed(value, step)):
                continue
            used = self._last_use.get((one.source.value.form, one.source.value.key), -1)
            contradictions.append(replace(one, is_unused=used < 0, is_repaired=used > step and last <= step))
        return replace(claim, contradictions=tuple(contradictions), is_repeated=last > step, is_argument=is_argument)


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step held against what was known before it.

    Attributes:
        mentions: What it states.
        held: Its claims; none where nobody can be blamed for it.
        decides: Whether somebody can.
        tool: Name of the tool that it calls; None where it calls none.
    """

    mentions: tuple[Mention, ...]
    held: tuple[Claim, ...]
    decides: bool
    tool: str | None = None


class _Latest:
    """The latest mentions by key; of too many keys those that were not noted for longest are forgotten.

    Args:
        mentions: All of them, in order. They are kept by number: the garbage collector need not look at numbers.
        most: Keys that are kept at least; None for all.
    """

    def __init__(self, mentions: Sequence[Mention], most: int | None = _MAX_NOTED) -> None:
        self._mentions, self._most = mentions, most
        self._new: dict[Hashable, tuple[int, ...]] = {}
        self._old: dict[Hashable, tuple[int, ...]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._new or key in self._old

    def __len__(self) -> int:
        return len(self._new)

    def get(self, *keys: Hashable) -> list[Mention]:
        return [self._mentions[number] for key in keys for number in self._new.get(key) or self._old.get(key, ())]

    def add_last(self, key: Hashable) -> bool:
        """Note the last of all mentions; return whether one was noted of this key before."""
        known = self._new.get(key) or self._old.get(key, ())
        self._new[key] = (*known[1 - _MAX_SAME :], len(self._mentions) - 1)
        if self._most is not None and len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        return bool(known)


class _Stated:
    """What was stated so far of one form.

    By value, by nearly the same value, by the words around a value, by the day of a date with its year, and by what a
    number measures.
    """

    def __init__(self) -> None:
        self._mentions: list[Mention] = []
        self.by_key = _Latest(self._mentions, most=None)
        self.by_pattern, self.by_context, self.by_day, self.by_quantity, self.by_dimension = (
            _Latest(self._mentions) for _ in range(5)
        )
        self.n_keys: Counter[int] = Counter()
        """How many values there are of each length, and"""
        self.n_twins: Counter[int] = Counter()
        """how many of these are nearly equal to an earlier one."""

    def add(self, mention: Mention) -> None:
        """Take a mention up: later claims are held against it."""
        value, key = mention.value, mention.value.key
        self._mentions.append(mention)
        if not self.by_key.add_last(key):
            is_alike = [self.by_pattern.add_last(pattern) for pattern in _patterns(value)]
            self.n_keys[len(key)] += 1
            self.n_twins[len(key)] += any(is_alike)
        for context in _contexts(mention):
            self.by_context.add_last(context)
        if value.form == "date" and len(key) > LENGTH_WITHOUT_YEAR:
            self.by_day.add_last(key[-LENGTH_WITHOUT_YEAR:])
        if value.quantity:
            self.by_quantity.add_last(value.quantity)
            self.by_dimension.add_last(_dimension(value))
            if value.plain and not value.quantity.startswith("#"):
                self.by_quantity.add_last(f"# {value.plain}")

    def find_neighbours(self, mention: Mention) -> list[Mention]:
        """List the latest mentions between the same words as a claim: by the words before, behind and around it."""
        return self.by_context.get(*_contexts(mention))


class _Operands:
    """What numbers, dates and times may be calculated from: those that were stated last."""

    def __init__(self) -> None:
        self._numbers: dict[float, None] = {}
        self._columns: deque[tuple[float, ...]] = deque(maxlen=_MAX_COLUMNS)
        self._moments: dict[Form, dict[str, None]] = {"date": {}, "time": {}}
        self._spans: dict[tuple[float, str], None] = {}

    def add(self, values: Iterable[Value]) -> None:
        """Take up the values of one text, in order."""
        column = []
        for value in values:
            if value.form in self._moments:
                _renew(self._moments[value.form], value.key, _MAX_MOMENTS)
            if value.form == "number":
                number = float(value.key)
                column.append(number)
                if value.unit in _TIME_UNITS:
                    _renew(self._spans, (number, value.unit), _MAX_SPANS)
                _renew(self._numbers, number, _MAX_OPERANDS)
        if column:
            self._columns.append(tuple(column[:MOST_OPERANDS]))

    def derive(self, value: Value, beside: Sequence[Value]) -> Derivation:
        """Return how well a calculation from what is known, or stands beside it, explains a value.

        Args:
            value: The value.
            beside: Others of its step that stand near it, in order.
        """
        if value.form not in ("number", "date", "time"):
            return _NOT_CALCULATED
        numbers = [float(other.key) for other in beside if other.form == "number"]
        days = [other.key for other in beside if other.form == "date"]
        hours = [other.key for other in beside if other.form == "time"]
        known_days, known_hours = [*self._moments["date"], *days], [*self._moments["time"], *hours]
        if value.form != "number":
            spans = [*self._spans, *((float(other.key), other.unit) for other in beside if other.form == "number")]
            if value.form == "date":
                surprise = date_surprise(value.key, known_days, spans)
            else:
                surprise = time_surprise(value.key, known_hours, spans)
            return Derivation(surprise, "known" if surprise else "")
        if len(value.key.lstrip("-").replace(".", "")) < 2:
            return _NOT_CALCULATED
        found = explain_number(value.key, numbers, others=differences(days, hours))
        if found.surprise >= 1.0:
            return Derivation(found.surprise, "beside", found.expected)
        operands, others = list(self._numbers), differences(known_days, known_hours)
        known = explain_number(value.key, [*operands, *numbers], self._columns, others)
        surprise = max(found.surprise, known.surprise)
        if found.is_found:
            return Derivation(surprise, "beside", found.expected)
        if not known.is_found:
            return Derivation(0.0, "", known.expected)
        columns = list(self._columns)[-1:]
        latest = explain_number(value.key, [*operands[-_MAX_LATEST:], *numbers], columns, others)
        if latest.is_found:
            return Derivation(max(surprise, 0.0), "latest", latest.expected)
        return Derivation(surprise, "known", known.expected)

    def give(self, key: str, number: float) -> bool:
        """Check whether a number, by itself or with another one, gives the number *key*; not the other one alone."""

        def is_found(*operands: float) -> bool:
            return explain_number(key, operands).is_found

        return is_found(number) or any(is_found(number, other) and not is_found(other) for other in self._numbers)


def _renew(latest: dict[_V, None], value: _V, most: int) -> None:
    """Make a value the last one of those that are kept; the first one of too many goes."""
    latest.pop(value, None)
    latest[value] = None
    if len(latest) > most:
        del latest[next(iter(latest))]


class _Sources:
    """What was said so far: by form of its values, by what they measure, and by text."""

    def __init__(self) -> None:
        self._stated: dict[Form, _Stated] = defaultdict(_Stated)
        self._texts: dict[tuple[int, bool], Sequence[Mention]] = defaultdict(tuple)
        self._rows: dict[tuple[int, bool, Form], _Rows] = {}
        self._operands = _Operands()
        self._asking: dict[str, set[int]] = defaultdict(set)

    def add(
        self,
        step: int,
        mentions: Sequence[Mention],
        *,
        is_input: bool = False,
        vouched: Set[int] | None = None,
        tool: str | None = None,
    ) -> None:
        """Take up what a text states: later claims are held against it.

        Args:
            step: Index of the step that states it, or was given it.
            mentions: What it states.
            is_input: Whether the step was given it.
            vouched: By `id` those that others may be calculated from; None for all.
            tool: Name of the tool that the step calls.
        """
        if not mentions:
            return
        if tool is not None:
            self._asking[tool].add(step)
        self._texts[step, is_input] = [*self._texts[step, is_input], *mentions]
        for mention in mentions:
            self._stated[mention.value.form].add(mention)
        self._operands.add(one.value for one in mentions if vouched is None or id(one) in vouched)

    def hold(self, mentions: Sequence[Mention], text: str, most: int, tool: str | None = None) -> Iterator[Claim]:
        """Hold the claims of one step against the sources, in order.

        Of more than *most* values those come first that nearly equal one of a source, then those that no source has,
        and among equals those that say most.

        By which moments a message dates itself, or says when it speaks next, nobody else can know: they are claims only
        where a source has them, or the task or an input has another one between the same words.

        What a tool was asked for before does not contradict what it is asked for now: two questions are of two things.
        """
        values = sorted((mention.value for mention in mentions), key=lambda value: value.start)
        starts = [value.start for value in values]
        asked: Set[int] = self._asking.get(tool, set()) if tool is not None else set()
        texts: dict[tuple[Form, str], set[tuple[int, bool]]] = {}
        if len(mentions) > most:
            ranked = sorted(mentions, key=self._rank)[:most]
            chosen = set(map(id, ranked))
            mentions = [mention for mention in mentions if id(mention) in chosen]
        for mention in mentions:
            value = mention.value
            if value.form in ("date", "time") and dates_itself(text, value):
                held = self._hold_moment(mention)
            else:
                held = self._hold(mention, values, starts, asked)
            if held is not None and held.contradictions:
                held = self._count_alongside(held, _list_beside(value, values, starts), texts)
            if held is not None:
                yield held

    def calculates(self, value: Value, other: Value) -> bool:
        """Check whether another number gives one, by itself or with one of those that were stated last."""
        return self._operands.give(value.key, float(other.key))

    def _rank(self, mention: Mention) -> tuple[int, float]:
        value, stated = mention.value, self._stated[mention.value.form]
        is_known = value.key in stated.by_key
        is_near = not is_known and any(pattern in stated.by_pattern for pattern in _patterns(value))
        return is_known - is_near, -_information(value)

    def _count_alongside(
        self, held: Claim, beside: Sequence[Value], texts: dict[tuple[Form, str], set[tuple[int, bool]]]
    ) -> Claim:
        """Count, of the values near a claim that have a source, how many stand in that of what contradicts it."""
        near = {(other.form, other.key) for other in beside if other.form not in ("opposite", "quotation")}
        around = [known for key in near if (known := self._find_texts(key, texts))]
        counts = Counter(chain.from_iterable(around))
        counted = []
        for one in held.contradictions:
            own = self._find_texts((one.source.value.form, one.source.value.key), texts)
            alongside = max((counts[text] for text in own), default=0)
            counted.append(replace(one, n_alongside=alongside, n_around=len(around)))
        return replace(held, contradictions=tuple(counted))

    def _find_texts(
        self, key: tuple[Form, str], texts: dict[tuple[Form, str], set[tuple[int, bool]]]
    ) -> set[tuple[int, bool]]:
        """Return the latest texts that state a value."""
        if key not in texts:
            form, value = key
            texts[key] = {(one.step, one.is_input) for one in self._stated[form].by_key.get(value)}
        return texts[key]

    def _find_rows(self, source: Mention) -> _Rows:
        """Return the values of the form of one that stand in its text."""
        key = source.step, source.is_input, source.value.form
        if key not in self._rows:
            own = (one for one in self._texts[source.step, source.is_input] if one.value.form == source.value.form)
            self._rows[key] = _Rows(list(islice(own, _MAX_ROWS)))
        self._rows[key] = rows = self._rows.pop(key)
        if len(self._rows) > _MAX_INDEXED:
            del self._rows[next(iter(self._rows))]
        return rows

    def _hold(
        self, mention: Mention, values: Sequence[Value], starts: Sequence[int], asked: Set[int] = frozenset()
    ) -> Claim:
        """Hold a value against what is known.

        Args:
            mention: The value.
            values: Those of its text, ascending by offset.
            starts: Their offsets.
            asked: Earlier steps that call the tool that its step calls.
        """
        value = mention.value
        if value.form == "opposite":
            return self._hold_opposite(mention, asked)
        same, n_known = self._find_same(value), len(self._stated[value.form].by_key)
        rival, agreement, n_rivals = self._find_rival(mention, asked)
        if same:
            n_alike, support = _find_best_agreement(mention, same)
            telling = [other for other in same if not _is_asked(other, asked)]
            found = (*self._other_row(mention, telling), *_other_unit(mention, telling))
            return Claim(mention, support, n_alike, _NOT_CALCULATED, found, n_known=n_known, rival_agreement=agreement)
        contradictions = [*self._nearest(mention, asked)]
        if rival is None and value.quantity:
            contradictions += self._other_amount(mention, asked)
        if rival is not None:
            surprise = max(0.0, 1.5 * agreement - math.log(n_rivals))
            contradictions.append(Contradiction("context", rival, surprise, agreement))
        calculated = self._operands.derive(value, _list_beside(value, values, starts))
        return Claim(mention, None, 0, calculated, tuple(contradictions), n_known=n_known, rival_agreement=agreement)

    def _hold_moment(self, mention: Mention) -> Claim | None:
        """Hold a moment by which a message dates itself against what others gave it; None where that says nothing."""
        if self._find_same(mention.value):
            return self._hold(mention, (), ())
        stated = self._stated[mention.value.form]
        given = [
            (mention.count_agreement(other), other)
            for other in stated.find_neighbours(mention)
            if other.step == TASK or other.is_input
        ]
        if not given:
            return None
        agreement, rival = max(given, key=lambda one: one[0])
        found = Contradiction("context", rival, 1.5 * agreement, agreement)
        return Claim(mention, None, 0, _NOT_CALCULATED, (found,), n_known=len(stated.by_key), rival_agreement=agreement)

    def _find_same(self, value: Value) -> list[Mention]:
        """List the latest mentions of a value; of a date also those of its day that name a year, or none.

        Of a number also those that give it in another unit.
        """
        stated = self._stated[value.form]
        same = stated.by_key.get(value.key)
        if value.form == "number":
            restated = stated.by_quantity.get(value.quantity or f"# {value.key}")
            if value.quantity and (plain := value.plain):
                restated += [*stated.by_quantity.get(f"# {plain}"), *stated.by_key.get(plain)]
            same += [one for one in restated[-_MAX_SAME:] if one.value.key != value.key and value.equals(one.value)]
        if not same and value.form == "date":
            is_full = len(value.key) > LENGTH_WITHOUT_YEAR
            same = stated.by_key.get(value.key[-LENGTH_WITHOUT_YEAR:]) if is_full else stated.by_day.get(value.key)
        return same

    def _hold_opposite(self, mention: Mention, asked: Set[int]) -> Claim:
        """Look for the opposite word between the same words, where the word itself stands between them nowhere."""
        support, agreement = None, 0
        best, most = None, 1
        stated = self._stated["opposite"]
        for other in stated.find_neighbours(mention):
            words = mention.count_agreement(other)
            if other.value.key == mention.value.key and words >= agreement:
                support, agreement = other, words
            elif other.value.key in OPPOSITES[mention.value.key] and words > most and not _is_asked(other, asked):
                best, most = other, words
        found = () if best is None or agreement >= most else (Contradiction("opposite", best, 2.0 * most, most),)
        return Claim(mention, support, agreement, _NOT_CALCULATED, found, n_known=len(stated.by_key))

    def _nearest(self, mention: Mention, asked: Set[int]) -> Iterator[Contradiction]:
        value, stated = mention.value, self._stated[mention.value.form]
        near: dict[str, list[Mention]] = {}
        for pattern in _patterns(value):
            for other in stated.by_pattern.get(pattern):
                if other.value.key in near or other.value.key == value.key:
                    continue
                if not pattern.startswith(_OF_ANY_YEAR) or len(other.value.key) != len(value.key):
                    told = [one for one in stated.by_key.get(other.value.key) if not _is_asked(one, asked)]
                    if told:
                        near[other.value.key] = told
            if len(near) >= _MAX_ALIKE:
                break
        if not near:
            return
        found = [_find_best_agreement(mention, told) for told in near.values()]
        found.sort(key=lambda one: -one[0])  # of equal ones the first that was found
        agreement, source = found[0]
        if len(found) > 1:
            around = mention.around
            ranked = (
                (words + self._find_rows(one).fit_value(around, one.value), words, one)
                for words, one in found[:_MAX_NEAR]
            )
            _, agreement, source = max(ranked, key=lambda one: one[0])
        n_keys, n_twins = stated.n_keys[len(value.key)], stated.n_twins[len(value.key)]
        alike = n_twins / n_keys if n_keys > 1 else 0.0
        yield Contradiction("near", source, _near_surprise(value, n_keys), agreement, share_alike=alike)

    def _find_rival(self, mention: Mention, asked: Set[int]) -> tuple[Mention | None, int, int]:
        """Find the other value between whose words a claim stands best, how many agree, and how many such values."""
        best, most = None, 0
        rivals: set[str] = set()
        for other in dict.fromkeys(self._stated[mention.value.form].find_neighbours(mention)):
            if other.value.key != mention.value.key and not _is_asked(other, asked):
                rivals.add(other.value.key)
                words = mention.count_agreement(other)
                if words > most:
                    best, most = other, words
        return best, most, len(rivals)

    def _other_row(self, mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
        """Look whether the claim's words stand beside another value in every source that has the claim's value."""
        sources = {(other.step, other.is_input): other for other in reversed(same)}
        around = mention.around
        best: tuple[float, Mention] | None = None
        for source in list(sources.values())[:_MAX_SOURCES]:
            gain, rival = self._find_rows(source).fit_rival(around, mention.value)
            if rival is None or gain <= 0:
                return
            if best is None or gain < best[0]:
                best = gain, rival
        if best is not None:
            yield Contradiction("row", best[1], best[0], mention.count_agreement(best[1]))

    def _other_amount(self, mention: Mention, asked: Set[int]) -> Iterator[Contradiction]:
        """Look for another amount of the same, in another unit: the words near both agree."""
        value, own = mention.value, _telling_words(mention)
        others = [
            (len(own & _telling_words(other)), other)
            for other in self._stated[value.form].by_dimension.get(_dimension(value))
            if other.value.unit != value.unit and not _is_asked(other, asked)
        ]
        agreement, best = max(others, key=lambda one: one[0], default=(0, None))
        if best is not None and agreement >= _LEAST_TELLING:
            yield Contradiction("context", best, 1.5 * agreement, agreement)


def _is_asked(mention: Mention, asked: Set[int]) -> bool:
    """Check whether a value stands in what one of the calls of these steps asks for."""
    return mention.step in asked and not mention.is_input


def _list_beside(value: Value, values: Sequence[Value], starts: Sequence[int]) -> list[Value]:
    """List the other values that stand near one in its text.

    Args:
        value: The one.
        values: Those of the text, ascending by offset.
        starts: Their offsets.
    """
    low = bisect_left(starts, value.start - _BESIDE)
    return [
        other
        for other in values[low : low + _MAX_BESIDE]
        if abs(other.start - value.start) <= _BESIDE and other.key != value.key
    ]


def _find_best_agreement(mention: Mention, same: Sequence[Mention]) -> tuple[int, Mention]:
    """Return between how many of the same words a value stands where it stands best, and that mention of it."""
    counts = [mention.count_agreement(other) for other in same]
    most = max(counts)
    return most, same[counts.index(most)]


def _near_surprise(value: Value, n_keys: int) -> float:
    if value.form in ("name", "quotation"):
        return 1.5 * value.key.count(" ")
    length = len(value.key)
    letters = 10.0 if value.form in ("number", "date", "time") else 20.0
    return max(0.0, length * math.log(letters) - math.log(9.0 * length * max(n_keys, 1)))


def _dimension(value: Value) -> str:
    return value.quantity.partition(" ")[0]


def _telling_words(mention: Mention) -> set[str]:
    """Return the words near a value that are no articles and the like, those few of its row that say the most."""
    return {word for word, distance in mention.around if distance <= _TELLING_WORDS and len(word) > 3}


class _Rows:
    """The values of one form in one text, and beside which of them each word stands.

    Args:
        mentions: The values, at least one.
    """

    def __init__(self, mentions: Sequence[Mention]) -> None:
        self._mentions = mentions
        self._alike: dict[str, list[int]] = defaultdict(list)
        for row, mention in enumerate(mentions):
            for key in _likenesses(mention.value):
                self._alike[key].append(row)

    @lazy_property
    def _index(self) -> dict[str, tuple[float, list[tuple[int, float]]]]:
        """Return of each word how rare it is, and beside which values it stands, with how much it says of each.

        A word that stands beside all of them says nothing.
        """
        beside: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for row, mention in enumerate(self._mentions):
            for stem, distance in mention.around:
                beside[stem].append((row, _WEIGHTS[distance]))
        n_rows = len(self._mentions)
        return {stem: (math.log(n_rows / len(rows)), rows) for stem, rows in beside.items() if len(rows) < n_rows}

    def _fit(self, around: Sequence[tuple[str, int]]) -> dict[int, float]:
        """Return how well a claim's words fit each value that stands beside one of them.

        The fewer other values a word stands beside, the better it fits.
        """
        index, fits = self._index, defaultdict[int, float](float)
        for stem, distance in around:
            if stem in index:
                rarity, rows = index[stem]
                own = _WEIGHTS[distance] * rarity
                for row, weight in rows:
                    fits[row] += own * weight
        return fits

    def fit_value(self, around: Sequence[tuple[str, int]], value: Value) -> float:
        """Return how much a claim's words tell a value of the text from its other values, in nats."""
        fits = self._fit(around)
        own = (row for row in self._alike.get(value.key, ()) if self._mentions[row].value.key == value.key)
        return max((fits.get(row, 0.0) for row in own), default=0.0)

    def fit_rival(self, around: Sequence[tuple[str, int]], value: Value) -> tuple[float, Mention | None]:
        """Return by how many nats a claim's words fit another value better than its own, and that other one."""
        if len(self._mentions) == 1:
            return 0.0, None
        fits = self._fit(around)
        alike = {row for key in _likenesses(value) for row in self._alike.get(key, ())}
        own = {row for row in alike if self._mentions[row].value.equals(value)}
        most = max((fits.get(row, 0.0) for row in own), default=0.0)
        gain, best = 0.0, -1
        for row, fit in fits.items():
            if fit >= gain and row not in own and abs(len(self._mentions[row].value.key) - len(value.key)) <= 1:
                gain, best = fit, row if fit > gain else min(row, best)
        return (gain - most, self._mentions[best]) if gain > 0 else (0.0, None)


def _likenesses(value: Value) -> set[str]:
    """Return what two equal values of one form share: the key, the day of a date, the amount in any unit."""
    if value.form == "date":
        return {value.key[-LENGTH_WITHOUT_YEAR:], value.key}
    return {value.key, value.quantity, value.plain or value.key} if value.quantity else {value.key}


def _stems(word: str) -> tuple[str, ...]:
    if "_" not in word:
        return (word[:_STEM_CHARS],) if len(word) > 1 else ()
    return tuple(part[:_STEM_CHARS] for part in word.split("_") if len(part) > 1)


def _other_unit(mention: Mention, same: Sequence[Mention]) -> Iterator[Contradiction]:
    unit = mention.value.unit
    if mention.value.form != "number" or not unit or len(mention.value.key) < 2:
        return
    with_unit = [other for other in same if other.value.unit]
    if with_unit and not any(other.value.unit == unit or other.value.restates(mention.value) for other in with_unit):
        best = max(with_unit, key=mention.count_agreement)
        yield Contradiction("unit", best, _information(mention.value), mention.count_agreement(best))


def read_mentions(index: int, text: str, *, is_input: bool = False, with_words: bool = True) -> Iterator[Mention]:
    """Yield the values of a text, as far as it is read, in order.

    Args:
        index: Of the step whose text it is; `TASK` for the task.
        text: The text.
        is_input: Whether the step was given it.
        with_words: Whether the words around the values are read, which costs more than the values.
    """
    for part, shift in _readable(text) if text else ():
        words: TextWords | None = None
        for value in islice(find_values(part), _MAX_VALUES):
            moved = replace(value, start=value.start + shift) if shift else value
            if not with_words:
                yield Mention(index, is_input, moved)
                continue
            words = words or TextWords(part, shift)
            yield Mention(index, is_input, moved, words, *words.place(moved))


def _readable(text: str) -> Iterator[tuple[str, int]]:
    if len(text) <= _MAX_TEXT_CHARS:
        yield text, 0
    else:
        half = _MAX_TEXT_CHARS // 2
        yield text[:half], 0
        yield text[-half:], len(text) - half


def _contexts(mention: Mention) -> list[tuple[str, ...]]:
    words, first, after = mention.text.words, mention.first, mention.after
    contexts: list[tuple[str, ...]] = []
    if first > 1:
        contexts.append(("<", words[first - 1], words[first - 2]))
    if after + 1 < len(words):
        contexts.append((">", words[after], words[after + 1]))
    if first and after < len(words):
        contexts.append(("<>", words[first - 1], words[after]))
    return contexts


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
