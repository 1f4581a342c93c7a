"""OTLP over HTTP: verdicts as spans of their own, in the traces they speak of. `otlp://host:4318`, or its http URL."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from blamespan import conventions as words
from blamespan.annotate import verdict_span
from blamespan.attribution import NO_SIGN, Attribution
from blamespan.errors import ConfigError, NotWritten
from blamespan.importing.backends import Address, Reader, Writer
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection
from blamespan.otlp import spans_to_proto
from blamespan.pipeline import note_beside
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import Run
from blamespan.spans import Span
from blamespan_integrations.backends._api import BackendApi, BackendError, read_headers
from blamespan_integrations.backends._writing import BatchWriter, Result

_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_PATH = "/v1/traces"
_NOTE = (
    "the verdicts went out as spans: a back end that stores a span again when it comes again, as Tempo 3 and "
    "VictoriaTraces do, shows a verdict as often as it is written. To write to it again, read the runs from "
    "it: a verdict that a run was read with is not written again"
)


class OtlpBackend:
    """Sends verdicts as spans to any OTLP/HTTP endpoint."""

    name = "otlp"
    description = f"OTLP/HTTP, for verdicts alone: a span below the blamed one. Headers: {' or '.join(_HEADERS)}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Refuse: OTLP only takes."""
        raise ConfigError(
            f"expected a back end that can be read, got {address.name!r}: OTLP only takes spans. Name the back end "
            "behind it, like tempo://localhost:3200, or a file of OTLP-JSON"
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Write to the endpoint that the URL names, with or without `/v1/traces`."""
        variable = next((name for name in _HEADERS if os.environ.get(name)), _HEADERS[0])
        base = address.base.removesuffix(_PATH)
        api = BackendApi("the OTLP endpoint", base, headers=read_headers(variable), keys=variable)
        return BatchWriter(lambda results: _send(api, results), api.close, on_failure, _NOTE, _why_skipped)


def _why_skipped(result: Result) -> str:
    """Return why there is no span to write: nobody is accused, or the run was read with this very verdict beside it."""
    run, verdict = result
    if verdict.word == NO_SIGN:
        return f"with {NO_SIGN}"
    return "there already" if _id_of(run, verdict) in run.verdict_ids else ""


def span_of_verdict(run: RecordedRun, verdict: Attribution) -> Span:
    """Make the span that stands for a verdict on a run that was read from somewhere.

    Its id follows from the run's trace and steps, the tracer and what it says: the same wherever the run was read
    from, and another where another verdict would be hidden behind it.
    """
    spans = emit(run.trace)
    top = replace(spans[0], span_id=run.root_id) if run.root_id else None
    span = verdict_span(Run(top, (*((top,) if top else ()), *spans[1:])), verdict)
    attributes = {
        key: value for key, value in span.attributes.items() if key != words.BLAME_SPAN_NAME
    }  # a run keeps no names
    attributes |= note_beside(run, verdict).run
    return replace(span, span_id=_id_of(run, verdict), attributes=attributes)


def _id_of(run: RecordedRun, verdict: Attribution) -> str:
    identity = verdict.tracer
    decisive = None if verdict.decisive_step is None else verdict.steps[verdict.decisive_step].span_id
    parts = (
        run.trace.trace_id,
        run.trace.steps[0].span_id if run.trace.steps else "",
        *(identity.name, identity.version, identity.weights, verdict.revision),
        *(decisive, verdict.abstained, round(verdict.failure_score, 6)),
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _send(api: BackendApi, results: Sequence[Result]) -> None:
    """Send the spans of some verdicts; whoever rejects some of them says how many, not which."""
    spans = [span_of_verdict(run, verdict) for run, verdict in results]
    body = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans)).SerializeToString()
    answer = api.post(_PATH, body, "application/x-protobuf")
    try:
        response = ExportTraceServiceResponse.FromString(answer).partial_success
    except DecodeError:
        return  # what was said beside "yes" is not for us
    if response.rejected_spans:
        raise BackendError(
            f"{_PATH}: expected {len(spans)} spans to be taken, got {response.rejected_spans} rejected "
            f"({response.error_message[:120]!r})."
        )
