"""What becomes of the spans that the embedded mode lets go: judged, kept on this machine, exported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util import types

from blamespan import conventions as words
from blamespan.host_safety import shield_host
from blamespan.instrumenting.settings import exit_s
from blamespan.otlp.sdk import span_to_sdk
from blamespan.pipeline import AttributedTrace
from blamespan.spans import Span as OurSpan
from blamespan.tracers import Tracer, split_tracer
from blamespan_collector.assembling.parts import TracePart
from blamespan_collector.embedded_opinions import SecondOpinions
from blamespan_collector.exported_runs import ExportedRuns
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.local_runs import LocalRuns, stored_spans
from blamespan_collector.run_notices import RunNotices
from blamespan_collector.wire.raw_spans import encode, pieces

_logger = logging.getLogger("blamespan")

_BATCH_SPANS = 512
_BATCH_BYTES = 3 * 1024 * 1024
"""Spans and their bytes per export call: as the SDK's own processor, and below gRPC's 4 MiB."""

_EXIT_SHARE = 0.6
"""Of `BLAMESPAN_EXIT_S`, for which the end of the program waits for second opinions."""

_Result = TypeVar("_Result")


class EmbeddedDelivery:
    """Judges, keeps on this machine and exports the spans that are let go. For one thread.

    Spans that come after their run went out go out as they are. Where one of them says how the run ended, or ends it,
    the run is judged again, and a verdict that is news is a span of its own.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        load: Callable[[], Tracer],
        local_runs: LocalRuns | None,
        notices: RunNotices | None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._exporter = exporter
        self._load = load
        self._wake = wake
        self._second: SecondOpinions | None = None
        self._annotator = Annotator(self._load_first, self._spans_of)
        self._local_runs = local_runs
        self._notices = notices
        self._exported = ExportedRuns()

    def warm_up(self) -> None:
        """Load the tracer."""
        self._annotator.warm_up()

    def send_opinions(self) -> None:
        """Export the second opinions that have come, each as a later verdict where it is news."""
        for answer in self._second.take() if self._second is not None else ():
            before = self._exported.get(answer.trace_id)
            if before is None or before.revision != answer.revision:
                continue  # gone, or judged again on more spans
            news = answer.verdict.at_revision(before.revision + 1).news(before.digests)
            spans = news.beside(is_complete=before.is_complete)
            if spans:
                digests, revision = answer.verdict.digests(), before.revision + 1
                self._keep(answer.trace_id, spans, digests=digests, revision=revision, is_complete=before.is_complete)
                self._notify(news)
                self._export(spans)

    def flush(self) -> None:
        """Have the exporter send what it holds."""
        call_exporter("flush", self._exporter, self._exporter.force_flush)

    def end(self) -> None:
        """Wait a while for second opinions, and shut the exporter down."""
        if self._second is not None:
            self._second.wait(_EXIT_SHARE * exit_s())
            with shield_host("embedded: export second opinions"):
                self.send_opinions()
                self.flush()
        call_exporter("shut down", self._exporter, self._exporter.shutdown)

    def send(self, parts: Sequence[TracePart[OurSpan]]) -> None:
        """Judge, keep and export *parts*."""
        parts, late = _join_late_spans(parts)
        # Here nothing is kept to be judged later: what grew too old is judged as far as it came
        chosen = [part for part in parts if part.is_worth_a_verdict or part.reason == "aged"]
        verdicts = dict(zip(map(id, chosen), self._annotator.attribute([part.items for part in chosen]), strict=True))
        spans: list[OurSpan] = []
        for part in parts:
            spans += self._settle(part, partial(self._write_verdict, part, verdicts.get(id(part), AttributedTrace())))
        for part in late:
            spans += self._settle(part, partial(self._judge_again, part))
        self._export(spans)

    def _load_first(self) -> Tracer:
        first, second = split_tracer(self._load())
        if second is not None:
            self._second = SecondOpinions(second, self._wake)
        return first

    def _ask(self, trace_id: bytes, spans: Sequence[OurSpan], verdict: AttributedTrace, revision: int) -> None:
        if self._second is not None and verdict.runs:
            self._second.ask(trace_id, spans, verdict, revision)

    def _settle(self, part: TracePart[OurSpan], write: Callable[[], Sequence[OurSpan]]) -> Sequence[OurSpan]:
        """Write a verdict; a trace on which that breaks goes out as it came, and costs no other trace anything."""
        try:
            return write()
        except Exception:
            _logger.exception("the verdict on trace %s cannot be written", part.trace_id.hex())
            return part.items

    def _write_verdict(self, part: TracePart[OurSpan], verdict: AttributedTrace) -> Sequence[OurSpan]:
        """Write a verdict on the spans of a part, and remember them if agents took part."""
        is_complete = part.reason == "complete"
        spans = verdict.on(part.items, is_complete=is_complete)
        if verdict.runs or verdict.has_failed:
            self._keep(part.trace_id, spans, digests=verdict.digests(), revision=0, is_complete=is_complete)
            self._notify(verdict)
            self._ask(part.trace_id, part.items, verdict, 0)
        return [*spans, *self._on_earlier_parts(verdict)]

    def _on_earlier_parts(self, verdict: AttributedTrace) -> Sequence[OurSpan]:
        """Return what the verdict on a run that went on says in the traces of its earlier parts, kept there, too."""
        spans = verdict.on_earlier_parts()
        for span in spans:
            trace_id = bytes.fromhex(span.trace_id)
            before = self._exported.get(trace_id)
            if before is not None:
                self._keep(trace_id, [span], digests=before.digests, revision=before.revision + 1, is_complete=True)
        return spans

    def _spans_of(self, trace_id: str) -> Sequence[OurSpan]:
        """Return the spans of a trace that went out of late, or is kept on this machine."""
        exported = self._exported.get(bytes.fromhex(trace_id))
        if exported is not None:
            return exported.spans()
        return stored_spans(self._local_runs.path, trace_id) if self._local_runs is not None else ()

    def _judge_again(self, part: TracePart[OurSpan]) -> Sequence[OurSpan]:
        """Return late spans, and beside them a verdict on the whole run if they change it."""
        before = self._exported.get(part.trace_id)
        if before is None:
            return part.items
        is_complete = before.is_complete or part.is_complete
        if not any(_changes_verdict(span) for span in part.items):
            self._keep(
                *(part.trace_id, part.items),
                digests=before.digests,
                revision=before.revision,
                is_complete=is_complete,
            )
            return part.items
        revision = before.revision + 1
        [verdict] = self._annotator.attribute([[*before.spans(), *part.items]], revision=revision)
        news = verdict.news(before.digests)
        verdict_spans = news.beside(is_complete=is_complete)
        self._keep(
            *(part.trace_id, [*part.items, *verdict_spans]),
            digests=verdict.digests() or before.digests,
            revision=revision if verdict_spans else before.revision,
            is_complete=is_complete,
        )
        self._notify(verdict)
        self._ask(
            part.trace_id, [*before.spans(), *part.items], verdict, revision if verdict_spans else before.revision
        )
        return [*part.items, *verdict_spans, *self._on_earlier_parts(news)]

    def _keep(
        self, trace_id: bytes, spans: Sequence[OurSpan], *, digests: frozenset[bytes], revision: int, is_complete: bool
    ) -> None:
        payloads = [payload for _, payload in pieces(encode(spans), _BATCH_BYTES)]
        self._exported.put(trace_id, payloads, digests=digests, revision=revision, is_complete=is_complete)
        if self._local_runs is not None:
            self._local_runs.keep(payloads)

    def _notify(self, verdict: AttributedTrace) -> None:
        if self._notices is not None:
            with shield_host("embedded: write about a run"):
                for item in verdict.runs:
                    self._notices.note_run(item)

    def _export(self, spans: Sequence[OurSpan]) -> None:
        for batch in _cut_batches(spans):
            with suppress_instrumentation():
                result = call_exporter("export to", self._exporter, partial(self._exporter.export, batch))
            if result is not SpanExportResult.SUCCESS and not is_absent(self._exporter):
                _logger.error("%d spans were not taken by %s", len(batch), type(self._exporter).__name__)


def _join_late_spans(parts: Sequence[TracePart[OurSpan]]) -> tuple[list[TracePart[OurSpan]], list[TracePart[OurSpan]]]:
    """Put late spans to the run that goes out with them; return what goes out, and what is late nevertheless."""
    joined: dict[bytes, TracePart[OurSpan]] = {}
    others: list[TracePart[OurSpan]] = []
    late: list[TracePart[OurSpan]] = []
    for part in parts:
        before = joined.get(part.trace_id)
        if part.reason != "late":
            if before is not None:
                others.append(before)  # another run of the same trace
            joined[part.trace_id] = part
        elif before is not None:
            joined[part.trace_id] = replace(before, items=(*before.items, *part.items))
        else:
            late.append(part)
    return [*others, *joined.values()], late


def _changes_verdict(span: OurSpan) -> bool:
    """Check whether a late span says how its run ended, or that it has."""
    return words.RUN_OUTCOME in span.attributes or span.attributes.get(words.RUN_COMPLETE) is True


def is_absent(exporter: SpanExporter) -> bool:
    """Check whether nobody has listened to the exporter yet."""
    return bool(getattr(exporter, "is_absent", False))


def call_exporter(what: str, exporter: SpanExporter, call: Callable[[], _Result]) -> _Result | None:
    """Call the exporter, which is other people's code: an error is logged and None given back."""
    try:
        return call()
    except Exception:
        _logger.exception("could not %s %s", what, type(exporter).__name__)
        return None


def _cut_batches(spans: Sequence[OurSpan]) -> Iterator[list[ReadableSpan]]:
    batch: list[ReadableSpan] = []
    size_bytes = 0
    for span in map(span_to_sdk, spans):
        grown_bytes = size_bytes + _size_bytes(span)
        if batch and (len(batch) == _BATCH_SPANS or grown_bytes > _BATCH_BYTES):
            yield batch
            batch, grown_bytes = [], _size_bytes(span)
        batch.append(span)
        size_bytes = grown_bytes
    if batch:
        yield batch


def _size_bytes(span: ReadableSpan) -> int:
    """Estimate what a span takes on the wire."""
    owners = (span.attributes, *(event.attributes for event in span.events), *(link.attributes for link in span.links))
    return 300 + sum(map(_attributes_bytes, owners))


def _attributes_bytes(attributes: types.Attributes) -> int:
    return 50 + sum(20 + len(key) + _value_bytes(value) for key, value in (attributes or {}).items())


def _value_bytes(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Sequence):
        return sum(map(_value_bytes, value))
    return 8
