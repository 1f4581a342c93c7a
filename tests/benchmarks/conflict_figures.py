"""How well conflicts of instructions are decided: on played scenes with a known winner, and on sound recorded runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from blamespan.conventions import STEP_INSTRUCTIONS
from blamespan.errors import UnreadableInput
from blamespan.importing.files import read_bytes
from blamespan.importing.recorded import load_importer
from blamespan.json_text import parse_json
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.conflicts import PlayedConflict
from blamespan_lab.make.edits.generate import read_sound_runs, source_files
from blamespan_lab.make.wordings.banks import CONFLICTS
from blamespan_lab.statistics import f1, micro_interval
from blamespan_tracer.instructions import find_conflicts

_TAU: Final = "tau_bench/*.json.xz"
_OUTCOMES: Final = "outcomes/*.jsonl.xz"


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


def measure_sound_runs(folder: Path) -> tuple[int, int]:
    """Count the sound recorded runs below *folder* that are said to disobey, and all of them.

    The assistant of tau-bench is given the policy that its file holds, which importers leave out.

    Raises:
        ConfigError: if there are none.
    """
    flagged = [bool(_broken_steps(trace)) for trace in (*_read_tau(folder), *_read_outcomes(folder))]
    return sum(flagged), len(flagged)


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


def _read_outcomes(folder: Path) -> Iterator[MessageActionTrace]:
    for source in source_files([folder], "outcomes", _OUTCOMES):
        yield from (run.trace for run in read_sound_runs(source))


def _read_tau(folder: Path) -> Iterator[MessageActionTrace]:
    for source in source_files([folder], "tau_bench", _TAU):
        records = parse_json(read_bytes(source.path).decode())
        for record, run in zip(records, load_importer(source.importer).read(source.path), strict=True):
            if isinstance(run, UnreadableInput) or run.trace.outcome != "succeeded":
                continue
            policy = "\n".join(message["content"] for message in record["traj"] if message["role"] == "system")
            yield _give_instructions(run.trace, policy)


def _give_instructions(trace: MessageActionTrace, text: str) -> MessageActionTrace:
    """Return a run whose first decision was made with *text* as system prompt."""
    first = next(step for step in trace.steps if trace.can_be_blamed(step))
    given = replace(first, input_text=text, attributes={**first.attributes, STEP_INSTRUCTIONS: (0, len(text))})
    return replace(trace, steps=(*trace.steps[: first.index], given, *trace.steps[first.index + 1 :]))
