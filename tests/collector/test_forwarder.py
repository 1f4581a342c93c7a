"""What goes to a backend: cut to size, tried again as long as it makes sense, and counted when lost."""

from __future__ import annotations

import contextlib
from pathlib import Path

import grpc
import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from blamespan.errors import ConfigError
from blamespan_collector.delivering import backend as module
from blamespan_collector.delivering.backend import signal_url
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.wire.outgoing import Kind
from tests.collector.backends import Abort, Asked, GrpcBackend, HttpBackend, grpc_serving, serving
from tests.collector.fakes import run, spans_of
from tests.collector.outbox import forwarded, set_aside


def ids(backend: HttpBackend | GrpcBackend) -> list[str]:
    return [span.span_id for span in spans_of(backend.requests)]


def ids_of(*numbers: int) -> list[str]:
    return [span.span_id for number in numbers for span in run(number)]


def refusing(number: int, status: int, said: bytes) -> HttpBackend:
    """A backend that refuses whatever holds spans of one run."""
    trace_id = bytes.fromhex(run(number)[0].trace_id)

    def refuses(asked: Asked) -> tuple[int, bytes] | None:
        return (status, said) if trace_id in asked.body else None

    return HttpBackend(refuses=refuses)


def test_traces_go_to_the_standard_path_with_headers(tmp_path: Path) -> None:
    """A URL without a path means `/v1/traces`; the headers given are sent; `traces=URL` is where traces alone go."""
    backend = HttpBackend()
    with serving(backend) as url:
        for given in (url, f"{url}/otlp/v1/traces", f"traces={url}/v2/trace/otlp"):
            forwarded(tmp_path, given)

    assert [asked.target for asked in backend.asked] == ["/v1/traces", "/otlp/v1/traces", "/v2/trace/otlp"]
    assert backend.asked[0].headers["x-key"] == "secret"
    assert ids(backend)[:4] == ids_of(1)
    assert forwarder("traces=http://127.0.0.1:9/v2/trace/otlp").kinds == {"traces"}


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 502, 503, 504])
def test_overloaded_or_misconfigured_backend_is_tried_again(tmp_path: Path, status: int) -> None:
    """What may pass, and what speaks of us rather than of the spans, is tried until it works, and arrives once."""
    backend = HttpBackend([(status, {"retry-after": "0"}), (status, {"retry-after": "nonsense"})])
    with serving(backend) as url:
        forwarded(tmp_path, url)

    assert (len(backend.asked), len(backend.taken)) == (3, 1)


@pytest.mark.parametrize("said", ["5", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_time_asked_for_is_waited(tmp_path: Path, said: str) -> None:
    """`Retry-After`, in seconds or as a date, is honoured."""
    with serving(HttpBackend([(503, {"retry-after": said})])) as url, pytest.raises(TimeoutError):
        forwarded(tmp_path, url, for_s=0.3)


@pytest.mark.parametrize("status", [400, 405, 415, 501])
def test_refusal_is_not_tried_again(tmp_path: Path, status: int) -> None:
    """What cannot pass is set aside at once, with the backend's reason and the bytes."""
    backend = HttpBackend([(status, {})])
    with serving(backend) as url:
        counts = forwarded(tmp_path, url)

    assert (len(backend.asked), counts.refused) == (1, 4)
    assert set_aside(tmp_path) == [(f"HTTP {status}: 'no'", 4)]


def test_one_refused_trace_spoils_no_other(tmp_path: Path) -> None:
    """A batch that is refused is sent in halves until the one that is meant stands alone."""
    backend = refusing(3, 400, b"bad id")
    with serving(backend) as url:
        counts = forwarded(tmp_path, url, runs=5)

    assert ids(backend) == ids_of(1, 2, 4, 5)
    assert (counts.refused, set_aside(tmp_path)) == (4, [("HTTP 400: 'bad id'", 4)])


def test_trace_on_which_a_backend_fails_is_told_from_a_backend_that_is_down(tmp_path: Path) -> None:
    """500 for one trace, again and again, while the next one passes: that trace is set aside."""
    backend = refusing(2, 500, b"oops")
    with serving(backend) as url:
        counts = forwarded(tmp_path, url, runs=3)

    assert (ids(backend), counts.refused) == (ids_of(1, 3), 4)


def test_backend_that_fails_on_everything_is_waited_for(tmp_path: Path) -> None:
    """500 for all of it is an outage: nothing is set aside."""
    backend = HttpBackend([(500, {})] * 30)
    with serving(backend) as url:
        counts = forwarded(tmp_path, url, runs=3)

    assert (counts.refused, sorted(ids(backend))) == (0, sorted(ids_of(1, 2, 3)))


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_stopping_leaves_what_cannot_be_delivered_for_the_next_start(tmp_path: Path, scheme: str) -> None:
    """An unreachable backend is not waited for at the end; its spans stay on disk."""
    with contextlib.suppress(TimeoutError):
        forwarded(tmp_path, f"{scheme}://127.0.0.1:9", for_s=0.3)
    backend = HttpBackend()
    with serving(backend) as url:
        forwarded(tmp_path, url, runs=0)

    assert ids(backend) == ids_of(1)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_large_traces_are_cut_below_four_mebibytes(tmp_path: Path, scheme: str) -> None:
    """gRPC servers take 4 MiB unless told otherwise: larger traces go in pieces, in order, complete."""
    backend: HttpBackend | GrpcBackend = HttpBackend() if scheme == "http" else GrpcBackend()
    opened = serving(backend) if isinstance(backend, HttpBackend) else grpc_serving(backend)
    with opened as url:
        forwarded(tmp_path, url, size=400_000, steps=30)

    assert len(backend.requests) > 1
    assert max(one.ByteSize() for one in backend.requests) <= module.MAX_BATCH_BYTES
    assert ids(backend) == [span.span_id for span in run(1, steps=30)]


def test_backend_with_a_smaller_limit_gets_smaller_requests(tmp_path: Path) -> None:
    """A request refused as too large is sent in halves; only what cannot be halved is set aside."""
    backend = HttpBackend([(413, {}), (413, {}), (413, {})])
    with serving(backend) as url:
        counts = forwarded(tmp_path, url)

    assert (counts.refused, ids(backend)) == (1, ids_of(1)[1:])


def test_grpc_backend_is_tried_again_when_it_asks(tmp_path: Path) -> None:
    """UNAVAILABLE, and RESOURCE_EXHAUSTED with a time to come back, are tried again."""
    codes = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
    backend = GrpcBackend([Abort(code, retry_s=0.01) for code in codes])
    with grpc_serving(backend) as url:
        forwarded(tmp_path, url)

    assert ids(backend) == ids_of(1)
    assert backend.metadata["x-key"] == "secret"


def test_grpc_refusal_is_not_tried_again(tmp_path: Path) -> None:
    """What cannot pass is set aside at once, with the backend's reason."""
    with grpc_serving(GrpcBackend([Abort(grpc.StatusCode.INVALID_ARGUMENT)])) as url:
        counts = forwarded(tmp_path, url)

    assert (counts.refused, set_aside(tmp_path)) == (4, [("INVALID_ARGUMENT: 'no'", 4)])


def partly(rejected: int) -> ExportTraceServiceResponse:
    """Answer as a backend that does not take all of a request: OTLP says how many it refused, not which."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = "bad \n ids"
    return answer


@pytest.mark.parametrize(
    "backend",
    [
        HttpBackend(answer=partly(2).SerializeToString()),
        HttpBackend(answer=json_format.MessageToJson(partly(2)).encode(), media_type="application/json; charset=utf-8"),
        GrpcBackend(answer=partly(2)),
    ],
    ids=["http", "json", "grpc"],
)
def test_partial_success_is_set_aside_and_never_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: HttpBackend | GrpcBackend
) -> None:
    """Where a backend says how many it refused but not which, all are kept aside, the number counted, none resent."""
    opened = serving(backend) if isinstance(backend, HttpBackend) else grpc_serving(backend)
    with opened as url:
        counts = forwarded(tmp_path, url)
    [(reason, spans, kept)] = set_aside(tmp_path, "reason, spans, payload")

    assert len(backend.requests) == 1
    assert (counts.refused, counts.delivered, counts.waiting) == (2, 2, 0)
    assert (reason, spans) == ("of a request it took, 2 spans: 'bad \\n ids'", 2)
    assert [span.span_id for span in spans_of([ExportTraceServiceRequest.FromString(kept)])] == ids_of(1)
    assert caplog.messages == [f"{url} refused 2 spans, which are set aside: {reason}"]


@pytest.mark.parametrize(("said", "refused"), [(10**12, 4), (-3, 0)])
def test_partial_success_of_nonsense_numbers_counts_what_there_was(tmp_path: Path, said: int, refused: int) -> None:
    """A backend's nonsense does not make our counts nonsense; a negative number refuses nothing."""
    with serving(HttpBackend(answer=partly(said).SerializeToString())) as url:
        counts = forwarded(tmp_path, url)

    assert (counts.refused, counts.delivered) == (refused, 4 - refused)


@pytest.mark.parametrize("answer", [b"\xff\xff", b"{", b"[" * 100_000])
@pytest.mark.parametrize("media_type", ["application/x-protobuf", "application/json"])
def test_answer_that_is_no_otlp_is_no_refusal(tmp_path: Path, answer: bytes, media_type: str) -> None:
    """A backend that says 200 and then something else took all of it, once."""
    backend = HttpBackend(answer=answer, media_type=media_type)
    with serving(backend) as url:
        counts = forwarded(tmp_path, url)

    assert (len(backend.taken), counts.refused) == (1, 0)


def test_partial_success_of_pieces_is_set_aside_with_its_piece(tmp_path: Path) -> None:
    """What is sent in pieces, as the whole was too large, keeps aside only the pieces that were refused in part."""
    backend = HttpBackend([(413, {})], answer=partly(1).SerializeToString())
    with serving(backend) as url:
        counts = forwarded(tmp_path, url)

    assert (len(backend.taken), counts.refused) == (2, 2)
    assert [spans for _, spans in set_aside(tmp_path)] == [1, 1]


@pytest.mark.parametrize(
    ("given", "kind", "path"),
    [
        ("http://h:1", "logs", "/v1/logs"),
        ("http://h:1/", "metrics", "/v1/metrics"),
        ("http://h:1/otlp/v1/traces", "logs", "/otlp/v1/logs"),
        ("http://h:1/otlp", "traces", "/otlp/v1/traces"),
        ("http://h:1/otlp/", "traces", "/otlp/v1/traces"),
        ("http://h:1/otlp", "logs", "/otlp/v1/logs"),
        ("http://h:1/insert/opentelemetry", "traces", "/insert/opentelemetry/v1/traces"),
        ("http://h:1/insert/opentelemetry/v1/traces", "traces", "/insert/opentelemetry/v1/traces"),
        ("http://h:1/api/public/otel", "traces", "/api/public/otel/v1/traces"),
        ("http://h:1/api/public/otel/v1/traces", "traces", "/api/public/otel/v1/traces"),
        ("http://h:1/api/default/v1/traces", "metrics", "/api/default/v1/metrics"),
        ("http://h:1/api/0/otlp/v1/traces/", "traces", "/api/0/otlp/v1/traces/"),
        ("http://h:1/api/0/otlp/v1/traces/", "logs", "/api/0/otlp/v1/logs"),
        ("http://h:1/v1/logs", "logs", "/v1/logs"),
        ("http://h:1/v1/logs", "traces", "/v1/traces"),
        ("http://h:1/v1/projects/x/traces", "traces", "/v1/projects/x/traces"),
        ("http://h:1/api/v0.2/traces", "logs", "/api/v0.2/logs"),
        ("http://h:1/v1", "traces", "/v1/v1/traces"),
    ],
)
def test_signals_go_where_opentelemetrys_variables_send_them(given: str, kind: Kind, path: str) -> None:
    """A base URL gets `/v1/SIGNAL`; a full path is used as it is for its signal, and its siblings stand beside it."""
    assert signal_url(f"{given}?key=1", kind) == f"http://h:1{path}?key=1"


@pytest.mark.parametrize(
    "endpoint", ["http://h:1", "http://h:1/", "http://h:1/otlp", "http://h:1/otlp/", "http://h:1/api/public/otel"]
)
def test_base_url_means_what_the_sdk_makes_of_it(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """OpenTelemetry's own exporter, given the same base in its variable, sends to the same URL."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    exporter = OTLPSpanExporter()
    exporter.shutdown()

    assert signal_url(endpoint, "traces") == exporter._endpoint


async def test_forwarder_names_no_credentials() -> None:
    """What is printed about a backend holds neither its password nor its query."""
    sink = forwarder("https://user:secret@example.com/otlp?token=secret")

    assert sink.name == "https://example.com/otlp"
    await sink.close()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:4317",
        "ftp://host:1",
        "http://",
        "http://host:99999",
        "grpc://host",
        "grpc://host:1/path",
        "traces=grpc://host:1",
        "traces=",
        "",
    ],
)
async def test_wrong_url_is_refused(url: str) -> None:
    """A URL we cannot send to is named before anything starts."""
    with pytest.raises(ConfigError, match="expected"):
        forwarder(url)
