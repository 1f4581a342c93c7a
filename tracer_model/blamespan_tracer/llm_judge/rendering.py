"""A run as the judge is shown it: merged decisions under their own numbers, with what each builds on and objects to.

A merged decision bears the index of its first step, as the trace counts; a part of a long run keeps these numbers.
What agents said stands inside the strings of one JSON document, which no text can leave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.llm_judge.spending import estimated_tokens
from blamespan_tracer.representation import EDGE_TYPES, analyse, represent

__all__ = ["Case", "Decision", "as_data"]

_MOST_STEP_CHARS = 12_000
_LEAST_STEP_CHARS = 120
_MOST_TASK_CHARS = 8_000
_MOST_ROSTER = 64
_MOST_LINKS = 4
_OWED = 0.1
"""A decision builds on another from this share of what it owes to all."""
_FIXED_TOKENS = 2_500
"""Kept free for the instructions and the frame of the document."""

_BRACKETED = re.compile(r"\[(?=/?[A-Z][A-Z_]+\])")


def as_data(document: object) -> str:
    """Write *document* as JSON in which no chat template finds a control token of its own.

    `<` and the bracket of `[INST]` and its like stand as JSON escapes: `<|im_end|>` in what an agent said is data like
    the rest, even for servers that read control tokens wherever they stand.
    """
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace").decode()
    return _BRACKETED.sub(r"\\u005b", text.replace("<", "\\u003c"))


@dataclass(frozen=True, slots=True)
class Decision:
    """One merged step, as it is shown.

    Attributes:
        label: Its number: the index of its first step.
        agent: Who took it.
        can_be_blamed: Whether it is an agent's decision.
        steps: The steps it is made of.
        lands_on: Index of the step that blame for it lands on, where no quote says otherwise.
        results: What tools answered.
        builds_on: Numbers of the decisions it uses or answers, the most used first.
        objects_to: Numbers of those that it says are wrong.
    """

    label: int
    agent: str
    can_be_blamed: bool
    steps: tuple[Step, ...]
    lands_on: int
    results: tuple[Step, ...]
    builds_on: tuple[int, ...]
    objects_to: tuple[int, ...]

    def entry(self, most_chars: int = _MOST_STEP_CHARS) -> dict[str, object]:
        """Lay it out for the document, each text cut in its middle to *most_chars*."""
        found: dict[str, object] = {"step": self.label, "agent": self.agent}
        if not self.can_be_blamed:
            found["is_decision"] = False
        kinds = sorted({step.kind for step in self.steps} - {"message"})
        if kinds:
            found["kind"] = ", ".join(kinds)
        to = list(dict.fromkeys(name for step in self.steps for name in step.recipients))[:_MOST_LINKS]
        if to:
            found["to"] = to
        if self.builds_on:
            found["builds_on"] = list(self.builds_on)
        if self.objects_to:
            found["objects_to"] = list(self.objects_to)
        found["text"] = _cut("\n".join(step.content for step in self.steps), most_chars)
        if self.results:
            found["tool_answers"] = [_cut(step.content, most_chars // len(self.results)) for step in self.results]
        errors = [step.error or "error" for step in (*self.steps, *self.results) if step.status == "error"]
        if errors:
            found["error"] = ", ".join(dict.fromkeys(errors))[:200]
        return found


@dataclass(frozen=True)
class Case:
    """A run before the judge.

    Attributes:
        trace: The run.
        decisions: What is shown of it, in order.
        room: Most tokens of the steps in one document, by our own estimate.
    """

    trace: MessageActionTrace
    decisions: tuple[Decision, ...]
    room: int

    @classmethod
    def of(cls, trace: MessageActionTrace, context_tokens: int) -> Case:
        """Merge a run's steps and find what ties them together."""
        analysis = analyse(trace)
        run = represent(trace, analysis)
        labels = [merged.said[0].index for merged in analysis.steps]
        kinds, source, target = run.edges
        built: dict[int, dict[int, float]] = {}
        objected: dict[int, list[int]] = {}
        for row in np.flatnonzero(np.isin(kinds, [EDGE_TYPES.index(kind) for kind in ("reply", "depends", "objects")])):
            kind, start, end = EDGE_TYPES[int(kinds[row])], int(source[row]), int(target[row])
            if kind == "objects":
                objected.setdefault(start, []).append(labels[end])
            elif kind == "reply" or run.edge_weights[row] >= _OWED:
                owed = built.setdefault(end, {})
                owed[labels[start]] = max(owed.get(labels[start], 0.0), float(run.edge_weights[row]))
        decisions = tuple(
            Decision(
                label,
                merged.agent,
                merged.can_be_blamed,
                tuple(merged.said),
                int(lands_on),
                tuple(merged.results),
                tuple(sorted(owed, key=lambda one: (-owed[one], one))[:_MOST_LINKS]),
                tuple(dict.fromkeys(objected.get(place, ())))[:_MOST_LINKS],
            )
            for place, (label, merged, lands_on) in enumerate(zip(labels, analysis.steps, run.lands_on, strict=True))
            for owed in [built.get(place, {})]
        )
        return cls(trace, decisions, max(context_tokens - _FIXED_TOKENS - _frame_tokens(trace), context_tokens // 4))

    @cached_property
    def by_label(self) -> Mapping[int, Decision]:
        """Find decisions by their numbers."""
        return {decision.label: decision for decision in self.decisions}

    @cached_property
    def suspects(self) -> tuple[Decision, ...]:
        """List the decisions that can be blamed."""
        return tuple(decision for decision in self.decisions if decision.can_be_blamed)

    def parts(self) -> list[tuple[Decision, ...]]:
        """Part the run into documents that have room for it, each decision in one; long texts are cut for it."""
        parts: list[list[Decision]] = [[]]
        held = 0
        for decision in self.decisions:
            tokens = _tokens(decision.entry(self._most_chars))
            if parts[-1] and held + tokens > self.room:
                parts.append([])
                held = 0
            parts[-1].append(decision)
            held += tokens
        return [tuple(part) for part in parts]

    def document(self, shown: Sequence[Decision], about: Collection[int] = (), **more: object) -> str:
        """Write the document that shows some of the decisions.

        Where there is no room for all, texts are cut further, those of *about* least; where that is not enough, those
        farthest from *about* are left out, and their number is given.

        Args:
            shown: Which, in order.
            about: Numbers of those the question is about; the last shown where none is named.
            more: What else the document says.
        """
        entries = self._fitted(list(shown), set(about) or {decision.label for decision in shown[-1:]})
        document: dict[str, object] = {**_frame(self.trace), "steps": entries, **more}
        if len(entries) < len(self.decisions):
            document["steps_not_shown"] = len(self.decisions) - len(entries)
        return as_data(document)

    @property
    def _most_chars(self) -> int:
        """Give the most characters of a text: no single step takes more than a third of the room."""
        return max(_LEAST_STEP_CHARS, min(_MOST_STEP_CHARS, self.room // 3))

    def _fitted(self, shown: list[Decision], about: set[int]) -> list[dict[str, object]]:
        most = most_about = self._most_chars
        while True:
            entries = [decision.entry(most_about if decision.label in about else most) for decision in shown]
            tokens = [_tokens(entry) for entry in entries]
            if sum(tokens) <= self.room or most_about <= _LEAST_STEP_CHARS:
                break
            if most > _LEAST_STEP_CHARS:
                most = max(_LEAST_STEP_CHARS, most // 2)
            else:
                most_about = max(_LEAST_STEP_CHARS, most_about // 2)
        places = [place for place, decision in enumerate(shown) if decision.label in about] or [len(shown) - 1]
        nearest = sorted(range(len(shown)), key=lambda at: (min(abs(at - place) for place in places[:64]), at))
        kept, held = set[int](), 0
        for place in nearest:
            held += tokens[place]
            if kept and held > self.room:
                break
            kept.add(place)
        return [entry for place, entry in enumerate(entries) if place in kept]


def _frame(trace: MessageActionTrace) -> dict[str, object]:
    spoke = dict.fromkeys(step.agent for step in trace.steps)
    agents = sorted(trace.agents, key=lambda agent: agent.name not in spoke)[:_MOST_ROSTER]
    described = [
        {"name": agent.name, "role": agent.role, **({"says": agent.description[:300]} if agent.description else {})}
        for agent in agents
    ]
    return {"task": _cut(trace.task, _MOST_TASK_CHARS), "outcome": trace.outcome, "agents": described}


def _frame_tokens(trace: MessageActionTrace) -> int:
    return _tokens(_frame(trace))


def _tokens(entry: Mapping[str, object]) -> int:
    return estimated_tokens(as_data(entry))


def _cut(text: str, most: int) -> str:
    """Leave out the middle of a long text, saying how much."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[-half:]}"
