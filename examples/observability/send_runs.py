"""Sends runs of a team and of a graph, clean ones and ones with an agent gone wrong, to a collector.

    pip install 'blamespan[demo]'
    python examples/observability/send_runs.py             # 12 runs to localhost:4318; no network beyond, no key
    python examples/observability/send_runs.py --runs 0    # until Ctrl-C

The team and the graph are those of `blamespan demo`: real ones, whose models are scripted. That is why it is known
beforehand how each run ends, and said on its span; every fifth run keeps it to itself, as most programs do.
Without that word there is no false-alarm watch: docs/how-to/grafana.md says how a program of yours says it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import os
import time
from contextvars import ContextVar

from autogen_core import EVENT_LOGGER_NAME
from langchain_core.messages import HumanMessage
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider

import blamespan
from blamespan.conventions import OPERATION_WORKFLOW, RUN_OUTCOME
from blamespan.trace import Outcome
from blamespan_integrations.demo import autogen_team, langgraph_graph

OUTCOME: ContextVar[Outcome] = ContextVar("outcome", default="unknown")
RUNS = tuple(itertools.product(("team", "graph"), (False, True)))
"""Who runs, and whether an agent of it goes wrong."""


class KnownEnds(SpanProcessor):
    """Says on the span of each run how it ends."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Write it as the span begins: one that has ended cannot be written on."""
        if span.name.startswith(OPERATION_WORKFLOW) and OUTCOME.get() != "unknown":
            span.set_attribute(RUN_OUTCOME, OUTCOME.get())


def main() -> None:
    """Send as many runs as asked for."""
    arguments = _arguments()
    os.environ.setdefault("OTEL_SERVICE_NAME", "sample")
    logging.getLogger(EVENT_LOGGER_NAME).setLevel(logging.ERROR)  # a scripted model says that it counts no tokens
    blamespan.instrument()
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider), "instrument() makes the SDK's"
    provider.add_span_processor(KnownEnds())
    numbers = itertools.count(1) if arguments.runs == 0 else range(1, arguments.runs + 1)
    try:
        for number in numbers:
            _send(number)
            time.sleep(arguments.pause_s)
    except KeyboardInterrupt:
        print()
    provider.force_flush()


def _send(number: int) -> None:
    who, goes_wrong = RUNS[number % len(RUNS)]
    is_known = number % 5 != 0
    known: Outcome = ("failed" if goes_wrong else "succeeded") if is_known else "unknown"
    OUTCOME.set(known)
    asyncio.run(_run_team(goes_wrong)) if who == "team" else _run_graph(goes_wrong)
    print(f"run {number}: {who}, {'an agent gone wrong' if goes_wrong else 'clean'}, {RUN_OUTCOME} {known}")


async def _run_team(goes_wrong: bool) -> None:
    lines = (
        (autogen_team.ANALYST_GONE_WRONG, autogen_team.REVIEWER_MISLED)
        if goes_wrong
        else (autogen_team.ANALYST, autogen_team.REVIEWER)
    )
    await autogen_team.team(*lines).run(task=autogen_team.TASK)


def _run_graph(goes_wrong: bool) -> None:
    lines = (
        (langgraph_graph.RESEARCHER_GONE_WRONG, langgraph_graph.WRITER_MISLED, langgraph_graph.CHECKER_MISLED)
        if goes_wrong
        else (langgraph_graph.RESEARCHER, langgraph_graph.WRITER, langgraph_graph.CHECKER)
    )
    langgraph_graph.graph(*lines).invoke({"messages": [HumanMessage(langgraph_graph.TASK)]})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send runs of agents to a collector.")
    parser.add_argument("--runs", type=int, default=12, metavar="N", help="how many; 0: until Ctrl-C [12]")
    parser.add_argument("--pause-s", type=float, default=1.0, metavar="S", help="seconds between two runs [1]")
    found = parser.parse_args()
    if found.runs < 0 or found.pause_s < 0:
        parser.error(f"expected no negative numbers, got --runs {found.runs} --pause-s {found.pause_s}")
    return found


if __name__ == "__main__":
    main()
