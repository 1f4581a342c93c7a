"""Making a block of runs: more are tried than are kept, and what is kept is chosen to give nothing away."""

from __future__ import annotations

import time
from dataclasses import replace

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.otlp.sdk import span_from_sdk
from blamespan_tracer.corpus.attempts import Attempts, Failure
from blamespan_tracer.corpus.balance import chosen
from blamespan_tracer.corpus.plan import Block
from blamespan_tracer.corpus.recipe import CorpusRecipe
from blamespan_tracer.corpus.storage import MadeBlock
from blamespan_tracer.replay.counterfactual import Recorded
from blamespan_tracer.replay.labels import Purpose
from blamespan_tracer.replay.recording import Recording
from blamespan_tracer.wordings.phrases import worded

__all__ = ["make_block"]

_SPARE = 4
"""Natural failures tried for beyond the surplus: nobody chooses where they come, so that takes more to choose from."""


def make_block(recipe: CorpusRecipe, block: Block, recording: Recording) -> MadeBlock:
    """Make the runs of *block*; the same arguments give the same, in any process and order.

    Where fewer failures are found that balance, more runs are clean and harmless instead.
    """
    start_s = time.process_time()
    with worded(recipe.teams.wordings):
        attempts = Attempts(recipe, block, recording)
        failures = _failures(recipe, block, attempts)
        short = block.faulty + block.natural + block.several - len(failures)
        attempts.more_harmless(block.harmless + short // 2)
        clean = _clean(recipe, block.clean + short - short // 2, attempts, failures)
    harmless = attempts.harmless[: block.harmless + short // 2]
    kept = [*(failure.recorded for failure in failures), *harmless, *clean]
    known = {run.label.trace_id for run in clean}
    runs = sorted(
        {run.label.trace_id: _with_twin(run, known) for run in kept}.values(), key=lambda run: run.label.trace_id
    )
    for run in runs:
        attempts.tally[f"kept: {run.label.purpose}"] += 1
    return MadeBlock(
        block.number,
        tuple(_document(run) for run in runs),
        tuple(run.label for run in runs),
        dict(attempts.tally),
        time.process_time() - start_s,
    )


def _failures(recipe: CorpusRecipe, block: Block, attempts: Attempts) -> list[Failure]:
    """Try for failures of each purpose and choose among them; what was chosen before weighs in."""
    failures: list[Failure] = []
    first = block.failures_before
    wanted: list[tuple[Purpose, int]] = [
        ("natural", block.natural),
        ("several", block.several),
        ("faulty", block.faulty),
    ]
    for purpose, count in wanted:
        if not count:
            continue
        surplus = -(-count * recipe.balance.surplus_percent // 100) + (_SPARE if purpose == "natural" else 0)
        attempts.failures_of(purpose, count + surplus, first)
        first += count
        pool = attempts.failures[purpose]
        start = sum((failure.pull for failure in failures[1:]), failures[0].pull) if failures else None
        failures += [pool[place] for place in chosen([failure.pull for failure in pool], count, start=start)]
    return failures


def _clean(recipe: CorpusRecipe, count: int, attempts: Attempts, failures: list[Failure]) -> list[Recorded]:
    """Keep twins of the failures first, as far as the recipe says; then runs whose own mistakes did no harm."""
    twins = [failure.twin for failure in failures if failure.twin is not None]
    share = min(len(twins) * recipe.balance.twins_percent // 100, count)
    spread = [twins[place * len(twins) // share] for place in range(share)] if share else []
    attempts.more_clean(count - share)
    return [*spread, *attempts.clean[: count - share]]


def _with_twin(run: Recorded, known: set[str]) -> Recorded:
    """Name no twin that is not kept."""
    if not run.label.twin or run.label.twin in known:
        return run
    return replace(run, label=replace(run.label, twin=""))


def _document(run: Recorded) -> str:
    spans = [span_from_sdk(span) for span in run.spans]
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(spans)))
