"""How well conflicts of instructions are decided, on played scenes with a known winner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from blamespan.trace import MessageActionTrace
from blamespan_lab.make.conflicts import PlayedConflict
from blamespan_lab.make.wordings.banks import CONFLICTS
from blamespan_lab.statistics import f1, micro_interval
from blamespan_tracer.instructions import find_conflicts


@dataclass(frozen=True, slots=True)
class ConflictFigures:
    """Whether "disobeyed the higher instruction, at this step" is found.

    Attributes:
        f1: Of pairs of a run and a step, in percent.
        interval: Its 95 % interval, runs resampled.
        n_runs: How many runs there are, and
        n_broken: in how many the lower instruction was obeyed.
        false_alarms: Of the others, in how many that is said all the same.
    """

    f1: float
    interval: tuple[float, float]
    n_runs: int
    n_broken: int
    false_alarms: int

    @property
    def n_sound(self) -> int:
        """In how many the higher instruction was kept, or there was no other."""
        return self.n_runs - self.n_broken


@dataclass(frozen=True, slots=True)
class PlayedFigures:
    """The same for all played scenes, and apart for kinds of rules that the checks were and were not developed on."""

    all_kinds: ConflictFigures
    developed: ConflictFigures
    held_out: ConflictFigures


def measure_conflicts(played: Iterator[PlayedConflict]) -> PlayedFigures:
    """Measure on scenes."""
    labels: dict[bool, list[set[int]]] = defaultdict(list)
    answers: dict[bool, list[set[int]]] = defaultdict(list)
    for one in played:
        is_out = one.scene.kind in CONFLICTS.held_out
        labels[is_out].append({one.step} if one.is_broken else set())
        answers[is_out].append(_broken_steps(one.trace))
    return PlayedFigures(
        _figures(labels[False] + labels[True], answers[False] + answers[True]),
        _figures(labels[False], answers[False]),
        _figures(labels[True], answers[True]),
    )


def _figures(labels: list[set[int]], answers: list[set[int]]) -> ConflictFigures:
    return ConflictFigures(
        f1(labels, answers).micro_f1,
        micro_interval(labels, answers),
        len(labels),
        sum(map(bool, labels)),
        sum(bool(answer) and not label for label, answer in zip(labels, answers, strict=True)),
    )


def _broken_steps(trace: MessageActionTrace) -> set[int]:
    return {conflict.step for conflict in find_conflicts(trace) if conflict.obeyed == "lower"}
