"""A run as contracts look at it: its steps, and what was found out about them, once for all contracts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from blamespan.conventions import TOOL_NAME
from blamespan.lazy import lazy_property
from blamespan.trace import AgentRole, MessageActionTrace, Step
from blamespan_tracer.representation import Analysis, analyse
from blamespan_tracer.representation.cues import CUES

__all__ = ["Run"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_CALLED = re.compile(r"[\w.:-]{0,200}")
_MAX_READ_CHARS = 8_000


class Run:
    """One run under examination."""

    def __init__(self, trace: MessageActionTrace, analysis: Analysis | None = None) -> None:
        self.trace = trace
        self._known = analysis

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
        named = step.attributes.get(TOOL_NAME)
        return named if isinstance(named, str) else _CALLED.match(step.content)[0]  # type: ignore[index]  # matches ""

    @lazy_property
    def results_of(self) -> dict[int, list[Step]]:
        """For each step that tools answered to, their answers, in order."""
        found: dict[int, list[Step]] = {}
        for step in self.trace.steps:
            if step.kind == "tool_result" and step.index:
                asked = step.inputs[-1] if step.inputs else step.index - 1
                found.setdefault(asked, []).append(step)
        return found

    @lazy_property
    def analysis(self) -> Analysis:
        """What the representation finds out: claims, statements, sums, repetition, objections."""
        return self._known or analyse(self.trace)

    @lazy_property
    def _cues(self) -> dict[str, list[int]]:
        counts = self.analysis.reading.cue
        return {cue: counts[1:, place].tolist() for place, cue in enumerate(CUES)}

    @lazy_property
    def _brought_in(self) -> set[tuple[int, str]]:
        claims, tokens = self.analysis.claims, self.analysis.reading.tokens
        fresh = claims.claim[claims.source == claims.segment], claims.segment[claims.source == claims.segment]
        names = [tokens[token] for token in claims.token[fresh[0]].tolist()]
        return {(segment - 1, name) for segment, name in zip(fresh[1].tolist(), names, strict=True)}

    def brings_in(self, step: int, value: str) -> bool:
        """Check whether *value*, as `Reading.tokens` spells it, is in nothing before *step*, but in *step*."""
        return (step, value) in self._brought_in

    def hints(self, step: int, *cues: str) -> bool:
        """Check whether a word of *step* hints at any of *cues*, names of `representation.cues.CUES`."""
        return any(self._cues[cue][step] for cue in cues)

    @lazy_property
    def _next_decision(self) -> list[int]:
        after = np.full(len(self.trace.steps) + 1, -1)
        for step in reversed(self.trace.steps):
            after[step.index] = step.index if self.trace.can_be_blamed(step) else after[step.index + 1]
        return [int(place) for place in after]

    def next_decision(self, step: int) -> Step | None:
        """Return the first decision after *step*, whoever takes it."""
        place = self._next_decision[step + 1]
        return self.trace.steps[place] if place >= 0 else None

    @lazy_property
    def _next_of_agent(self) -> dict[int, int]:
        found: dict[int, int] = {}
        later: dict[str, int] = {}
        for step in reversed(self.decisions):
            if step.agent in later:
                found[step.index] = later[step.agent]
            later[step.agent] = step.index
        return found

    def next_own_decision(self, step: Step) -> Step | None:
        """Return the next decision of the agent that took *step*, itself a decision."""
        place = self._next_of_agent.get(step.index)
        return None if place is None else self.trace.steps[place]

    def sentences(self, step: Step) -> Iterator[str]:
        """Split what *step* says, as far as it is read, into sentences and lines."""
        text = step.content
        ends = (
            (text,) if len(text) <= _MAX_READ_CHARS else (text[: _MAX_READ_CHARS // 2], text[-_MAX_READ_CHARS // 2 :])
        )
        for part in ends:
            yield from (sentence for sentence in _SENTENCE_END.split(part) if sentence.strip())

    def sentence_with(self, step: Step, *words: str) -> str:
        """Return the first sentence of *step* that has all *words*, or its first one."""
        small = [word.lower() for word in words]
        first = ""
        for sentence in self.sentences(step):
            first = first or sentence
            plain = sentence.lower().replace(",", "")
            if all(word in plain for word in small):
                return sentence
        return first
