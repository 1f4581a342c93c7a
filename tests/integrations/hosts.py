"""Programs that are watched, one in each framework, as the laws that hold in all of them need them.

`host_autogen`, `host_langgraph` and `host_agent_framework` each make one `Host`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.testing import SpanRecorder

PACKAGES = {"autogen": "autogen_agentchat", "langgraph": "langgraph", "agent_framework": "agent_framework"}
"""Package of each framework, by the name of what records it."""
INSTALLED = [name for name, package in PACKAGES.items() if find_spec(package) is not None]


@contextmanager
def recording(*frameworks: str, **settings: Any) -> Iterator[SpanRecorder]:
    """Record frameworks for a while.

    Args:
        frameworks: By the names of what records them.
        settings: As `instrument()` takes them.
    """
    recorder = SpanRecorder()
    with ExitStack() as off:
        for framework in frameworks:
            instrumentor = import_module(f"blamespan_integrations.{framework}")
            instrumentor = getattr(instrumentor, instrumentor.__all__[0])()
            instrumentor.instrument(tracer_provider=recorder.provider, **settings)
            off.callback(instrumentor.uninstrument)
        yield recorder


@dataclass(frozen=True, slots=True)
class Host:
    """A program, and what of its framework is patched to watch it.

    Attributes:
        name: What records the framework.
        instrumentor: Records the framework.
        patched: Classes and modules, with the attribute that is replaced in each.
        runs: Each runs a team anew that uses a tool, awaited or streamed, and lists what the program is given.
        spans: What is recorded of one such run.
        raising: Each runs an agent that raises this exception.
        unlike: A part of the framework without which nothing of it is patched; None where parts are patched one by one.
        own_spans: Who makes spans of a run without us, and how many at least.
    """

    name: str
    instrumentor: type[BaseInstrumentor]
    patched: tuple[tuple[Any, str], ...]
    runs: tuple[Callable[[], Awaitable[list[object]]], ...]
    spans: Counter[str]
    raising: tuple[Callable[[BaseException], Awaitable[object]], ...]
    unlike: str | None = None
    own_spans: tuple[str, int] | None = None

    def attributes(self) -> list[Any]:
        """List what stands in the places that are patched."""
        return [vars(owner)[name] for owner, name in self.patched]


@cache
def host(framework: str) -> Host:
    """Return the program of a framework."""
    found: Host = import_module(f"tests.integrations.host_{framework}").HOST
    return found
