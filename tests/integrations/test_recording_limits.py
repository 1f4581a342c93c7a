"""The limits of the SDK and ours: what does not fit is left out by us, in order, and said."""

from __future__ import annotations

import json
import threading

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from blamespan import conventions as words
from blamespan.genai_messages import Message, load_messages
from blamespan.instrumenting.settings import ContentSettings
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent
from blamespan_integrations.recording import Recorder

MANY = {f"framework.key{place}": place for place in range(300)}


def limited(**limits: int) -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, exporter = (
        TracerProvider(span_limits=SpanLimits(**limits), shutdown_on_exit=False),
        InMemorySpanExporter(),
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_ours_are_the_last_attributes_to_go() -> None:
    """However many an integration adds, the span keeps ours, drops nothing itself and says what was left out."""
    provider, exporter = limited()
    agent = Recorder("blamespan.test", provider).start_agent(
        "a", received=[Message.of_text("user", "q")], attributes=MANY
    )
    agent.add({f"more.{key}": value for key, value in MANY.items()})
    agent.end(output=[Message.of_text("assistant", "x")], attributes=MANY, message_id="m")
    [span] = exporter.get_finished_spans()
    found = span.attributes or {}

    assert (len(found) <= 128, span.dropped_attributes) == (True, 0)
    assert {words.OPERATION, words.AGENT_NAME, words.INPUT_MESSAGES, words.OUTPUT_MESSAGES, words.STEP_INDEX} <= {
        *found
    }
    assert found[words.LOST] == (
        "212 attributes: over the limit of 128",
        "300 attributes: over the limit of 128",
    )


def test_programs_own_attributes_do_not_push_ours_out() -> None:
    """A program that writes two hundred attributes on the current span loses some of its own, not the step."""
    provider, exporter = limited()
    agent = Recorder("blamespan.test", provider).start_agent("a", received=[Message.of_text("user", "q")])
    agent.span.set_attributes({f"app.{place}": place for place in range(200)})
    agent.end(output=[Message.of_text("assistant", "x")])
    [span] = exporter.get_finished_spans()
    found = span.attributes or {}

    assert {words.OPERATION, words.AGENT_NAME, words.INPUT_MESSAGES, words.OUTPUT_MESSAGES, words.STEP_INDEX} <= {
        *found
    }
    assert found[words.LOST] == ("attributes: over the limit of 128",)


@pytest.mark.parametrize("limit", [4, 8, 12])
def test_most_needed_attributes_stay_under_a_low_limit(limit: int) -> None:
    """`OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT` may be very low: who acted and where stays."""
    provider, exporter = limited(max_span_attributes=limit)
    agent = Recorder("blamespan.test", provider).start_agent("a", agent_id="1", description="d", conversation_id="c")
    agent.end(output=[Message.of_text("assistant", "x")], message_id="m", recipients=["b"])
    [span] = exporter.get_finished_spans()

    assert {words.OPERATION, words.AGENT_NAME, words.STEP_INDEX, words.STEP_KIND} <= {*(span.attributes or {})}


@pytest.mark.parametrize("chars", [0, 10, 70, 300])
def test_sdk_never_cuts_json_in_two(chars: int) -> None:
    """Where the SDK cuts values (`OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`), ours were capped as JSON before."""
    provider, exporter = limited(max_span_attribute_length=chars)
    recorder = Recorder("blamespan.test", provider)
    run = recorder.start_run(
        "r", task=[Message.of_text("user", "ä" * 500)], agents=[Agent(f"agent {n}") for n in range(99)]
    )
    recorder.start_tool("t", arguments={"a": "ö" * 500, "b": ["x" * 50] * 50}, parent=run.context).end(result="r" * 500)
    run.end(output=[Message.of_text("assistant", "ü" * 500)] * 3)
    tool, root = exporter.get_finished_spans()
    found = {**(tool.attributes or {}), **(root.attributes or {})}
    as_json = [
        found[key] for key in (words.TOOL_ARGUMENTS, words.INPUT_MESSAGES, words.OUTPUT_MESSAGES, words.RUN_AGENTS)
    ]

    assert all(len(str(value)) <= chars for value in as_json)
    if chars >= 2:
        assert [json.loads(str(value)) is not None for value in as_json] == [True] * 4


def test_environment_sets_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard variables hold where the provider has no limits of its own."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "50")
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Recorder("blamespan.test", provider).start_agent("a", attributes=MANY).end(
        output=[Message.of_text("assistant", "x" * 1_000)]
    )
    [span] = exporter.get_finished_spans()

    assert len(span.attributes or {}) <= 50
    assert load_messages((span.attributes or {})[words.OUTPUT_MESSAGES]) is not None  # type: ignore[arg-type]


def test_suppressed_work_is_not_recorded() -> None:
    """Within `suppress_instrumentation()` nothing is recorded, and spans of others keep the parent they have."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider)
    outer = recorder.start_run("outer")
    with suppress_instrumentation():
        run = recorder.start_run("team", parent=outer.context)
        agent = recorder.start_agent("a", builds_on=["m0"], parent=run.context)
        parent = trace.get_current_span(agent.context)
        tool = recorder.start_tool("t", arguments={}, parent=agent.context)
        tool.end(result=1)
        agent.end(output=[Message.of_text("assistant", "x")], message_id="m1")
        run.end()
    recorder.start_agent("b", builds_on=["m1"], parent=outer.context).end()
    outer.end()

    assert parent is outer.span
    assert [(span.name, span.links) for span in spans.spans()] == [
        ("invoke_agent b", ()),
        ("invoke_workflow outer", ()),
    ]


def test_unsampled_runs_cost_no_contents() -> None:
    """A run that the sampler leaves out works like any other."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    recorder = Recorder("blamespan.test", provider)
    agent = recorder.start_agent("a")
    recorder.start_tool("t", arguments={}, parent=agent.context).end(result=1)

    assert agent.end(output=[Message.of_text("assistant", "x")], message_id="m").index == 2


def test_threads_share_a_run() -> None:
    """Steps of one run that end at once in many threads have places of their own."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider)
    run = recorder.start_run("team")

    def work() -> None:
        for _ in range(50):
            recorder.start_agent("a", parent=run.context).end(output=[Message.of_text("assistant", "x")])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.end()

    assert [step.index for step in rebuild(spans.spans()).steps] == list(range(400))
    assert sorted(int(str(s.attributes[words.STEP_INDEX])) for s in spans.spans()[:-1]) == list(range(400))


def test_provider_shut_down_midway_changes_nothing() -> None:
    """A run goes on when its provider is shut down under it."""
    provider, exporter = limited()
    recorder = Recorder("blamespan.test", provider)
    run = recorder.start_run("team")
    recorder.start_agent("a", parent=run.context).end()
    provider.shutdown()
    agent = recorder.start_agent("b", parent=run.context)
    recorder.start_tool("t", arguments={}, parent=agent.context).end(error=ValueError("x"))
    agent.end()
    run.end()

    assert [span.name for span in exporter.get_finished_spans()] == ["invoke_agent a"]


def test_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable sets the limit; an argument wins over it."""
    monkeypatch.setenv("BLAMESPAN_MAX_CONTENT_BYTES", "100")

    assert (ContentSettings.of().max_bytes, ContentSettings.of(max_content_bytes=200).max_bytes) == (100, 200)
