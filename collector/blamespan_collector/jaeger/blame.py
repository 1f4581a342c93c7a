"""What blamespan says of a span, as the warnings that Jaeger's UI marks spans with; pure."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from blamespan import conventions as words
from blamespan.otlp.proto import mapping
from blamespan.spans import Attributes

__all__ = ["warnings_of"]

_PREFIX = "blamespan."


def warnings_of(span: Span) -> list[str]:
    """Say that a span is the decisive step and of what, or why its run has no verdict; else nothing."""
    ours = [item for item in span.attributes if item.key.startswith(_PREFIX)]
    said = mapping(ours)
    found = []
    if said.get(words.BLAME_DECISIVE) is True:
        found.append(_decisive(said))
    reason = said.get(words.ABSTAINED)
    if isinstance(reason, str):
        found.append(f"blamespan: no verdict, {reason}")
    return found


def _decisive(said: Attributes) -> str:
    """Word it: `blamespan: decisive step 3 with 0.57 of the blame, FM-2.6 Reasoning-action mismatch (mast), 0.81`."""
    step, share = said.get(words.STEP_INDEX), said.get(words.BLAME_SCORE)
    code, name, taxonomy = (said.get(key) for key in (words.ERROR_MODE, words.ERROR_NAME, words.ERROR_TAXONOMY))
    score = said.get(words.ERROR_SCORE)
    return "".join(
        (
            "blamespan: decisive step",
            f" {step}" if isinstance(step, int) else "",
            f" with {share:.2f} of the blame" if isinstance(share, int | float) else "",
            f", {code} {name} ({taxonomy})" if all(isinstance(one, str) for one in (code, name, taxonomy)) else "",
            f", {score:.2f}" if isinstance(score, int | float) else "",
        )
    )
