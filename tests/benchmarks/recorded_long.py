"""Watch a process's memory over many tiny recorded runs; called by `bench_sdk`.

    python -m tests.benchmarks.recorded_long langgraph blamespan --at 1000 5000 10000

Spans are dropped as they are exported, so what grows is what somebody keeps. Prints one JSON list: after each
number of runs asked for, the resident bytes and how many objects Python's collector tracks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence

import psutil
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.benchmarks.programs import autogen_tiny, langgraph_tiny
from tests.benchmarks.recorders import RECORDERS

PROGRAMS: dict[str, Callable[[], Awaitable[object]]] = {"autogen": autogen_tiny, "langgraph": langgraph_tiny}


class Nowhere(SpanExporter):
    """Takes spans and keeps none; counts them, to tell that there were any."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=PROGRAMS)
    parser.add_argument("recorder", choices=RECORDERS)
    parser.add_argument("--at", type=int, nargs="+", required=True, help="numbers of runs, ascending")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    exporter = Nowhere()
    RECORDERS[arguments.recorder].switch_on(exporter, arguments.framework)
    figures = asyncio.run(_watched(PROGRAMS[arguments.framework], arguments.at))
    if arguments.recorder != "none" and exporter.spans < arguments.at[-1]:
        sys.exit(f"expected a span of each of {arguments.at[-1]} runs, got {exporter.spans}: nothing was recorded")
    print(json.dumps(figures))  # noqa: T201


async def _watched(run: Callable[[], Awaitable[object]], at: Sequence[int]) -> list[dict[str, int]]:
    figures: list[dict[str, int]] = []
    for number in range(1, at[-1] + 1):
        await run()
        if number in at:
            gc.collect()
            resident = psutil.Process().memory_info().rss
            figures.append({"runs": number, "rss_bytes": resident, "objects": len(gc.get_objects())})
    return figures


if __name__ == "__main__":
    main()
