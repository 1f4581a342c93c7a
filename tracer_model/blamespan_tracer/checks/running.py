"""Bundled checks of one step, kept up while a run goes on: what was read of earlier steps is kept, and read once.

Each says of a step what its check in `bundled` says of that step in the run up to it. Three things are taken as they
were known when a step was read, where the whole run is read anew otherwise: which words are names, which words tell
subjects apart, and which agents there are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from typing import Final, Generic, TypeVar

import numpy as np

from blamespan.taxonomy import mode as find_mode
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.checks.bundled.arithmetic import sums_hold
from blamespan_tracer.checks.bundled.contradictions import (
    agents_believe_results,
    agents_keep_the_task,
    is_worked_out,
)
from blamespan_tracer.checks.bundled.numbers import MAX_KNOWN, find_odd_number, numbers_have_a_source
from blamespan_tracer.checks.bundled.repetition import LEAST_CHARS, REPEATED, steps_are_new
from blamespan_tracer.checks.bundled.teamwork import agents_heed_objections
from blamespan_tracer.checks.bundled.tool_calls import arguments_fit_their_tool
from blamespan_tracer.checks.check import Check, CheckResult, ExaminedRun, Finding
from blamespan_tracer.checks.messages import MESSAGE_RULES, MessageRule, SaidMessage, find_asking_sentences
from blamespan_tracer.ledger.values import find_values
from blamespan_tracer.representation.claims import Segments, find_claims, read_run_inputs
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.facts import (
    LEAST_WORDS,
    MAX_WORDS,
    MOST_CONFLICTS_OF_STEP,
    SAME_SUBJECT,
    find_statements,
    mark_refuted_numbers,
    name_tokens,
)
from blamespan_tracer.representation.likeness import SHINGLE_TOKENS
from blamespan_tracer.representation.reading import Flag, read_texts
from blamespan_tracer.representation.steps import cut_own_words
from blamespan_tracer.tokens import find_words, is_number

__all__ = ["MESSAGE_CHECKS", "RunningChecks"]

_OF_STEP_ALONE: Final = (sums_hold, arguments_fit_their_tool)
"""Checks that look at nothing but the step."""

_MOST_CLAIMS, _MOST_SUBJECTS, _MOST_WORDS, _MOST_SHINGLES = 100_000, 50_000, 50_000, 20_000
"""What is kept of a run: the latest of each. So much is read of some hundreds of messages of a page."""

_TOLD = 700
"""Characters that an agent is told of what it asks for: who has lost one fact of a message has lost the others, too."""
_LATEST_NUMBERS = 16
"""Of more numbers some two come to almost any other one."""

_MOST_CALLS = 200
"""Calls and results of an agent since its last message that its next one may begin with."""

_OBJECT = CUES.index("object")

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RunningChecks:
    """Applies checks to a run step by step.

    Args:
        checks: Which, of those that `can_run`.
        task: What the run was asked: every decision of it was given that.
    """

    def __init__(self, checks: Sequence[Check], task: str) -> None:
        self._alone = [check for check in checks if check in _OF_STEP_ALONE]
        self._examine = [(check, _EXAMINE[check]) for check in checks if check in _EXAMINE]
        self._task = task
        self._agents: dict[str, None] = {}
        self._given = read_run_inputs(_make_run(Step(0, "1" * 16, "task", input_text=task)))
        self._claims: _Recent[str, None] = _Recent(_MOST_CLAIMS)
        self._numbers: deque[str] = deque(maxlen=MAX_KNOWN)
        self._subjects: _Recent[_Subject, _SubjectRecord | None] = _Recent(_MOST_SUBJECTS)
        self._subject_words: _Recent[str, None] = _Recent(_MOST_WORDS)
        self._shingles: _Recent[int, None] = _Recent(_MOST_SHINGLES)
        self._names: _Recent[str, None] = _Recent(_MOST_WORDS)
        self._units: _Recent[str, set[str]] = _Recent(_MOST_CLAIMS)
        self._stated_before = False
        self._calls: dict[str, deque[Step]] = {}
        self._decided: dict[str, None] = {}
        self._last_to_decide = ""
        self._objected_to: set[str] = set()
        self._examined: tuple[Step, _StepReading] | None = None
        self._conflicts: tuple[_StepReading, tuple[_RunningConflict, ...]] | None = None
        self._said: tuple[_StepReading, SaidMessage] | None = None
        if self._examine:
            self._keep(self._read("task", "", task))
            self._keep_units(task)

    @staticmethod
    def can_run(check: Check) -> bool:
        """Return whether a check is one of those that are kept up step by step."""
        return check in _OF_STEP_ALONE or check in _EXAMINE

    def examine(self, step: Step) -> Iterator[CheckResult]:
        """Yield what the checks find broken in a decision that is about to be taken; it is not taken up."""
        run = ExaminedRun(_make_run(step))
        for check in self._alone:
            yield from (result for result in check.apply(run) if result.outcome == "fail")
        if not self._examine or step.kind != "message":
            return
        reading = self._read_step(step)
        self._examined = step, reading
        for check, examine in self._examine:
            yield from (check.make_result(finding, run) for finding in examine(self, run, reading))

    def take(self, step: Step) -> None:
        """Take up a step that takes place: later ones are held against it."""
        if not self._examine:
            return
        is_examined = self._examined is not None and self._examined[0] is step
        reading = self._examined[1] if is_examined and self._examined is not None else self._read_step(step)
        self._examined = None
        if step.kind in ("tool_call", "tool_result"):
            self._calls.setdefault(step.agent, deque(maxlen=_MOST_CALLS)).append(step)
        else:
            self._calls.pop(step.agent, None)
        self._agents[step.agent] = None
        if step.kind == "tool_result":
            self._keep_units(step.content)
        else:
            self._note_objections(reading)
        self._keep(reading)

    # --- reading

    def _read_step(self, step: Step) -> _StepReading:
        before = self._calls.get(step.agent, ()) if step.kind == "message" else ()
        words = cut_own_words([*before, step])[-1] if before else step.content
        return self._read(step.kind, step.agent, words)

    def _read(self, kind: str, agent: str, text: str) -> _StepReading:
        names = list(dict.fromkeys([*self._agents, agent])) if agent else []
        reading = read_texts([text], names)
        is_call, is_result = np.array([kind == "tool_call"]), np.array([kind == "tool_result"])
        owner = np.zeros(1, np.int64)
        segments = Segments(owner, np.array([kind == "task"]), is_result, is_call, owner)
        named = name_tokens(reading, names)
        claims = find_claims(reading, named >= 0, is_call)
        tokens = reading.tokens
        is_large = reading.has(Flag.CAPITAL)
        is_name = np.zeros(len(tokens), np.bool_)
        openers = set(reading.token[is_large & reading.opens].tolist())
        is_name[[token for token in openers if tokens[token] in self._names]] = True
        value, content = find_statements(reading, segments, mark_refuted_numbers(reading), is_name)
        spelled = [tokens[token] for token in claims.token[claims.claim].tolist()]
        is_numeral = claims.is_number.tolist()
        in_code = claims.in_code.tolist()
        words = [tokens[token] for token in reading.token[reading.has(Flag.WORD | Flag.NUMBER)].tolist()]
        said = dict.fromkeys(named[reading.token].tolist()) if len(reading.token) else {}
        listed = {tokens[token] for token in set(reading.token[reading.numbers_list].tolist())}
        listed -= {tokens[token] for token in reading.token[~reading.numbers_list].tolist()} if listed else set()
        equals = set(reading.sentence[reading.has(Flag.EQUALS)].tolist())
        sentences: dict[int, list[str]] = {}
        is_content = np.flatnonzero(content)
        of, which = reading.sentence[is_content].tolist(), reading.token[is_content].tolist()
        for sentence, token in zip(of, which, strict=True):
            sentences.setdefault(sentence, []).append(tokens[token])
        stated = value.tolist()
        return _StepReading(
            kind,
            agent,
            text,
            claims=tuple(spelled),
            numbers=tuple(word for word, is_one in zip(spelled, is_numeral, strict=True) if is_one),
            spoken_numbers=tuple(
                word
                for word, is_one, is_code in zip(spelled, is_numeral, in_code, strict=True)
                if is_one and not is_code
            ),
            text_numbers=tuple(
                word for word, is_one in zip(spelled, is_numeral, strict=True) if is_one and word not in listed
            ),
            content=frozenset(chain.from_iterable(sentences.values())),
            statements=tuple(
                _RunningStatement(tokens[stated[sentence]], tuple(own), sentence in equals)
                for sentence, own in sentences.items()
                if stated[sentence] >= 0
            ),
            shingles=tuple(map(hash, zip(repeat(agent), *(words[at:] for at in range(SHINGLE_TOKENS)), strict=False))),
            objects=bool(reading.cue[0, _OBJECT]),
            large=tuple(tokens[token] for token in reading.token[is_large & ~reading.opens].tolist()),
            names=tuple(names[label] for label in said if label >= 0),
            has_code=bool(reading.in_code.any()),
        )

    def _keep(self, reading: _StepReading) -> None:
        if reading.kind == "message" and len(reading.shingles) > 0:  # a name by which one chooses a speaker is none
            self._stated_before = self._states(reading)
        self._claims.put_all(reading.claims)
        self._names.put_all(reading.large)
        self._numbers.extend(reading.numbers)
        if reading.kind in ("task", "tool_call", "tool_result"):
            self._subject_words.put_all(reading.content)
        for subject, record in self._list_records(reading):
            self._subjects.put(subject, record if self._subjects.get(subject, record) is not None else None)
        if reading.kind in ("message", "tool_call"):
            self._shingles.put_all(reading.shingles)

    def _keep_units(self, text: str) -> None:
        for value in find_values(text):
            if value.form == "number" and len(value.key) > 1:
                units = self._units.get(value.key)
                self._units.put(value.key, {value.unit} if units is None else units | {value.unit})

    def _states(self, reading: _StepReading) -> bool:
        """Return whether a message states or shows something: it is asked before the message is taken up."""
        is_new = any(claim not in self._claims and claim not in self._agents for claim in reading.claims)
        return is_new or bool(reading.statements) or reading.has_code

    # --- what it states, against what was stated

    def _list_records(self, reading: _StepReading) -> Iterator[tuple[_Subject, _SubjectRecord | None]]:
        """Yield what a step states of each subject; None where it states two values of it: that is no subject."""
        for list_subjects in (_list_pairs, self._list_sets):
            records: dict[_Subject, _SubjectRecord | None] = {}
            for statement in reading.statements:
                for subject in list_subjects(statement):
                    known = records.get(subject)
                    if subject not in records:
                        records[subject] = _SubjectRecord(reading.kind, reading.agent, statement, reading.text)
                    elif known is not None and known.statement.value != statement.value:
                        records[subject] = None
            yield from records.items()

    def _list_sets(self, statement: _RunningStatement) -> Iterator[_Subject]:
        words = frozenset(word for word in statement.words if word in self._subject_words)
        if len(words) >= LEAST_WORDS:
            yield words

    def _list_conflicts(self, reading: _StepReading) -> Sequence[_RunningConflict]:
        """Return where a step that is not taken up yet contradicts what was stated; several checks ask for it."""
        if self._conflicts is None or self._conflicts[0] is not reading:
            self._conflicts = reading, tuple(self._find_conflicts(reading))
        return self._conflicts[1]

    def _find_conflicts(self, reading: _StepReading) -> Iterator[_RunningConflict]:
        """Yield what was stated otherwise of a subject, when somebody last spoke of it."""
        compared: list[tuple[_RunningStatement, _RunningStatement]] = []
        for subject, record in self._list_records(reading):
            earlier = self._subjects.get(subject)
            if record is None or earlier is None or earlier.statement.value == record.statement.value:
                continue
            about = earlier.statement, record.statement
            if any(one is about[0] and other is about[1] for one, other in compared):
                continue
            if len(compared) >= MOST_CONFLICTS_OF_STEP:
                return
            compared.append(about)
            is_alike = is_number(earlier.statement.value) == is_number(record.statement.value)
            if is_alike and self._are_about_one(*about):
                words = subject if isinstance(subject, tuple) else [word for word in about[1].words if word in subject]
                yield _RunningConflict(earlier, record.statement, (words[0], words[1]))

    def _are_about_one(self, one: _RunningStatement, other: _RunningStatement) -> bool:
        first, second = set(one.words[:MAX_WORDS]), set(other.words[:MAX_WORDS])
        is_near = len(first & second) >= SAME_SUBJECT * len(first | second)
        return is_near and not any(word in self._subject_words for word in first ^ second)

    def _describe(
        self, run: ExaminedRun, reading: _StepReading, conflict: _RunningConflict, who: str
    ) -> Iterator[Finding]:
        step = run.trace.steps[0]
        earlier, later = conflict.earlier.statement.value, conflict.later.value
        quote = run.sentence_with(step, *conflict.subject, later)
        is_shown = later in quote.lower().replace(",", "")
        is_invented = later in reading.claims and not self._is_known(later)
        is_computed = conflict.later.is_computed or is_worked_out(later, quote)
        if is_shown and is_invented and not is_computed:
            subject = " ".join(conflict.subject)
            yield Finding(0, "fail", quote, f"{who} {earlier[:60]!r} of {subject[:60]!r}, here it is {later[:60]!r}")

    def _is_known(self, claim: str) -> bool:
        return claim in self._claims or self._given.has(claim, 1)

    def _believe_results(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        for conflict in self._list_conflicts(reading):
            if conflict.earlier.kind == "tool_result":
                yield from self._describe(run, reading, conflict, "a tool answered")

    def _keep_the_task(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        for conflict in self._list_conflicts(reading):
            if conflict.earlier.kind == "task" and is_number(conflict.later.value):
                yield from self._describe(run, reading, conflict, "the task says")

    # --- where its numbers come from

    def _have_sources(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        fresh = [number for number in reading.spoken_numbers if not self._is_known(number)]
        if not fresh or not self._task:  # who is given nothing that is recorded may know it
            return
        known = [*self._numbers, *reading.numbers][-MAX_KNOWN:]
        numbers = np.array([float(number) for number in (*known, *self._given.few_until(1))])
        step = run.trace.steps[0]
        odd = find_odd_number(fresh, run.read_text(step), numbers, self._given.numbers_until(1))
        if odd:
            yield Finding(0, "fail", run.sentence_with(step, odd), f"nothing before it gives {odd!r}")

    # --- what it says again

    def _share_repeated(self, reading: _StepReading) -> float:
        return self._shingles.count(reading.shingles) / max(len(reading.shingles), 1)

    def _are_new(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        content = run.trace.steps[0].content
        share = self._share_repeated(reading) if len(content) >= LEAST_CHARS else 0.0
        if share > REPEATED:
            yield Finding(0, "fail", content, f"{share:.0%} of it was said before")

    def _heed_objections(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        content = run.trace.steps[0].content
        is_long = reading.agent in self._objected_to and len(content) >= LEAST_CHARS
        if is_long and self._share_repeated(reading) > REPEATED:
            yield Finding(0, "fail", content, "says again what was objected to")

    # --- what a message is in itself

    def _find_in_message(self, rule: MessageRule, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        content = run.trace.steps[0].content
        if content.lstrip().startswith("{"):  # what a program is to read is no prose
            return
        if self._said is None or self._said[0] is not reading:  # several rules ask for it
            said = SaidMessage(
                self._task,
                content,
                reading.agent,
                tuple(self._agents),
                self._states(reading),
                self._stated_before,
                self._units.get,
                [one for one in reading.text_numbers if one in reading.spoken_numbers and not self._is_known(one)],
                [*self._numbers, *reading.numbers][-_LATEST_NUMBERS:],
            )
            self._said = reading, said
        yield from rule.find(self._said[1])

    def _find_asked(self, run: ExaminedRun, reading: _StepReading) -> Iterator[Finding]:
        """Look for somebody who cannot go on without what the task, a tool or anybody has stated before."""
        content = run.trace.steps[0].content
        if content.lstrip().startswith("{"):
            return
        for sentence in find_asking_sentences(content):
            asked = frozenset(word for word in map(str.lower, find_words(sentence)) if word in self._subject_words)
            record = self._subjects.get(asked) if len(asked) >= LEAST_WORDS else None
            if record is None or any(asked in self._list_sets(statement) for statement in reading.statements):
                continue
            said = run.sentence_in(record.text, *asked, record.statement.value)
            begin = max(0, record.text.find(said) - _TOLD // 3) if len(record.text) > _TOLD else 0
            who = {"task": "the task says", "tool_result": "a tool answered"}.get(record.kind, f"{record.agent} said")
            yield Finding(0, "fail", sentence, f"{who} {record.text[begin : begin + _TOLD].strip()!r}")
            return

    def _note_objections(self, reading: _StepReading) -> None:
        """Note whom a decision objects to: whose statements it contradicts, whom it names, else who decided before."""
        self._objected_to.discard(reading.agent)
        if reading.objects:
            contradicted = [one.earlier.agent for one in self._list_conflicts(reading) if one.earlier.is_decision]
            named = [name for name in reading.names if name in self._decided and name != reading.agent]
            before = [] if named or not self._last_to_decide else [self._last_to_decide]
            self._objected_to.update({*contradicted, *named, *before} - {reading.agent})
        self._decided[reading.agent] = None
        self._last_to_decide = reading.agent


_Subject = tuple[str, str] | frozenset[str]
"""What a statement is of: two neighbouring words of it, or those of its words that tell subjects apart."""


@dataclass(frozen=True, slots=True, eq=False)
class _RunningStatement:
    """A sentence that states a value.

    Attributes:
        value: The value.
        words: What it is of, in order.
        is_computed: Whether it is written as the result of a sum.
    """

    value: str
    words: tuple[str, ...]
    is_computed: bool


@dataclass(frozen=True, slots=True)
class _SubjectRecord:
    """What was stated last of a subject, and by whom."""

    kind: str
    agent: str
    statement: _RunningStatement
    text: str

    @property
    def is_decision(self) -> bool:
        return self.kind in ("message", "tool_call")


@dataclass(frozen=True, slots=True)
class _RunningConflict:
    """A statement against an earlier one, and two words of their subject."""

    earlier: _SubjectRecord
    later: _RunningStatement
    subject: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _StepReading:
    """What was read of one step, or of the task.

    Attributes:
        kind: Of the step; `task`.
        agent: Whose.
        text: What was read.
        claims: What it claims, once each, in order: numbers, names, identifiers, as `Reading.tokens` spells them.
        numbers: The numbers of these.
        spoken_numbers: Those that stand in no code.
        text_numbers: Those that do not only count the items of a list.
        content: Words that may tell what a sentence is of.
        statements: Its sentences that state a value.
        shingles: Hashes of every few words in a row, as its agent's.
        objects: Whether it has a word by which one objects.
        large: What is written large in it where no sentence begins.
        names: The agents that it names.
        has_code: Whether it has code between fences.
    """

    kind: str
    agent: str
    text: str
    claims: tuple[str, ...]
    numbers: tuple[str, ...]
    spoken_numbers: tuple[str, ...]
    text_numbers: tuple[str, ...]
    content: frozenset[str]
    statements: tuple[_RunningStatement, ...]
    shingles: tuple[int, ...]
    objects: bool
    large: tuple[str, ...]
    names: tuple[str, ...]
    has_code: bool


class _Recent(Generic[_Key, _Value]):
    """A mapping of bounded size: what was put in longest ago goes first.

    Args:
        most: How many keys are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def put(self, key: _Key, value: _Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def put_all(self: _Recent[_Key, None], keys: Iterable[_Key]) -> None:
        values = self._values
        for key in keys:
            values[key] = None
            values.move_to_end(key)
        while len(values) > self._most:
            values.popitem(last=False)

    def count(self, keys: Iterable[_Key]) -> int:
        return sum(map(self._values.__contains__, keys))

    def get(self, key: _Key, default: _Value | None = None) -> _Value | None:
        return self._values.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)


def _list_pairs(statement: _RunningStatement) -> Iterator[_Subject]:
    return pairwise(statement.words)


def _make_run(step: Step) -> MessageActionTrace:
    return MessageActionTrace("1" * 32, "", (replace(step, index=0, inputs=()),), (Agent(step.agent),))


_Examine = Callable[[RunningChecks, ExaminedRun, _StepReading], Iterator[Finding]]

_EXAMINE: Final[dict[Check, _Examine]] = {
    numbers_have_a_source: RunningChecks._have_sources,
    steps_are_new: RunningChecks._are_new,
    agents_believe_results: RunningChecks._believe_results,
    agents_keep_the_task: RunningChecks._keep_the_task,
    agents_heed_objections: RunningChecks._heed_objections,
}


def _make_check(name: str, title: str, mode: str, find: _Examine) -> Check:
    """Make a check of a run of what examines one step after the other."""

    def examine(run: ExaminedRun) -> Iterator[Finding]:
        checks = RunningChecks([check], run.trace.task)
        for step in run.trace.steps:
            if run.trace.can_be_blamed(step):
                for result in checks.examine(step):
                    yield Finding(step.index, "fail", result.quote, result.reason)
            checks.take(step)

    check = Check(name, title, examine, find_mode(mode))
    _EXAMINE[check] = find
    return check


def _make_message_check(rule: MessageRule) -> Check:
    return _make_check(
        rule.name, rule.title, rule.mode, lambda checks, run, reading: checks._find_in_message(rule, run, reading)
    )


MESSAGE_CHECKS = (
    *map(_make_message_check, MESSAGE_RULES),
    _make_check("asked-was-said", "Nobody asks for what was said.", "mast:FM-1.4", RunningChecks._find_asked),
)
"""What a guard asks of a message, as checks of a whole run."""
