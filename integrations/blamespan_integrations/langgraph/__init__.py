"""LangGraph: every run of every graph of this program as spans.

No graph has to be changed: a handler joins every callback manager through LangChain's own
`register_configure_hook`. What callbacks cannot do is wrapped, each where a release has it, and everything
else is recorded all the same without: a node's span is current within the node (`_current`); a run links to
the one whose checkpoint it goes on from, pauses at breakpoints and answers from caches are heard of (`_loop`).

One call from `instrument()` to its span: `_wrap` registers the handler of `_callbacks`, which passes each event to
`_graphs`. That keeps a frame (`_frames`) for each LangChain run that is going on, and has `_nodes` and `_calls` start
and end the spans by `blamespan_integrations.recording`. `_order` says what a step builds on, `_names` who speaks,
`_memory` what is new; `_convert` and `_messages` turn LangChain's objects into records.

Not recorded, because LangGraph does not tell: which of several fixed edges led to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from blamespan.instrumenting.settings import links_checkpoints
from blamespan_integrations.patching import AfterImport, LateInstrumentor
from blamespan_integrations.recording import Recorder

__all__ = ["LangGraphInstrumentor"]

_SCOPE = "blamespan.langgraph"


class LangGraphInstrumentor(LateInstrumentor):
    """Switches the recording of LangGraph runs on and off.

    `instrument()` takes `tracer_provider` and `link_checkpoints`; a second call changes nothing. After
    `uninstrument()` new runs are not recorded, and those going on are ended as abandoned.
    """

    _imported = AfterImport("langgraph.pregel")  # what every graph is run by

    def instrumentation_dependencies(self) -> Collection[str]:
        """List what must be installed for this to work."""
        return ("langgraph >= 1.2",)

    def _instrument(self, **kwargs: Any) -> None:
        recorder = Recorder.of(_SCOPE, kwargs)
        stamps_checkpoints = links_checkpoints(kwargs.get("link_checkpoints"))
        who = "langgraph: instrument this version of LangGraph"
        self._record_later(lambda: _record(recorder, stamps_checkpoints=stamps_checkpoints), who)


def _record(recorder: Recorder, *, stamps_checkpoints: bool) -> Callable[[], None]:
    from blamespan_integrations.langgraph._wrap import wrap  # imports LangGraph

    return wrap(recorder, stamps_checkpoints=stamps_checkpoints)
