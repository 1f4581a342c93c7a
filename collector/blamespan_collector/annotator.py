"""Puts verdicts on assembled traces, so that no trace can spoil another's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from blamespan import conventions as words
from blamespan.annotate import cut
from blamespan.errors import BlamespanError
from blamespan.pipeline import annotate_traces
from blamespan.runs import is_step, split_runs
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_collector.assembler import Part

__all__ = ["Annotator"]

_logger = logging.getLogger("blamespan.collector")


class Annotator:
    """Annotates parts in batches. Blocking, for one thread at a time.

    Args:
        load: Gives the tracer; asked once, when the first part with a step in it comes.

    Attributes:
        traces: How many traces got a verdict or an abstention from the tracer.
        failures: How many traces went on without one because something broke.
    """

    def __init__(self, load: Callable[[], Tracer]) -> None:
        self._load = load
        self._tracer: Tracer | None = None
        self._unavailable: str | None = None
        self.traces = 0
        self.failures = 0

    def warm_up(self) -> None:
        """Load the tracer now rather than with the first part that needs it."""
        if self._tracer is None and self._unavailable is None:
            try:
                self._tracer = self._load()
            except Exception as error:  # an installed tracer is third-party code
                self._unavailable = f"no tracer: {_told(error)}"
                _logger.error("spans go on without verdicts, as there is no tracer: %s", _told(error))

    def annotate(self, parts: Sequence[Part]) -> list[Sequence[Span]]:
        """Annotate what is worth a verdict and holds a step; give the rest back as it is.

        Where a trace breaks the tracer or us, its spans come back with the reason on its runs' roots.
        Nothing is raised and nothing lost.

        Returns:
            Per part its spans, in their order.
        """
        chosen = [part for part in parts if part.is_worth_a_verdict and any(is_step(span) for span in part.spans)]
        done = dict(zip(map(id, chosen), self._verdicts(chosen), strict=True))
        return [_marked(part, done[id(part)]) if id(part) in done else part.spans for part in parts]

    def _verdicts(self, parts: Sequence[Part]) -> list[Sequence[Span]]:
        if not parts:
            return []
        self.warm_up()
        if self._tracer is None:
            self.failures += len(parts)
            return [self._abstained(part, self._unavailable or "no tracer") for part in parts]
        try:
            annotated = _same_spans(annotate_traces([part.spans for part in parts], self._tracer), parts)
        except Exception as error:
            if len(parts) > 1:  # whose fault is it? Ask for each alone
                return [spans for part in parts for spans in self._verdicts([part])]
            self.failures += 1
            _logger.error("trace %s goes on without a verdict: %s", parts[0].trace_id, _told(error), exc_info=True)
            return [self._abstained(parts[0], f"could not be attributed: {_told(error)}")]
        self.traces += len(parts)
        return annotated

    def _abstained(self, part: Part, reason: str) -> Sequence[Span]:
        """Say on the root of every run why it has no verdict; where even that fails, leave the spans as they are."""
        try:
            roots = {run.root.span_id for run in split_runs(part.spans) if run.root}
            said = {words.ABSTAINED: cut(reason), **self._identity()}
            return [span.with_attributes(said) if span.span_id in roots else span for span in part.spans]
        except Exception:
            _logger.error("could not mark trace %s as without verdict", part.trace_id, exc_info=True)
            return part.spans

    def _identity(self) -> dict[str, str]:
        if self._tracer is None:
            return {}
        identity = self._tracer.identity
        return {words.TRACER_NAME: cut(identity.name), words.TRACER_VERSION: cut(identity.version)}


def _marked(part: Part, spans: Sequence[Span]) -> Sequence[Span]:
    """Say beside the verdict where it stands on an incomplete run."""
    if part.reason == "complete":
        return spans
    return [
        span.with_attributes({words.PARTIAL: True}) if words.TRACER_NAME in span.attributes else span for span in spans
    ]


def _same_spans(annotated: Sequence[Sequence[Span]], parts: Sequence[Part]) -> list[Sequence[Span]]:
    if [len(spans) for spans in annotated] != [len(part.spans) for part in parts]:
        raise RuntimeError("annotating must keep every span")
    return list(annotated)


def _told(error: Exception) -> str:
    """Tell an error in one line without control characters: it may quote a trace."""
    text = str(error) if isinstance(error, BlamespanError) else f"{type(error).__name__}: {error}"
    return "".join(character if character.isprintable() else " " for character in cut(text, 500))
