"""A stored trace as people look at it: its runs, and what is missing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blamespan import conventions as words
from blamespan.analysis.showing.claims import answer_of
from blamespan.analysis.showing.findings import KnownFailure, rules_of
from blamespan.analysis.showing.legible import clean
from blamespan.analysis.showing.run_view import RunView, view_of
from blamespan.analysis.showing.verdicts import opinion_text
from blamespan.annotate import is_verdict, read_opinions
from blamespan.errors import BlamespanError
from blamespan.rebuilding.continuing import is_waiting, link_to_earlier
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.judged_runs import verdict_of


@dataclass(frozen=True, slots=True)
class LaterVerdict:
    """A verdict that came when the spans were out already.

    Attributes:
        revision: Which one it is.
        verdict: What it comes to in a word.
        agent: Who is to blame by it, or empty.
        step: Index of the decisive step.
        mode: What for, in words.
        abstained: Why it is none, or empty.
        verified: What came of putting the decisive step to the test, or empty.
        opinions: Who said what, where it combines several opinions.
    """

    revision: int
    verdict: str
    agent: str
    step: int | None
    mode: str
    abstained: str
    verified: str = ""
    opinions: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """What it was judged again with."""
        return f"a second opinion ({'; '.join(self.opinions)})" if self.opinions else "what came later"


@dataclass(frozen=True, slots=True)
class TraceView:
    """A trace.

    Attributes:
        trace_id: 32 hex digits.
        runs: Its runs, first to start first.
        spans: How many there are.
        missing: How many spans others name as parent or link that did not come.
        is_partial: Whether the run had not ended when it was judged, or its own span is not there.
        later: Verdicts that came later, the last one first.
        unread: Why runs cannot be shown.
        waits: Whether one of its runs waits for an answer from outside.
        earlier: Trace ids of runs that its runs go on from.
        is_judged_whole: Whether its verdict was made with those.
    """

    trace_id: str
    runs: tuple[RunView, ...]
    spans: int
    missing: int
    is_partial: bool
    later: tuple[LaterVerdict, ...]
    unread: tuple[str, ...]
    waits: bool = False
    earlier: tuple[str, ...] = ()
    is_judged_whole: bool = False


def trace_view(spans: Sequence[Span], *, checks_all: bool = False) -> TraceView:
    """Lay out a trace.

    Args:
        spans: All there are of it; at least one.
        checks_all: Whether rules are checked and claims followed also where that takes long.
    """
    own = [span for span in spans if not is_verdict(span)]
    known = {span.span_id for span in spans}
    unread: list[str] = []
    try:
        runs = split_runs(own)
    except BlamespanError as error:
        runs = []
        unread.append(clean(str(error)))
    views: list[RunView] = []
    for run in runs:
        try:
            views.append(_view(run, len(views), checks_all))
        except (BlamespanError, ValueError) as error:
            unread.append(clean(str(error)))
    return TraceView(
        trace_id=spans[0].trace_id,
        runs=tuple(views),
        spans=len(spans),
        missing=len({span.parent_id for span in own if span.parent_id and span.parent_id not in known}),
        is_partial=any(span.attributes.get(words.PARTIAL) is True for span in spans)
        or any(run.root is None for run in runs),
        later=tuple(sorted(map(_later, filter(is_verdict, spans)), key=lambda later: -later.revision)),
        unread=tuple(unread),
        waits=any(map(is_waiting, runs)),
        earlier=tuple(dict.fromkeys(link.trace_id for run in runs if (link := link_to_earlier(run)) is not None)),
        is_judged_whole=any(words.RUN_JUDGED_AFTER in span.attributes for span in spans),
    )


def _view(run: Run, index: int, checks_all: bool) -> RunView:
    trace = rebuild_run(run)
    verdict, checked = verdict_of(run, trace), rules_of(trace, may_take_long=checks_all)
    return view_of(
        trace,
        verdict,
        checked.rules,
        answer_of(trace, verdict, checked.rules, may_take_long=checks_all),
        _read_known(run, trace),
        check_failure=checked.failure,
        prefix=f"run-{index + 1}-" if index else "",
    )


def _read_known(run: Run, trace: MessageActionTrace) -> list[KnownFailure]:
    """Read which known failures the spans say that the run shows, the surest first."""
    seen = "" if run.root is None else run.root.text(words.SCHEMA_SEEN_TRACE_ID) or ""
    surest = "" if run.root is None else run.root.text(words.SCHEMA_NAME) or ""
    found: dict[str, KnownFailure] = {}
    by_span = {span.span_id: span for span in run.spans}
    for step in trace.steps:
        span = by_span[step.span_id]
        name, score = span.text(words.SCHEMA_NAME), span.attributes.get(words.SCHEMA_SCORE)
        if span is run.root or name is None or not isinstance(score, float) or step.span_id in found:
            continue
        first = seen if name == surest else ""
        said = f"the same failure as in run {first[:8]}" if first else "a failure that is known"
        found[step.span_id] = KnownFailure(clean(name), "", step.index, score, clean(said), first)
    return sorted(found.values(), key=lambda known: -known.score)


def _later(span: Span) -> LaterVerdict:
    return LaterVerdict(
        revision=span.integer(words.REVISION) or 0,
        verdict=clean(span.text(words.VERDICT) or ""),
        agent=clean(span.text(words.BLAME_AGENT) or ""),
        step=span.integer(words.BLAME_STEP),
        mode=clean(span.text(words.ERROR_NAME) or ""),
        abstained=clean(span.text(words.ABSTAINED) or ""),
        verified=clean(span.text(words.VERIFIED) or ""),
        opinions=tuple(clean(opinion_text(opinion)) for opinion in read_opinions(span)),
    )
