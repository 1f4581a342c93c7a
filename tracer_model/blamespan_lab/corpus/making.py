"""Making a block of runs: all that may be kept of it. What is kept is chosen when every block is made (`choice`)."""

from __future__ import annotations

import time
from collections.abc import Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.otlp.sdk import span_from_sdk
from blamespan_lab.corpus.attempts import Attempts
from blamespan_lab.corpus.choice import Candidate
from blamespan_lab.corpus.plan import Block
from blamespan_lab.corpus.probes.surface import blamable_steps, run_surface
from blamespan_lab.corpus.recipe import CorpusRecipe
from blamespan_lab.corpus.storage import MadeBlock
from blamespan_lab.replay.counterfactual import Recorded
from blamespan_lab.replay.labels import Purpose
from blamespan_lab.replay.recording import Recording
from blamespan_lab.wordings.choosing import use_wordings

__all__ = ["make_block"]

_SPARE = 4
"""Natural failures tried for beyond the surplus: nobody chooses where they come, so that takes more to choose from."""
_SPARE_HARMLESS = 2
"""Harmless runs beyond those wanted, for where failures are fewer."""


def make_block(recipe: CorpusRecipe, block: Block, recording: Recording) -> MadeBlock:
    """Make the runs of *block*; the same arguments give the same, in any process and order."""
    start_s = time.process_time()
    with use_wordings(recipe.teams.wordings):
        attempts = Attempts(recipe, block, recording)
        _try_failures(recipe, block, attempts)
        failures = [failure for found in attempts.failures.values() for failure in found]
        twins = [failure.twin for failure in failures if failure.twin is not None]
        attempts.more_harmless(block.harmless + _SPARE_HARMLESS if block.harmless else 0)
        attempts.more_clean(block.clean - min(len(twins) * recipe.balance.twins_percent // 100, block.clean))
    runs = [*(failure.recorded for failure in failures), *attempts.harmless, *twins, *attempts.clean]
    by_id = {run.label.trace_id: run for run in sorted(runs, key=lambda run: run.label.trace_id)}
    pulls = {failure.recorded.label.trace_id: failure.pull for failure in failures}
    return MadeBlock(
        block.number,
        tuple(_document(run) for run in by_id.values()),
        tuple(_candidate(run, pulls.get(trace_id, ())) for trace_id, run in by_id.items()),
        dict(attempts.tally),
        time.process_time() - start_s,
    )


def _try_failures(recipe: CorpusRecipe, block: Block, attempts: Attempts) -> None:
    first = block.failures_before
    wanted: list[tuple[Purpose, int]] = [
        ("natural", block.natural),
        ("several", block.several),
        ("faulty", block.faulty),
    ]
    for purpose, count in wanted:
        if count:
            surplus = -(-count * recipe.balance.surplus_percent // 100) + (
                min(count, _SPARE) if purpose == "natural" else 0
            )
            attempts.failures_of(purpose, count + surplus, first)
            first += count


def _candidate(run: Recorded, pull: Iterable[float]) -> Candidate:
    surface = run_surface(run.trace, blamable_steps(run.trace))
    return Candidate(run.label, tuple(round(float(value), 4) for value in pull), tuple(map(float, surface)))


def _document(run: Recorded) -> str:
    spans = [span_from_sdk(span) for span in run.spans]
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(spans)))
