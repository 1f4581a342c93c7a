"""Says which agent failed, at which step and how, on the OpenTelemetry spans of a run.

    import blamespan

    blamespan.instrument()

See `blamespan.trace` for the records, `blamespan.conventions` for the words on the wire and
`blamespan.errors` for what can be raised.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from blamespan._version import __version__
from blamespan.attribution import AgentBlame, Attribution, Evidence, ModeBlame, StepBlame, TracerIdentity
from blamespan.errors import BlamespanError
from blamespan.instrumenting.instrument import instrument, uninstrument
from blamespan.outcomes.record_outcome import record_outcome
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Span
from blamespan.taxonomy import ErrorMode
from blamespan.trace import Agent, MessageActionTrace, Step, Usage
from blamespan.tracers import Tracer, load_tracer

if TYPE_CHECKING:
    from blamespan.analysis.analyze import Results, analyze
    from blamespan.analysis.engines.outcomes import Result
    from blamespan.guarding.guard import guard
    from blamespan.injecting.injection import inject
    from blamespan.learning import learn
    from blamespan.retrying import retry

__all__ = [
    "Agent",
    "AgentBlame",
    "Attribution",
    "BlamespanError",
    "ErrorMode",
    "Evidence",
    "MessageActionTrace",
    "ModeBlame",
    "Result",
    "Results",
    "Span",
    "Step",
    "StepBlame",
    "Tracer",
    "TracerIdentity",
    "Usage",
    "__version__",
    "analyze",
    "emit",
    "guard",
    "inject",
    "instrument",
    "learn",
    "load_tracer",
    "rebuild",
    "record_outcome",
    "retry",
    "uninstrument",
]

_LAZY = {
    "Result": "blamespan.analysis.engines.outcomes",
    "Results": "blamespan.analysis.analyze",
    "analyze": "blamespan.analysis.analyze",
    "guard": "blamespan.guarding.guard",
    "inject": "blamespan.injecting.injection",
    "learn": "blamespan.learning",
    "retry": "blamespan.retrying",
}
"""What most programs never use, by the module that is imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
