"""Backends that take a request but not all of it: OTLP says how many they refused, not which."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from blamespan_collector.state.state import State
from tests.collector.fakes import run, spans_of
from tests.collector.test_forwarder import (
    GrpcBackend,
    HttpBackend,
    delivered,
    delivery_lane,
    grpc_serving,
    refused,
    serving,
    why,
)


def set_aside(folder: Path) -> bytes:
    state = State(folder / "state.db", sync="normal")
    (payload,) = state.database.execute("SELECT payload FROM set_aside").fetchone()
    state.close()
    return bytes(payload)


def partly(rejected: int) -> ExportTraceServiceResponse:
    """Answer as a backend that does not take all of a request."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = "bad \n ids"
    return answer


@pytest.mark.parametrize("form", ["http", "json", "grpc"])
async def test_partial_success_is_set_aside_and_never_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    """Where a backend says how many it refused but not which, all are kept aside, the number counted, none resent."""
    if form == "grpc":
        backend: HttpBackend | GrpcBackend = GrpcBackend(answer=partly(2))
    elif form == "json":
        text = json_format.MessageToJson(partly(2)).encode()
        backend = HttpBackend(answer=text, media_type="application/json; charset=utf-8")
    else:
        backend = HttpBackend(answer=partly(2).SerializeToString())
    opened = serving(backend) if isinstance(backend, HttpBackend) else grpc_serving(backend)
    async with opened as url:
        delivery = await delivered(tmp_path, url)
    counts = delivery.counts[delivery_lane(delivery)]
    kept = set_aside(tmp_path)

    assert len(backend.requests) == 1
    assert (counts.refused, counts.delivered, counts.waiting) == (2, 2, 0)
    assert why(tmp_path) == [("of a request it took, 2 spans: 'bad \\n ids'", 2)]
    assert [span.span_id for span in spans_of([ExportTraceServiceRequest.FromString(kept)])] == [
        span.span_id for span in run(1)
    ]
    assert caplog.messages == [
        f"{url} refused 2 spans, which are set aside: of a request it took, 2 spans: 'bad \\n ids'"
    ]


async def test_partial_success_that_refuses_more_than_there_was_counts_what_there_was(tmp_path: Path) -> None:
    """A backend's nonsense does not make our counts nonsense; a negative number refuses nothing."""
    async with serving(HttpBackend(answer=partly(10**12).SerializeToString())) as url:
        too_many = await delivered(tmp_path, url)
    async with serving(HttpBackend(answer=partly(-3).SerializeToString())) as url:
        too_few = await delivered(tmp_path, url)

    assert (refused(too_many), too_many.counts[delivery_lane(too_many)].delivered) == (4, 0)
    assert refused(too_few) == 0


@pytest.mark.parametrize("answer", [b"\xff\xff", b"{", b"[" * 100_000])
async def test_answer_that_is_no_otlp_is_no_refusal(tmp_path: Path, answer: bytes) -> None:
    """A backend that says 200 and then something else took all of it, once."""
    for media_type in ("application/x-protobuf", "application/json"):
        backend = HttpBackend(answer=answer, media_type=media_type)
        (tmp_path / media_type[-4:]).mkdir()
        async with serving(backend) as url:
            delivery = await delivered(tmp_path / media_type[-4:], url)

        assert (len(backend.requests), refused(delivery)) == (1, 0)


async def test_partial_success_of_pieces_is_set_aside_with_its_piece(tmp_path: Path) -> None:
    """What is sent in pieces, as the whole was too large, keeps aside only the pieces that were refused in part."""
    backend = HttpBackend([(413, {})], answer=partly(1).SerializeToString())
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url)

    assert (len(backend.requests), refused(delivery)) == (2, 2)
    assert [spans for _, spans in why(tmp_path)] == [1, 1]
