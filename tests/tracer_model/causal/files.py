"""Planted runs as files that recipes name: a corpus as `blamespan generate` leaves it, and lines in AEGIS's format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan_lab.replay.labels import Decisive, FaultLabel, RunLabel
from tests.tracer_model.causal.planted import in_aegis, planted

_NOTHING_HELD_OUT = {"families": [], "topologies": [], "percent": 0}


def write_corpus(folder: Path, n_runs: int, *, seed: int = 0) -> None:
    """Write planted runs as a finished corpus."""
    (folder / "runs").mkdir(parents=True)
    (folder / "corpus.json").write_text(json.dumps({"blamespan_corpus": 1, "recipe": {"held_out": _NOTHING_HELD_OUT}}))
    documents, labels = [], []
    for run in planted(n_runs, seed=seed):
        trace = run.trace
        documents.append(request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(trace)))))
        faults: tuple[FaultLabel, ...] = ()
        decisive = None
        for fault in run.faults or ():
            assert fault.step is not None
            modes = (str(fault.mode),)
            span = trace.steps[fault.step].span_id
            faults = (FaultLabel(fault.agent, fault.step, span, modes, "prompt", "planted"),)
            decisive = Decisive(fault.agent, fault.step, span, modes)
        label = RunLabel(
            trace.trace_id,
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
        labels.append(json.dumps(label.as_json()))
    (folder / "runs" / "0000.jsonl.gz").write_bytes(gzip.compress("\n".join(documents).encode()))
    (folder / "labels.jsonl").write_text("\n".join(labels) + "\n")


def write_aegis(path: Path, n_runs: int, *, seed: int = 0) -> None:
    """Write the failed ones of planted runs as AEGIS does."""
    lines = [
        {
            "index": number,
            "question": run.trace.task,
            "trajectory": [{"agent_name": step.agent, "content": step.content} for step in run.trace.steps],
            "faulty_agents": [
                {"agent_name": fault.agent, "error_type": fault.mode.code} for fault in run.faults or () if fault.mode
            ],
        }
        for number, run in enumerate(map(in_aegis, planted(n_runs, seed=seed)))
        if run.faults
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
