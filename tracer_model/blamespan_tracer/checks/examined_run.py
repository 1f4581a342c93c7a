"""A run as checks examine it, and what they find in it: its steps, and what was found out about them, once for all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np

from blamespan.conventions import TOOL_NAME
from blamespan.lazy import lazy_property
from blamespan.trace import AgentRole, MessageActionTrace, Step
from blamespan_tracer.representation import Analysis, analyse
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Ints, Mask

__all__ = ["ExaminedRun", "Finding", "Outcome", "Source"]

_T = TypeVar("_T")

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_TOOL_NAME = re.compile(r"[\w.:-]{0,200}")
_MAX_READ_CHARS = 8_000
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
        strength: How much of the step breaks the check, for models: 1, or a share above 0.
        source: The words that it contradicts, where there are such.
    """

    step: int
    outcome: Outcome
    quote: str = ""
    reason: str = ""
    strength: float = 1.0
    source: Source | None = None


class ExaminedRun:
    """One run under examination.

    Args:
        trace: The run.
        analysis: What `analyse` found out about it, where that is known already.
    """

    def __init__(self, trace: MessageActionTrace, analysis: Analysis | None = None) -> None:
        self.trace = trace
        self._analysis = analysis
        self._results: dict[Callable[[Analysis], Any], Any] = {}

    @lazy_property
    def analysis(self) -> Analysis:
        """What the representation finds out: claims, statements, sums, repetition, objections."""
        return self._analysis or analyse(self.trace)

    def once(self, work_out: Callable[[Analysis], _T]) -> _T:
        """Return what *work_out* makes of the analysis; several checks that share it work it out once."""
        if work_out not in self._results:
            self._results[work_out] = work_out(self.analysis)
        return cast(_T, self._results[work_out])

    def findings(self, values: Floats | Mask | Sequence[float]) -> Iterator[Finding]:
        """Yield a finding for each merged step whose value, of the (N,) *values*, is not 0: its strength."""
        for row in np.flatnonzero(values).tolist():
            yield Finding(self.analysis.steps[row].said[0].index, "fail", strength=float(values[row]))

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

    @lazy_property
    def _cues(self) -> dict[str, list[int]]:
        counts = self.analysis.reading.cue
        return {cue: counts[1:, column].tolist() for column, cue in enumerate(CUES)}

    def hints(self, step: int, *cues: str) -> bool:
        """Check whether a word of *step* hints at any of *cues*, names of `representation.cues.CUES`."""
        return any(self._cues[cue][step] for cue in cues)

    @lazy_property
    def _values_brought_in(self) -> set[tuple[int, str]]:
        claims, tokens = self.analysis.claims, self.analysis.reading.tokens
        is_fresh = claims.source == claims.segment
        values = [tokens[token] for token in claims.token[claims.claim[is_fresh]].tolist()]
        return {(segment - 1, value) for segment, value in zip(claims.segment[is_fresh].tolist(), values, strict=True)}

    def brings_in(self, step: int, value: str) -> bool:
        """Check whether *value*, as `Reading.tokens` spells it, is in nothing before *step*, but in *step*."""
        return (step, value) in self._values_brought_in

    def spell_claims(self, claims: Ints) -> list[str]:
        """Return how `Reading.tokens` spells each of *claims*, numbers of distinct claims."""
        return [self.analysis.reading.tokens[token] for token in self.analysis.claims.token[claims].tolist()]

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
        return step.content[:_MAX_READ_CHARS]

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
    half = _MAX_READ_CHARS // 2
    for part in (text,) if len(text) <= _MAX_READ_CHARS else (text[:half], text[-half:]):
        yield from (sentence for sentence in _SENTENCE_END.split(part) if sentence.strip())
