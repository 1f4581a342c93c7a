"""What blamespan says of a span, as the warnings that Jaeger's UI marks spans with; pure."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from blamespan import conventions as words
from blamespan.otlp.proto import mapping
from blamespan.spans import Attributes

_PREFIX = "blamespan."


def warnings_of(span: Span) -> list[str]:
    """Warn that a span is the decisive step and of what, or why its run has no verdict; empty for any other span."""
    ours = [item for item in span.attributes if item.key.startswith(_PREFIX)]
    attributes = mapping(ours)
    warnings = []
    if attributes.get(words.BLAME_DECISIVE) is True:
        warnings.append(_decisive(attributes))
    reason = attributes.get(words.ABSTAINED)
    if isinstance(reason, str):
        warnings.append(f"blamespan: no verdict, {reason}")
    return warnings


def _decisive(attributes: Attributes) -> str:
    """Word it: `blamespan: decisive step 3 with 0.57 of the blame, FM-2.6 Reasoning-action mismatch (mast), 0.81`."""
    step, share = attributes.get(words.STEP_INDEX), attributes.get(words.BLAME_SCORE)
    code, name, taxonomy = (attributes.get(key) for key in (words.ERROR_MODE, words.ERROR_NAME, words.ERROR_TAXONOMY))
    score = attributes.get(words.ERROR_SCORE)
    return "".join(
        (
            "blamespan: decisive step",
            f" {step}" if isinstance(step, int) else "",
            f" with {share:.2f} of the blame" if isinstance(share, int | float) else "",
            f", {code} {name} ({taxonomy})" if all(isinstance(text, str) for text in (code, name, taxonomy)) else "",
            f", {score:.2f}" if isinstance(score, int | float) else "",
        )
    )
