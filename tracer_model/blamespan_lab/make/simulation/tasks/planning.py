"""Planning under constraints: the best option that keeps to all limits, or the earliest end of a plan of work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.statements.facts import Limit
from blamespan_lab.make.simulation.tasks.task import Builder, Task


@dataclass(frozen=True, slots=True)
class _OptionTheme:
    """Options to choose from: the parts of their cost, what they hold and in which unit, and what is needed."""

    noun: str
    opening: str
    options: tuple[str, ...]
    parts: tuple[str, str]
    cost: str
    capacity: tuple[str, str]
    needed: str


@dataclass(frozen=True, slots=True)
class _Plans:
    works: tuple[str, ...]
    schedule_opening: str
    choices: tuple[_OptionTheme, ...]


_PLANS = read_data_file(_Plans, Path(__file__).with_suffix(".toml"))


def planning(rng: Random, size: int) -> Task:
    """Make a planning task that is about *size* facts deep."""
    build = Builder("planning", rng)
    return _choice(build, size) if rng.random() < 0.55 else _schedule(build, size)


def _choice(build: Builder, size: int) -> Task:
    """Ask for the cheapest or dearest option within two limits."""
    choice = build.rng.choice(_PLANS.choices)
    options = build.rng.sample(choice.options, k=max(2, min(6, size // 2)))
    needed = float(build.rng.randint(40, 120))
    costs = [[float(build.rng.randint(60, 400)), float(build.rng.randint(10, 80))] for _ in options]
    rooms = [float(build.rng.randint(30, 200)) for _ in options]
    rooms[0] = needed + build.rng.randint(0, 40)  # one of them always fits
    allowed = sum(costs[0]) + build.rng.randint(-1, 120) + 1
    limits = (
        build.add_given("allowed", f"{choice.cost} allowed", Limit("<=", allowed), "euros", "limit"),
        build.add_given("needed", choice.needed, Limit(">=", needed), choice.capacity[1], "limit"),
    )
    picked: list[str] = []
    for number, name in enumerate(options):
        picked += _option(build, choice, number, name, costs[number], rooms[number], limits)
    build.measure = choice.cost
    operation = build.rng.choice(("lowest", "lowest", "highest"))
    target = build.add_derived("best", f"{choice.noun} to be booked", operation, picked, kind="name")
    return build.task(
        target,
        choice.opening,
        build.rng.choice(
            (f"Which one is the {choice.noun} to be booked?", f"Please name the {choice.noun} to be booked.")
        ),
    )


def _option(
    build: Builder,
    choice: _OptionTheme,
    number: int,
    name: str,
    costs: list[float],
    room: float,
    limits: tuple[str, str],
) -> tuple[str, str]:
    """Add an option: what it costs, what it holds, whether it is suitable."""
    first = build.add_given(f"first{number}", f"{choice.parts[0]} of {name}", costs[0], "euros")
    second = build.add_given(f"second{number}", f"{choice.parts[1]} of {name}", costs[1], "euros")
    capacity = build.add_given(f"room{number}", f"{choice.capacity[0]} of {name}", room, choice.capacity[1])
    cost = build.add_derived(f"cost{number}", f"{choice.cost} of {name}", "sum", (first, second), "euros", label=name)
    verdict = build.add_derived(
        f"fits{number}",
        f"offer of {name}",
        "within",
        (cost, limits[0], capacity, limits[1]),
        kind="verdict",
        choices=("suitable", "not suitable", "unsuitable"),
        is_implied=True,
    )
    return cost, verdict


def _schedule(build: Builder, size: int) -> Task:
    """Ask when the last work of a plan ends: each starts when all before it have ended."""
    works = build.rng.sample(_PLANS.works, k=max(3, min(8, size * 2 // 3)))
    ends: list[str] = []
    for number, work in enumerate(works):
        lasts = build.add_given(f"lasts{number}", f"duration of the {work}", float(build.rng.randint(2, 19)), "hours")
        before = build.rng.sample(ends[-3:], k=min(len(ends), build.rng.choice((1, 1, 2))))
        if number == 0:
            begins = build.add_given("begins", "hour at which work begins", float(build.rng.randint(1, 9)))
        elif len(before) == 1:
            begins = before[0]
        else:
            begins = build.add_derived(f"start{number}", f"start of the {work}", "larger", before)
        ends.append(build.add_derived(f"end{number}", f"end of the {work}", "sum", (begins, lasts)))
    used = {key for rule in build.rules for key in rule.inputs}
    loose = [end for end in ends if end not in used]
    last = loose[0] if len(loose) == 1 else build.add_derived("end", "end of the whole plan", "larger", loose)
    return build.task(
        last,
        _PLANS.schedule_opening,
        f"[Work out|Find|Give us] the {build.facts[last].phrase}, in hours [from the start|].",
    )
