"""Runs as language models are shown them: decisions read once, written as plain text or as one JSON document.

    trace -> decisions (merged, numbered, tied) -+-> RenderedRun: indented text, for models that answer in numbers
                                                 +-> RunDocument: JSON within a budget, for judges behind an endpoint

Both are data whatever a run holds: no text can leave its lines or its string, and marks that mean something to a model
are broken or escaped.
"""

from blamespan_tracer.alternatives.rendering.decisions import RenderedDecision, decisions_of
from blamespan_tracer.alternatives.rendering.document import RunDocument
from blamespan_tracer.alternatives.rendering.plain import Candidate, RenderedRun, render_run
from blamespan_tracer.alternatives.rendering.texts import ANSWER_TAGS, as_data, cut, estimated_tokens, inert, shown_name

__all__ = [
    "ANSWER_TAGS",
    "Candidate",
    "RenderedDecision",
    "RenderedRun",
    "RunDocument",
    "as_data",
    "cut",
    "decisions_of",
    "estimated_tokens",
    "inert",
    "render_run",
    "shown_name",
]
