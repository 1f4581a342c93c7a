"""Small archives of recorded runs, for tests of the offline line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from tests.sdk.builders import small_run


def numbered_run(number: int) -> MessageActionTrace:
    """A run of its own: its number is its trace id, its task and what is said."""
    steps = tuple(
        replace(step, content=step.content.replace("2", str(number)) + "!" * (number % 7 if not step.index else 0))
        for step in small_run().steps
    )
    return replace(small_run(), trace_id=f"{number:032x}", task=f"task {number}", steps=steps)


def otlp_line(trace: MessageActionTrace) -> str:
    """A run as a line of OTLP-JSON."""
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(trace)))) + "\n"


def archive(folder: Path, files: Iterable[Iterable[int]]) -> Path:
    """Write a folder of files, each with runs of these numbers."""
    folder.mkdir()
    for place, numbers in enumerate(files):
        (folder / f"{place:03d}.jsonl").write_text("".join(otlp_line(numbered_run(number)) for number in numbers))
    return folder
