"""From examined programs and a corpus to the rows of the table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.faults_work import Examined

from blamespan_lab.rerun.stress.figures import Rate

MIN_RUNS_PER_S = 5.0
"""Verified labelled runs per second on two cores."""

FIFTHS = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed run with a decisive step.

    Attributes:
        step: The decisive step's index.
        steps: Length of the run.
        modes: What went wrong, `taxonomy:code` each; empty where nobody says.
    """

    step: int
    steps: int
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast labelled runs are made.

    Attributes:
        runs: Kept with a label that replay has confirmed.
        failures: Failures among them.
        wall_s: On the clock on the wall, imports aside.
        cpu_s: Processor seconds of all processes.
        processes: At once.
    """

    runs: int
    failures: int
    wall_s: float
    cpu_s: float
    processes: int

    @property
    def per_s(self) -> float:
        """Verified labelled runs per second, as it was."""
        return self.runs / self.wall_s

    @property
    def per_s_idle(self) -> float:
        """The same if the processors had done nothing else."""
        return self.runs * self.processes / self.cpu_s

    @property
    def is_met(self) -> bool:
        """Whether that is enough; by processor seconds, as others may use the machine."""
        return max(self.per_s, self.per_s_idle) >= MIN_RUNS_PER_S


@dataclass(frozen=True, slots=True)
class Shape:
    """Where failures are decided and how long they are.

    Attributes:
        n: How many.
        fifths: Share of decisive steps in each fifth of the run, in percent.
        steps: Shortest, middle and longest run.
        middle_step: The middle one of the decisive steps' indices.
    """

    n: int
    fifths: tuple[float, ...]
    steps: tuple[int, float, int]
    middle_step: float


def speed_of(done: Sequence[Examined], processes: int) -> Speed:
    """Sum up how long the work took."""
    kept: Counter[str] = Counter()
    for one in done:
        kept.update(one.kept)
    failures = sum(kept[purpose] for purpose in ("faulty", "natural", "several"))
    wall_s = max(one.end_s for one in done) - min(one.start_s for one in done)
    return Speed(kept.total(), failures, wall_s, sum(one.cpu_s for one in done), processes)


def flips_by(done: Sequence[Examined], key: Callable[[Examined], str]) -> dict[str, Rate]:
    """Share of faults written that flip the outcome, by what *key* says of a cell; the first to come first."""
    groups: dict[str, list[Examined]] = {}
    for one in done:
        groups.setdefault(key(one), []).append(one)
    return {
        name: Rate(sum(one.flipped for one in group), sum(one.written for one in group))
        for name, group in groups.items()
    }


def same(first: Sequence[Examined], second: Sequence[Examined]) -> tuple[int, int]:
    """Count the cells whose runs and labels are the same to the byte in both, and all cells."""
    digests = {one.cell: one.digest for one in second}
    return sum(digests.get(one.cell) == one.digest for one in first), len(first)


def shape_of(failures: Iterable[Failure]) -> Shape | None:
    """Sum up failures; None where there are none."""
    found = list(failures)
    if not found:
        return None
    places = Counter(min(FIFTHS - 1, one.step * FIFTHS // one.steps) for one in found)
    lengths = sorted(one.steps for one in found)
    return Shape(
        len(found),
        tuple(100 * places[fifth] / len(found) for fifth in range(FIFTHS)),
        (lengths[0], float(median(lengths)), lengths[-1]),
        float(median(one.step for one in found)),
    )


def mode_shares(failures: Iterable[Failure]) -> Mapping[str, float]:
    """Share of failures of each canonical mode in percent, the most frequent first; one may have several."""
    found = [{mode for mode in one.modes if not mode.startswith("aegis:")} for one in failures]
    counts = Counter(mode for modes in found for mode in modes)
    return {mode: 100 * count / len(found) for mode, count in sorted(counts.items(), key=lambda x: (-x[1], x[0]))}
