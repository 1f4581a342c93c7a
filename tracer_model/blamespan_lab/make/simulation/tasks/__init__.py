"""Six families of tasks; each makes a varied task from a seed and a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from types import MappingProxyType

from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.simulation.tasks.code import code_task
from blamespan_lab.make.simulation.tasks.lookup import lookup
from blamespan_lab.make.simulation.tasks.multi_hop import multi_hop
from blamespan_lab.make.simulation.tasks.planning import planning
from blamespan_lab.make.simulation.tasks.tables import table_task
from blamespan_lab.make.simulation.tasks.task import Task, Tool
from blamespan_lab.make.simulation.tasks.word_problems import word_problem
from blamespan_lab.make.wordings.choosing import current_wordings

__all__ = ["FAMILIES", "Task", "Tool", "make_task"]

FAMILIES: Mapping[str, Callable[[Random, int], Task]] = MappingProxyType(
    {
        "word_problems": word_problem,
        "code": code_task,
        "lookup": lookup,
        "planning": planning,
        "multi_hop": multi_hop,
        "tables": table_task,
    }
)
"""Every family's generator: from chance and a size of 3 to 12."""


def make_task(family: str, seed: int, size: int) -> Task:
    """Make the task of *family* that *seed* stands for, about *size* facts deep.

    A task has no state: the runs of a program and its replays share one.
    """
    return _make_cached(family, seed, size, current_wordings())


@lru_cache(maxsize=256)
def _make_cached(family: str, seed: int, size: int, wordings: str) -> Task:
    """Make it; *wordings* only tells apart what the same seed makes of other words."""
    del wordings
    return FAMILIES[family](Random(stable_seed("task", family, seed, size)), size)  # noqa: S311
