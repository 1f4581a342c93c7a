"""Planning under constraints: the best option that keeps to all limits, or the earliest end of a plan of work."""

from __future__ import annotations

from random import Random

from blamespan_lab.simulation.statements.facts import Limit
from blamespan_lab.simulation.tasks.task import Builder, Task

__all__ = ["planning"]

_HALLS = ("Alder Hall", "Birch House", "Cedar Barn", "Dogwood Inn", "Elm Court", "Fir Lodge", "Hazel Loft")
_COURIERS = ("Swift Cargo", "Blue Arrow", "Harbour Freight", "Peak Parcel", "Nordic Post", "City Runner", "Delta Lines")
_KINDS = (
    (
        "venue",
        _HALLS,
        ("rent", "cleaning fee"),
        "cost",
        ("number of seats", ""),
        ("seats needed", ""),
        "[A club|A society] looks for a venue.",
    ),
    (
        "courier",
        _COURIERS,
        ("base charge", "fuel surcharge"),
        "price",
        ("load limit", "kg"),
        ("load needed", "kg"),
        "[A shop|A printer] chooses a courier.",
    ),
)
_WORKS = (
    "sanding",
    "priming",
    "painting",
    "wiring",
    "tiling",
    "plumbing",
    "glazing",
    "plastering",
    "roofing",
    "cleaning",
)


def planning(rng: Random, size: int) -> Task:
    """Make a planning task that is about *size* facts deep."""
    build = Builder("planning", rng)
    return _choice(build, size) if rng.random() < 0.55 else _schedule(build, size)


def _choice(build: Builder, size: int) -> Task:
    """Ask for the cheapest or dearest option within two limits."""
    noun, names, parts, cost_word, (room_word, room_unit), (needed_word, _), opening = build.rng.choice(_KINDS)
    options = build.rng.sample(names, k=max(2, min(6, size // 2)))
    needed = float(build.rng.randint(40, 120))
    costs = [[float(build.rng.randint(60, 400)), float(build.rng.randint(10, 80))] for _ in options]
    rooms = [float(build.rng.randint(30, 200)) for _ in options]
    rooms[0] = needed + build.rng.randint(0, 40)  # one of them always fits
    allowed = sum(costs[0]) + build.rng.randint(-1, 120) + 1
    limits = (
        build.given("allowed", f"{cost_word} allowed", Limit("<=", allowed), "euros", "limit"),
        build.given("needed", needed_word, Limit(">=", needed), room_unit, "limit"),
    )
    picked: list[str] = []
    for number, name in enumerate(options):
        picked += _option(
            build, number, name, parts, cost_word, costs[number], (room_word, rooms[number], room_unit), limits
        )
    build.measure = cost_word
    operation = build.rng.choice(("lowest", "lowest", "highest"))
    target = build.derived("best", f"{noun} to be booked", operation, picked, kind="name")
    return build.task(
        target,
        opening,
        build.rng.choice((f"Which one is the {noun} to be booked?", f"Please name the {noun} to be booked.")),
    )


def _option(
    build: Builder,
    number: int,
    name: str,
    parts: tuple[str, str],
    cost_word: str,
    costs: list[float],
    room: tuple[str, float, str],
    limits: tuple[str, str],
) -> tuple[str, str]:
    """Add an option: what it costs, what it holds, whether it is suitable."""
    first = build.given(f"first{number}", f"{parts[0]} of {name}", costs[0], "euros")
    second = build.given(f"second{number}", f"{parts[1]} of {name}", costs[1], "euros")
    held = build.given(f"room{number}", f"{room[0]} of {name}", room[1], room[2])
    cost = build.derived(f"cost{number}", f"{cost_word} of {name}", "sum", (first, second), "euros", label=name)
    verdict = build.derived(
        f"fits{number}",
        f"offer of {name}",
        "within",
        (cost, limits[0], held, limits[1]),
        kind="verdict",
        choices=("suitable", "not suitable", "unsuitable"),
        is_implied=True,
    )
    return cost, verdict


def _schedule(build: Builder, size: int) -> Task:
    """Ask when the last work of a plan ends: each starts when all before it have ended."""
    works = build.rng.sample(_WORKS, k=max(3, min(8, size * 2 // 3)))
    ends: list[str] = []
    for number, work in enumerate(works):
        lasts = build.given(f"lasts{number}", f"duration of the {work}", float(build.rng.randint(2, 19)), "hours")
        before = build.rng.sample(ends[-3:], k=min(len(ends), build.rng.choice((1, 1, 2))))
        if number == 0:
            begins = build.given("begins", "hour at which work begins", float(build.rng.randint(1, 9)))
        elif len(before) == 1:
            begins = before[0]
        else:
            begins = build.derived(f"start{number}", f"start of the {work}", "larger", before)
        ends.append(build.derived(f"end{number}", f"end of the {work}", "sum", (begins, lasts)))
    used = {key for rule in build.rules for key in rule.inputs}
    loose = [end for end in ends if end not in used]
    last = loose[0] if len(loose) == 1 else build.derived("end", "end of the whole plan", "larger", loose)
    opening = (
        "[A flat is renovated|A house is repaired|A shop is rebuilt] by crews that [wait for others|work in order]."
    )
    return build.task(
        last, opening, f"[Work out|Find|Give us] the {build.facts[last].phrase}, in hours [from the start|]."
    )
