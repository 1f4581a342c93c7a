"""Any order of calls of `instrument()` does what its last line says, or says why not; wrong arguments are refused."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires
from itertools import product
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langgraph.graph import START, MessagesState, StateGraph
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from blamespan import instrument, uninstrument
from blamespan.errors import ConfigError
from blamespan.instrumenting import instrument as instrumentation
from blamespan.instrumenting.settings import CAPTURE_CONTENT

STANDARD_EXPORTERS = instrumentation._standard_exporters
STEPS = ("plain", "exporter", "embedded", "embedded exporter", "provider", "off", "program's own")


class Program:
    """A program that calls `instrument()` in some order, and the places where its spans may arrive."""

    def __init__(self) -> None:
        self.places = {name: InMemorySpanExporter() for name in ("standard", "exporter", "provider", "program's own")}
        self.own, self.provider = self._provider("program's own"), self._provider("provider")
        self.graph: Any = None

    def _provider(self, name: str) -> TracerProvider:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.places[name]))
        return provider

    def new(self, name: str) -> InMemorySpanExporter:
        """Return an exporter of its own for each call: who gives one away does not get it back."""
        self.places[name] = InMemorySpanExporter()
        return self.places[name]

    def do(self, step: str) -> None:
        calls: dict[str, Callable[[], Any]] = {
            "plain": instrument,
            "exporter": lambda: instrument(exporter=self.new("exporter")),
            "embedded": lambda: instrument(embedded=True, tracer="checks"),
            "embedded exporter": lambda: instrument(embedded=True, exporter=self.new("exporter"), tracer="checks"),
            "provider": lambda: instrument(tracer_provider=self.provider),
            "off": uninstrument,
            "program's own": lambda: trace.set_tracer_provider(self.own),
            "zero code": self._zero_code,
        }
        before = dict(self.places)
        try:
            calls[step]()
        except ConfigError:
            self.places = before
            raise

    def _zero_code(self) -> None:
        trace.set_tracer_provider(self.own)
        for _, instrumentor in instrumentation._instrumentors():
            instrumentor.instrument()

    def written(self) -> str:
        """Run a graph once, and return all that its agent's span says."""
        self.arrived()
        spans = [span for exporter in self.places.values() for span in exporter.get_finished_spans()]
        [span] = [span for span in spans if span.name == "invoke_agent writer"]
        return str(span.attributes)

    def arrived(self) -> Counter[str]:
        """Run a graph once, and count the places where its run arrived."""
        for exporter in self.places.values():
            exporter.clear()
        if self.graph is None:
            builder = StateGraph(MessagesState)
            builder.add_node("writer", lambda _: {"messages": [("assistant", "hello")]})
            builder.add_edge(START, "writer")
            self.graph = builder.compile(name="team")
        self.graph.invoke({"messages": [("user", "say hello")]})
        for provider in (instrumentation._held_provider, trace.get_tracer_provider()):
            if isinstance(provider, TracerProvider):
                provider.force_flush()
        names = {
            place: [span.name for span in exporter.get_finished_spans()] for place, exporter in self.places.items()
        }
        return Counter({place: found.count("invoke_workflow team") for place, found in names.items() if found})


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Program]]:
    """Make programs, each with an OpenTelemetry that has not been set up yet."""
    programs: list[Program] = []

    def standard(*_: object) -> list[SpanExporter]:
        return [programs[-1].new("standard")]

    def make() -> Program:
        uninstrument()
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
        monkeypatch.setattr(instrumentation, "_own", None)
        programs.append(Program())
        return programs[-1]

    monkeypatch.setattr(instrumentation, "_standard_exporters", standard)
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "")
    yield make
    uninstrument()


def expected(order: tuple[str, ...]) -> str | None:
    """Name the place that the last line of *order* speaks of; None for nowhere."""
    is_programs = False
    for step in order:
        if step in ("plain", "exporter", "embedded", "embedded exporter"):
            break  # from here on the global provider is ours
        if step in ("program's own", "zero code"):
            is_programs = True
            break
    lines = [step for step in order if step != "program's own"]
    last = lines[-1] if lines else "off"
    places = {"exporter": "exporter", "embedded": "standard", "embedded exporter": "exporter", "provider": "provider"}
    default = "program's own" if is_programs else "standard"
    return {"off": None, "plain": default, "zero code": "program's own", **places}[last]


ORDERS = [
    *product(STEPS, repeat=2),
    *((first, "off", last) for first, last in product(STEPS, repeat=2)),
    *(("program's own", first, last) for first, last in product(STEPS, repeat=2)),
    *(("zero code", *rest) for rest in product(STEPS, repeat=2)),
    *((*rest, "off", "plain") for rest in product(STEPS, repeat=2)),
]


@pytest.mark.parametrize("first", [*STEPS, "zero code"])
def test_last_line_counts(program: Callable[[], Program], caplog: pytest.LogCaptureFixture, first: str) -> None:
    """After any order of calls a run arrives once where the last line says; or that line raises or warns, and the run
    arrives once where it would have before."""
    wrong = {}
    for order in (order for order in ORDERS if order[0] == first):
        this, is_refused, before = program(), False, Counter[str]()
        for number, step in enumerate(order):
            is_last = number == len(order) - 1
            before = this.arrived() if is_last else before
            caplog.clear()
            try:
                this.do(step)
            except ConfigError:
                is_refused = True
                if not is_last:
                    break
        is_warned = any(record.levelno >= logging.WARNING for record in caplog.records)
        if is_refused and not is_last:
            continue  # a shorter order, which is tried as well
        after, place = this.arrived(), expected(order)
        if is_refused or (is_warned and after != Counter([place] if place else [])):
            place = next(iter(before), None)
        if after != Counter([place] if place else []):
            wrong[order] = dict(after), place

    assert wrong == {}


def test_call_that_names_nothing_says_what_goes_on(
    program: Callable[[], Program], caplog: pytest.LogCaptureFixture
) -> None:
    """`instrument()` after `instrument(exporter=)` changes nothing, and one warning says what holds and what to do."""
    this = program()
    this.do("exporter")

    this.do("plain")

    assert [record.getMessage().partition("=")[0] for record in caplog.records] == [
        "recording was on when instrument() was called again: exporter"
    ]
    assert "Call uninstrument() first" in caplog.text
    assert this.arrived() == Counter(["exporter"])


def test_mistyped_variable_is_one_warning(
    program: Callable[[], Program], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program records all the same, and the log says once which variable was probably meant."""
    monkeypatch.setenv("BLAMESPAN_MASK_KEY", "ssn")
    this = program()
    for _ in range(2):
        instrument(exporter=this.places["exporter"])

    assert this.arrived() == Counter(["exporter"])
    assert [record.getMessage() for record in caplog.records] == [
        "BLAMESPAN_MASK_KEY is set but unknown; did you mean BLAMESPAN_MASK_KEYS?"
    ]


def test_same_call_twice_says_nothing(program: Callable[[], Program], caplog: pytest.LogCaptureFixture) -> None:
    """A call that says what holds already changes nothing, and is no matter for a warning."""
    this = program()
    for _ in range(2):
        instrument(exporter=this.places["exporter"], mask_keys=["ssn"])

    assert (this.arrived(), caplog.records) == (Counter(["exporter"]), [])


def test_contents_can_be_withheld_later(
    program: Callable[[], Program], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`instrument(capture_content=False)` holds from then on, where spans went before, whatever the variable says."""
    monkeypatch.setenv(CAPTURE_CONTENT, "span_only")
    this = program()
    this.do("exporter")
    instrument(capture_content=False)

    assert "hello" not in this.written()
    assert "exporter=" in caplog.text


def test_masks_reach_every_integration(program: Callable[[], Program]) -> None:
    """What `instrument()` is told to mask is masked."""
    this = program()
    this.do("exporter")
    instrument(mask=lambda text: text.replace("hello", "h*"))

    assert ("hello" in this.written(), "h*" in this.written()) == (False, True)


def test_threads_that_switch_on_at_once_switch_on_once(program: Callable[[], Program]) -> None:
    """Several threads may call `instrument()`: one set of spans."""
    this = program()
    threads = [threading.Thread(target=this.do, args=["plain"]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert this.arrived() == Counter(["standard"])


def test_disabled_sdk_records_nothing(program: Callable[[], Program], monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_SDK_DISABLED` is honoured."""
    this = program()
    with monkeypatch.context() as disabled:
        disabled.setenv("OTEL_SDK_DISABLED", "true")

        assert instrument(exporter=this.places["exporter"]) == []
    assert this.arrived() == Counter()


def test_programs_random_numbers_stay(program: Callable[[], Program]) -> None:
    """A program that seeds `random` draws what it draws without us."""
    this, states = program(), []
    for is_recorded in (False, True):
        if is_recorded:
            this.do("exporter")
        random.seed(7)
        this.arrived()
        states.append(random.getstate())

    assert states[0] == states[1]


def test_failing_exporter_changes_nothing(program: Callable[[], Program]) -> None:
    """An exporter that raises is the exporter's problem: the program's run goes on to its end."""
    attempts: list[int] = []

    class Fails(InMemorySpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            attempts.append(len(spans))
            raise OSError("no network")

    this = program()
    instrument(exporter=Fails())

    assert this.arrived() == Counter()
    assert attempts


@pytest.mark.parametrize("is_embedded", [False, True])
def test_exporter_can_be_given_again(program: Callable[[], Program], is_embedded: bool) -> None:
    """An exporter is the program's: after `uninstrument()` it still takes spans, from us as well."""
    this = program()
    arguments: dict[str, Any] = {"embedded": True, "tracer": "checks"} if is_embedded else {}
    for _ in range(2):
        instrument(exporter=this.places["exporter"], **arguments)
        arrived = this.arrived()
        uninstrument()

    assert arrived == Counter(["exporter"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tracer": "lexical"}, "expected tracer= with embedded=True, got tracer='lexical' alone"),
        ({"mask_keys": "ssn"}, "mask_keys must be a list of names, got 'ssn'"),
        ({}, "OTEL_TRACES_EXPORTER must name installed exporters .*got 'nope'"),
        (
            {"embedded": True, "tracer": "nope"},
            "blamespan.tracers offers auto, checks, judge, language-model, lexical; got 'nope'",
        ),
    ],
)
def test_wrong_argument_is_refused_before_anything_is_switched_on(
    program: Callable[[], Program], monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], said: str
) -> None:
    """What would be ignored, or fail in a background thread, is answered where it is written."""
    this = program()
    with monkeypatch.context() as patched:
        patched.setattr(instrumentation, "_standard_exporters", STANDARD_EXPORTERS)
        patched.setenv("OTEL_TRACES_EXPORTER", "nope" if not arguments else "none")

        with pytest.raises(ConfigError, match=said):
            instrument(**arguments)
    assert this.arrived() == Counter()


def test_exporter_beside_a_provider_needs_embedded(program: Callable[[], Program]) -> None:
    """An argument that would be ignored is refused, and the message says what to do."""
    this = program()
    this.do("program's own")

    with pytest.raises(ConfigError, match="exporter= needs embedded=True here"):
        this.do("exporter")


def test_warning_of_nothing_names_the_releases_that_extras_install(
    program: Callable[[], Program], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no framework is installed, the log asks for what the instrumentors ask for and the extras bring."""
    extras = [text.partition(";")[0] for text in requires("blamespan") or () if "extra == 'all'" in text]
    named = ("agent-framework", "autogen", "langgraph")
    needed = [next(text for text in extras if text.startswith(name)) for name in named]

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("opentelemetry.instrumentation.dependencies.version", version)
    program()

    assert instrument() == []
    assert f"expected {' or '.join(needed).replace('>=', ' >= ')} in" in caplog.text
    assert " or ".join(f"pip install 'blamespan[{name}]'" for name in named) in caplog.text


@pytest.mark.parametrize("is_embedded", [False, True])
def test_absent_frameworks_are_a_warning_only_where_nothing_is_judged(
    program: Callable[[], Program],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_embedded: bool,
) -> None:
    """An embedded program judges spans of other instrumentations: that nothing is recorded would be wrong."""
    program()
    monkeypatch.setattr(instrumentation, "_instrumentors", lambda: iter(()))

    assert instrument(embedded=is_embedded) == []
    assert ("nothing is recorded" in caplog.text) is not is_embedded
