"""Says which agent failed, at which step and how, on the OpenTelemetry spans of a run.

    import blamespan

    blamespan.instrument()

See `blamespan.trace` for the records, `blamespan.conventions` for the words on the wire and
`blamespan.errors` for what can be raised.
"""

from blamespan._version import __version__
from blamespan.attribution import AgentBlame, Attribution, Evidence, ModeBlame, StepBlame, TracerIdentity
from blamespan.emit import emit
from blamespan.errors import BlamespanError
from blamespan.injection import inject
from blamespan.instrumentation import instrument, uninstrument
from blamespan.rebuild import rebuild
from blamespan.spans import Span
from blamespan.taxonomy import ErrorMode
from blamespan.trace import Agent, MessageActionTrace, Step, Usage
from blamespan.tracers import Tracer, load_tracer

__all__ = [
    "Agent",
    "AgentBlame",
    "Attribution",
    "BlamespanError",
    "ErrorMode",
    "Evidence",
    "MessageActionTrace",
    "ModeBlame",
    "Span",
    "Step",
    "StepBlame",
    "Tracer",
    "TracerIdentity",
    "Usage",
    "__version__",
    "emit",
    "inject",
    "instrument",
    "load_tracer",
    "rebuild",
    "uninstrument",
]
