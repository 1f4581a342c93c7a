"""A run as one JSON document: what agents said stands inside its strings, which no text can leave.

A decision bears the index of its first step, as the trace counts; a part of a long run keeps these numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from blamespan.trace import MessageActionTrace
from blamespan_tracer.rendering.decisions import MOST_LINKS, Decision, decisions_of
from blamespan_tracer.rendering.texts import as_data, cut, estimated_tokens

__all__ = ["Case"]

_MOST_STEP_CHARS = 12_000
_LEAST_STEP_CHARS = 120
_MOST_TASK_CHARS = 8_000
_MOST_ROSTER = 64
_FIXED_TOKENS = 2_500
"""Kept free for the instructions and the frame of the document."""


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
        """Read a run's decisions, to be shown within a context of so many tokens."""
        room = context_tokens - _FIXED_TOKENS - _tokens(_frame(trace))
        return cls(trace, decisions_of(trace), max(room, context_tokens // 4))

    @cached_property
    def by_label(self) -> Mapping[int, Decision]:
        """Find decisions by their numbers."""
        return {decision.label: decision for decision in self.decisions}

    @cached_property
    def suspects(self) -> tuple[Decision, ...]:
        """List the decisions that can be blamed."""
        return tuple(decision for decision in self.decisions if decision.can_be_blamed)

    def linked(self, decision: Decision) -> set[int]:
        """Give the number of a decision and those of what it builds on and objects to."""
        return {decision.label, *self._labels(decision.builds_on), *self._labels(decision.objects_to)}

    def parts(self) -> list[tuple[Decision, ...]]:
        """Part the run into documents that have room for it, each decision in one; long texts are cut for it."""
        parts: list[list[Decision]] = [[]]
        held = 0
        for decision in self.decisions:
            tokens = _tokens(self._entry(decision, self._most_chars))
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

    def _labels(self, places: Iterable[int]) -> list[int]:
        return [self.decisions[place].label for place in places]

    def _entry(self, decision: Decision, most_chars: int) -> dict[str, object]:
        """Lay a decision out for the document, each text cut in its middle to *most_chars*."""
        found: dict[str, object] = {"step": decision.label, "agent": decision.agent}
        if not decision.can_be_blamed:
            found["is_decision"] = False
        kinds = sorted({step.kind for step in decision.steps} - {"message"})
        if kinds:
            found["kind"] = ", ".join(kinds)
        to = list(dict.fromkeys(name for step in decision.steps for name in step.recipients))[:MOST_LINKS]
        if to:
            found["to"] = to
        if decision.builds_on:
            found["builds_on"] = self._labels(decision.builds_on)
        if decision.objects_to:
            found["objects_to"] = self._labels(decision.objects_to)
        found["text"] = cut("\n".join(step.content for step in decision.steps), most_chars)
        results = decision.results
        if results:
            found["tool_answers"] = [cut(step.content, most_chars // len(results)) for step in results]
        errors = [step.error or "error" for step in (*decision.steps, *results) if step.status == "error"]
        if errors:
            found["error"] = ", ".join(dict.fromkeys(errors))[:200]
        return found

    def _fitted(self, shown: list[Decision], about: set[int]) -> list[dict[str, object]]:
        most = most_about = self._most_chars
        while True:
            entries = [self._entry(one, most_about if one.label in about else most) for one in shown]
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
    return {"task": cut(trace.task, _MOST_TASK_CHARS), "outcome": trace.outcome, "agents": described}


def _tokens(entry: Mapping[str, object]) -> int:
    return estimated_tokens(as_data(entry))
