"""Small runs with a mistake planted in one step: enough for a model of some hundred thousand parameters to find it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.taxonomy import EXTENSION, MAST
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.run_labels import Decisive, FaultLabel, RunLabel
from tests.tracer_model.runs import trace

_Test = TypeVar("_Test", bound=Callable[..., Any])

_MARKS = (
    pytest.mark.llm,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("trl") is None, reason="needs blamespan[llm]: scripts/llm"),
)


def of_models(test: _Test) -> _Test:
    """Mark a test that builds or trains a language model."""
    for mark in _MARKS:
        test = mark(test)
    return test


SAYS = {"X1": "I invent a figure.", "FM-3.2": "I do not check.", "FM-2.4": "I hide the details."}
"""What somebody says who makes a mistake of that kind."""

SOUND = ("All is right.", "It agrees.")


def planted(n_runs: int, *, seed: int = 0, n_steps: int = 3) -> list[RecordedRun]:
    """Runs of three agents who take turns; four of five fail by one step, the others are sound."""
    draw = random.Random(seed)
    runs = []
    for number in range(1, n_runs + 1):
        said = [(f"agent{place % 3}", draw.choice(SOUND)) for place in range(n_steps)]
        code, wrong = draw.choice(list(SAYS)), draw.randrange(n_steps)
        is_sound = draw.random() < 0.2
        if not is_sound:
            said[wrong] = (said[wrong][0], SAYS[code])
        run = trace(*said, task=f"list {seed} {number}", number=seed * 100_000 + number)
        outcome = "succeeded" if is_sound else "failed"
        mode = EXTENSION[code] if code in EXTENSION else MAST[code]
        faults = () if is_sound else (Fault(said[wrong][0], mode, wrong),)
        runs.append(RecordedRun(f"planted:{number}", replace(run, outcome=outcome), faults))
    return runs


def document(run: MessageActionTrace) -> str:
    """A run as one line of OTLP-JSON."""
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(run))))


def write_corpus(folder: Path, n_runs: int, *, seed: int = 0) -> None:
    """Write planted runs as a finished corpus, as `blamespan lab generate` leaves it."""
    (folder / "runs").mkdir(parents=True)
    held_out = {"families": [], "topologies": [], "percent": 0}
    (folder / "corpus.json").write_text(json.dumps({"blamespan_corpus": 1, "recipe": {"held_out": held_out}}))
    runs = planted(n_runs, seed=seed)
    lines = "\n".join(document(run.trace) for run in runs)
    (folder / "runs" / "0000.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "labels.jsonl").write_text("".join(json.dumps(_label(run, seed).as_json()) + "\n" for run in runs))


def _label(run: RecordedRun, seed: int) -> RunLabel:
    faults: tuple[FaultLabel, ...] = ()
    decisive = None
    for fault in run.faults or ():
        assert fault.step is not None
        modes, span = (str(fault.mode),), run.trace.steps[fault.step].span_id
        faults = (FaultLabel(fault.agent, fault.step, span, modes, "prompt", "planted"),)
        decisive = Decisive(fault.agent, fault.step, span, modes)
    return RunLabel(
        run.trace.trace_id,
        outcome="failure" if faults else "success",
        purpose="faulty" if faults else "clean",
        family="planted",
        topology="line",
        framework="none",
        cast="plain",
        seed=seed,
        decisive=decisive,
        faults=faults,
        carried_by=(),
        twin="",
        verified=True,
    )
