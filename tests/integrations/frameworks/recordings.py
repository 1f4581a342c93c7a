"""What each framework's desk is rebuilt to, from a recording as from a run of just now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from blamespan import conventions as words
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.pipeline import annotate_traces
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_integrations.frameworks import FRAMEWORKS
from tests.integrations.dialects.recordings import HIDDEN

FOLDER = Path(__file__).parent / "recorded"
HIDDEN_HERE = HIDDEN | {words.CONVERSATION_ID}

NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.sound.jsonl"))
"""The recordings: each framework's, LlamaIndex' also by its second instrumentor, pydantic-ai's and Google ADK's
also before they wrote everything by the conventions."""


def framework_of(name: str) -> str:
    """Return the framework that a recording is of."""
    return next(row.name for row in FRAMEWORKS if name.startswith(row.name))


def agent_of(name: str, fault: str) -> str:
    """Return who commits *fault*: a session of the Claude Agent SDK, its writer, has no name of its own."""
    return "claude" if name == "claude-agent-sdk" and fault == "writer" else fault


def drawing_of(name: str) -> str:
    """Return how the sound desk is rebuilt."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip()


def spans_in(path: Path) -> list[Span]:
    """Read the one trace of a recording."""
    traces: dict[str, list[Span]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        for span in spans_from_proto(request_from_json(line).resource_spans):
            traces[span.trace_id].append(span)
    [spans] = traces.values()
    return spans


def verdict_on(spans: Sequence[Span], tracer: Tracer) -> tuple[str, str]:
    """Return what is said of the one run among *spans*: the verdict, and whom it names."""
    [annotated] = annotate_traces([spans], tracer)
    [verdict] = [
        (str(span.attributes[words.VERDICT]), str(span.attributes.get(words.BLAME_AGENT, "")))
        for span in annotated
        if words.VERDICT in span.attributes
    ]
    return verdict
