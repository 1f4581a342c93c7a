"""Word problems: amounts are given, rules are said, one amount is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from blamespan_lab.simulation.tasks.task import Builder, Task
from blamespan_lab.simulation.tasks.tools import CALCULATOR

__all__ = ["word_problem"]


@dataclass(frozen=True, slots=True)
class _Theme:
    """The words of one kind of story: parts with a count and a rate, their total, what is cut and added, who shares."""

    opening: str
    items: tuple[str, ...]
    count: str
    rate: str
    part: str
    unit: str
    total: str
    cut: tuple[str, str, str]
    extra: tuple[str, str]
    frame: tuple[str, str]
    sharers: tuple[str, str, str]


_THEMES = (
    _Theme(
        "[A school|A club|A choir] [orders|buys] supplies for [a fair|an open day|a trip].",
        ("lamps", "tables", "banners", "chairs", "mugs", "tents"),
        "number of {}",
        "price of one of the {}",
        "cost of the {}",
        "euros",
        "cost of all supplies",
        ("discount rate", "discount", "cost after the discount"),
        ("delivery fee", "cost with delivery"),
        ("budget", "money left over"),
        ("number of classes", "share of each class", "euros"),
    ),
    _Theme(
        "[A workshop|A small factory|A plant] [plans|reports] [a week|a shift] of work.",
        ("presses", "lathes", "ovens", "mixers", "looms", "cutters"),
        "hours run by the {}",
        "hourly output of the {}",
        "output of the {}",
        "pieces",
        "output of all machines",
        ("reject rate", "number of rejects", "number of good pieces"),
        ("stock from last week", "number of pieces at hand"),
        ("size of the order", "number of pieces still missing"),
        ("number of trucks", "load of each truck", "pieces"),
    ),
    _Theme(
        "[A courier|A delivery service] [looks back on|sums up] [its day|one day|a day's tours].",
        ("vans", "bikes", "trucks", "scooters", "carts", "boats"),
        "tours of the {}",
        "length of a tour of the {}",
        "distance covered by the {}",
        "km",
        "distance covered in all",
        ("share of empty trips", "distance driven empty", "distance driven loaded"),
        ("distance to the depot", "distance with the depot"),
        ("distance allowed per day", "distance still open"),
        ("number of drivers", "distance per driver", "km"),
    ),
    _Theme(
        "[A farm|A cooperative|An orchard] [counts|sums up] [its harvest|the harvest of the week].",
        ("apples", "pears", "plums", "quinces", "cherries", "figs"),
        "crates of {}",
        "weight of a crate of {}",
        "weight of the {}",
        "kg",
        "weight of the harvest",
        ("spoilage rate", "weight spoiled", "weight fit for sale"),
        ("weight held in store", "weight on offer"),
        ("weight ordered by the market", "weight still to be picked"),
        ("number of stalls", "weight per stall", "kg"),
    ),
    _Theme(
        "[A reading group|A library|A course] [plans|counts] [its reading|the reading of a term].",
        ("novels", "essays", "plays", "reports", "letters", "tales"),
        "number of {} on the list",
        "page count of each of the {}",
        "pages of the {}",
        "pages",
        "pages on the whole list",
        ("share that was skipped", "pages skipped", "pages left to read"),
        ("pages of the appendix", "pages with the appendix"),
        ("pages set for the term", "pages beyond the list"),
        ("number of weeks", "pages per week", "pages"),
    ),
)


def word_problem(rng: Random, size: int) -> Task:
    """Make a word problem that is *size* derived amounts deep, or one less."""
    theme = rng.choice(_THEMES)
    build = Builder("word_problems", rng)
    closing = sorted(rng.sample(range(4), k=min(4, max(0, (size - 2) // 2 + rng.randint(0, 1)))))
    costs = {0: 2, 1: 1, 2: 1, 3: 1}
    parts = max(1, min(len(theme.items), size - 1 - sum(costs[stage] for stage in closing)))
    last = _total(build, theme, rng.sample(theme.items, k=parts))
    for stage in closing:
        last = _STAGES[stage](build, theme, last)
    if len(build.rules) < 2:
        last = _with_extra(build, theme, last)
    phrase = build.facts[last].phrase
    request = rng.choice(("What is the {}?", "Work out the {}.", "How much is the {}?", "Please find the {}.")).format(
        phrase
    )
    return build.task(last, theme.opening, request, tools=(CALCULATOR,) if rng.random() < 0.5 else ())


def _total(build: Builder, theme: _Theme, items: list[str]) -> str:
    parts = []
    for number, item in enumerate(items):
        count = build.given(f"count{number}", theme.count.format(item), float(build.rng.randint(3, 60)))
        rate = build.given(f"rate{number}", theme.rate.format(item), float(build.rng.randint(2, 90)), theme.unit)
        parts.append(build.derived(f"part{number}", theme.part.format(item), "product", (count, rate), theme.unit))
    return build.derived("total", theme.total, "sum", parts, theme.unit) if len(parts) > 1 else parts[0]


def _cut(build: Builder, theme: _Theme, last: str) -> str:
    rate = build.given("cut_rate", theme.cut[0], float(build.rng.choice((2, 4, 5, 8, 10, 12, 15, 20, 25))), "percent")
    cut = build.derived("cut", theme.cut[1], "percent", (rate, last), theme.unit)
    return build.derived("after_cut", theme.cut[2], "difference", (last, cut), theme.unit)


def _with_extra(build: Builder, theme: _Theme, last: str) -> str:
    extra = build.given("extra", theme.extra[0], float(build.rng.randint(5, 95)), theme.unit)
    return build.derived("with_extra", theme.extra[1], "sum", (last, extra), theme.unit)


def _framed(build: Builder, theme: _Theme, last: str) -> str:
    now = build.truth[last]
    assert isinstance(now, float)
    frame = build.given("frame", theme.frame[0], float(int(now) + build.rng.randint(40, 900)), theme.unit)
    return build.derived("left", theme.frame[1], "difference", (frame, last), theme.unit)


def _shared(build: Builder, theme: _Theme, last: str) -> str:
    sharers = build.given("sharers", theme.sharers[0], float(build.rng.choice((2, 4, 5, 8, 10, 20))))
    return build.derived("share", theme.sharers[1], "quotient", (last, sharers), theme.sharers[2])


_STAGES = (_cut, _with_extra, _framed, _shared)
