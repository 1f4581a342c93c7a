"""Measure error schemata: whether failures are known again by those of other runs, and sound runs are left alone.

The runs of a corpus are parted by their questions, so that a failure and its sound twin are on one side. Of one side's
failures schemata are made, held against its sound runs; with these the other side is searched.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from blamespan.analysis.summary.statistics import wilson
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.statistics import percent
from blamespan_tracer.schemata import ErrorSchema, SchemaMatch, SoundSteps, make_schema
from blamespan_tracer.schemata.findings import read_findings
from blamespan_tracer.schemata.matching import match_findings

_SIDES: Final = 2


class SchemaFigures(TypedDict):
    """What schemata find, in per cent, with Wilson's 95 % intervals.

    Attributes:
        schemata: How many were made, and
        refused: how many failures sound runs look like, or show nothing to know them by.
        failures: Failed runs that were searched, and
        known: those of an error mode that some schema is of.
        recall: Of *known*: a schema of the same mode matches at the step that decided the failure.
        at_step: Of *known*: any schema matches there.
        in_run: Of *known*: any schema matches at some step of the run.
        sound: Sound runs that were searched, and
        false_matches: the share of them in which any schema matches.
        twins: Those of *sound* that are the twin of a failure that was searched, and
        false_matches_twins: the same of them.
        match_ms: Processor time that it takes to hold a run, read, against all schemata; the median.
        read_ms: Processor time to read it; the median.
    """

    schemata: int
    refused: int
    failures: int
    known: int
    recall: float
    recall_ci: tuple[float, float]
    at_step: float
    at_step_ci: tuple[float, float]
    in_run: float
    in_run_ci: tuple[float, float]
    sound: int
    false_matches: float
    false_matches_ci: tuple[float, float]
    twins: int
    false_matches_twins: float
    false_matches_twins_ci: tuple[float, float]
    match_ms: float
    read_ms: float


@dataclass(frozen=True, slots=True)
class _Searched:
    """What schemata say of a run."""

    run: RecordedRun
    matches: Sequence[SchemaMatch]
    match_s: float
    read_s: float


def evaluate_schemata(runs: Sequence[RecordedRun]) -> SchemaFigures:
    """Measure on a generated corpus, each side searched with the schemata of the other.

    Raises:
        UnreadableInput: if a side has no failure or no sound run.
    """
    sides = [[run for run in runs if _side_of(run) == side] for side in range(_SIDES)]
    searched: list[tuple[frozenset[str], list[_Searched]]] = []
    n_schemata = n_refused = 0
    for side in range(_SIDES):
        schemata, refused = _make_library(sides[side])
        n_schemata, n_refused = n_schemata + len(schemata), n_refused + refused
        modes = frozenset(schema.mode for schema in schemata)
        searched.append((modes, [_search(run, schemata) for run in sides[1 - side]]))
    failures = [(modes, one) for modes, found in searched for one in found if _decisive(one.run) is not None]
    sound = [one for _, found in searched for one in found if one.run.trace.outcome == "succeeded"]
    known = [one for modes, one in failures if _mode(one.run) in modes]
    if not known or not sound:
        raise UnreadableInput(
            f"expected failures of the same mode on both sides and sound runs, got {len(known)} and {len(sound)}. "
            "Make a corpus with: blamespan lab generate small --out corpora/small"
        )
    twin_ids = {one.run.origin.twin for _, one in failures if one.run.origin is not None}
    recall = [any(match.schema.mode == _mode(one.run) for match in _at_step(one)) for one in known]
    at_step = [bool(_at_step(one)) for one in known]
    in_run = [bool(one.matches) for one in known]
    is_false = [bool(one.matches) for one in sound]
    of_twins = [bool(one.matches) for one in sound if one.run.trace.trace_id in twin_ids]
    every = [one for _, found in searched for one in found]
    return {
        "schemata": n_schemata,
        "refused": n_refused,
        "failures": len(failures),
        "known": len(known),
        "recall": percent(recall),
        "recall_ci": _interval(recall),
        "at_step": percent(at_step),
        "at_step_ci": _interval(at_step),
        "in_run": percent(in_run),
        "in_run_ci": _interval(in_run),
        "sound": len(sound),
        "false_matches": percent(is_false),
        "false_matches_ci": _interval(is_false),
        "twins": len(of_twins),
        "false_matches_twins": percent(of_twins),
        "false_matches_twins_ci": _interval(of_twins),
        "match_ms": 1e3 * _median([one.match_s for one in every]),
        "read_ms": 1e3 * _median([one.read_s for one in every]),
    }


def _make_library(runs: Sequence[RecordedRun]) -> tuple[list[ErrorSchema], int]:
    """Return schemata of all failures that can be told from the sound runs, and how many cannot."""
    sound = SoundSteps([run.trace for run in runs if run.trace.outcome == "succeeded"])
    schemata: list[ErrorSchema] = []
    refused = 0
    for run in runs:
        step = _decisive(run)
        if step is None:
            continue
        try:
            taken = {schema.name for schema in schemata}
            schemata.append(make_schema(run.trace, step, mode=_mode(run), taken=taken, sound=sound))
        except ConfigError:
            refused += 1
    return schemata, refused


def _search(run: RecordedRun, schemata: Sequence[ErrorSchema]) -> _Searched:
    began = time.process_time()
    steps = read_findings(run.trace)
    read = time.process_time()
    matches = match_findings(steps, schemata)
    return _Searched(run, matches, time.process_time() - read, read - began)


def _at_step(one: _Searched) -> list[SchemaMatch]:
    return [match for match in one.matches if match.step == _decisive(one.run)]


def _decisive(run: RecordedRun) -> int | None:
    return run.origin.decisive if run.origin is not None and run.trace.outcome == "failed" else None


def _mode(run: RecordedRun) -> str:
    return str(run.faults[0].mode) if run.faults and run.faults[0].mode is not None else ""


def _side_of(run: RecordedRun) -> int:
    return hashlib.sha256(run.trace.task.encode("utf-8", "replace")).digest()[0] % _SIDES


def _interval(hits: Sequence[bool]) -> tuple[float, float]:
    low, high = wilson(sum(hits), len(hits))
    return 100.0 * low, 100.0 * high


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
