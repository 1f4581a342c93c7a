"""A run as numbered text for a language model: decisions, who took them, what they build on, and what tools answered.

What comes out of the run is data: every line of it is indented, so none can pass for a heading of ours, and the marks
that would mean something to a model (its special tokens, the tags of the answer) are broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation import EDGE_TYPES, Representation, represent

__all__ = ["ANSWER_TAGS", "Decision", "RenderedRun", "inert", "render_run"]

ANSWER_TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<mode>", "</mode>")
"""What an answer is made of; in a run's own text they mean nothing."""

_NAME_CHARS = 80
"""Longer names of agents are cut."""

_MOST_INPUTS = 8
"""Steps named in one heading as what it builds on: the latest."""

_TIES = tuple(EDGE_TYPES.index(name) for name in ("reply", "depends"))


@dataclass(frozen=True, slots=True)
class Decision:
    """A step that an agent can be blamed for.

    Attributes:
        step: The number it is shown under: its place among the merged steps, from 0.
        agent: The number its agent is shown under, from 1, in order of first speaking.
        lands_on: Index of the original step that blame for it lands on.
    """

    step: int
    agent: int
    lands_on: int


@dataclass(frozen=True, slots=True)
class RenderedRun:
    """A run, ready to be written out whole or in part.

    Attributes:
        task: What it was asked to do.
        agents: One line each.
        headings: (N,) one line per merged step.
        said: (N,) the text of each.
        answered: (N,) what tools answered to each, or empty.
        decisions: Those of the steps that can be blamed, ascending.
        origins: (N,) the original steps each is made of.
        names: Of the agents, in the order of their numbers.
    """

    task: str
    agents: tuple[str, ...]
    headings: tuple[str, ...]
    said: tuple[str, ...]
    answered: tuple[str, ...]
    decisions: tuple[Decision, ...]
    origins: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.headings)

    def text(self, *, most_chars: int | None = None, part: range | None = None, marks: Iterable[str] = ()) -> str:
        """Write it out.

        Args:
            most_chars: Longer texts lose their middle, and say how much; None leaves them whole.
            part: Which steps; all of them where None.
            marks: Strings that must not stand in the text as they are, beside `ANSWER_TAGS`.
        """
        broken = _pattern(marks)
        steps = part if part is not None else range(len(self))
        lines = ["Task:", *_indented(_cut(self.task, most_chars)), "", "Agents:", *self.agents, "", "Steps:"]
        if steps.start > 0:
            lines.append(f"(steps 0 to {steps.start - 1} are not shown)")
        for place in steps:
            lines += [self.headings[place], *_indented(_cut(self.said[place], most_chars))]
            if self.answered[place]:
                lines += ["  answer of the tool:", *_indented(_cut(self.answered[place], most_chars), "    ")]
        if steps.stop < len(self):
            lines.append(f"(steps {steps.stop} to {len(self) - 1} are not shown)")
        return broken.sub(_break, "\n".join(lines))


def render_run(trace: MessageActionTrace, seen: Representation | None = None) -> RenderedRun:
    """Read *trace* as numbered decisions.

    Args:
        trace: The run, with at least one step.
        seen: What `represent` made of it, where that is known already.
    """
    run = seen or represent(trace)
    names = tuple(dict.fromkeys(run.agents[agent] for agent in run.agent.tolist()))
    number = {name: place for place, name in enumerate(names, 1)}
    speakers = [run.agents[agent] for agent in run.agent.tolist()]
    deciding = {name for name, can in zip(speakers, run.can_be_blamed.tolist(), strict=True) if can}
    inputs = _inputs(run)
    return RenderedRun(
        task=run.task,
        agents=tuple(
            f"agent {number[name]}: {_quoted(name)}{'' if name in deciding else ', cannot be to blame'}"
            for name in names
        ),
        headings=tuple(
            _heading(
                place, number[name], name, inputs[place], [trace.steps[index].status for index in run.origins[place]]
            )
            for place, name in enumerate(speakers)
        ),
        said=run.texts,
        answered=run.results,
        decisions=tuple(
            Decision(place, number[name], int(run.lands_on[place]))
            for place, name in enumerate(speakers)
            if run.can_be_blamed[place]
        ),
        origins=run.origins,
        names=names,
    )


def inert(text: str, marks: Iterable[str] = ()) -> str:
    """Break what would mean something to a model in *text*: a space after its first character."""
    return _pattern(marks).sub(_break, text)


def _heading(place: int, number: int, name: str, inputs: Sequence[int], statuses: Sequence[str]) -> str:
    heading = f"[{place}] agent {number} {_quoted(name)}"
    if inputs:
        heading += f", builds on {', '.join(map(str, inputs[-_MOST_INPUTS:]))}"
    return heading + (", ended with an error" if "error" in statuses else "")


def _inputs(run: Representation) -> list[list[int]]:
    """List, per merged step, the earlier ones it builds on: by links, or by what it uses of theirs."""
    found: list[set[int]] = [set() for _ in range(len(run))]
    for kind, before, after in run.edges.T.tolist():
        if kind in _TIES:
            found[after].add(before)
    return [sorted(each) for each in found]


def _quoted(name: str) -> str:
    return json.dumps(" ".join(name[: 2 * _NAME_CHARS].split())[:_NAME_CHARS], ensure_ascii=False)


def _cut(text: str, most_chars: int | None) -> str:
    if most_chars is None or len(text) <= most_chars:
        return text
    half = most_chars // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"


def _indented(text: str, margin: str = "  ") -> list[str]:
    """Indent every line, whatever ends lines there; text that is no Unicode becomes question marks."""
    return [margin + line for line in text.encode("utf-8", "replace").decode("utf-8").splitlines()]


def _pattern(marks: Iterable[str]) -> re.Pattern[str]:
    every = sorted({*ANSWER_TAGS, *(mark for mark in marks if len(mark.strip()) > 2)}, key=lambda mark: -len(mark))
    return re.compile("|".join(map(re.escape, every)), re.IGNORECASE)


def _break(found: re.Match[str]) -> str:
    mark = found.group()
    return f"{mark[0]} {mark[1:]}"
