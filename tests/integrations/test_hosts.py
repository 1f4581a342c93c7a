"""The program that is watched, in every framework: nothing of it changes, whatever happens on our side."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan.host_safety import shield_host
from blamespan.testing import SpanRecorder
from blamespan_integrations.recording import AgentSpan, ChatSpan, Recorder, RunSpan, ToolSpan
from tests.integrations.exporters import troubled_exporters
from tests.integrations.hosts import INSTALLED, Host, host, recording

EVERY_RUN = [(name, number) for name in INSTALLED for number in range(len(host(name).runs))]
"""Each way to run each framework's program."""
RUN_IDS = [f"{name}-{host(name).runs[number].__name__}" for name, number in EVERY_RUN]


@pytest.fixture(params=INSTALLED)
def program(request: pytest.FixtureRequest) -> Host:
    return host(request.param)


@pytest.fixture
def recorder(program: Host) -> Iterator[SpanRecorder]:
    """Keeps the spans of the test."""
    with recording(program.name) as spans:
        yield spans


@pytest.mark.parametrize(("framework", "number"), EVERY_RUN, ids=RUN_IDS)
async def test_results_and_events_are_the_same(framework: str, number: int) -> None:
    """However it is run, a program gets what it gets without us, in the same order."""
    program = host(framework)
    bare = await program.runs[number]()
    with recording(framework):
        watched = await program.runs[number]()

    assert watched == bare


def test_uninstrument_gives_the_originals_back(program: Host) -> None:
    """After uninstrument() every attribute is the very object it was, after any number of rounds."""
    before = program.attributes()
    for _ in range(2):
        with recording(program.name):
            during = program.attributes()

    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert all(now is then for now, then in zip(program.attributes(), before, strict=True))


async def test_uninstrumented_program_records_nothing(recorder: SpanRecorder, program: Host) -> None:
    """What was instrumented and is no longer leaves no spans."""
    program.instrumentor().uninstrument()
    await program.runs[0]()

    assert recorder.spans() == []


async def test_instrumented_twice_records_once(
    recorder: SpanRecorder, program: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """A second instrument() changes nothing, and neither does a later round of off and on."""
    with caplog.at_level(logging.CRITICAL):
        program.instrumentor().instrument(tracer_provider=recorder.provider)
    await program.runs[0]()
    first = Counter(span.name for span in recorder.spans())
    program.instrumentor().uninstrument()
    program.instrumentor().instrument(tracer_provider=recorder.provider)
    await program.runs[0]()

    assert first == program.spans
    assert Counter(span.name for span in recorder.spans()) == program.spans + program.spans


@pytest.mark.parametrize("framework", [name for name in INSTALLED if host(name).unlike is not None])
async def test_version_we_do_not_know_is_left_alone(
    framework: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If a framework is not as we know it, instrument() says so once, patches nothing and does not raise."""
    program = host(framework)
    before = program.attributes()
    monkeypatch.delattr(str(program.unlike))
    monkeypatch.setattr(shield_host, "strict", False)
    with recording(framework):
        after = program.attributes()
        result = await program.runs[0]()

    assert after == before
    assert result
    assert caplog.text.count(f"could not {framework}: instrument this version of ") == 1


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        *((Recorder, name) for name in ("start_run", "start_agent", "start_tool", "start_chat")),
        *((kind, "end") for kind in (RunSpan, AgentSpan, ToolSpan, ChatSpan)),
    ],
)
@pytest.mark.parametrize(("framework", "number"), EVERY_RUN, ids=RUN_IDS)
async def test_failure_on_our_side_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    method: str,
    framework: str,
    number: int,
) -> None:
    """If recording fails anywhere, the program's result is what it was, and the log says so."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    program = host(framework)
    expected = await program.runs[number]()
    monkeypatch.setattr(owner, method, broken)
    monkeypatch.setattr(shield_host, "strict", False)
    monkeypatch.setattr(shield_host, "_reported", set())
    with recording(framework):
        found = await program.runs[number]()

    assert found == expected
    assert "a bug of ours" in caplog.text
    assert {record.name for record in caplog.records if "ours" in record.getMessage()} == {"blamespan"}


async def test_programs_exceptions_pass_as_they_are(recorder: SpanRecorder, program: Host) -> None:
    """An exception of the program's own reaches the caller as the same object, awaited and streamed."""
    error = LookupError("mine")
    for raising in program.raising:
        with pytest.raises(LookupError) as caught:
            await raising(error)

        assert caught.value is error


async def test_own_spans_are_silent_until_uninstrument(program: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one provider for all, every span is ours; after uninstrument() the framework's own come again."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", provider)

    async def scopes() -> Counter[str]:
        exporter.clear()
        await program.runs[0]()
        return Counter(span.instrumentation_scope.name for span in exporter.get_finished_spans())  # type: ignore[union-attr]

    before = await scopes()
    program.instrumentor().instrument()
    during = await scopes()
    program.instrumentor().uninstrument()

    assert list(during.values()) == [program.spans.total()]
    assert next(iter(during)).startswith("blamespan.")
    if program.own_spans is not None:
        scope, least = program.own_spans
        assert before[scope] > least
    assert await scopes() == before


@pytest.mark.filterwarnings("ignore")  # the SDK's own words on its failing exporter
async def test_exporters_in_trouble_cost_the_program_nothing(program: Host) -> None:
    """An exporter that raises and one that hangs do not hold a run up."""
    expected = await program.runs[0]()
    with troubled_exporters(program.instrumentor()):
        start_s = time.monotonic()
        results = [await program.runs[0]() for _ in range(3)]
        took_s = time.monotonic() - start_s

    assert results == [expected] * 3
    assert took_s < 10
