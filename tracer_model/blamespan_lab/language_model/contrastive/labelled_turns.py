"""Labelled runs as the turns of their agents, each beside its clean twin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from blamespan.importing.recorded import RecordedRun
from blamespan_lab.agent_names import resolve
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.rendering import render_run
from blamespan_tracer.causal.contrastive.turns import CODES, TurnRun, turn_run

__all__ = ["read_labelled_turns"]


def read_labelled_turns(runs: Iterable[RecordedRun], most_turns: int) -> Iterator[TurnRun]:
    """Read failed runs with a label that names a mode of AEGIS; a clean twin among *runs* goes with it."""
    labelled = [run for run in runs if run.faults is not None and abstention_reason(run.trace) is None]
    by_id = {run.trace.trace_id: run for run in labelled}
    for run in labelled:
        turns_of_run = turn_run(render_run(run.trace), most_turns)
        faults = [fault for fault in run.faults or () if fault.mode is not None and fault.mode.taxonomy == "aegis"]
        pairs = frozenset(
            (turns_of_run.names.index(name), CODES.index(fault.mode.code))
            for fault in faults
            for name in [resolve(fault.agent, turns_of_run.names)]
            if name in turns_of_run.names and fault.mode is not None
        )
        if run.trace.outcome != "failed" or not pairs:
            continue
        steps = {fault.step for fault in faults}
        wrong = tuple(index for index, turn in enumerate(turns_of_run.turns) if turn.lands_on in steps)
        twin = by_id.get(run.origin.twin) if run.origin is not None else None
        clean = _clean(turns_of_run, turn_run(render_run(twin.trace), most_turns)) if twin is not None else {}
        yield replace(turns_of_run, pairs=pairs, wrong=wrong, clean=clean, task=run.trace.task)


def _clean(run: TurnRun, twin: TurnRun) -> dict[int, str]:
    """Find what the same turn said in *twin*: the one at the same place, by the same agent."""
    both = zip(run.turns, twin.turns, strict=False)
    return {
        index: other.text
        for index, (turn, other) in enumerate(both)
        if run.names[turn.agent] == twin.names[other.agent]
    }
