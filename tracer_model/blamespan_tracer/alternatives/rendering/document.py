"""A run as one JSON document: what agents said stands inside its strings, which no text can leave.

Every step of an agent bears its index in the trace, the steps that are merged into one decision, too; a part of a long
run keeps these numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.alternatives.rendering.decisions import MOST_LINKS, RenderedDecision, decisions_of
from blamespan_tracer.alternatives.rendering.texts import as_data, cut, estimated_tokens, shown_name
from blamespan_tracer.ledger import Ledger

_MOST_STEP_CHARS = 12_000
_LEAST_STEP_CHARS = 120
_LEAST_STEP_TOKENS = 20
"""Of a decision that says nothing: no more of them can be shown than there is room for."""
_MOST_TASK_CHARS, _LEAST_TASK_CHARS = 8_000, 120
_MOST_ROSTER = 64
_MOST_RESULTS = 16
"""What more tools answered to one decision is left out, in the middle, and counted."""
_ABOUT = 0.75
"""Of the room, for what a question is about, before its texts are cut; the ends of others get the rest."""
_LEAST_MESSAGE_CHARS = 60
"""Of a decision of many messages so many are shown that each has these; others are left out evenly, and counted."""
_MOST_DESCRIPTION_CHARS = 300
_FIXED_TOKENS = 2_500
"""Kept free for the instructions and the frame of the document."""


@dataclass(frozen=True)
class RunDocument:
    """A run that documents are written of.

    Attributes:
        trace: The run.
        decisions: What is shown of it, in order.
        frame: What every document begins with: task, outcome and agents.
        room: Most tokens of the steps in one document, by our own estimate.
    """

    trace: MessageActionTrace
    decisions: tuple[RenderedDecision, ...]
    frame: Mapping[str, object]
    room: int

    @classmethod
    def of(cls, trace: MessageActionTrace, context_tokens: int, ledger: Ledger | None = None) -> RunDocument:
        """Read a run's decisions, to be shown within a context of so many tokens, 4,000 at least.

        Its claims are given where they are read already.
        """
        free = context_tokens - _FIXED_TOKENS
        frame = _frame(trace, free // 2)
        return cls(trace, decisions_of(trace, ledger), frame, free - _tokens(frame))

    @lazy_property
    def by_step(self) -> Mapping[int, RenderedDecision]:
        """Find decisions by the numbers of their steps."""
        return {step.index: decision for decision in self.decisions for step in decision.steps}

    def fits(self, beside: Mapping[str, object]) -> bool:
        """Check whether one document has room for all decisions, each text up to the most that any may have.

        Args:
            beside: What else the document says.
        """
        left = self.room - _tokens(beside)
        for decision in self.decisions:
            left -= _tokens(self._entry(decision, self._most_chars, set()))
            if left < 0:
                return False
        return True

    def document(self, shown: Sequence[RenderedDecision], about: Collection[int] = (), **more: object) -> str:
        """Write the document that shows some of the decisions.

        Where there is no room for all, texts are cut further, those of *about* least; where that is not enough, those
        farthest from *about* are left out, and their number is given. Where there is none for all of *about* either,
        it is thinned out evenly, and the others are left out.

        Args:
            shown: Which, in order.
            about: Numbers of steps the question is about; the last decision shown where none is named.
            more: What else the document says.
        """
        last = {step.index for decision in shown[-1:] for step in decision.steps}
        beside = {**self.frame, **more}
        room = self.room - _tokens(more)
        entries = self._fit_entries(list(shown), set(about) or last, room)
        document: dict[str, object] = {**beside, "steps": entries}
        if len(entries) < len(self.decisions):
            document["steps_not_shown"] = len(self.decisions) - len(entries)
        return as_data(document)

    @property
    def _most_chars(self) -> int:
        """Return the most characters of a text: no single step takes more than a third of the room."""
        return max(_LEAST_STEP_CHARS, min(_MOST_STEP_CHARS, self.room // 3))

    def _labels(self, positions: Iterable[int]) -> list[int]:
        return [self.decisions[position].label for position in positions]

    def _entry(self, decision: RenderedDecision, most_chars: int, about: set[int]) -> dict[str, object]:
        """Lay a decision out for the document, its text and each answer of a tool cut in the middle to *most_chars*."""
        entry: dict[str, object] = {"step": decision.label} if len(decision.steps) == 1 else {}
        entry["agent"] = shown_name(decision.agent)
        if not decision.can_be_blamed:
            entry["is_decision"] = False
        kinds = sorted({step.kind for step in decision.steps} - {"message"})
        if kinds:
            entry["kind"] = ", ".join(kinds)
        to = list(dict.fromkeys(name for step in decision.steps for name in step.recipients))[:MOST_LINKS]
        if to:
            entry["to"] = [shown_name(name) for name in to]
        if decision.builds_on:
            entry["builds_on"] = self._labels(decision.builds_on)
        if decision.objects_to:
            entry["objects_to"] = self._labels(decision.objects_to)
        entry |= _message_texts(decision.steps, most_chars, about)
        results = decision.results
        if len(results) > _MOST_RESULTS:
            entry["tool_answers_not_shown"] = len(results) - _MOST_RESULTS
            results = (*results[: _MOST_RESULTS // 2], *results[-_MOST_RESULTS // 2 :])
        if results:
            entry["tool_answers"] = [cut(step.content, most_chars // len(results)) for step in results]
        errors = [step.error or "error" for step in (*decision.steps, *decision.results) if step.status == "error"]
        if errors:
            entry["error"] = ", ".join(dict.fromkeys(errors))[:200]
        return entry

    def _fit_entries(self, shown: list[RenderedDecision], about: set[int], room: int) -> list[dict[str, object]]:
        is_about = [any(step.index in about for step in decision.steps) for decision in shown]
        order = _by_need(is_about)[: room // _LEAST_STEP_TOKENS]
        most = most_about = self._most_chars
        while True:
            entries = {at: self._entry(shown[at], most_about if is_about[at] else most, about) for at in order}
            tokens = {at: _tokens(entry) for at, entry in entries.items()}
            if sum(tokens.values()) <= room or most_about <= _LEAST_STEP_CHARS:
                break
            if sum(tokens[at] for at in order if is_about[at]) <= _ABOUT * room and most <= _LEAST_STEP_CHARS:
                break
            if most > _LEAST_STEP_CHARS:
                most = max(_LEAST_STEP_CHARS, most // 2)
            else:
                most_about = max(_LEAST_STEP_CHARS, most_about // 2)
        used, fitting = 0, list[int]()
        for at in order:
            used += tokens[at]
            if fitting and used > room:
                break
            fitting.append(at)
        return [entries[at] for at in sorted(fitting)]


def _message_texts(steps: Sequence[Step], most_chars: int, about: set[int]) -> dict[str, object]:
    """Return the texts of a decision: each of several messages under its own number, those of *about* first of all."""
    if len(steps) == 1:
        return {"text": cut(steps[0].content, most_chars)}
    room = max(most_chars // _LEAST_MESSAGE_CHARS, 1)
    order = _by_need([step.index in about for step in steps]) if about else _spread(len(steps))
    shown = sorted(order[:room])
    fits = sum(len(steps[at].content) for at in shown) <= most_chars
    message_chars = most_chars if fits else most_chars // len(shown)
    entry: dict[str, object] = {
        "messages": [{"step": steps[at].index, "text": cut(steps[at].content, message_chars)} for at in shown]
    }
    if len(shown) < len(steps):
        entry["messages_not_shown"] = len(steps) - len(shown)
    return entry


def _by_need(is_about: Sequence[bool]) -> list[int]:
    """Order positions by how much they are needed: those that a question is about, then the others, the nearest first.

    Any beginning of the former is spread evenly over them: each next one halves what is widest between those before.
    """
    about = [position for position, is_one in enumerate(is_about) if is_one] or [len(is_about) - 1]
    others = sorted(
        set(range(len(is_about))).difference(about), key=lambda position: (_distance(position, about), position)
    )
    return [about[at] for at in _spread(len(about))] + others


def _spread(count: int) -> list[int]:
    """Order the numbers below *count* so that every beginning is spread evenly: both ends, then ever finer halves."""
    order = list(dict.fromkeys([0, count - 1]))
    gaps = [(0, count - 1)]
    while gaps:
        middles = [((low + high) // 2, low, high) for low, high in gaps if high - low > 1]
        order += [middle for middle, _, _ in middles]
        gaps = [gap for middle, low, high in middles for gap in ((low, middle), (middle, high))]
    return order


def _distance(position: int, ascending: Sequence[int]) -> int:
    at = bisect_left(ascending, position)
    return min(abs(position - near) for near in ascending[max(at - 1, 0) : at + 1])


def _frame(trace: MessageActionTrace, most_tokens: int) -> dict[str, object]:
    """Return what the run was about: a long task, descriptions and agents are cut until it fits in *most_tokens*."""
    spoke = dict.fromkeys(step.agent for step in trace.steps)
    agents = sorted(trace.agents, key=lambda agent: agent.name not in spoke)
    task_chars, n_agents, description_chars = _MOST_TASK_CHARS, _MOST_ROSTER, _MOST_DESCRIPTION_CHARS
    while True:
        described = [
            {
                "name": shown_name(agent.name),
                "role": agent.role,
                **({"says": agent.description[:description_chars]} if agent.description and description_chars else {}),
            }
            for agent in agents[:n_agents]
        ]
        frame: dict[str, object] = {"task": cut(trace.task, task_chars), "outcome": trace.outcome, "agents": described}
        if _tokens(frame) <= most_tokens or not n_agents:
            return frame
        task_chars = max(task_chars // 2, _LEAST_TASK_CHARS)
        n_agents, description_chars = (
            (n_agents // 2, 0) if task_chars == _LEAST_TASK_CHARS else (n_agents, description_chars // 2)
        )


def _tokens(entry: Mapping[str, object]) -> int:
    return estimated_tokens(as_data(entry))
