"""Probes find what gives labels away, and nothing where nothing does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Origin, RecordedRun
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.make.corpus.probes import find_leaks, run_probes
from blamespan_lab.make.corpus.surface import ProbedRun, probe_run

WORDS = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "ivy", "juniper"]
NAMES = ("ann", "bob", "cleo")

Place = Callable[[Random, int], int]
Spoil = Callable[[str, bool], str]


def anywhere(rng: Random, count: int) -> int:
    return rng.randrange(count)


def as_it_is(text: str, is_decisive: bool) -> str:
    return text


def run(number: int, *, failed: bool, place: Place, spoil: Spoil) -> RecordedRun:
    rng = Random(number)
    count = rng.randint(4, 9)
    decisive = place(rng, count) if failed else None
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(count)]
    steps = tuple(
        Step(index, f"{index + 1:016x}", rng.choice(NAMES), "message", spoil(text, index == decisive))
        for index, text in enumerate(texts)
    )
    trace = MessageActionTrace(
        f"{number + 1:032x}", f"question {number}", steps, tuple(map(Agent, NAMES)), "failed" if failed else "succeeded"
    )
    origin = Origin("faulty" if failed else "clean", f"f{number % 2}", f"t{number % 3}", "autogen", decisive=decisive)
    return RecordedRun("here", trace, (), origin)


def corpus(place: Place = anywhere, spoil: Spoil = as_it_is, runs: int = 500) -> list[ProbedRun]:
    made = [run(number, failed=number % 5 < 3, place=place, spoil=spoil) for number in range(runs)]
    return [found for each in made if (found := probe_run(each)) is not None]


def test_nothing_is_found_where_nothing_tells() -> None:
    """Where any step is decisive and says what others say, no probe is surely better than chance."""
    report = run_probes(corpus())

    assert find_leaks(report) == []
    assert report["step"]["all"]["bag of words"]["excess"][0] <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "spoil", "probe", "goes_by"),
    [
        (lambda rng, count: min(rng.choice((0, 0, 1, 3)), count - 1), as_it_is, "position", ""),
        (anywhere, lambda text, is_decisive: text * 3 if is_decisive else text, "single feature", "most length"),
        (anywhere, lambda text, is_decisive: text[:3] if is_decisive else text, "single feature", "least length"),
    ],
)
def test_leak_is_named_with_what_gives_it_away(place: Place, spoil: Spoil, probe: str, goes_by: str) -> None:
    """Decisive steps that stand early, or are long or short, are found over all and in parts held out."""
    found = find_leaks(run_probes(corpus(place, spoil)))

    assert any(leak.startswith(f"all: {probe}") and goes_by in leak for leak in found)
    assert any(leak.startswith("topology=") and probe in leak for leak in found)


def test_words_are_reported_but_no_leak() -> None:
    """A word that only decisive steps have is found by the bag of words, which may find what it can."""
    report = run_probes(corpus(spoil=lambda text, is_decisive: f"{text} zebra" if is_decisive else f"{text} xylem"))

    assert report["step"]["all"]["bag of words"]["accuracy"] > 95
    assert report["run"]["all"]["bag of words"]["accuracy"] > 75
    assert find_leaks(report) == []


def test_probing_too_few_runs_is_refused() -> None:
    """An accuracy over a handful of runs says nothing."""
    with pytest.raises(UnreadableInput, match="at least 20 failed runs"):
        run_probes(corpus(runs=20))
