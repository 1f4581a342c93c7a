"""The core of every driver: spans, or runs that an importer read, in; traces, verdicts and annotations out.

    spans ── attribute_traces: split, rebuild ──┐
                                                ├── attribute_parts: join, ask the tracer, part ──> verdicts
    runs of an importer (rebuilt there already) ┘
    AttributedTrace.annotations: verdicts ──> attributes of spans

The collector and the embedded mode enter with spans, the offline line with an importer's runs. What rebuilding or the
tracer raises on a run costs that run alone: it has a `UnjudgedRun`, or the exception, in place of a verdict.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from blamespan import conventions as words
from blamespan.annotate import cut, verdict_attributes, verdict_span
from blamespan.attribution import Attribution, TracerIdentity, check_verdict, verdict_word
from blamespan.dialects.translation import load_dialects
from blamespan.errors import BlamespanError, MalformedTrace
from blamespan.likeness import likeness_of
from blamespan.plugins import find_part
from blamespan.rebuilding.continuing import WAITS, join_parts, part_of_verdict, rebuild_with_earlier
from blamespan.rebuilding.rebuild import outcome_of
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Attributes, Span
from blamespan.trace import AttributeValue, MessageActionTrace
from blamespan.tracers import Tracer

_logger = logging.getLogger("blamespan")

_Value = TypeVar("_Value")

SpansOf: TypeAlias = Callable[[str], Sequence[Span]]
"""Returns the spans of a trace by its id; nothing where they are gone."""


class RunInParts(Protocol):
    """A run, rebuilt, with what the tracer has to know beside it: a `RebuiltRun`, or an importer's `RecordedRun`."""

    @property
    def trace(self) -> MessageActionTrace:
        """The run, or its last part."""
        ...

    @property
    def waits(self) -> bool:
        """Whether it has stopped to wait for an answer from outside."""
        ...

    @property
    def earlier(self) -> tuple[MessageActionTrace, ...]:
        """The parts before it, the first one first."""
        ...


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What is said of a run beside the verdict on it, as attributes of spans.

    The part `note_run` of the package that reads claims makes it; without that package there are no notes.

    Attributes:
        run: Of the run's span.
        steps: Of the steps' spans, by index.
    """

    run: Attributes = field(default_factory=dict)
    steps: Mapping[int, Attributes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttributedRun:
    """One run with its verdict.

    Attributes:
        run: Its spans.
        trace: The run, rebuilt.
        attribution: The verdict.
        earlier: The parts before it that it was judged with, the first one first, each with what the verdict says of
            that part; empty where it is no run in parts, or they are gone.
        notes: What is said beside the verdict; the steps of earlier parts are left out.
    """

    run: Run
    trace: MessageActionTrace
    attribution: Attribution
    earlier: tuple[AttributedRun, ...] = ()
    notes: RunNotes = RunNotes()

    def digest(self) -> bytes:
        """Sum up the verdict, without its revision and who said what: the same where nothing changed."""
        verdicts = [replace(part.attribution, revision=0, opinions=()) for part in (self, *self.earlier)]
        return hashlib.blake2b(repr(verdicts).encode("utf-8", "replace"), digest_size=8).digest()

    def at_revision(self, revision: int) -> AttributedRun:
        """Copy it as that revision; what it says of earlier parts comes after what was said there before."""
        earlier = tuple(
            replace(part, attribution=replace(part.attribution, revision=revision + 1)) for part in self.earlier
        )
        return replace(self, attribution=replace(self.attribution, revision=revision), earlier=earlier)

    @property
    def likeness(self) -> str:
        """What it has in common with runs that fail alike; empty where nobody is named."""
        noted = self.notes.steps.get(
            -1 if self.attribution.decisive_step is None else self.attribution.decisive_step, {}
        )
        return likeness_of(self.trace, self.attribution, str(noted.get(words.SCHEMA_NAME, "")))

    def annotations(self) -> dict[str, Attributes]:
        """List what the verdict and the notes add to the run's spans, by span id."""
        by_span = verdict_attributes(self.run, self.attribution)
        if likeness := self.likeness:
            summary_at = next(span_id for span_id, attributes in by_span.items() if words.TRACER_NAME in attributes)
            by_span[summary_at] = {**by_span[summary_at], words.LIKENESS: cut(likeness)}
        steps = self.trace.steps
        added = [(steps[index].span_id, attributes) for index, attributes in self.notes.steps.items()]
        if self.run.root is not None:
            added.append((self.run.root.span_id, self.notes.run))
        for span_id, attributes in added:
            if attributes:
                by_span[span_id] = {**by_span.get(span_id, {}), **attributes}
        return by_span


@dataclass(frozen=True, slots=True)
class UnjudgedRun:
    """One run without a verdict, because rebuilding it or the tracer raised.

    Attributes:
        run: Its spans.
        error: What was raised.
    """

    run: Run
    error: Exception

    @property
    def reason(self) -> str:
        """Why it has no verdict, as its root's span says it."""
        return f"could not be attributed: {format_error(self.error)}"


@dataclass(frozen=True, slots=True)
class AttributedTrace:
    """What became of one trace.

    Attributes:
        runs: Its runs with their verdicts, first to start first.
        failures: Its runs on which something broke.
        reason: Why the trace as a whole has no verdict, though it should have one.
        tracer: Who was asked, for what has no verdict; None where no tracer could be loaded.
    """

    runs: Sequence[AttributedRun] = ()
    failures: Sequence[UnjudgedRun] = ()
    reason: str | None = None
    tracer: TracerIdentity | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a run that should have a verdict has none."""
        return self.reason is not None or bool(self.failures)

    def annotations(self, spans: Sequence[Span], *, is_complete: bool) -> dict[str, Attributes]:
        """List what it adds to the trace's spans, by span id.

        Args:
            spans: Of the whole trace.
            is_complete: Whether its run has ended, rather than fallen silent.
        """
        if self.reason is not None:
            return self._abstentions(spans, self.reason)
        by_span: dict[str, Attributes] = {}
        for item in self.runs:
            by_span.update(item.annotations())
            if item.earlier and item.run.root is not None:
                root_id = item.run.root.span_id
                by_span[root_id] = {**by_span.get(root_id, {}), **_earlier_attributes(item)}
        if not is_complete:
            by_span = {span_id: _mark_partial(attributes) for span_id, attributes in by_span.items()}
        return by_span | {
            failure.run.root.span_id: self._abstention(failure.run, failure.reason)
            for failure in self.failures
            if failure.run.root
        }

    def on(self, spans: Sequence[Span], *, is_complete: bool) -> list[Span]:
        """Write it onto the trace's spans; same order, the same objects where nothing is added."""
        by_span = self.annotations(spans, is_complete=is_complete)
        return [span.with_attributes(by_span.get(span.span_id, {})) for span in spans]

    def beside(self, *, is_complete: bool) -> list[Span]:
        """Make the spans that stand for it beside spans that are out already: one for each run."""
        spans: list[Span] = []
        for item in self.runs:
            span = _stand_for(item)
            attributes = {**span.attributes, **item.notes.run, **(_earlier_attributes(item) if item.earlier else {})}
            spans.append(span.with_attributes(attributes if is_complete else _mark_partial(attributes)))
        return spans

    def on_earlier_parts(self) -> list[Span]:
        """Make the spans that stand for it in the traces of earlier parts.

        They are those of the part that holds the decisive step; where another verdict stood there before, of each part.
        """
        return [
            _stand_for(part)
            for item in self.runs
            for part in item.earlier
            if part.attribution.names_suspects or item.attribution.revision > 0
        ]

    def digests(self) -> frozenset[bytes]:
        """Sum up the verdicts on its runs."""
        return frozenset(item.digest() for item in self.runs)

    def news(self, known_digests: frozenset[bytes]) -> AttributedTrace:
        """Keep the runs with verdicts whose digests are not *known_digests*."""
        return AttributedTrace([item for item in self.runs if item.digest() not in known_digests])

    def at_revision(self, revision: int) -> AttributedTrace:
        """Copy it with all its verdicts as that revision."""
        return replace(self, runs=[item.at_revision(revision) for item in self.runs])

    def _abstentions(self, spans: Sequence[Span], reason: str) -> dict[str, Attributes]:
        """Write on the root of every run why it has no verdict; where even that fails, write nothing."""
        try:
            return {run.root.span_id: self._abstention(run, reason) for run in split_runs(spans) if run.root}
        except Exception:
            _logger.error("could not mark trace %s as without verdict", spans[0].trace_id, exc_info=True)
            return {}

    def _abstention(self, run: Run, reason: str) -> Attributes:
        """Make the attributes that tell why there is no verdict, and who was asked."""
        attributes: dict[str, AttributeValue] = {
            words.ABSTAINED: cut(reason),
            words.VERDICT: verdict_word(outcome_of(run.root, run.spans), 0.0, reason),
        }
        if self.tracer is not None:
            attributes[words.TRACER_NAME] = cut(self.tracer.name)
            attributes[words.TRACER_VERSION] = cut(self.tracer.version)
        return attributes


def attribute_parts(runs: Sequence[RunInParts], tracer: Tracer) -> list[tuple[Attribution, ...] | Exception]:
    """Ask the tracer about each run, all in one batch; same order. Nothing is raised.

    A run that waits for an answer gets no verdict, unless its outcome is known. One that goes on from there is judged
    with its earlier parts, as one run.

    Returns:
        For each run what the verdict says of it, last, and of the earlier parts it was judged with, before; the
        exception where joining its parts or the tracer raised.
    """
    traces = [None if (run.waits and run.trace.outcome == "unknown") else _try(partial(_join, run)) for run in runs]
    verdicts = iter(_ask(tracer, [trace for trace in traces if isinstance(trace, MessageActionTrace)]))
    answers: list[tuple[Attribution, ...] | Exception] = []
    for run, trace in zip(runs, traces, strict=True):
        if trace is None:
            answers.append((Attribution.abstain(run.trace, WAITS, tracer.identity),))
            continue
        verdict = next(verdicts) if isinstance(trace, MessageActionTrace) else trace
        answers.append(verdict if isinstance(verdict, Exception) else _try(partial(_part, verdict, run)))
    return answers


def attribute_runs(
    runs: Sequence[Run], tracer: Tracer, *, revision: int = 0, spans_of: SpansOf | None = None
) -> list[AttributedRun | UnjudgedRun]:
    """Rebuild and attribute each run, all in one batch; same order. Nothing is raised.

    Args:
        runs: Of any traces.
        tracer: Who judges.
        revision: Of the verdicts.
        spans_of: Where earlier parts of a run are looked up, beside *runs* themselves.
    """
    look_up = _look_up_among(runs, spans_of)
    rebuilt = [_try(partial(rebuild_with_earlier, run, look_up)) for run in runs]
    answers = iter(attribute_parts([item for item in rebuilt if not isinstance(item, Exception)], tracer))
    attributed: list[AttributedRun | UnjudgedRun] = []
    for run, item in zip(runs, rebuilt, strict=True):
        if isinstance(item, Exception):
            attributed.append(UnjudgedRun(run, item))
            continue
        verdicts = next(answers)
        if isinstance(verdicts, Exception):
            attributed.append(UnjudgedRun(run, verdicts))
            continue
        parts = [
            AttributedRun(part, trace, verdict)
            for part, trace, verdict in zip(item.earlier_runs, item.earlier, verdicts[:-1], strict=False)
        ]
        notes = note_beside(item, verdicts[-1])
        attributed.append(AttributedRun(run, item.trace, verdicts[-1], tuple(parts), notes).at_revision(revision))
    return attributed


def attribute_traces(
    traces: Sequence[Sequence[Span]], tracer: Tracer, *, revision: int = 0, spans_of: SpansOf | None = None
) -> list[AttributedTrace]:
    """Attribute every run in every trace, in one batch; same order. Nothing is raised.

    Args:
        traces: Their spans.
        tracer: Who judges.
        revision: Of the verdicts.
        spans_of: Where earlier parts of a run are looked up, as for `attribute_runs`.
    """
    runs_of_traces = [_try(partial(split_runs, spans)) for spans in traces]
    runs = [run for runs in runs_of_traces if not isinstance(runs, Exception) for run in runs]
    attributed = iter(attribute_runs(runs, tracer, revision=revision, spans_of=spans_of))
    answers: list[AttributedTrace] = []
    for spans, own in zip(traces, runs_of_traces, strict=True):
        if isinstance(own, Exception):
            answers.append(AttributedTrace((), [UnjudgedRun(Run(None, tuple(spans)), own)], None, tracer.identity))
            continue
        items = [next(attributed) for _ in own]
        answers.append(
            AttributedTrace(
                [item for item in items if isinstance(item, AttributedRun)],
                [item for item in items if isinstance(item, UnjudgedRun)],
                tracer=tracer.identity,
            )
        )
    return answers


def annotate_traces(traces: Iterable[Iterable[Span]], tracer: Tracer) -> list[list[Span]]:
    """Attribute every run in every trace, in one batch, and write the verdicts onto the spans.

    Returns:
        Per trace its spans in their order. A trace without a run comes back as it was.
    """
    spans_of_traces = [list(spans) for spans in traces]
    attributed = attribute_traces(spans_of_traces, tracer)
    return [item.on(spans, is_complete=True) for item, spans in zip(attributed, spans_of_traces, strict=True)]


def format_error(error: Exception) -> str:
    """Write an error in one line without control characters: it may quote a trace."""
    text = str(error) if isinstance(error, BlamespanError) else f"{type(error).__name__}: {error}"
    return "".join(character if character.isprintable() else " " for character in cut(text, 500))


def ask_part(call: Callable[[], _Value], logger: logging.Logger, failure: str) -> _Value | None:
    """Return what a part says beside a verdict; None where it raises: that costs no verdict, and is no other's error.

    Args:
        call: Asks the part.
        logger: Is told of the error in one line, with its traceback at level DEBUG only.
        failure: What there is not then, of which run.
    """
    try:
        return call()
    except Exception as error:  # what came from outside may break anything
        logger.warning("%s: %s", failure, format_error(error), exc_info=logger.isEnabledFor(logging.DEBUG))
        return None


def _ask(tracer: Tracer, traces: Sequence[MessageActionTrace]) -> list[Attribution | Exception]:
    """Ask for verdicts in one batch; where that raises, for each alone, so that no run costs another its verdict.

    Each alone and not in halves: a tracer that hangs on one run is waited for twice and no more. A verdict that does
    not fit its run is an error of that run.
    """
    if not traces:
        return []
    try:
        verdicts = list(tracer.attribute(traces))
        if len(verdicts) != len(traces):
            raise ValueError(f"expected {len(traces)} verdicts, got {len(verdicts)}")
    except Exception as error:  # an installed tracer is third-party code
        if len(traces) == 1:
            return [error]
        return [answer for trace in traces for answer in _ask(tracer, [trace])]
    return [_try(partial(check_verdict, verdict, trace)) for verdict, trace in zip(verdicts, traces, strict=True)]


def import_parts() -> None:
    """Import what verdicts take from other packages: else that is done where the first verdict is given."""
    load_dialects()
    _find_note_run()


def _find_note_run() -> Callable[[MessageActionTrace], RunNotes] | None:
    note_run: Callable[[MessageActionTrace], RunNotes] | None
    note_run = find_part("note_run", _logger, "nothing is noted beside verdicts")
    return note_run


def note_beside(run: RunInParts, verdict: Attribution) -> RunNotes:
    """Return what is said of a run beside its verdict; nothing of an abstention, and where that is not installed."""
    if verdict.abstained is not None:
        return RunNotes()
    note_run = _find_note_run()
    if note_run is None:
        return RunNotes()

    def note() -> RunNotes:
        whole = _join(run)
        notes = note_run(whole)
        offset = len(whole.steps) - len(run.trace.steps)
        steps = {index - offset: attributes for index, attributes in notes.steps.items() if index >= offset}
        return replace(notes, steps=steps)

    failure = f"nothing is noted beside the verdict on trace {run.trace.trace_id}"
    return ask_part(note, _logger, failure) or RunNotes()


def _stand_for(item: AttributedRun) -> Span:
    """Make the span that stands for a verdict, with what its run has in common with others."""
    span, likeness = verdict_span(item.run, item.attribution), item.likeness
    return span.with_attributes({words.LIKENESS: cut(likeness)}) if likeness else span


def _join(run: RunInParts) -> MessageActionTrace:
    """Join the parts of a run; the last one alone where they cannot be joined, as with ids that come again."""
    try:
        return join_parts([*run.earlier, run.trace]) if run.earlier else run.trace
    except MalformedTrace:
        return run.trace


def _part(verdict: Attribution, run: RunInParts) -> tuple[Attribution, ...]:
    """Part a verdict as the run is parted; a verdict on the last part alone stays as it is."""
    if len(verdict.steps) == len(run.trace.steps):
        return (verdict,)
    parts = [*run.earlier, run.trace]
    step_count = sum(len(part.steps) for part in parts)
    if verdict.abstained is None and len(verdict.steps) != step_count:
        raise ValueError(f"expected a verdict on {step_count} steps, got one on {len(verdict.steps)}")
    return tuple(part_of_verdict(verdict, parts, number) for number in range(len(parts)))


def _look_up_among(runs: Sequence[Run], spans_of: SpansOf | None) -> SpansOf:
    """Look up the spans of a trace among *runs*, then where *spans_of* does."""
    by_trace: dict[str, list[Span]] = {}
    for run in runs:
        by_trace.setdefault(run.spans[0].trace_id, []).extend(run.spans)

    def look_up(trace_id: str) -> Sequence[Span]:
        return by_trace.get(trace_id) or (spans_of(trace_id) if spans_of is not None else ())

    return look_up


def _try(call: Callable[[], _Value]) -> _Value | Exception:
    """Return what *call* returns or raises: what came from outside may break anything, and costs its run alone."""
    try:
        return call()
    except Exception as error:
        return error


def _earlier_attributes(item: AttributedRun) -> Attributes:
    """Make the attributes that name the parts a run was judged with, and the task of the first one."""
    attributes: dict[str, AttributeValue] = {
        words.RUN_JUDGED_AFTER: tuple(part.trace.trace_id for part in item.earlier)
    }
    if item.earlier[0].trace.task:
        attributes[words.RUN_TASK] = item.earlier[0].trace.task
    return attributes


def _mark_partial(attributes: Attributes) -> Attributes:
    """Add to a verdict that it stands on an incomplete run."""
    return {**attributes, words.PARTIAL: True} if words.TRACER_NAME in attributes else attributes
