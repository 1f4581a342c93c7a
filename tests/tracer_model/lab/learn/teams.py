"""Teams that are learnt, or cannot be: what users write, and what goes wrong in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tests.tracer_model.lab.rerun.rule_models import by_rule, in_a_row

TASKS = [f"A hall has {number} rows of {number + 3} seats. How many seats are there?" for number in range(11, 17)]
_draws = itertools.count()


def numbers_in(text: str) -> list[int]:
    """Return the whole numbers of a text, in order."""
    words = "".join(letter if letter.isdigit() else " " for letter in text).split()
    return [int(word) for word in words]


def _read(text: str) -> str:
    rows, seats = (*numbers_in(text), 0, 0)[:2]
    return f"There are {rows} rows with {seats} seats each. The solver multiplies them."


def _solve(text: str) -> str:
    rows, seats = (*numbers_in(text), 0, 0)[:2]
    return f"The hall has {rows * seats} seats."


def _graph(**rules: Callable[[str], str]) -> Any:
    nodes = {name: by_rule(lambda messages, rule=rule: rule(messages[-1].text)) for name, rule in rules.items()}
    return in_a_row(nodes, name="seats")


def team() -> Any:
    """Make a reader and a solver."""
    return _graph(reader=_read, solver=_solve)


def alone() -> Any:
    """Make a team of one."""
    return _graph(solver=_solve)


def restless() -> Any:
    """Make a team that says it in other words each time."""
    return _graph(reader=lambda text: f"{_read(text)} That is note {'x' * (next(_draws) % 50 + 1)}.", solver=_solve)


def is_right(answer: str, task: str) -> bool:
    """Tell whether the seats were counted right."""
    rows, seats = numbers_in(task)
    return f"has {rows * seats} seats" in answer


def always_yes(answer: str, task: str) -> bool:
    """Find everything right."""
    return True


def never(answer: str, task: str) -> bool:
    """Find nothing right."""
    return False


def raises(answer: str, task: str) -> bool:
    """Break on every answer."""
    raise KeyError("amount")
