"""Word problems: amounts are given, rules are said, one amount is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.tasks.task import Builder, Task
from blamespan_lab.make.simulation.tasks.tools import CALCULATOR

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


@dataclass(frozen=True, slots=True)
class _Stories:
    requests: tuple[str, ...]
    themes: tuple[_Theme, ...]


_STORIES = read_data_file(_Stories, Path(__file__).with_suffix(".toml"))


def word_problem(rng: Random, size: int) -> Task:
    """Make a word problem that is *size* derived amounts deep, or one less."""
    theme = rng.choice(_STORIES.themes)
    build = Builder("word_problems", rng)
    closing = sorted(rng.sample(range(4), k=min(4, max(0, (size - 2) // 2 + rng.randint(0, 1)))))
    costs = {0: 2, 1: 1, 2: 1, 3: 1}
    parts = max(1, min(len(theme.items), size - 1 - sum(costs[number] for number in closing)))
    last = _add_total(build, theme, rng.sample(theme.items, k=parts))
    for number in closing:
        last = _EXTRA_STEPS[number](build, theme, last)
    if len(build.rules) < 2:
        last = _add_extra(build, theme, last)
    phrase = build.facts[last].phrase
    request = rng.choice(_STORIES.requests).format(phrase)
    return build.task(last, theme.opening, request, tools=(CALCULATOR,) if rng.random() < 0.5 else ())


def _add_total(build: Builder, theme: _Theme, items: list[str]) -> str:
    parts = []
    for number, item in enumerate(items):
        count = build.add_given(f"count{number}", theme.count.format(item), float(build.rng.randint(3, 60)))
        rate = build.add_given(f"rate{number}", theme.rate.format(item), float(build.rng.randint(2, 90)), theme.unit)
        parts.append(build.add_derived(f"part{number}", theme.part.format(item), "product", (count, rate), theme.unit))
    return build.add_derived("total", theme.total, "sum", parts, theme.unit) if len(parts) > 1 else parts[0]


def _add_cut(build: Builder, theme: _Theme, last: str) -> str:
    rate = build.add_given(
        "cut_rate", theme.cut[0], float(build.rng.choice((2, 4, 5, 8, 10, 12, 15, 20, 25))), "percent"
    )
    cut = build.add_derived("cut", theme.cut[1], "percent", (rate, last), theme.unit)
    return build.add_derived("after_cut", theme.cut[2], "difference", (last, cut), theme.unit)


def _add_extra(build: Builder, theme: _Theme, last: str) -> str:
    extra = build.add_given("extra", theme.extra[0], float(build.rng.randint(5, 95)), theme.unit)
    return build.add_derived("with_extra", theme.extra[1], "sum", (last, extra), theme.unit)


def _add_frame(build: Builder, theme: _Theme, last: str) -> str:
    now = build.truth[last]
    assert isinstance(now, float)
    frame = build.add_given("frame", theme.frame[0], float(int(now) + build.rng.randint(40, 900)), theme.unit)
    return build.add_derived("left", theme.frame[1], "difference", (frame, last), theme.unit)


def _add_share(build: Builder, theme: _Theme, last: str) -> str:
    sharers = build.add_given("sharers", theme.sharers[0], float(build.rng.choice((2, 4, 5, 8, 10, 20))))
    return build.add_derived("share", theme.sharers[1], "quotient", (last, sharers), theme.sharers[2])


_EXTRA_STEPS = (_add_cut, _add_extra, _add_frame, _add_share)
