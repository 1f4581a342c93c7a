"""Archives of any size for measuring: runs of one cast, each with words and ids of its own, as OTLP-JSON."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.trace import Agent, MessageActionTrace, Step

_TEXT = (
    "the plan says to search the page for the price and add both numbers before the answer is checked again by "
    "someone who reads the table from the report which tool gave an error so we retry with another query verify "
    "result step file code test value list sum total final wrong missing found done next"
)
_WORDS = _TEXT.split()
_CAST = ("planner", "browser", "coder", "critic")
_STEPS = 24
_WORDS_PER_STEP = 90
_START_NS = 1_767_225_600_000_000_000


def runs(count: int, *, first: int = 1) -> Iterator[MessageActionTrace]:
    """Yield runs of 24 steps by four agents, about 30 KB of OTLP-JSON each; the same each time."""
    for number in range(first, first + count):
        yield _run(number)


def _run(number: int) -> MessageActionTrace:
    chance = random.Random(number)  # the same runs each time are the point
    steps = tuple(
        Step(
            index,
            f"{number:08x}{index + 1:08x}",
            _CAST[index % len(_CAST)],
            content=" ".join(chance.choices(_WORDS, k=_WORDS_PER_STEP)),
            inputs=(index - 1,) if index else (),
            start_ns=_START_NS + (number * 100 + index) * 1_000_000_000,
            end_ns=_START_NS + (number * 100 + index + 1) * 1_000_000_000,
        )
        for index in range(_STEPS)
    )
    agents = tuple(Agent(name) for name in _CAST)
    return MessageActionTrace(
        f"{number:032x}", "find the price and add it up", steps, agents, "failed", {"service.name": "bench"}
    )


def _json(spans: list[Span]) -> bytes:
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))).encode() + b"\n"


def write_file(path: Path, count: int, *, first: int = 1) -> int:
    """Write so many runs to one file of OTLP-JSON; return its size in bytes."""
    return path.write_bytes(b"".join(_json(emit(run)) for run in runs(count, first=first)))


def write_archive(folder: Path, size_bytes: int, *, files: int) -> int:
    """Fill a folder with so much OTLP-JSON, quickly: the same spans again under other ids; give the number of runs."""
    folder.mkdir(parents=True)
    kinds = [_json(emit(replace(run, trace_id=_PLACE))).decode() for run in runs(64)]
    each = size_bytes // files
    number = 0
    for place in range(files):
        written = 0
        with (folder / f"{place:04d}.jsonl").open("w", encoding="utf-8") as file:
            while written < each:
                number += 1
                written += file.write(_renumbered(kinds, number))
    return number


_PLACE = "f" * 31 + "0"


def _renumbered(kinds: Sequence[str], number: int) -> str:
    return kinds[number % len(kinds)].replace(_PLACE, f"{number:032x}")
