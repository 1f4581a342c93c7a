"""A run as numbered text: every line that comes out of it is indented, so none can pass for a heading of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.rendering.decisions import RenderedDecision, decisions_of
from blamespan_tracer.alternatives.rendering.texts import cut, indent_lines, inert, name_of

_MOST_TASK_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A decision that an answer may name.

    Attributes:
        step: The number it is shown under: its place among the decisions, from 0.
        agent: The number its agent is shown under, from 1, in order of first speaking.
        lands_on: Index of the original step that blame for it lands on.
    """

    step: int
    agent: int
    lands_on: int


@dataclass(frozen=True, slots=True)
class RenderedRun:
    """A run, ready to be written out whole or in part.

    Dims: N decisions.

    Attributes:
        task: What it was asked to do.
        agents: One line each.
        headings: (N,) one line each.
        texts: (N,) the text of each.
        answers: (N,) what tools answered to each, or empty.
        decisions: Those that can be blamed, ascending.
        origins: (N,) the original steps each is made of.
        names: Of the agents, in the order of their numbers.
    """

    task: str
    agents: tuple[str, ...]
    headings: tuple[str, ...]
    texts: tuple[str, ...]
    answers: tuple[str, ...]
    decisions: tuple[Candidate, ...]
    origins: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.headings)

    def text(
        self,
        *,
        most_chars: int | None = None,
        part: range | None = None,
        marks: Iterable[str] = (),
        instead: Mapping[int, str] | None = None,
    ) -> str:
        """Write it out.

        Args:
            most_chars: Longer texts lose their middle, and say how much; None leaves them whole.
            part: Which decisions; all of them where None.
            marks: Strings that must not stand in the text as they are, beside `ANSWER_TAGS`.
            instead: What some decisions say in place of their own words, by position.
        """
        steps = part if part is not None else range(len(self))
        lines = ["Task:", *indent_lines(cut(self.task, most_chars)), "", "Agents:", *self.agents, "", "Steps:"]
        if steps.start > 0:
            lines.append(f"(steps 0 to {steps.start - 1} are not shown)")
        for position in steps:
            text = (instead or {}).get(position, self.texts[position])
            lines += [self.headings[position], *indent_lines(cut(text, most_chars))]
            if self.answers[position]:
                lines += ["  answer of the tool:", *indent_lines(cut(self.answers[position], most_chars), "    ")]
        if steps.stop < len(self):
            lines.append(f"(steps {steps.stop} to {len(self) - 1} are not shown)")
        return inert("\n".join(lines), marks)


def render_run(trace: MessageActionTrace) -> RenderedRun:
    """Read *trace*, which has at least one step, as numbered decisions."""
    decisions = decisions_of(trace)
    names = dict.fromkeys(decision.agent for decision in decisions)
    numbers = {name: number for number, name in enumerate(names, 1)}
    deciding = {decision.agent for decision in decisions if decision.can_be_blamed}
    return RenderedRun(
        task=cut(trace.task, _MOST_TASK_CHARS),
        agents=tuple(
            f"agent {number}: {name_of(name)}{'' if name in deciding else ', cannot be to blame'}"
            for name, number in numbers.items()
        ),
        headings=tuple(_heading(decision, numbers[decision.agent]) for decision in decisions),
        texts=tuple(decision.read for decision in decisions),
        answers=tuple(decision.answered for decision in decisions),
        decisions=tuple(
            Candidate(decision.place, numbers[decision.agent], decision.lands_on)
            for decision in decisions
            if decision.can_be_blamed
        ),
        origins=tuple(tuple(step.index for step in decision.steps) for decision in decisions),
        names=tuple(numbers),
    )


def _heading(decision: RenderedDecision, number: int) -> str:
    heading = f"[{decision.place}] agent {number} {name_of(decision.agent)}"
    if decision.builds_on:
        heading += f", builds on {', '.join(map(str, sorted(decision.builds_on)))}"
    if decision.objects_to:
        heading += f", objects to {', '.join(map(str, sorted(decision.objects_to)))}"
    return heading + (", ended with an error" if decision.has_error else "")
