"""The swim lanes: who acted when, how much each step is blamed, and what it builds on, as a drawing's numbers."""

from __future__ import annotations

from dataclasses import dataclass

from blamespan.analysis.showing.run_view import RunView, StepView

_NARROWEST, _WIDEST = 26, 72
_WIDTH = 960
"""What few steps are spread over; many take their own room."""
_LANE_HEIGHT = 34
_RADIUS = 10
_TOP = 24
"""Room for step numbers."""
_MOST_LANES = 30
_OTHERS = "others"
MOST_STEPS = 1_000
"""Drawn at most."""
_MOST_STRETCHES = 160
_MOST_INPUTS = 3
"""Of one step, the latest: a step that builds on all before it says little by that."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A step's place in the drawing."""

    step: StepView
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps in a row, as one mark of the overview.

    Attributes:
        first: Index of the first one.
        last: Index of the last one.
        worst: The most blamed of them: what the mark leads to.
        x: Left edge.
        width: In pixels.
    """

    first: int
    last: int
    worst: StepView
    x: int
    width: int


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
        first: Index of the first step that is drawn.
        left_out: Steps that are not drawn.
        overview: Of all steps, where some are not drawn.
    """

    names: tuple[tuple[str, int], ...]
    cells: tuple[Cell, ...]
    links: tuple[str, ...]
    marks: tuple[tuple[int, int], ...]
    width: int
    height: int
    first: int
    left_out: int
    overview: tuple[Stretch, ...]


def lanes_of(view: RunView, first: int = 0, most: int = MOST_STEPS) -> Lanes:
    """Place the steps of a run: a lane per agent in order of first word, a column per step.

    Args:
        view: The run.
        first: Index of the first step that is shown below the drawing.
        most: How many are shown there.

    Returns:
        All steps of a run of up to `MOST_STEPS`. Of a longer one those that are shown, or, where all are, those around
        the decisive one; and an overview of all of them.
    """
    start, stop = _choose_range(view, first, most)
    steps = view.steps[start:stop]
    agents = list(dict.fromkeys(step.agent for step in steps))
    lanes = agents if len(agents) <= _MOST_LANES else [*agents[: _MOST_LANES - 1], _OTHERS]
    row = {agent: min(number, len(lanes) - 1) for number, agent in enumerate(agents)}
    width = max(_NARROWEST, min(_WIDEST, _WIDTH // max(1, len(steps))))
    cells = tuple(
        Cell(step, index * width + width // 2, _TOP + row[step.agent] * _LANE_HEIGHT + _LANE_HEIGHT // 2)
        for index, step in enumerate(steps)
    )
    every = 1 if len(steps) <= 30 else 5 if len(steps) <= 200 else 10
    return Lanes(
        names=tuple((name, _TOP + number * _LANE_HEIGHT + _LANE_HEIGHT // 2) for number, name in enumerate(lanes)),
        cells=cells,
        links=tuple(
            _path(cells[before - start], cell)
            for cell in cells
            for before in cell.step.step.inputs[-_MOST_INPUTS:]
            if before >= start
        ),
        marks=tuple((start + index, cells[index].x) for index in range(0, len(steps), every)),
        width=max(1, len(steps)) * width,
        height=_TOP + len(lanes) * _LANE_HEIGHT + 8,
        first=start,
        left_out=len(view.steps) - len(steps),
        overview=_overview(view) if len(steps) < len(view.steps) else (),
    )


def _choose_range(view: RunView, first: int, most: int) -> tuple[int, int]:
    """Choose the steps that are drawn: from which index on, and before which."""
    if len(view.steps) <= MOST_STEPS:
        return 0, len(view.steps)
    if most > MOST_STEPS:
        most = MOST_STEPS
        first = view.first_shown(most)
    return first, first + most


def _overview(view: RunView) -> tuple[Stretch, ...]:
    """Part all steps into stretches of the same length, as many as fit."""
    length = -(-len(view.steps) // _MOST_STRETCHES)
    count = -(-len(view.steps) // length)
    width = _WIDTH // count
    return tuple(
        Stretch(
            first=number * length,
            last=min((number + 1) * length, len(view.steps)) - 1,
            worst=max(view.steps[number * length : (number + 1) * length], key=lambda step: step.score),
            x=number * width,
            width=width,
        )
        for number in range(count)
    )


def _path(start: Cell, end: Cell) -> str:
    """Draw a link from a step's right side to another's left: straight beside each other, bowed below within a lane."""
    left, right = start.x + _RADIUS, end.x - _RADIUS
    if start.y == end.y and end.step.step.index - start.step.step.index > 1:
        low = start.y + _LANE_HEIGHT // 2
        return f"M{left} {start.y}C{left + 8} {low} {right - 8} {low} {right} {end.y}"
    middle = (left + right) // 2
    return f"M{left} {start.y}C{middle} {start.y} {middle} {end.y} {right} {end.y}"
