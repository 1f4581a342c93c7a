"""Follow each claim of a run's final answer back to where it comes from, and through whom it went.

One agent's guess becomes everybody's fact when the others repeat it: the answer quotes a step that quotes a step that
quotes nothing. The ledger says of each claim which mention supports it. Here these are joined to chains, back to the
task, to a tool, to an input, to a calculation and its operands, or to an agent that states a value without support.

Source: From Spark to Fire (genealogy of claims in a team of agents). We differ: nothing is asked of a language model.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, TypeAlias

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.ledger.derivations import MOST_OPERANDS, find_calculation, find_count
from blamespan_tracer.ledger.ledger import TASK, Claim, Ledger, Mention, read_ledger, read_mentions
from blamespan_tracer.ledger.values import Form, Value

AncestorKind: TypeAlias = Literal["task", "input", "tool", "user", "agent", "calculation", "unsupported"]
"""Where a mention stands: in the task, in what a step was given, in what a tool answered or a user said. Of an agent's
step: `agent` repeats an earlier mention, `calculation` follows from others, `unsupported` has no source."""

_IS_VOUCHED: Final = 1.0
"""Derivations above it explain a number better than chance does, as in the ledger."""

_AT_ONCE: Final = 1_000, 150_000, 2_000
"""Steps, characters and numbers of agents of a run whose claims are followed in a few seconds at most (measured)."""

_LEAST_ECHO: Final = 4.0
"""A tool that answers with a value of its own call echoes it, where the value says so much, in nats: not a single
digit."""

_SMALL: Final = 10
"""Where a calculation has other operands, single digits are not followed: they may stand anywhere."""

_MAX_CALCULATIONS: Final = 100
"""Calculations whose operands are looked for; further ones are taken to be calculations of what is not known."""

_MAX_SAME: Final = 20
"""Latest mentions of a value that a claim may have been passed on by, as in the ledger."""

_SHORTEST_VERBATIM: Final = 4
_MAX_SEARCHED: Final = 100
_MAX_SEARCHED_CHARS: Final = 1_000_000
"""So many values are searched word for word, in so much text that no agent wrote."""

_BESIDE_CHARS: Final = 160
"""Operands of a calculation stand within so many characters of its result, or in earlier steps."""

_CALCULATES = re.compile(
    r"(?i)=|\d\s*[*\u00d7\u00f7]\s*\d|\d\s+[-+/]\s+\d|\\times|\\frac|\b(?:plus|minus|times|divided|total|sum|average|mean)\b"
)
"""A text that calculates, before the result."""
_IS_RESULT = re.compile(r"=\s*[\\$\u20ac\u00a3(*_]*$")
_FINAL = re.compile(r"(?i)\bfinal answer\b[\s*:_`]*(?:is\b)?")
_HEADING = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)?(?:#+\s|\*\*|__)")
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")
_LIST_MARK = re.compile(r"(?:^|\n)[ \t>*#-]*$")


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A mention that a claim of the final answer goes back to, or the claim itself.

    Attributes:
        mention: The value, and where it stands.
        kind: Where that is.
        sources: Indices, in `AnswerProvenance.ancestors`, of the mentions that it repeats or is calculated from.
        calculation: Of a calculation, how it is calculated: `12 * 3`.
        claim: What the ledger says of it; None unless an agent states it.
        confirmation: Of an unsupported mention, a later one by a tool, a user or an input that did not echo it.
    """

    mention: Mention
    kind: AncestorKind
    sources: tuple[int, ...] = ()
    calculation: str = ""
    claim: Claim | None = None
    confirmation: Mention | None = None

    @property
    def is_suspect(self) -> bool:
        """Whether an agent states it without support, and nobody independent confirms it later."""
        return self.kind == "unsupported" and self.confirmation is None


@dataclass(frozen=True)
class AnswerProvenance:
    """Where the claims of a run's final answer come from.

    Attributes:
        step: Index of the step that gives the final answer; None where no step of an agent states a value.
        claims: Indices, in *ancestors*, of the answer's own claims, in the order of the text, each value once.
        ancestors: These claims and all that they go back to. Sources stand behind what they are sources of.
    """

    step: int | None
    claims: tuple[int, ...]
    ancestors: tuple[Ancestor, ...]

    def chain(self, index: int) -> list[Ancestor]:
        """Return a mention and those that it goes back to, one after the other, up to a calculation or the earliest."""
        chain = [self.ancestors[index]]
        while len(chain[-1].sources) == 1 and chain[-1].kind != "calculation":
            chain.append(self.ancestors[chain[-1].sources[0]])
        return chain

    @lazy_property
    def suspects(self) -> tuple[Ancestor, ...]:
        """The earliest ancestors that an agent states without support, the earliest first."""
        found = [ancestor for ancestor in self.ancestors if ancestor.is_suspect]
        return tuple(sorted(found, key=lambda ancestor: (ancestor.mention.step, ancestor.mention.value.start)))

    @lazy_property
    def _unsupported(self) -> tuple[bool, ...]:
        flags = [False] * len(self.ancestors)
        for index in range(len(self.ancestors) - 1, -1, -1):
            ancestor = self.ancestors[index]
            flags[index] = ancestor.is_suspect or any(flags[source] for source in ancestor.sources)
        return tuple(flags)

    def is_unsupported(self, index: int) -> bool:
        """Check whether a mention goes back to one that is unsupported, also as an operand."""
        return self._unsupported[index]


def trace_answer(trace: MessageActionTrace, ledger: Ledger | None = None) -> AnswerProvenance:
    """Follow the claims of a run's final answer back to their earliest ancestors.

    Time grows with the length of the run: each claim is followed once, however many others go back to it. It works on
    a prefix of a run as well, whose latest statement is then taken for the answer.

    Args:
        trace: The run.
        ledger: Its claims, where they are read already.
    """
    ledger = ledger or read_ledger(trace)
    answer = _find_answer(trace, ledger)
    if answer is None:
        return AnswerProvenance(None, (), ())
    return _Follower(trace, ledger, answer).follow()


def follow_answer(trace: MessageActionTrace, *, at_once: bool = False) -> AnswerProvenance | None:
    """Do as `trace_answer`; the part `follow_answer` of `blamespan`.

    Args:
        trace: The run.
        at_once: Whether somebody waits: of a run that would take long None is returned.
    """
    return None if at_once and not is_quickly_read(trace) else trace_answer(trace)


def is_quickly_read(trace: MessageActionTrace) -> bool:
    """Check whether the claims of a run are read in a few seconds at most, however dense in numbers it is."""
    most_steps, most_chars, most_numbers = _AT_ONCE
    chars = len(trace.task) + sum(len(step.content) + len(step.input_text) for step in trace.steps)
    if len(trace.steps) > most_steps or chars > most_chars:
        return False
    own = (step.content for step in trace.steps if trace.can_be_blamed(step))
    return sum(len(_NUMBERS.findall(content)) for content in own) <= most_numbers


def _find_answer(trace: MessageActionTrace, ledger: Ledger) -> int | None:
    """Return the last message of an agent that states a value; where none does, the last call of a tool."""
    stating = [step for step in trace.steps if _select(step, ledger.claims[step.index])]
    said = [step for step in stating if step.kind != "tool_call"]
    return (said or stating)[-1].index if stating else None


def _select(step: Step, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of an answer that say something: behind the words `final answer`, where these are in it.

    Opposites say nothing by themselves, nor do numbers of a list's items, and names in headings.
    """
    content = step.content
    chosen = [claim for claim in claims if claim.mention.value.form != "opposite"]
    chosen = [claim for claim in chosen if not _is_marker(content, claim.mention.value)]
    start = max((match.end() for match in _FINAL.finditer(content)), default=0)
    return [claim for claim in chosen if claim.mention.value.start >= start] or chosen


def _is_marker(content: str, value: Value) -> bool:
    """Check whether a value is the number of a list's item, or a name within a heading."""
    if value.form == "number":
        is_marker = content[value.stop : value.stop + 2] in (". ", ") ")
        return is_marker and _LIST_MARK.search(content[max(0, value.start - 12) : value.start]) is not None
    if value.form != "name":
        return False
    begin = content.rfind("\n", max(0, value.start - 80), value.start) + 1 or max(0, value.start - 80)
    after = content[value.stop : value.stop + 80].partition("\n")[0]
    before = content[begin : value.start]
    is_bold = before.count("**") % 2 == 1 and ":" in after.partition("**")[0] + after.partition("**")[2][:1]
    is_heading = before.lstrip().startswith("#") or (is_bold and _HEADING.match(before) is not None)
    return is_heading or after.lstrip("*_ ").startswith(":")


class _Follower:
    """Follows claims from the answer back, each once, the latest first."""

    def __init__(self, trace: MessageActionTrace, ledger: Ledger, answer: int) -> None:
        self._trace, self._ledger, self._answer = trace, ledger, answer
        self._roles = {agent.name: agent.role for agent in trace.agents}
        self._claim_of = {_place(claim.mention): claim for claims in ledger.claims for claim in claims}
        self._stated: dict[tuple[Form, str], list[Mention]] = defaultdict(list)
        for mention in (claim.mention for claims in ledger.claims for claim in claims):
            self._stated[mention.value.form, mention.value.key].append(mention)
        self._values_of: dict[int, dict[Form, list[Mention]]] = {}
        self._n_calculations = self._n_searched = 0

    def follow(self) -> AnswerProvenance:
        """Return the answer's claims and all that they go back to."""
        own: dict[tuple[Form, str], Mention] = {}
        for claim in _select(self._trace.steps[self._answer], self._ledger.claims[self._answer]):
            value = claim.mention.value
            own.setdefault((value.form, value.key), claim.mention)
        mentions: list[Mention] = list(own.values())
        index_of = {_place(mention): index for index, mention in enumerate(mentions)}
        ancestors: list[Ancestor] = []
        while len(ancestors) < len(mentions):
            mention = mentions[len(ancestors)]
            kind, sources, calculation = self._find_sources(mention)
            indices = []
            for source in sources:
                if _place(source) not in index_of:
                    index_of[_place(source)] = len(mentions)
                    mentions.append(source)
                indices.append(index_of[_place(source)])
            ancestors.append(Ancestor(mention, kind, tuple(indices), calculation, self._claim_of.get(_place(mention))))
        return self._confirm(*_sort_latest_first(ancestors, len(own)))

    def _find_sources(self, mention: Mention) -> tuple[AncestorKind, list[Mention], str]:
        """Return what a mention is, what it goes back to, and, of a calculation, how."""
        if mention.step == TASK:
            return "task", [], ""
        if mention.is_input:
            return "input", [], ""
        claim = self._claim_of.get(_place(mention))
        if claim is None:
            step = self._trace.steps[mention.step]
            if self._trace.can_be_blamed(step):  # a moment by which its message dates itself
                return "agent", [], ""
            if step.kind != "tool_result" and self._roles[step.agent] != "executor":
                return "user", [], ""
            echoed = self._find_echoed(step, mention.value)
            return "tool", [] if echoed is None else [echoed], ""
        if claim.support is not None:
            return "agent", [self._find_latest(claim, claim.support)], ""
        before = self._trace.steps[mention.step].content[: mention.value.start][-_BESIDE_CHARS:]
        is_result = mention.value.form == "number" and _IS_RESULT.search(before) is not None
        if is_result or claim.derivation > _IS_VOUCHED:
            self._n_calculations += 1
            if self._n_calculations > _MAX_CALCULATIONS:
                return "calculation", [], ""
            found = self._find_operands(mention, is_written=is_result or _CALCULATES.search(before) is not None)
            if found is not None:
                return "calculation", *found
        verbatim = self._find_verbatim(mention)
        return ("unsupported", [], "") if verbatim is None else ("agent", [verbatim], "")

    def _find_latest(self, claim: Claim, support: Mention) -> Mention:
        """Return the latest mention by an agent that agrees with a claim as well as the one that supports it does.

        Of equally good sources the ledger names the earliest; a claim went through those who passed it on, too. Where
        a step says what it builds on, that comes first.
        """
        mention = claim.mention
        stated = self._stated[mention.value.form, mention.value.key]
        stop = bisect_left(stated, mention.step, key=lambda other: other.step)
        inputs = self._trace.steps[mention.step].inputs
        best, rank = support, (support.step in inputs, support.step)
        for other in stated[max(0, stop - _MAX_SAME) : stop]:
            own_rank = other.step in inputs, other.step
            if own_rank > rank and mention.count_agreement(other) >= claim.agreement:
                best, rank = other, own_rank
        return best

    def _find_operands(self, mention: Mention, *, is_written: bool) -> tuple[list[Mention], str] | None:
        """Return what a number, date or time is calculated from, and how; None where nothing gives it."""
        value = mention.value
        if value.form != "number":
            starts = list(self._list_operands(mention, value.form))
            spans = [other for other in self._list_operands(mention, "number") if other.value.unit]
            counted = [(float(other.value.key), other.value.unit) for other in spans]
            count = find_count(value.key, value.form, [start.value.key for start in starts], counted)
            return None if count is None else ([[*starts, *spans][index] for index in count.operands], count.text)
        operands = list(self._list_operands(mention, "number"))
        columns = list(self._list_columns(mention))
        found = find_calculation(
            value.key,
            [float(other.value.key) for other in operands],
            [[float(other.value.key) for other in column] for column in columns],
            is_written=is_written,
        )
        if found is None:
            return None
        among = operands if found.column is None else columns[found.column]
        named = [among[index] for index in found.operands]
        telling = [other for other in named if "." in other.value.key or abs(float(other.value.key)) >= _SMALL]
        return telling or named, found.text

    def _find_verbatim(self, mention: Mention) -> Mention | None:
        """Return where the task, an input, a tool or a user has a value word for word, though not as a value there.

        The ledger reads `The Hotel Aurora` and `Hotel Aurora` as two names, as it reads what is cut off by the text.
        """
        words = mention.value.text.removeprefix("The ")
        self._n_searched += 1
        if len(words) < _SHORTEST_VERBATIM or self._n_searched > _MAX_SEARCHED:
            return None
        pattern = re.compile(rf"(?<![\w.,]){re.escape(words)}(?![\w]|[.,]\d)", re.IGNORECASE)
        for index, is_input, text in self._texts:
            if index > mention.step or (index == mention.step and not is_input):
                break
            match = pattern.search(text)
            if match is not None:
                found = Value(match.group(), mention.value.form, match.start(), mention.value.key)
                return Mention(index, is_input, found)
        return None

    @lazy_property
    def _texts(self) -> list[tuple[int, bool, str]]:
        """What is nobody's claim, in order, up to a bound: step, whether the step was given it, and the text."""
        texts = [(TASK, False, self._trace.task)]
        for step in self._trace.steps:
            texts.append((step.index, True, step.input_text))
            if not self._trace.can_be_blamed(step):
                texts.append((step.index, False, step.content))
        room = _MAX_SEARCHED_CHARS
        kept = []
        for index, is_input, text in texts:
            if text and room > 0:
                kept.append((index, is_input, text[:room]))
                room -= len(text)
        return kept

    def _find_echoed(self, result: Step, value: Value) -> Mention | None:
        """Return the mention in a tool's call that its answer echoes, where it does."""
        index = result.inputs[-1] if result.inputs else result.index - 1
        for claim in self._ledger.claims[index] if index >= 0 else ():
            own = claim.mention.value
            if (own.form, own.key) == (value.form, value.key) and claim.information >= _LEAST_ECHO:
                return claim.mention
        return None

    def _list_operands(self, mention: Mention, form: Form) -> Iterator[Mention]:
        """Yield values of a form that another may be calculated from, the nearest first, each once.

        Of its own step those beside it that stand before it or have a support of their own: else three numbers could
        vouch for each other.
        """
        seen = {mention.value.key} if mention.value.form == form else set[str]()
        start = mention.value.start
        beside = []
        for other in self._values(mention.step, form):
            claim = self._claim_of.get(_place(other))
            is_given = other.is_input or (claim is not None and claim.support is not None)
            is_near = other.is_input or abs(other.value.start - start) <= _BESIDE_CHARS
            if is_near and (is_given or other.value.start < start):
                beside.append(other)
        nearest = sorted(beside, key=lambda other: abs(other.value.start - start))
        earlier = (self._values(index, form)[::-1] for index in range(mention.step - 1, TASK - 1, -1))
        for other in chain(nearest, chain.from_iterable(earlier)):
            if other.value.key not in seen:
                seen.add(other.value.key)
                yield other
                if len(seen) > MOST_OPERANDS:
                    return

    def _list_columns(self, mention: Mention) -> Iterator[list[Mention]]:
        """Yield the numbers of each of the last three texts before one that have some."""
        found = 0
        for index in range(mention.step - 1, TASK - 1, -1):
            column = self._values(index, "number")[:MOST_OPERANDS]
            if len(column) > 2:
                yield column
                found += 1
            if found == 3:
                return

    def _values(self, index: int, form: Form) -> list[Mention]:
        """Return the values of a form in a step and in what it was given, or in the task, in order."""
        if index not in self._values_of:
            self._values_of[index] = defaultdict(list)
            for mention in self._read_step(index):
                self._values_of[index][mention.value.form].append(mention)
        return self._values_of[index][form]

    def _read_step(self, index: int) -> Iterator[Mention]:
        if index == TASK:
            yield from read_mentions(TASK, self._trace.task, with_words=False)
            return
        step = self._trace.steps[index]
        yield from read_mentions(index, step.input_text, is_input=True, with_words=False)
        if self._trace.can_be_blamed(step):
            yield from (claim.mention for claim in self._ledger.claims[index])
        else:
            yield from read_mentions(index, step.content, with_words=False)

    def _confirm(self, ancestors: list[Ancestor], claims: tuple[int, ...]) -> AnswerProvenance:
        """Look for mentions of what is unsupported that came later, by a tool, a user or an input."""
        wanted: dict[tuple[Form, str], list[int]] = defaultdict(list)
        first = self._answer
        for index, ancestor in enumerate(ancestors):
            if ancestor.kind == "unsupported":
                wanted[ancestor.mention.value.form, ancestor.mention.value.key].append(index)
                first = min(first, ancestor.mention.step)
        for step in self._trace.steps[first + 1 : self._answer + 1] if wanted else ():
            values = list(read_mentions(step.index, step.input_text, is_input=True, with_words=False))
            if not self._trace.can_be_blamed(step):
                values += read_mentions(step.index, step.content, with_words=False)
            for mention in values:
                for index in wanted.get((mention.value.form, mention.value.key), ()):
                    own = ancestors[index]
                    if own.confirmation is None and own.mention.step < step.index and not self._is_echo(step, mention):
                        ancestors[index] = Ancestor(own.mention, own.kind, claim=own.claim, confirmation=mention)
        return AnswerProvenance(self._answer, claims, tuple(ancestors))

    def _is_echo(self, step: Step, mention: Mention) -> bool:
        """Check whether a tool or a user only says again what the agent before it said."""
        return not mention.is_input and self._find_echoed(step, mention.value) is not None


def _sort_latest_first(ancestors: Sequence[Ancestor], n_claims: int) -> tuple[list[Ancestor], tuple[int, ...]]:
    """Sort so that sources stand behind what they are sources of; return them, and where the answer's claims are.

    Of one step, and of its own sources, those with a support stand last, as they may be operands of what is before.
    """

    def rank(index: int) -> tuple[int, bool, bool, int]:
        ancestor = ancestors[index]
        has_support = ancestor.claim is not None and ancestor.claim.support is not None
        return -ancestor.mention.step, ancestor.mention.is_input, has_support, -ancestor.mention.value.start

    order = sorted(range(len(ancestors)), key=rank)
    moved_to = {index: number for number, index in enumerate(order)}
    moved = [
        Ancestor(own.mention, own.kind, tuple(moved_to[source] for source in own.sources), own.calculation, own.claim)
        for own in (ancestors[index] for index in order)
    ]
    return moved, tuple(moved_to[index] for index in range(n_claims))


def _place(mention: Mention) -> tuple[int, bool, int, Form]:
    return mention.step, mention.is_input, mention.value.start, mention.value.form
