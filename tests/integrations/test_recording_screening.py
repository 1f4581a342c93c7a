"""Spans of other instrumentations, screened before the SDK has them."""

from __future__ import annotations

import json

import pytest
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from blamespan import conventions as words
from blamespan.instrumenting.settings import ContentSettings
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan_integrations.recording.screening import ScreenedProvider

SECRET = "mail ann@example.com"
MASKED = "mail [masked email]"


def tracer_of(recorder: SpanRecorder, **settings: object) -> trace.Tracer:
    return ScreenedProvider(recorder.provider, ContentSettings.among(settings)).get_tracer("other", "1.0")


def one(recorder: SpanRecorder) -> Span:
    [span] = recorder.spans()
    return span


def test_every_way_onto_a_span_is_screened() -> None:
    """Attributes at the start and later, events, exceptions and the status: no secret passes."""
    recorder = SpanRecorder()

    span = tracer_of(recorder).start_span("say", attributes={"first": SECRET})
    span.set_attribute("second", SECRET)
    span.set_attributes({"third": [SECRET], "number": 3})
    span.add_event("heard", {"fourth": SECRET})
    span.record_exception(ValueError(SECRET))
    span.set_status(Status(StatusCode.ERROR, SECRET))
    span.end()

    recorded = one(recorder)
    assert recorded.attributes == {"first": MASKED, "second": MASKED, "third": (MASKED,), "number": 3}
    assert [event.attributes.get("fourth", event.attributes.get("exception.message")) for event in recorded.events] == [
        MASKED,
        MASKED,
    ]
    assert recorded.events[1].attributes["exception.type"] == "ValueError"
    assert recorded.status_message == MASKED


def test_openinference_s_tracer_around_ours_is_screened() -> None:
    """OpenInference wraps the tracer that it is given, and calls its class: no secret passes that way either."""
    oi = pytest.importorskip("openinference.instrumentation", reason="the group dev has OpenInference")
    recorder = SpanRecorder()
    tracer = oi.OITracer(tracer_of(recorder), config=oi.TraceConfig())

    with tracer.start_as_current_span("say", attributes={"first": SECRET}, openinference_span_kind="agent") as span:
        span.set_attribute("output.value", SECRET)

    recorded = one(recorder)
    assert recorded.attributes == {"first": MASKED, "output.value": MASKED, "openinference.span.kind": "AGENT"}


def test_without_contents_only_the_course_of_the_run_remains() -> None:
    """Names, kinds, ids and numbers stay; texts, messages and error messages do not, and the span says so."""
    recorder = SpanRecorder()

    span = tracer_of(recorder, capture_content=False).start_span("invoke_agent writer")
    span.set_attributes({"gen_ai.agent.name": "writer", "gen_ai.usage.input_tokens": 7, "input.value": "text"})
    span.set_status(StatusCode.ERROR, "text")
    span.end()

    recorded = one(recorder)
    assert recorded.attributes == {
        "gen_ai.agent.name": "writer",
        "gen_ai.usage.input_tokens": 7,
        words.WITHHELD: ("input.value", "status"),
        words.WITHHELD_BYTES: (4, 4),
    }
    assert (recorded.status, recorded.status_message) == ("error", "")


def test_long_messages_stay_json() -> None:
    """What is too long is cut so that it can still be read, and the span says how long it was."""
    recorder = SpanRecorder()
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "word " * 500}]}])

    tracer_of(recorder, max_content_bytes=1_000).start_span("say", attributes={"gen_ai.input.messages": messages}).end()

    recorded = one(recorder)
    text = str(recorded.attributes["gen_ai.input.messages"])
    assert len(text) <= 1_000
    assert json.loads(text)[0]["role"] == "user"
    assert recorded.attributes[words.TRUNCATED] == ("gen_ai.input.messages",)


def test_spans_nest_and_errors_pass() -> None:
    """A span made current is the parent of those within; the program's error passes through, and marks the span."""
    recorder = SpanRecorder()
    tracer = tracer_of(recorder)

    def fail() -> None:
        with tracer.start_as_current_span("outer"):
            tracer.start_span("inner").end()
            raise KeyError(SECRET)

    with pytest.raises(KeyError):
        fail()

    inner, ended = recorder.spans()
    assert inner.parent_id == ended.span_id
    assert (ended.status, ended.status_message) == ("error", f"KeyError: '{MASKED}'")
