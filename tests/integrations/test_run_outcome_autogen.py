"""What a program says of how an AutoGen run ended is on the run's trace: said within it, right after it, or later."""

from __future__ import annotations

import asyncio

import pytest
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import blamespan
from blamespan import conventions as words
from blamespan.otlp.sdk import span_from_sdk
from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import Raises, assistant, calls, drawn, named, only, trace_of
from tests.integrations.drawing import literal
from tests.integrations.hosts import recording
from tests.integrations.test_run_outcome_ways_autogen_langgraph import outcomes


def team(answer: str = "12 * 3 = 35", name: str = "desk") -> RoundRobinGroupChat:
    """Make a team of a solver and a reviewer, each of whom speaks once."""
    return RoundRobinGroupChat(
        [assistant("solver", answer), assistant("reviewer", "Right.")],
        termination_condition=MaxMessageTermination(3),
        name=name,
    )


@pytest.mark.construct("AutoGen", "`record_outcome()` after a run")
async def test_outcome_said_after_a_run_is_that_runs(recorder: SpanRecorder) -> None:
    """Said where the run was awaited, how it ended stands on a span below the run's; it is no step."""
    await team().run(task="What is 12 * 3?")

    assert blamespan.record_outcome("failed", "expected 36")
    assert drawn(recorder) == literal("""
        invoke_workflow desk, complete, stopped: Maximum number of messages 3 reached, current message count: 3
        task: What is 12 * 3?
        agents: solver, reviewer
        outcome: failed
        0 solver: message '12 * 3 = 35' to reviewer, 9+5 tokens
        1 reviewer: message 'Right.' to solver after 0, 14+1 tokens
    """)
    said = only(recorder, words.RUN_OUTCOME_SPAN)
    assert said.parent_id == only(recorder, "invoke_workflow").span_id
    assert said.attributes == {words.RUN_OUTCOME: "failed", words.RUN_OUTCOME_REASON: "expected 36"}


@pytest.mark.construct("AutoGen", "`record_outcome()` within a run")
async def test_outcome_said_within_a_run_stands_on_its_span(recorder: SpanRecorder) -> None:
    """Said by a tool, also one of a team within the team, how the run ended stands on the outermost run's span."""

    def check(number: int) -> str:
        """Check a number."""
        blamespan.record_outcome("failed", "expected 36")
        return f"{number} is wrong"

    solver = assistant("solver", calls(("check", {"number": 35})), tools=[check])
    inner = RoundRobinGroupChat([solver], termination_condition=MaxMessageTermination(2), name="inner")
    await RoundRobinGroupChat([inner], termination_condition=MaxMessageTermination(2), name="outer").run(task="go")

    assert trace_of(recorder).outcome == "failed"
    assert only(recorder, "invoke_workflow outer").attributes[words.RUN_OUTCOME_REASON] == "expected 36"
    assert words.RUN_OUTCOME not in only(recorder, "invoke_workflow inner").attributes
    assert named(recorder, words.RUN_OUTCOME_SPAN) == []


async def test_outcome_said_while_reading_a_stream_is_its_runs(recorder: SpanRecorder) -> None:
    """Between the messages of a stream, how the run ended is said of the run under way, never of one before."""
    await team().run(task="before")
    async for item in team().run_stream(task="now"):
        if isinstance(item, TextMessage) and item.source == "solver":
            blamespan.record_outcome("failed")

    assert outcomes(recorder) == {"before": "unknown", "now": "failed"}


async def test_outcome_of_a_run_that_raised_can_be_said(recorder: SpanRecorder) -> None:
    """A run that raised has failed, unless who knows better says so."""
    raising = RoundRobinGroupChat([Raises("solver")], termination_condition=MaxMessageTermination(2))
    with pytest.raises(RuntimeError, match="no such page"):
        await raising.run(task="go")

    assert trace_of(recorder).outcome == "failed"
    blamespan.record_outcome("succeeded", "raising is what it was to do")
    assert trace_of(recorder).outcome == "succeeded"


async def test_outcome_said_last_counts(recorder: SpanRecorder) -> None:
    """A user may change their mind: each word is kept, and the last one is the run's outcome."""
    await team().run(task="go")
    blamespan.record_outcome("succeeded", "looks right")
    blamespan.record_outcome("failed")

    assert [span.attributes for span in named(recorder, words.RUN_OUTCOME_SPAN)] == [
        {words.RUN_OUTCOME: "succeeded", words.RUN_OUTCOME_REASON: "looks right"},
        {words.RUN_OUTCOME: "failed"},
    ]
    assert trace_of(recorder).outcome == "failed"


async def test_outcome_is_said_later_by_trace_id(caplog: pytest.LogCaptureFixture) -> None:
    """A user's thumbs down comes later and elsewhere: the id of a trace names its run, where it has one alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()  # ids of its own: those of others come again
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    AutoGenInstrumentor().instrument(tracer_provider=provider)
    try:
        ids = []
        for runs in (1, 3):
            with provider.get_tracer("server").start_as_current_span("request") as request:
                for _ in range(runs):
                    await team().run(task="go")
            ids.append(f"{request.get_span_context().trace_id:032x}")
        with caplog.at_level("WARNING", logger="blamespan"):
            known = [await asyncio.to_thread(blamespan.record_outcome, "failed", trace_id=each) for each in ids]
    finally:
        AutoGenInstrumentor().uninstrument()

    spans = [span_from_sdk(span) for span in exporter.get_finished_spans()]
    assert known == [True, False]
    assert blamespan.rebuild([span for span in spans if span.trace_id == ids[0]]).outcome == "failed"
    assert f"got '{ids[1]}' with several runs" in caplog.text


async def test_reason_is_recorded_as_contents_are() -> None:
    """Secrets in a reason are masked; where contents are not recorded, a reason is withheld, and the outcome is not."""
    reason = "expected the key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    found = []
    for captured in (True, False):
        with recording("autogen", capture_content=captured) as recorder:
            await team().run(task="go")
            blamespan.record_outcome("failed", reason)
        found.append(only(recorder, words.RUN_OUTCOME_SPAN).attributes)

    masked, withheld = found
    assert masked[words.RUN_OUTCOME_REASON] != reason
    assert "sk-proj-abcdef" not in str(masked)
    assert withheld == {
        words.RUN_OUTCOME: "failed",
        words.WITHHELD: (words.RUN_OUTCOME_REASON,),
        words.WITHHELD_BYTES: (len(reason),),
    }
