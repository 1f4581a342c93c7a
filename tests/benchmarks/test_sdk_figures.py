"""The bars of `scripts/bench sdk` are met by figures that reach them, and missed by every one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.benchmarks.recorded_once import shape
from tests.benchmarks.sdk_figures import Row, autogen_bars, langgraph_bars, memory_bars, row

SHAPE = {"spans": 61, "traces": 1, "roots": 1, "agent_spans": 30, "model_spans": 30, "tool_spans": 0}
DOUBLED = {"duplicate_agents": 0, "duplicate_tools": 0}


def a_row(name: str, added_s: float, **shape: int) -> Row:
    said = {**SHAPE, **DOUBLED, "attribute_bytes": 400_000, **shape}
    return Row(name, (1.0,), (1.0,), (added_s,), 5, said)


def loop(ours_s: float = 0.01, peer_s: float = 0.05, peer_agents: int = 30, **shape: int) -> dict[str, Row]:
    return {
        "none": a_row("none", 0.0, spans=0, agent_spans=0),
        "blamespan": a_row("blamespan", ours_s, **shape),
        "peer": a_row("peer", peer_s, agent_spans=peer_agents),
        "openlit": a_row("openlit", 0.01, attribute_bytes=450_000),
        "floor": a_row("floor", 0.004),
    }


def test_added_time_is_what_each_round_adds_to_its_own_bare_run() -> None:
    """A slow round slows both, so its difference counts, not its time; duplicates are what is beyond one each."""
    bare = [_sample(0.1), _sample(0.3), _sample(0.1)]
    recorded = [_sample(0.15, agent_spans=60), _sample(0.36, agent_spans=60), _sample(0.14, agent_spans=60)]

    summed = row("peer", recorded, bare, steps=30, tool_calls=3)

    assert summed.added == pytest.approx((0.05, 0.06, 0.04))
    assert summed.added_s == pytest.approx(0.05)
    assert summed.runs == 9
    assert (summed.shape["duplicate_agents"], summed.shape["duplicate_tools"]) == (30, 3)


def test_floor_adds_all_its_time() -> None:
    """The floor runs no program, so nothing is taken off."""
    assert row("floor", [_sample(0.004)], [_sample(0.1)], steps=30, tool_calls=3).added == (0.004,)


@pytest.mark.parametrize(
    ("rows", "met"),
    [
        (loop(), [True, True, True, True]),
        (loop(attribute_bytes=500_001), [False, False, True, True]),
        (loop(attribute_bytes=450_000), [True, False, True, True]),
        (loop(attribute_bytes=0), [False, False, True, True]),
        (loop(ours_s=0.0151), [True, True, False, True]),
        (loop(peer_s=0.01), [True, True, True, False]),
        (loop(peer_s=0.01, peer_agents=29), [True, True, True, False]),
        (loop(agent_spans=29), [True, True, True, False]),
    ],
    ids=[
        *("all", "bytes", "the leanest's bytes", "nothing recorded", "the leanest's time", "peer as fast"),
        *("no peer records each", "we do not record each"),
    ],
)
def test_loop_is_judged(rows: Mapping[str, Row], met: list[bool]) -> None:
    """Half a megabyte, less than the leanest peer and near its time, and faster than the others."""
    assert [bar.is_met for bar in langgraph_bars(rows, steps=30)] == met


@pytest.mark.parametrize(
    ("shape", "met"),
    [
        ({}, [True, True]),
        ({"traces": 2}, [False, True]),
        ({"spans": 62}, [False, True]),
        ({"model_spans": 0}, [False, True]),
        ({"duplicate_agents": 1}, [True, False]),
        ({"duplicate_tools": 1}, [True, False]),
    ],
    ids=str,
)
def test_chat_is_judged(shape: dict[str, int], met: list[bool]) -> None:
    """One trace of one root, thirty messages and their model calls; nothing else and nothing twice."""
    assert [bar.is_met for bar in autogen_bars(loop(**shape), turns=30)] == met


@pytest.mark.parametrize(
    ("grown", "bare_grown", "met"),
    [
        ((0, 0), (0, 0), True),
        ((8 * 2**20, 0), (5 * 2**20, 0), True),
        ((3 * 2**20, 0), (-3 * 2**20, 0), True),
        ((5 * 2**20, 0), (0, 0), False),
        ((0, 901), (0, 0), False),
    ],
)
def test_memory_is_judged_beside_the_bare_program(
    grown: tuple[int, int], bare_grown: tuple[int, int], met: bool
) -> None:
    """What the framework itself keeps is not ours, and what it gives back is not held against us."""
    figures = {"autogen": {"none": _memory(*bare_grown), "blamespan": _memory(*grown)}}

    assert [bar.is_met for bar in memory_bars(figures)] == [met]


def test_spans_are_counted_by_the_words_of_whoever_made_them() -> None:
    """Agent and tool spans count in both dialects; bytes are those of keys and values, of spans and events."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("run"):
        tracer.start_span("a", attributes={"gen_ai.operation.name": "invoke_agent"}).end()
        tracer.start_span("b", attributes={"openinference.span.kind": "AGENT"}).end()
        tracer.start_span("c", attributes={"openinference.span.kind": "TOOL", "n": 12}).end()
        span = tracer.start_span("speaker")
        span.add_event("said", {"é": "é"})
        span.end()

    spans = exporter.get_finished_spans()

    assert shape(spans, "autogen") == {
        "spans": 5,
        "traces": 1,
        "roots": 1,
        "agent_spans": 2,
        "tool_spans": 1,
        "model_spans": 0,
        "attribute_bytes": len("gen_ai.operation.nameinvoke_agentopeninference.span.kindAGENT") + 27 + 3 + 4,
    }
    assert shape(spans, "langgraph")["agent_spans"] == 1


def _sample(cpu_s: float, agent_spans: int = 30) -> dict[str, Any]:
    counts = {**SHAPE, "agent_spans": agent_spans, "attribute_bytes": 1}
    return {"seconds": [cpu_s] * 3, "cpu_seconds": [9.0, cpu_s, 0.0], **counts, "tool_chat": {"tool_spans": 6}}


def _memory(rss_bytes: int, objects: int) -> list[dict[str, int]]:
    base = {"rss_bytes": 80 * 2**20, "objects": 100_000}
    return [
        {"runs": 1_000, **base},
        {"runs": 10_000, "rss_bytes": base["rss_bytes"] + rss_bytes, "objects": base["objects"] + objects},
    ]
