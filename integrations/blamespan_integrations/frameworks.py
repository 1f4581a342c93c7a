"""Frameworks that trace themselves, or that another package traces: their telemetry is turned on and read by a dialect.

`FRAMEWORKS` is the table. One row is one framework: the module whose import shows that the program uses it, the
releases that we have seen work, and what records it: instrumentors of other packages, the best one first, or a switch
of the framework's own. Nothing is imported that the program does not import, but for the instrumentor itself.

What they write is screened as our own spans are: secrets masked, long texts cut, contents withheld where those are
not captured (`blamespan_integrations.recording.screening`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace
from opentelemetry.instrumentation.dependencies import get_dependency_conflicts
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.instrumenting.settings import CAPTURE_CONTENT, ContentSettings
from blamespan.plugins import plugins
from blamespan_integrations.patching import AfterImport, LateInstrumentor

if TYPE_CHECKING:
    from blamespan_integrations.recording.screening import ScreenedProvider

_logger = logging.getLogger("blamespan")

_INSTRUMENTORS = "opentelemetry_instrumentor"
_ON_SPANS = ("span_only", "span_and_event")
"""The modes of the standard variable that put contents where we read them."""


class _LeftAlone(Exception):
    """The program records the framework itself."""


class Framework(NamedTuple):
    """One framework and what records it.

    Attributes:
        name: As its package is called.
        module: Imported by every program that uses it.
        requires: The package and the releases that are recorded.
        instrumentors: Modules of other packages that record it, the best first; each package is named as its module.
        options: What they are told beside the provider.
        loads: A module that importing it always loads; another package may have the same short name.
        switch: Turns on the framework's own telemetry and returns what turns it off again.
    """

    name: str
    module: str
    requires: str
    instrumentors: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    loads: str | None = None
    switch: Callable[[trace.TracerProvider], Callable[[], None]] | None = None

    @property
    def is_installed(self) -> bool:
        """Whether its package is, in whichever release."""
        try:
            Distribution.from_name(self.requires.partition(" ")[0])
        except PackageNotFoundError:
            return False
        return True

    @property
    def instrumentor(self) -> EntryPoint | None:
        """What is installed and records it; None where it records itself."""
        offered = {entry.module: entry for entry in plugins(_INSTRUMENTORS).values()}
        return next((offered[module] for module in self.instrumentors if module in offered), None)


class FrameworkInstrumentor(LateInstrumentor):
    """Switches the recording of one framework on, once the program has imported it, and off.

    `instrument()` takes `tracer_provider` and the settings of contents. It never raises: what cannot be recorded is
    told in one line of the log.
    """

    framework: Framework
    """Which one."""

    @property
    def can_record(self) -> bool:
        """Whether all that recording the framework takes is installed."""
        return self.framework.switch is not None or self.framework.instrumentor is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """List nothing: which release it is counts where the program imports the framework."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        from blamespan_integrations.recording.screening import ScreenedProvider  # where there is nothing to screen: not

        content = ContentSettings.among(kwargs)
        provider = kwargs.get("tracer_provider") or trace.get_tracer_provider()
        who = f"{self.framework.name}: turn on what records it"
        self._record_later(lambda: self._record(ScreenedProvider(provider, content), content), who)

    def _record(self, provider: ScreenedProvider, content: ContentSettings) -> Callable[[], None] | None:
        name = self.framework.name
        if self.framework.loads is not None and self.framework.loads not in sys.modules:
            return None  # a module of the program's of the same name
        try:
            conflict = get_dependency_conflicts([self.framework.requires])
            if conflict is not None:
                _logger.warning("%s is not recorded: expected %s, found %s", name, conflict.required, conflict.found)
                return None
            with ExitStack() as undone:
                if content.capture:
                    undone.callback(_put_content_on_spans())
                undone.callback(self._turn_on_telemetry(provider))
                return undone.pop_all().close
        except _LeftAlone as reason:
            _logger.warning("%s is left alone: %s", name, reason)
        except Exception as error:  # what others have written may raise anything
            _logger.warning(
                "%s is not recorded: %s: %s",
                name,
                type(error).__name__,
                " ".join(str(error).split()),
                exc_info=_logger.isEnabledFor(logging.DEBUG),
            )
        return None

    def _turn_on_telemetry(self, provider: ScreenedProvider) -> Callable[[], None]:
        if self.framework.switch is not None:
            return self.framework.switch(provider)
        entry = self.framework.instrumentor
        if entry is None:
            package = self.framework.instrumentors[0].replace(".", "-").replace("_", "-")
            raise _LeftAlone(f"what records it is not installed. Install it with: pip install {package}")
        instrumentor: BaseInstrumentor = entry.load()()
        if instrumentor.is_instrumented_by_opentelemetry or _is_at_work(instrumentor):
            raise _LeftAlone(f"the program has turned on {entry.module} itself: its spans go where that sends them")
        options = dict(self.framework.options)
        try:
            instrumentor.instrument(tracer_provider=provider, raise_exception_on_conflict=True, **options)
        except Exception:
            with suppress(Exception):  # what it had turned on by then
                instrumentor._uninstrument()
            raise
        turn_off: Callable[[], None] = instrumentor.uninstrument
        return turn_off


def _is_at_work(instrumentor: BaseInstrumentor) -> bool:
    """Check whether *instrumentor* is being turned on, and that is why the framework is imported just now."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_locals.get("self") is instrumentor:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _put_content_on_spans() -> Callable[[], None]:
    """Have instrumentations by the GenAI conventions write contents onto spans; returns what undoes it."""
    before = os.environ.get(CAPTURE_CONTENT)
    if before is not None and before.strip().lower() in _ON_SPANS:
        return lambda: None
    os.environ[CAPTURE_CONTENT] = after = "SPAN_AND_EVENT" if before else "SPAN_ONLY"

    def restore() -> None:
        if os.environ.get(CAPTURE_CONTENT) == after:
            if before is None:
                del os.environ[CAPTURE_CONTENT]
            else:
                os.environ[CAPTURE_CONTENT] = before

    return restore


def _switch_pydantic_ai(provider: trace.TracerProvider) -> Callable[[], None]:
    agent = import_module("pydantic_ai").Agent
    module = import_module("pydantic_ai.models.instrumented")
    if agent._instrument_default is not False:
        raise _LeftAlone("the program has called Agent.instrument_all() itself: its spans go where that sends them")
    is_old = getattr(module, "DEFAULT_INSTRUMENTATION_VERSION", 2) < 3  # has arguments and answers of tools elsewhere
    ours = module.InstrumentationSettings(tracer_provider=provider, **({"version": 3} if is_old else {}))
    agent.instrument_all(ours)

    def restore() -> None:
        if agent._instrument_default is ours:
            agent.instrument_all(False)

    return restore


def _switch_google_adk(provider: trace.TracerProvider) -> Callable[[], None]:
    """Google's ADK traces itself, always: its tracer sends where we do."""
    tracer = import_module("google.adk.telemetry.tracing").tracer
    ours = provider.get_tracer("gcp.vertex.agent")
    methods = ("start_span", "start_as_current_span")
    for method in methods:
        setattr(tracer, method, getattr(ours, method))

    def restore() -> None:
        for method in methods:
            vars(tracer).pop(method, None)

    return restore


def _switch_strands(provider: trace.TracerProvider) -> Callable[[], None]:
    """Strands traces itself, always, by one object that every agent holds: its tracer sends where we do."""
    telemetry = import_module("strands.telemetry.tracer").get_tracer()
    before, ours = telemetry.tracer, provider.get_tracer("strands.telemetry.tracer")
    telemetry.tracer = ours

    def restore() -> None:
        if telemetry.tracer is ours:
            telemetry.tracer = before

    return restore


FRAMEWORKS = (
    Framework(
        "openai-agents",
        "agents",
        "openai-agents >= 0.1",
        ("openinference.instrumentation.openai_agents",),
        (("exclusive_processor", False),),  # the program's own traces go on
        "agents.tracing",
    ),
    Framework("pydantic-ai", "pydantic_ai", "pydantic-ai-slim >= 1.0", switch=_switch_pydantic_ai),
    Framework("crewai", "crewai", "crewai >= 1.10.1", ("openinference.instrumentation.crewai",)),
    Framework("google-adk", "google.adk.telemetry.tracing", "google-adk >= 2.0", switch=_switch_google_adk),
    Framework(
        "claude-agent-sdk",
        "claude_agent_sdk",
        "claude-agent-sdk >= 0.1.45",
        ("openinference.instrumentation.claude_agent_sdk",),
    ),
    Framework(
        "llama-index",
        "llama_index.core",
        "llama-index-core >= 0.14",
        ("opentelemetry.instrumentation.genai.llama_index", "openinference.instrumentation.llama_index"),
    ),
    Framework("smolagents", "smolagents", "smolagents >= 1.20", ("openinference.instrumentation.smolagents",)),
    Framework("strands", "strands.telemetry.tracer", "strands-agents >= 1.0", switch=_switch_strands),
)
"""The frameworks that `blamespan.instrument()` records by what others have written."""


def _make_instrumentor(framework: Framework) -> FrameworkInstrumentor:
    members = {"framework": framework, "_imported": AfterImport(framework.module)}
    kind = type(f"FrameworkInstrumentor[{framework.name}]", (FrameworkInstrumentor,), members)
    instrumentor: FrameworkInstrumentor = kind()
    return instrumentor


_instrumentor_of = cache(_make_instrumentor)


def instrumentors_of_installed() -> dict[str, FrameworkInstrumentor]:
    """Return the instrumentor of each framework that is installed, by the framework's name."""
    return {framework.name: _instrumentor_of(framework) for framework in FRAMEWORKS if framework.is_installed}
