"""What a check is, what it examines, and what comes of it.

A check is a rule that a step, or a run, keeps or breaks, and that a machine can check: step and trace checks in the
sense of arXiv 2603.18096 (Message-Action Traces). A new check is one function in a file of `checks/bundled`:

    @check("sum-holds", "A written sum holds.", mode="mast:FM-2.6", trust=0.9)
    def sums_hold(run: ExaminedRun) -> Iterator[Finding]:
        for step in run.decisions:
            ...
            yield Finding(step.index, "fail", "12 * 3 = 35", "comes to 36")
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np

from blamespan.conventions import TOOL_NAME
from blamespan.lazy import lazy_property
from blamespan.taxonomy import ErrorMode
from blamespan.taxonomy import mode as find_mode
from blamespan.trace import AgentRole, MessageActionTrace, Step
from blamespan_tracer.checks.reading import ReadStep, read_steps
from blamespan_tracer.instructions import InstructionConflict, find_conflicts
from blamespan_tracer.ledger import Ledger, find_values, read_ledger
from blamespan_tracer.modes import mode_of
from blamespan_tracer.tokens import MAX_TEXT_CHARS, split_sentences, text_ends

_log = logging.getLogger(__name__)

MAX_QUOTE_CHARS = 200
"""Longer quotes are cut: a sentence or two, well under what backends cut."""

_MAX_FINDINGS = 1_000
"""Most findings of one check in one run."""

_T = TypeVar("_T")

_TOOL_NAME = re.compile(r"[\w.:-]{0,200}")
_ERROR = re.compile(
    r"(?i)^\W{0,4}(?:error|exception|traceback|failed|failure)\b|\b\w{2,40}(?:Error|Exception)\s*[:(]|"
    r"Traceback \(most recent|exit ?code:? [1-9]|\btimed out\b|\bHTTP (?:4|5)\d\d\b"
)

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
"""Kept; broken; or there was nothing to judge by, or not enough."""


@dataclass(frozen=True, slots=True)
class Source:
    """The words that a finding contradicts.

    Attributes:
        step: Index of the original step that has them, or None for the task.
        quote: The words, as they stand there.
    """

    step: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check finds in one step.

    Attributes:
        step: Index of the original step that keeps or breaks the check.
        outcome: Which of these.
        quote: Words of that step that show it, as they stand in its content; cut to 200 characters.
        reason: In a few words what is wrong with them.
        source: The words that it contradicts, where there are such.
        wrong: The value that breaks the check, in its normal form; empty where no value does.
        right: The value that belongs in its place, likewise; empty where nothing gives it.
    """

    step: int
    outcome: Outcome
    quote: str = ""
    reason: str = ""
    source: Source | None = None
    wrong: str = ""
    right: str = ""


class ExaminedRun:
    """One run under examination.

    Args:
        trace: The run.
        ledger: Its claims, where they are read already.
    """

    def __init__(self, trace: MessageActionTrace, ledger: Ledger | None = None) -> None:
        self.trace = trace
        self._ledger = ledger
        self._results: dict[Callable[[ExaminedRun], Any], Any] = {}
        self._values: dict[int, frozenset[str]] = {}

    @lazy_property
    def ledger(self) -> Ledger:
        """What every step states, and where that comes from."""
        return self._ledger or read_ledger(self.trace)

    @lazy_property
    def steps(self) -> Sequence[ReadStep]:
        """Every step, read beside those before it."""
        return tuple(read_steps(self.trace, self.ledger))

    @lazy_property
    def tells_inputs(self) -> bool:
        """Whether the run tells what any step was given."""
        return any(step.input_text for step in self.trace.steps)

    @lazy_property
    def agents(self) -> frozenset[str]:
        """The names of all who take part."""
        return frozenset(agent.name for agent in self.trace.agents)

    def once(self, work_out: Callable[[ExaminedRun], _T]) -> _T:
        """Return what *work_out* makes of the run; several checks that share it work it out once."""
        if work_out not in self._results:
            self._results[work_out] = work_out(self)
        return cast(_T, self._results[work_out])

    def step_at(self, index: int) -> Step | None:
        """Return the step of an index; None where it is not known any more, as in a long run that is watched."""
        return self.trace.steps[index]

    def steps_before(self, step: Step) -> Iterable[Step]:
        """Return the steps before one."""
        return self.trace.steps[: step.index]

    @lazy_property
    def conflicts(self) -> tuple[InstructionConflict, ...]:
        """Where instructions disagree, and which of them an agent obeyed."""
        return tuple(find_conflicts(self.trace))

    @lazy_property
    def decisions(self) -> tuple[Step, ...]:
        """The steps that an agent can be blamed for, in order."""
        return tuple(step for step in self.trace.steps if self.trace.can_be_blamed(step))

    @lazy_property
    def _roles(self) -> dict[str, AgentRole]:
        return {agent.name: agent.role for agent in self.trace.agents}

    def role(self, agent: str) -> AgentRole:
        """Return the role of the agent called *agent*."""
        return self._roles[agent]

    def is_last_decision(self, step: Step) -> bool:
        """Check whether *step* is the last one that an agent can be blamed for."""
        return bool(self.decisions) and self.decisions[-1].index == step.index

    def tool_of(self, step: Step) -> str:
        """Return the name of the tool that *step* calls, "" if it calls none."""
        if step.kind != "tool_call":
            return ""
        name = step.attributes.get(TOOL_NAME)
        return name if isinstance(name, str) else _TOOL_NAME.match(step.content)[0]  # type: ignore[index]  # matches ""

    @lazy_property
    def results_of(self) -> dict[int, list[Step]]:
        """For each step that tools answered to, their answers, in order."""
        results: dict[int, list[Step]] = {}
        for step in self.trace.steps:
            if step.kind == "tool_result" and step.index:
                call = step.inputs[-1] if step.inputs else step.index - 1
                results.setdefault(call, []).append(step)
        return results

    def is_error(self, result: Step) -> bool:
        """Check whether what a tool answered is an error."""
        return result.status == "error" or bool(result.error) or bool(_ERROR.search(result.content[:400]))

    def hints(self, step: int, *cues: str) -> bool:
        """Check whether a word of *step* hints at any of *cues*, names of `blamespan_tracer.cues.CUES`."""
        return not self.steps[step].hints.isdisjoint(cues)

    def _read_values(self, step: int) -> frozenset[str]:
        """Return the values that a step states, in their normal form; each step is read once."""
        if step not in self._values:
            text = self.trace.steps[step].content[:MAX_TEXT_CHARS]
            self._values[step] = frozenset(value.key for value in find_values(text))
        return self._values[step]

    def is_corrected(self, finding: Finding) -> bool:
        """Check whether an agent puts a wrong value right after *finding*, and nobody states it as right any more.

        Who states the right value puts it right, and who states the wrong one to object to it.
        """
        corrected = False
        for step in self.decisions:
            if step.index <= finding.step:
                continue
            values = self._read_values(step.index)
            is_wrong = finding.wrong in values
            if finding.right in values or (is_wrong and self.hints(step.index, "object", "negation", "redo")):
                corrected = True
            elif is_wrong:
                corrected = False
        return corrected

    @lazy_property
    def _next_decision(self) -> list[int]:
        after = np.full(len(self.trace.steps) + 1, -1)
        for step in reversed(self.trace.steps):
            after[step.index] = step.index if self.trace.can_be_blamed(step) else after[step.index + 1]
        return [int(index) for index in after]

    def next_decision(self, step: int) -> Step | None:
        """Return the first decision after *step*, whoever takes it."""
        index = self._next_decision[step + 1]
        return self.trace.steps[index] if index >= 0 else None

    @lazy_property
    def _next_of_agent(self) -> dict[int, int]:
        following: dict[int, int] = {}
        later: dict[str, int] = {}
        for step in reversed(self.decisions):
            if step.agent in later:
                following[step.index] = later[step.agent]
            later[step.agent] = step.index
        return following

    def next_own_decision(self, step: Step) -> Step | None:
        """Return the next decision of the agent that took *step*, itself a decision."""
        index = self._next_of_agent.get(step.index)
        return None if index is None else self.trace.steps[index]

    def read_text(self, step: Step) -> str:
        """Return the text of *step* as far as sums are looked for in it: the beginning of a long one."""
        return step.content[:MAX_TEXT_CHARS]

    def sentences(self, step: Step) -> Iterator[str]:
        """Split the text of *step* into sentences and lines; of a long text its ends."""
        return _split(step.content)

    def sentence_with(self, step: Step, *words: str) -> str:
        """Return the first sentence of *step* that has all *words*, or its first one."""
        return self.sentence_in(step.content, *words)

    def sentence_in(self, text: str, *words: str) -> str:
        """Return the first sentence of *text* that has all *words*, or its first one."""
        small = [word.lower() for word in words]
        first = ""
        for sentence in _split(text):
            first = first or sentence
            plain = sentence.lower().replace(",", "")
            if all(word in plain for word in small):
                return sentence
        return first


def _split(text: str) -> Iterator[str]:
    return (sentence for part in text_ends(text) for sentence in split_sentences(part))


Examine: TypeAlias = Callable[[ExaminedRun], Iterable[Finding]]
"""Examines a run: yields a finding for each step that it can judge, none where there is nothing to judge."""

FindInStep: TypeAlias = Callable[[ExaminedRun, ReadStep], Iterable[Finding]]
"""Examines a decision by what was read of it and of the steps before it."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the function that examines a run by it.

    Attributes:
        name: Unique among the checks in use: `sum-holds`.
        title: The rule in one sentence.
        examine: Examines a run. Must be deterministic, and must not raise.
        mode: What breaking it is called; None where what a finding contradicts decides, or no taxonomy has a word.
        trust: How likely a run that breaks it failed for that, 0..1: a prior, not measured on the user's runs.
        is_symptom: Whether what breaks it is more often what came of an error than the error: it is blamed only where
            no other check is broken.
        is_mended_later: Whether an agent that broke it and keeps it at a later step, a call with the same tool, has
            put that right.
        find: Examines one step beside those before it, where the check is of that kind: a guard asks it of a step that
            is about to take place. None for a check that needs the run.
    """

    name: str
    title: str
    examine: Examine
    mode: ErrorMode | None = None
    trust: float = 0.5
    is_symptom: bool = False
    is_mended_later: bool = False
    find: FindInStep | None = None

    def apply(self, run: ExaminedRun) -> list[CheckResult]:
        """Return every step that breaks it or leaves it open, by step; or else one result for the run.

        Where it raises, it is inconclusive and the failure is logged: a rule must not break what it watches.
        """
        try:
            findings = list(islice(self.examine(run), _MAX_FINDINGS))
        except Exception as error:
            self._log_failure(run)
            return [
                CheckResult(self, "inconclusive", reason=f"the check raised {type(error).__name__}", mode=self.mode)
            ]
        n_steps = len(run.trace.steps)
        broken = [finding for finding in findings if finding.outcome != "pass" and 0 <= finding.step < n_steps]
        if broken:
            results = []
            for finding in sorted(broken, key=lambda finding: finding.step):
                is_repaired = finding.outcome == "fail" and self._is_repaired(finding, findings, run)
                results.append(replace(self.make_result(finding, run), is_repaired=is_repaired))
            return results
        if findings:
            return [CheckResult(self, "pass", mode=self.mode)]
        return [CheckResult(self, "inconclusive", reason="nothing in the run to judge", mode=self.mode)]

    def _is_repaired(self, finding: Finding, findings: Sequence[Finding], run: ExaminedRun) -> bool:
        if finding.wrong:
            return run.is_corrected(finding)
        if not self.is_mended_later:
            return False
        broken = run.trace.steps[finding.step]
        later = (run.trace.steps[one.step] for one in findings if one.outcome == "pass" and one.step > finding.step)
        tool = run.tool_of(broken)
        return any(step.agent == broken.agent and (not tool or run.tool_of(step) == tool) for step in later)

    def make_result(self, finding: Finding, run: ExaminedRun) -> CheckResult:
        """Return what a finding in a run comes to; its quote is cut, and must stand in the step."""
        quote = finding.quote.strip()[:MAX_QUOTE_CHARS].strip()
        is_quoted = quote in run.trace.steps[finding.step].content
        source, mode = finding.source, self.mode
        if mode is None and source is not None:
            mode = mode_of(run.trace, finding.step, source.step)
        return CheckResult(
            self, finding.outcome, finding.step, quote if is_quoted else "", finding.reason, source, mode=mode
        )

    def _log_failure(self, run: ExaminedRun) -> None:
        _log.warning("check %r raised on run %s", self.name, run.trace.trace_id, exc_info=True)


def check(
    name: str,
    title: str,
    *,
    mode: str | None = None,
    trust: float = 0.5,
    is_symptom: bool = False,
    is_mended_later: bool = False,
) -> Callable[[Examine], Check]:
    """Make a check of a function that examines a run; the arguments are those of `Check`.

    Args:
        name: Unique among the checks in use.
        title: The rule in one sentence.
        mode: What breaking it is called, as `taxonomy:code`; left out where what a finding contradicts decides.
        trust: How likely a run that breaks it failed for that, 0..1.
        is_symptom: Whether it is blamed only where no other check is broken.
        is_mended_later: Whether to keep it later puts right that it was broken.

    Raises:
        ConfigError: if no taxonomy has the mode.
    """

    def make(examine: Examine) -> Check:
        return Check(name, title, examine, find_mode(mode) if mode else None, trust, is_symptom, is_mended_later)

    return make


def step_check(
    name: str,
    title: str,
    *,
    mode: str | None = None,
    trust: float = 0.5,
    is_symptom: bool = False,
    is_mended_later: bool = False,
) -> Callable[[FindInStep], Check]:
    """Make a check of a function that examines one decision beside the steps before it; otherwise as `check`."""

    def make(find: FindInStep) -> Check:
        def examine(run: ExaminedRun) -> Iterator[Finding]:
            for step in run.decisions:
                yield from find(run, run.steps[step.index])

        error_mode = find_mode(mode) if mode else None
        return Check(name, title, examine, error_mode, trust, is_symptom, is_mended_later, find)

    return make


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check comes to on a run, or on one step of it.

    Attributes:
        check: Which.
        outcome: `pass` stands for the whole run: something was examined, nothing is broken, nothing is open.
        step: Index of the step, or None where the run as a whole is meant.
        quote: Words of the step that show it.
        reason: What is wrong, or why nothing can be said.
        source: The words that it contradicts, where there are such.
        is_repaired: Whether it is broken at first, and the run puts that right later.
        mode: What breaking it is called: the check's, or by the source.
    """

    check: Check
    outcome: Outcome
    step: int | None = None
    quote: str = ""
    reason: str = ""
    source: Source | None = None
    is_repaired: bool = False
    mode: ErrorMode | None = None


def apply_checks(checks: Iterable[Check], trace: MessageActionTrace) -> list[CheckResult]:
    """Apply every check to a run, in order; see `Check.apply`."""
    run = ExaminedRun(trace)
    return [result for check in checks for result in check.apply(run)]
