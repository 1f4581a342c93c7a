"""The swim lanes: who acted when, how much each step is blamed, and what it builds on, as a drawing's numbers."""

from __future__ import annotations

from dataclasses import dataclass

from blamespan_collector.page.view import RunView, StepView

__all__ = ["Cell", "Lanes", "lanes_of"]

_NARROWEST, _WIDEST = 26, 72
_WIDTH = 960
"""What few steps are spread over; many take their own room."""
_LANE_HEIGHT = 34
_RADIUS = 10
_TOP = 24
"""Room for step numbers."""
_MOST_LANES = 30
_OTHERS = "others"
_MOST_STEPS = 1_000
_MOST_INPUTS = 3
"""Of one step, the latest: a step that builds on all before it says little by that."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A step's place in the drawing."""

    step: StepView
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """What is drawn.

    Attributes:
        names: Of the lanes, with the height at which each is.
        cells: One per step.
        links: Path data of the message links.
        marks: Numbers above, with their place.
        width: In pixels.
        height: In pixels.
        left_out: Steps that are not drawn.
    """

    names: tuple[tuple[str, int], ...]
    cells: tuple[Cell, ...]
    links: tuple[str, ...]
    marks: tuple[tuple[int, int], ...]
    width: int
    height: int
    left_out: int


def lanes_of(view: RunView) -> Lanes:
    """Place the steps of a run: a lane per agent in order of first word, a column per step."""
    steps = view.steps[:_MOST_STEPS]
    agents = list(dict.fromkeys(step.agent for step in steps))
    lanes = agents if len(agents) <= _MOST_LANES else [*agents[: _MOST_LANES - 1], _OTHERS]
    row = {agent: min(number, len(lanes) - 1) for number, agent in enumerate(agents)}
    width = max(_NARROWEST, min(_WIDEST, _WIDTH // max(1, len(steps))))
    cells = tuple(
        Cell(step, place * width + width // 2, _TOP + row[step.agent] * _LANE_HEIGHT + _LANE_HEIGHT // 2)
        for place, step in enumerate(steps)
    )
    every = 1 if len(steps) <= 30 else 5 if len(steps) <= 200 else 10
    return Lanes(
        names=tuple((name, _TOP + number * _LANE_HEIGHT + _LANE_HEIGHT // 2) for number, name in enumerate(lanes)),
        cells=cells,
        links=tuple(_path(cells[before], cell) for cell in cells for before in cell.step.step.inputs[-_MOST_INPUTS:]),
        marks=tuple((place, cells[place].x) for place in range(0, len(steps), every)),
        width=max(1, len(steps)) * width,
        height=_TOP + len(lanes) * _LANE_HEIGHT + 8,
        left_out=len(view.steps) - len(steps),
    )


def _path(start: Cell, end: Cell) -> str:
    """Draw a link from a step's right side to another's left: straight beside each other, bowed below within a lane."""
    left, right = start.x + _RADIUS, end.x - _RADIUS
    if start.y == end.y and end.step.step.index - start.step.step.index > 1:
        low = start.y + _LANE_HEIGHT // 2
        return f"M{left} {start.y}C{left + 8} {low} {right - 8} {low} {right} {end.y}"
    middle = (left + right) // 2
    return f"M{left} {start.y}C{middle} {start.y} {middle} {end.y} {right} {end.y}"
