"""Which spans of a trace belong to which run.

A trace can hold several runs (a service that answers one request with two teams), and a run can hold
teams within teams. A run is the outermost `invoke_workflow` span and what lies below it. Spans of other
instrumentations are told apart by what they mean in our words (`blamespan.dialects`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blamespan import conventions
from blamespan.dialects import in_our_words, is_foreign
from blamespan.errors import MalformedSpan
from blamespan.spans import Span

_STEP_OPERATIONS = {conventions.OPERATION_AGENT, conventions.OPERATION_TOOL}


@dataclass(frozen=True, slots=True)
class Run:
    """One run's spans.

    Attributes:
        root: The span of the run itself; None where it has not arrived or does not exist.
        spans: All of them, the root included, in the order they came.
        meanings: Where other instrumentations made some of them: what each span says in our words, in the same
            order; for reading alone, never to be sent. None where the spans speak for themselves.
    """

    root: Span | None
    spans: tuple[Span, ...]
    meanings: tuple[Span, ...] | None = None


def is_step(span: Span) -> bool:
    """Check whether a span, as it came, may be something an agent, tool or user did, rather than a run or a model call.

    Of another instrumentation's span only the rest of its trace tells for sure: `is_told_step` of its meaning.
    """
    return is_told_step(span) or is_foreign(span)


def is_told_step(span: Span) -> bool:
    """Check whether a span says in our words that it is a step."""
    return conventions.STEP_KIND in span.attributes or span.text(conventions.OPERATION) in _STEP_OPERATIONS


def split_runs(spans: Iterable[Span]) -> list[Run]:
    """Split one trace's spans into its runs, first to start first.

    A span that came twice counts once. Spans outside every workflow belong to the trace's only run,
    or to the run whose time they fall into; steps that fit none make up a run without a root.
    Spans that are no part of any run (no step among them) are left out.

    Raises:
        MalformedSpan: if the spans are of several traces.
    """
    by_id = {span.span_id: span for span in reversed(list(spans))}  # the first to come wins
    unique: Sequence[Span] = list(reversed(by_id.values()))
    if len({span.trace_id for span in unique}) > 1:
        raise MalformedSpan(f"expected spans of one trace, got {sorted({s.trace_id for s in unique})!r}. Group them")
    meant = in_our_words(unique)
    if meant is unique:
        return _split(unique, by_id)
    return [
        Run(
            root=by_id[run.root.span_id] if run.root else None,
            spans=tuple(by_id[span.span_id] for span in run.spans),
            meanings=run.spans,
        )
        for run in _split(meant, {span.span_id: span for span in meant})
    ]


def _split(unique: Sequence[Span], by_id: Mapping[str, Span]) -> list[Run]:
    members: dict[str | None, list[Span]] = defaultdict(list)
    tops = _outermost_workflows(unique, by_id)
    for span in unique:
        top = tops[span.span_id]
        members[top.span_id if top else None].append(span)
    outside = members.pop(None, [])
    roots = sorted((by_id[i] for i in members if i is not None), key=lambda root: root.start_ns)
    rootless = _adopt(outside, roots, members)
    runs = [Run(root, tuple(members[root.span_id])) for root in roots]
    if any(is_told_step(span) for span in rootless):
        runs.append(Run(_trace_root(rootless) if not roots else None, tuple(rootless)))
    return runs


def _outermost_workflows(spans: Iterable[Span], by_id: Mapping[str, Span]) -> dict[str, Span | None]:
    """Find the outermost workflow above each span or the span itself, looking at every span once."""
    outermost: dict[str, Span | None] = {}
    for span in spans:
        path: list[Span] = []
        at: Span | None = span
        while at is not None and at.span_id not in outermost:
            outermost[at.span_id] = None  # a hostile trace may hold a cycle: it ends here
            path.append(at)
            at = by_id.get(at.parent_id) if at.parent_id else None
        top = outermost[at.span_id] if at is not None else None
        for below in reversed(path):
            if top is None and below.text(conventions.OPERATION) == conventions.OPERATION_WORKFLOW:
                top = below
            outermost[below.span_id] = top
    return outermost


def _adopt(outside: list[Span], roots: list[Span], members: dict[str | None, list[Span]]) -> list[Span]:
    """Assign the steps outside every workflow to a run of *roots*; return the spans that fit none."""
    left: list[Span] = []
    for span in outside:
        fits = [root for root in roots if root.start_ns <= span.start_ns <= root.end_ns]
        if not roots or (is_told_step(span) and not fits and len(roots) > 1):
            left.append(span)
        elif is_told_step(span):
            members[(fits or roots)[0].span_id].append(span)
    return left


def _trace_root(spans: list[Span]) -> Span | None:
    return next((span for span in spans if span.parent_id is None), None)
