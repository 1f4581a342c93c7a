"""A trace in a line, made of its spans, and of more of them as they come; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blamespan import conventions as words
from blamespan.annotate import cut, is_verdict
from blamespan.genai_messages import text_of
from blamespan.rebuilding.rebuild import outcome_of
from blamespan.rebuilding.runs import is_told_step
from blamespan.spans import Span
from blamespan.trace import Outcome
from blamespan_collector.store.records import RunSummary

_MAX_NS = 2**63 - 1
"""What SQLite can hold; OTLP's times are unsigned."""
_MAX_AGENTS = 100
_MAX_TEXT_BYTES = 500
_MAX_WORDS_BYTES = 6_000


def summarize(spans: Sequence[Span]) -> RunSummary:
    """Sum up spans of one trace; at least one."""
    own = [span for span in spans if not is_verdict(span)]
    steps = [span for span in own if is_told_step(span) or words.BLAME_SCORE in span.attributes]
    root = _root(own)
    named = root or spans[0]
    verdict = _verdict(spans)
    summary = RunSummary(
        trace_id=spans[0].trace_id,
        start_ns=min(_time(span.start_ns) for span in spans),
        end_ns=max(_time(max(span.start_ns, span.end_ns)) for span in spans),
        name=cut(named.name, _MAX_TEXT_BYTES),
        service=service_of(named),
        version=_resource_text(named, "service.version"),
        task=cut(_task(root), _MAX_TEXT_BYTES) if root else "",
        agents=_agents(steps),
        outcome=outcome_of(root, [span for span in own if root is None or span.parent_id == root.span_id]),
        steps=sum(1 + (words.STEP_RESULT_INDEX in span.attributes) for span in steps),
        spans=len(spans),
        errors=sum(span.status == "error" for span in spans),
        is_run=bool(steps) or verdict is not None,
        has_root=root is not None,
    )
    summary = summary if verdict is None else _with_verdict(summary, verdict)
    quotes = [_text(span, words.EVIDENCE) for span in spans if span.integer(words.BLAME_RANK) == 1]
    summary = replace(summary, quote=next((quote for quote in reversed(quotes) if quote), ""))
    evidence = " ".join([quote for span in own if (quote := span.text(words.EVIDENCE))])
    earlier = " ".join([link.trace_id for link in root.links if words.LINK_RELATION in link.attributes] if root else [])
    return replace(summary, words=_words(summary, f"{evidence} {earlier}".rstrip()))


def merged(before: RunSummary, more: RunSummary) -> RunSummary:
    """Sum up a trace of which some is known and *more* comes. The verdict is the later, or the surer one."""
    named = more if more.has_root and not before.has_root else before
    judged = max(before, more, key=_authority)  # the first of equals
    return RunSummary(
        trace_id=before.trace_id,
        start_ns=min(before.start_ns, more.start_ns),
        end_ns=max(before.end_ns, more.end_ns),
        name=named.name,
        service=named.service,
        task=named.task or before.task or more.task,
        agents=tuple(dict.fromkeys(before.agents + more.agents))[:_MAX_AGENTS],
        outcome=_outcome(before, more),
        steps=before.steps + more.steps,
        spans=before.spans + more.spans,
        errors=before.errors + more.errors,
        is_run=before.is_run or (more.is_run and not before.steps),  # the part of another run stays one
        has_root=before.has_root or more.has_root,
        is_partial=judged.is_partial,
        failure_score=judged.failure_score,
        blamed_agent=judged.blamed_agent,
        blamed_step=judged.blamed_step,
        mode=judged.mode,
        mode_name=judged.mode_name,
        mode_score=judged.mode_score,
        abstained=judged.abstained,
        tracer=judged.tracer,
        revision=judged.revision,
        version=named.version,
        likeness=judged.likeness,
        quote=judged.quote or before.quote or more.quote,
        words=cut(f"{before.words} {more.words}", _MAX_WORDS_BYTES),
        place=before.place,
    )


def _task(root: Span) -> str:
    return root.text(words.RUN_TASK) or text_of(root.attributes.get(words.INPUT_MESSAGES))


def _outcome(before: RunSummary, more: RunSummary) -> Outcome:
    """Choose how a run ended: what comes without its span was said after its end, and replaces what was said before."""
    is_said_later = more.outcome != "unknown" and not more.has_root
    return more.outcome if before.outcome == "unknown" or is_said_later else before.outcome


def service_of(span: Span) -> str:
    """Name the service that made *span*, or give an empty text."""
    return _resource_text(span, "service.name")


def _resource_text(span: Span, key: str) -> str:
    value = span.resource.get(key)
    return cut(value, _MAX_TEXT_BYTES) if isinstance(value, str) else ""


def _authority(summary: RunSummary) -> tuple[bool, int, float]:
    """Rank verdicts: any before none, a later revision before an earlier one, a surer one before others."""
    return bool(summary.tracer or summary.abstained), summary.revision, summary.failure_score or 0.0


def _root(spans: Sequence[Span]) -> Span | None:
    """Find the run's span: the outermost of a run, else the trace's root."""
    known = {span.span_id for span in spans}
    workflows = [span for span in spans if span.text(words.OPERATION) == words.OPERATION_WORKFLOW]
    outermost = [span for span in workflows if span.parent_id not in known]
    return next(iter([*outermost, *workflows, *(span for span in spans if span.parent_id is None)]), None)


def _verdict(spans: Sequence[Span]) -> Span | None:
    """Find the span with the summary of the verdict that counts."""
    judged = [span for span in spans if words.TRACER_NAME in span.attributes or words.ABSTAINED in span.attributes]
    return max(judged, key=lambda span: (_revision(span), _number(span, words.FAILURE_SCORE) or 0.0), default=None)


def _with_verdict(summary: RunSummary, span: Span) -> RunSummary:
    taxonomy, code = _text(span, words.ERROR_TAXONOMY), _text(span, words.ERROR_MODE)
    step = span.integer(words.BLAME_STEP)
    return replace(
        summary,
        is_partial=span.attributes.get(words.PARTIAL) is True,
        failure_score=_number(span, words.FAILURE_SCORE),
        blamed_agent=_text(span, words.BLAME_AGENT) or _cause(span),
        blamed_step=None if step is None else _time(step),
        mode=f"{taxonomy}:{code}" if code else "",
        mode_name=_text(span, words.ERROR_NAME),
        mode_score=_number(span, words.ERROR_SCORE),
        abstained=_text(span, words.ABSTAINED),
        tracer=f"{_text(span, words.TRACER_NAME)}/{_text(span, words.TRACER_VERSION)}",
        revision=_revision(span),
        likeness=_text(span, words.LIKENESS),
    )


def _cause(span: Span) -> str:
    """Name what the run failed by where no agent is to blame; empty where one is, or nothing is said."""
    name = _text(span, words.CAUSE_NAME)
    return f"the tool {name}" if name and span.text(words.CAUSE_KIND) == "tool" else name


def _agents(steps: Sequence[Span]) -> tuple[str, ...]:
    named = [cut(agent, _MAX_TEXT_BYTES) for span in steps if (agent := span.text(words.AGENT_NAME))]
    return tuple(dict.fromkeys(named))[:_MAX_AGENTS]


def _words(summary: RunSummary, evidence: str) -> str:
    """Put together what is searched."""
    texts = (summary.trace_id, summary.name, summary.service, summary.mode, summary.mode_name, summary.blamed_agent)
    text = " ".join([*texts, *summary.agents, summary.abstained, summary.task, evidence])
    return cut(text.replace("\0", " ").lower(), _MAX_WORDS_BYTES)


def _text(span: Span, key: str) -> str:
    return cut(span.text(key) or "", _MAX_TEXT_BYTES)


def _number(span: Span, key: str) -> float | None:
    value = span.attributes.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(1.0, max(0.0, float(value))) if is_number else None  # type: ignore[arg-type]


def _revision(span: Span) -> int:
    return _time(span.integer(words.REVISION) or 0)


def _time(value: int) -> int:
    return min(max(value, 0), _MAX_NS)
