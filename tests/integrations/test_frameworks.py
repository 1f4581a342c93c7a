"""Turning on what others record a framework by: a framework made up here, with a package that records it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

import blamespan
from blamespan.instrumenting.settings import CAPTURE_CONTENT
from blamespan.testing import SpanRecorder
from blamespan_integrations import frameworks
from blamespan_integrations.frameworks import FRAMEWORKS, Framework, FrameworkInstrumentor, instrumentors_of_installed

RECORDER = """
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

class FakeInstrumentor(BaseInstrumentor):
    calls = []

    def instrumentation_dependencies(self):
        return ()

    def _instrument(self, **kwargs):
        import fake_framework
        provider = kwargs["tracer_provider"]
        self.calls.append(provider)
        tracer = provider.get_tracer("fake.recorder")
        fake_framework.starts.append(tracer.start_span)

    def _uninstrument(self, **kwargs):
        import fake_framework
        fake_framework.starts.clear()
"""
PROGRAM = """
starts = []

def run(text):
    for start in starts:
        span = start("say", attributes={"gen_ai.operation.name": "invoke_agent", "text": text})
        span.end()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs the made-up framework, and what records it, for one test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv(CAPTURE_CONTENT, raising=False)

    def install(version: str = "2.1", *, recorder: str | None = RECORDER, program: str = PROGRAM) -> None:
        (tmp_path / "fake_framework.py").write_text(program)
        info = tmp_path / f"fake_framework-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-framework\nVersion: {version}\n")
        if recorder is not None:
            (tmp_path / "fake_recorder.py").write_text(recorder)
            info = tmp_path / "fake_recorder-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-recorder\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(
                "[opentelemetry_instrumentor]\nfake = fake_recorder:FakeInstrumentor\n"
            )

    yield install
    for module in ("fake_framework", "fake_recorder"):
        sys.modules.pop(module, None)


ROW = Framework("fake", "fake_framework", "fake-framework >= 2", ("fake_recorder",))


@pytest.fixture
def instrumentor() -> Iterator[FrameworkInstrumentor]:
    instrumentor = frameworks._make_instrumentor(ROW)
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def said(spans: SpanRecorder) -> list[object]:
    return [span.attributes.get("text") for span in spans.spans()]


@pytest.mark.parametrize("is_imported_before", [True, False])
def test_framework_is_recorded_whenever_it_is_imported(
    install: Callable[..., None], instrumentor: FrameworkInstrumentor, is_imported_before: bool
) -> None:
    """Imported before the line or after it, the framework is recorded; not imported, nothing is."""
    install()
    spans = SpanRecorder()
    if is_imported_before:
        import_module("fake_framework")

    instrumentor.instrument(tracer_provider=spans.provider)

    assert ("fake_recorder" in sys.modules) is is_imported_before
    import_module("fake_framework").run("hello")
    assert said(spans) == ["hello"]


def test_twice_is_once_and_off_is_off(install: Callable[..., None], instrumentor: FrameworkInstrumentor) -> None:
    """A second call doubles nothing; after `uninstrument()` nothing is recorded, and it can be turned on again."""
    install()
    spans = SpanRecorder()
    program = import_module("fake_framework")

    for text in ("one", "two"):
        instrumentor.instrument(tracer_provider=spans.provider)
        instrumentor.instrument(tracer_provider=spans.provider)
        program.run(text)
        instrumentor.uninstrument()
        program.run("unheard")

    assert said(spans) == ["one", "two"]


def test_what_to_install_is_said_in_one_line_where_it_is_imported(
    install: Callable[..., None], instrumentor: FrameworkInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a package that records it, the program goes on and the log says what to install, once."""
    install(recorder=None)
    instrumentor.instrument(tracer_provider=SpanRecorder().provider)
    assert caplog.messages == []
    assert not instrumentor.can_record

    import_module("fake_framework").run("hello")

    assert caplog.messages == [
        "fake is left alone: what records it is not installed. Install it with: pip install fake-recorder"
    ]


@pytest.mark.parametrize(
    ("version", "recorder", "message"),
    [
        ("1.9", RECORDER, "fake is not recorded: expected fake-framework >= 2, found fake-framework 1.9"),
        ("2.1", "from fake_framework import Gone\n", "fake is not recorded: ImportError: cannot import name 'Gone'"),
        (
            "2.1",
            RECORDER.replace("provider = ", "raise ValueError('no\\nfit')\n        provider = "),
            "ValueError: no fit",
        ),
    ],
)
def test_releases_that_do_not_fit_cost_one_line(
    install: Callable[..., None],
    instrumentor: FrameworkInstrumentor,
    caplog: pytest.LogCaptureFixture,
    version: str,
    recorder: str,
    message: str,
) -> None:
    """A framework of an unknown release, or a package that does not fit it: one line, and the program is unharmed."""
    install(version, recorder=recorder)
    instrumentor.instrument(tracer_provider=SpanRecorder().provider)

    import_module("fake_framework").run("hello")

    [told] = caplog.messages
    assert message in told
    assert "\n" not in told


def test_what_the_program_turned_on_itself_is_left_alone(
    install: Callable[..., None], instrumentor: FrameworkInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans of an instrumentor that the program turned on go where it sends them, once."""
    install()
    theirs, ours = SpanRecorder(), SpanRecorder()
    import_module("fake_recorder").FakeInstrumentor().instrument(tracer_provider=theirs.provider)

    instrumentor.instrument(tracer_provider=ours.provider)
    import_module("fake_framework").run("hello")
    instrumentor.uninstrument()
    import_module("fake_framework").run("after")

    assert (said(theirs), said(ours)) == (["hello", "after"], [])
    assert "the program has turned on fake_recorder itself" in caplog.text


def test_program_that_turns_it_on_after_the_line_doubles_nothing(
    install: Callable[..., None], instrumentor: FrameworkInstrumentor
) -> None:
    """The instrumentor that the program turns on imports the framework: ours does not turn it on within that."""
    install()
    theirs, ours = SpanRecorder(), SpanRecorder()
    instrumentor.instrument(tracer_provider=ours.provider)

    import_module("fake_recorder").FakeInstrumentor().instrument(tracer_provider=theirs.provider)
    import_module("fake_framework").run("hello")

    assert (said(theirs), said(ours)) == (["hello"], [])


def test_module_of_the_same_name_is_not_the_framework(
    install: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A program may have an own module `agents`: nothing is turned on, and nothing is said."""
    install()
    row = Framework("fake", "fake_framework", "fake-framework >= 2", ("fake_recorder",), loads="fake_framework.tracing")
    instrumentor = frameworks._make_instrumentor(row)
    instrumentor.instrument(tracer_provider=SpanRecorder().provider)

    import_module("fake_framework").run("hello")
    instrumentor.uninstrument()

    assert "fake_recorder" not in sys.modules
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("before", "capture", "during"),
    [
        (None, None, "SPAN_ONLY"),
        ("true", None, "SPAN_AND_EVENT"),
        ("span_only", None, "span_only"),
        ("false", None, "false"),
        ("false", True, "SPAN_AND_EVENT"),
        (None, False, None),
    ],
)
def test_contents_are_put_on_spans_while_it_is_recorded(
    install: Callable[..., None],
    instrumentor: FrameworkInstrumentor,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    capture: bool | None,
    during: str | None,
) -> None:
    """The standard variable has contents written onto spans, unless they are not wanted; afterwards it is as it was."""
    install()
    if before is not None:
        monkeypatch.setenv(CAPTURE_CONTENT, before)
    settings = {} if capture is None else {"capture_content": capture}

    instrumentor.instrument(tracer_provider=SpanRecorder().provider, **settings)
    import_module("fake_framework")

    assert os.environ.get(CAPTURE_CONTENT) == during
    instrumentor.uninstrument()
    assert os.environ.get(CAPTURE_CONTENT) == before


def test_contents_are_screened_as_on_our_own_spans(
    install: Callable[..., None], instrumentor: FrameworkInstrumentor
) -> None:
    """Secrets are masked before the SDK sees them; without contents only words of the run's course remain."""
    install()
    spans = SpanRecorder()
    program = import_module("fake_framework")

    instrumentor.instrument(tracer_provider=spans.provider)
    program.run("write to ann@example.com")
    instrumentor.uninstrument()
    instrumentor.instrument(tracer_provider=spans.provider, capture_content=False)
    program.run("write to ann@example.com")

    assert said(spans) == ["write to [masked email]", None]
    assert [span.attributes["gen_ai.operation.name"] for span in spans.spans()] == ["invoke_agent"] * 2


def test_instrument_names_the_frameworks_that_can_be_recorded(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one line names those that are installed with what records them, and records what it names."""
    install()
    other = Framework("other", "fake_other", "fake-framework >= 2", ("fake_missing",))
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (ROW, other))
    spans = SpanRecorder()
    caplog.set_level(logging.WARNING)

    try:
        named = blamespan.instrument(tracer_provider=spans.provider)
        import_module("fake_framework").run("hello")
    finally:
        blamespan.uninstrument()
    import_module("fake_framework").run("unheard")

    assert "fake" in named
    assert "other" not in named
    assert said(spans) == ["hello"]


def test_every_row_can_be_turned_on() -> None:
    """A row names what records it, and its package with a release; those that are not installed cost nothing."""
    assert [row.name for row in FRAMEWORKS if (row.switch is None) == (not row.instrumentors)] == []
    assert [row.name for row in FRAMEWORKS if " >= " not in row.requires] == []
    assert set(instrumentors_of_installed()) == {row.name for row in FRAMEWORKS if row.is_installed}
