"""Asks the tracer for verdicts, so that no trace can spoil another's."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from blamespan import conventions as words
from blamespan.annotate import cut, verdict_attributes, verdict_span
from blamespan.errors import BlamespanError
from blamespan.pipeline import AttributedRun, SpansOf, attribute_traces
from blamespan.rebuilding.runs import is_step, split_runs
from blamespan.spans import Attributes, Span
from blamespan.trace import AttributeValue
from blamespan.tracers import Tracer

__all__ = ["Annotator", "Verdict", "digest_of"]

_logger = logging.getLogger("blamespan.collector")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one trace.

    Attributes:
        runs: Its runs with their verdicts; empty where it has none, or something broke.
        reason: Why something that should have got a verdict has none.
        identity: Attributes that name the tracer.
    """

    runs: Sequence[AttributedRun] = ()
    reason: str | None = None
    identity: tuple[tuple[str, str], ...] = ()

    def annotations(self, spans: Sequence[Span], *, is_complete: bool) -> dict[str, Attributes]:
        """List what it adds to the trace's spans, by span id.

        Args:
            spans: Of the whole trace.
            is_complete: Whether its run has ended, rather than fallen silent.
        """
        if self.reason is not None:
            return _abstained(spans, {words.ABSTAINED: cut(self.reason), **dict(self.identity)})
        found: dict[str, Attributes] = {}
        for item in self.runs:
            found.update(verdict_attributes(item.run, item.attribution))
            if item.earlier and item.run.root is not None:
                at = item.run.root.span_id
                found[at] = {**found.get(at, {}), **_judged_after(item)}
        if is_complete:
            return found
        return {
            span_id: {**said, words.PARTIAL: True} if words.TRACER_NAME in said else said
            for span_id, said in found.items()
        }

    def on(self, spans: Sequence[Span], *, is_complete: bool) -> Sequence[Span]:
        """Write it onto the trace's spans; same order, the same objects where nothing is said."""
        said = self.annotations(spans, is_complete=is_complete)
        return [span.with_attributes(said.get(span.span_id, {})) for span in spans]

    def beside(self, *, is_complete: bool) -> list[Span]:
        """Make the spans that stand for it beside spans that are out already: one for each run."""
        made = [_beside(item) for item in self.runs]
        return made if is_complete else [_partial(span) for span in made]

    def on_earlier_parts(self) -> list[Span]:
        """Make the spans that stand for it in the traces of earlier parts.

        They are those of the part that holds the decisive step; where another verdict stood there before, of each part.
        """
        return [
            verdict_span(part.run, part.attribution)
            for item in self.runs
            for part in item.earlier
            if part.attribution.abstained is None or item.attribution.revision > 0
        ]


class Annotator:
    """Gives verdicts on traces in batches. Blocking, for one thread at a time.

    Args:
        load: Gives the tracer; asked once, when the first trace with a step in it comes.
        spans_of: Where the earlier parts are found of runs that went on after they had waited.

    Attributes:
        traces: How many traces got a verdict or an abstention from the tracer.
        failures: How many traces went on without one because something broke.
    """

    def __init__(self, load: Callable[[], Tracer], spans_of: SpansOf | None = None) -> None:
        self._load = load
        self._spans_of = spans_of
        self._tracer: Tracer | None = None
        self._unavailable: str | None = None
        self.traces = 0
        self.failures = 0

    def warm_up(self) -> None:
        """Load the tracer now rather than with the first trace that needs it."""
        if self._tracer is None and self._unavailable is None:
            try:
                self._tracer = self._load()
            except Exception as error:  # an installed tracer is third-party code
                self._unavailable = f"no tracer: {_told(error)}"
                _logger.error("spans go on without verdicts, as there is no tracer: %s", _told(error))

    def attribute(self, traces: Sequence[Sequence[Span]], *, revision: int = 0) -> list[Verdict]:
        """Give a verdict on each trace that holds a step. Nothing is raised."""
        # Verdicts that other collectors told as spans are not ours any more, and nothing that is to be judged, either
        own = [[span for span in spans if span.scope.name != words.VERDICT_SCOPE] for spans in traces]
        chosen = [row for row, spans in enumerate(own) if any(is_step(span) for span in spans)]
        found = [Verdict()] * len(traces)
        for row, verdict in zip(chosen, self._verdicts([own[row] for row in chosen], revision), strict=True):
            found[row] = verdict
        return found

    def refuse(self, reason: str) -> Verdict:
        """Give no verdict on a trace, saying why."""
        self.failures += 1
        return Verdict(reason=reason, identity=self._identity())

    def _verdicts(self, traces: Sequence[Sequence[Span]], revision: int) -> list[Verdict]:
        if not traces:
            return []
        self.warm_up()
        if self._tracer is None:
            return [self.refuse(self._unavailable or "no tracer") for _ in traces]
        try:
            done = attribute_traces(traces, self._tracer, revision=revision, spans_of=self._spans_of)
        except Exception as error:
            if len(traces) > 1:  # whose fault is it? Ask for each alone
                return [verdict for spans in traces for verdict in self._verdicts([spans], revision)]
            trace_id = traces[0][0].trace_id
            _logger.error("trace %s goes on without a verdict: %s", trace_id, _told(error), exc_info=True)
            return [self.refuse(f"could not be attributed: {_told(error)}")]
        self.traces += len(traces)
        return [Verdict(runs) for runs in done]

    def _identity(self) -> tuple[tuple[str, str], ...]:
        if self._tracer is None:
            return ()
        identity = self._tracer.identity
        return (words.TRACER_NAME, cut(identity.name)), (words.TRACER_VERSION, cut(identity.version))


def _judged_after(item: AttributedRun) -> Attributes:
    made: dict[str, AttributeValue] = {words.RUN_JUDGED_AFTER: tuple(part.trace.trace_id for part in item.earlier)}
    if item.earlier[0].trace.task:
        made[words.RUN_TASK] = item.earlier[0].trace.task
    return made


def _beside(item: AttributedRun) -> Span:
    made = verdict_span(item.run, item.attribution)
    return made.with_attributes(_judged_after(item)) if item.earlier else made


def digest_of(item: AttributedRun) -> bytes:
    """Sum up a verdict, without its revision: the same where nothing changed."""
    verdict = [replace(part.attribution, revision=0) for part in (item, *item.earlier)]
    return hashlib.blake2b(repr(verdict).encode("utf-8", "replace"), digest_size=8).digest()


def _abstained(spans: Sequence[Span], said: dict[str, str]) -> dict[str, Attributes]:
    """Say on the root of every run why it has no verdict; where even that fails, say nothing."""
    try:
        return {run.root.span_id: said for run in split_runs(spans) if run.root}
    except Exception:
        _logger.error("could not mark trace %s as without verdict", spans[0].trace_id, exc_info=True)
        return {}


def _partial(span: Span) -> Span:
    """Say beside the verdict that it stands on an incomplete run."""
    return span.with_attributes({words.PARTIAL: True}) if words.TRACER_NAME in span.attributes else span


def _told(error: Exception) -> str:
    """Tell an error in one line without control characters: it may quote a trace."""
    text = str(error) if isinstance(error, BlamespanError) else f"{type(error).__name__}: {error}"
    return "".join(character if character.isprintable() else " " for character in cut(text, 500))
