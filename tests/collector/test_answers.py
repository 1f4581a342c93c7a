"""What backends answer: however slow, large, misleading or absurd, no lane is held and no batch is set aside for it."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from blamespan_collector.delivering import backend
from blamespan_collector.delivering import delivery as delivery_module
from blamespan_collector.delivering.backend import AttemptLimit, BackendAccess
from blamespan_collector.delivering.delivery import _delay_s
from blamespan_collector.delivering.evaluation_sinks import LangfuseScores, PhoenixAnnotations
from blamespan_collector.delivering.forwarder import HttpForwarder, forwarder
from blamespan_collector.delivering.sinks import Refused, TryAgain
from tests.collector.backends import Abort, GrpcBackend, HttpBackend, grpc_serving, serving
from tests.collector.fakes import request, run
from tests.collector.outbox import delivered, enqueue, forwarded
from tests.collector.test_evaluation_sinks import told

BODY = request(run(1)).SerializeToString()
TAKEN = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Raw:
    """A server that answers with bytes, or with what a function does to the connection; the last answer repeats."""

    answers: list[bytes | Callable[[socket.socket], None]]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    url: str = ""

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536) or b"\r\n\r\n"
            head, _, body = data.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            while len(body) < int(headers.get("content-length", 0)):
                body += connection.recv(65536)
            self.requests.append((lines[0].rpartition(" ")[0], headers, body))
            self.times_s.append(time.monotonic())
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, bytes):
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
            else:
                answer(connection)


@contextmanager
def answering(*answers: bytes | Callable[[socket.socket], None]) -> Iterator[Raw]:
    raw = Raw(list(answers))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=raw.serve, args=(listener,), daemon=True).start()
        raw.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield raw
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def trickling(head: bytes, every_s: float = 0.05) -> Callable[[socket.socket], None]:
    """Answer with *head*, and then a byte at a time for ever."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(400):
            time.sleep(every_s)
            connection.sendall(b"x")

    return answer


def hang(connection: socket.socket) -> None:
    time.sleep(20)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def moved(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()


@pytest.fixture(autouse=True)
def _hurried_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a twentieth as long for the body of an answer."""
    monkeypatch.setattr(backend, "_ANSWER_S", 0.1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with a hundredth of the time for an attempt."""
    monkeypatch.setattr(backend, "ATTEMPT_TIMEOUT_S", 0.1)


@pytest.mark.parametrize(
    "answer",
    [
        trickling(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"),
        trickling(b"HTTP/1.1 200 OK\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\ncut off",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nno chunk",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nmore than it says",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nOK",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=range(11),
)
def test_status_of_success_is_believed_however_the_body_comes(
    tmp_path: Path, answer: bytes | Callable[[socket.socket], None]
) -> None:
    """Who says 2xx has the batch: a body that is slow, cut off or broken brings it there no second time."""
    with answering(answer) as raw:
        began_s = time.monotonic()
        counts = forwarded(tmp_path, raw.url)

    assert (len(raw.requests), counts.refused) == (1, 0)
    assert time.monotonic() - began_s < 5


async def test_huge_answers_are_not_kept(tmp_path: Path) -> None:
    """An answer without an end, and one that unpacks to gigabytes, are read up to a bound."""

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1024 * 1024))

    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    head = b"HTTP/1.1 503 No\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    with answering(head + bomb, flood) as raw:
        sink = forwarder(raw.url)
        with pytest.raises(TryAgain) as said:
            await sink.send("traces", [BODY])
        await sink.send("traces", [BODY])
        await sink.close()

    assert len(str(said.value)) < 2_000


def test_partial_success_is_read_to_the_connections_end(tmp_path: Path) -> None:
    """HTTP/1.0 ends an answer with the connection: what it says is read nevertheless."""
    partly = ExportTraceServiceResponse()
    partly.partial_success.rejected_spans = 3
    with answering(b"HTTP/1.0 200 OK\r\n\r\n" + partly.SerializeToString()) as raw:
        counts = forwarded(tmp_path, raw.url)

    assert counts.refused == 3


@pytest.mark.usefixtures("impatient")
async def test_whole_attempt_is_limited_and_the_limit_grows() -> None:
    """However an answer is held back, the attempt ends; a backend that hangs gets the batch at doubled intervals."""

    async def attempt(answer: Callable[[socket.socket], None]) -> float:
        with answering(answer, answer, answer, TAKEN) as raw:
            sink = forwarder(raw.url)
            began_s = time.monotonic()
            for limit in ("0.1", "0.2", "0.4"):
                with pytest.raises(TryAgain, match=f"no answer in {limit} s; the next attempt may take "):
                    await sink.send("traces", [BODY])
            took_s = time.monotonic() - began_s
            await sink.send("traces", [BODY])
            await sink.close()
        return took_s

    ways = (hang, trickling(b"HTTP/1.1 2", 0.02), trickling(b"", 0.02))
    assert min(await asyncio.gather(*map(attempt, ways))) >= 0.7


@pytest.mark.usefixtures("impatient")
async def test_limit_falls_back_once_an_attempt_is_answered() -> None:
    """A slow answer leaves twice its time, so that the next is not cut off; a quick one the first limit again."""
    limit = AttemptLimit()

    async def take(seconds: float) -> None:
        await asyncio.sleep(seconds)

    for _ in range(2):
        with pytest.raises(TryAgain, match="no answer in"):
            await limit.run(lambda _: take(5))
    grown = limit.limit_s
    await limit.run(lambda _: take(0.15))
    slow = limit.limit_s
    await limit.run(lambda _: take(0))

    assert (grown, limit.limit_s) == (pytest.approx(0.4), 0.1)
    assert 0.3 <= slow <= 0.4


@pytest.mark.usefixtures("impatient")
async def test_limit_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes at most: a backend that is back is found."""
    limit = AttemptLimit()
    monkeypatch.setattr(backend, "LONGEST_ATTEMPT_S", 0.15)
    for _ in range(3):
        with pytest.raises(TryAgain):
            await limit.run(lambda _: asyncio.sleep(5))

    assert limit.limit_s == 0.15


@pytest.mark.usefixtures("impatient")
def test_grpc_that_hangs_is_given_longer_each_time(tmp_path: Path) -> None:
    """gRPC's deadline grows as HTTP's limit does."""
    backend = GrpcBackend(hangs=3)
    began_s = time.monotonic()
    with grpc_serving(backend) as url:
        forwarded(tmp_path, url)

    assert (backend.attempts, len(backend.requests)) == (4, 1)
    assert time.monotonic() - began_s >= 0.7


@pytest.mark.parametrize("is_grpc", [False, True])
def test_no_backend_can_ask_to_be_overrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_grpc: bool) -> None:
    """`Retry-After`, or gRPC's `RetryInfo`, of nothing is no shorter a wait than our own."""
    monkeypatch.setattr(delivery_module, "_FIRST_DELAY_S", 0.1)
    monkeypatch.setattr(delivery_module, "_LONGEST_DELAY_S", 5)
    web = HttpBackend([(429, {"retry-after": "0"})] * 1_000)
    remote = GrpcBackend([Abort(grpc.StatusCode.UNAVAILABLE, retry_s=0)] * 1_000)
    with grpc_serving(remote) if is_grpc else serving(web) as url, pytest.raises(TimeoutError):
        forwarded(tmp_path, url, for_s=0.5)

    assert 2 <= len(web.asked) + remote.attempts <= 5


@pytest.mark.parametrize("asked", ["nan", "-1e308", "-5", "Thu, 01 Jan 1970 00:00:00 GMT", "0" * 5000])
async def test_wait_of_nonsense_or_the_past_is_not_asked_for(asked: str) -> None:
    """What a backend says of when to come back is no time at all, or none to wait."""
    with serving(HttpBackend([(429, {"retry-after": asked})])) as url:
        sink = forwarder(url)
        with pytest.raises(TryAgain) as said:
            await sink.send("traces", [BODY])
        await sink.close()

    assert said.value.after_s in (None, 0)


def test_delays_are_bounded_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least our own delay, which grows to 30 s; at most five minutes, for years as for infinity; with jitter."""
    monkeypatch.setattr(delivery_module, "_FIRST_DELAY_S", 0.5)
    monkeypatch.setattr(delivery_module, "_LONGEST_DELAY_S", 30.0)
    absurd = [_delay_s(1, asked) for asked in (1e9, float("inf"), 1e308, 3e8)]
    small = [_delay_s(failures, asked) for failures in (1, 5, 50) for asked in (None, 0.0, -1.0, float("nan"), -1e308)]
    kept = {_delay_s(1, 10.0) for _ in range(20)}

    assert all(300 <= delay <= 330 for delay in absurd)
    assert all(0.25 <= delay <= 0.5 for delay in small[:5])
    assert all(4 <= delay <= 8 for delay in small[5:10])
    assert all(15 <= delay <= 30 for delay in small[10:])
    assert len(kept) > 1
    assert all(10 <= delay <= 11 for delay in kept)


@pytest.mark.parametrize("status", [307, 308])
def test_redirect_that_keeps_the_method_is_followed(tmp_path: Path, status: int) -> None:
    """307 and 308 on the same host and port lead on, with method, body and headers."""
    with answering(moved(status, "/elsewhere/v1/traces?a=1"), TAKEN) as raw:
        counts = forwarded(tmp_path, raw.url)
    (first, headers, body), (second, headers_again, body_again) = raw.requests

    assert (first, second) == ("POST /v1/traces", "POST /elsewhere/v1/traces?a=1")
    assert (body, headers["x-key"]) == (body_again, headers_again["x-key"])
    assert counts.refused == 0


def test_credentials_go_to_no_other_port(tmp_path: Path) -> None:
    """The same host's other port may be somebody else: spans are sent there, what names us is not."""
    with answering(TAKEN) as other, answering(moved(307, f"{other.url}/v1/traces")) as first:
        forwarded(tmp_path, first.url.replace("//", "//user:secret@"))

    assert "authorization" in first.requests[0][1]
    assert other.requests[0][1].keys().isdisjoint({"authorization", "x-key"})
    assert other.requests[0][2] == first.requests[0][2]


@pytest.mark.parametrize(
    "answer",
    [
        moved(307, "http://localhost:1/v1/traces"),
        moved(308, "ftp://127.0.0.1/v1/traces"),
        moved(308, "http://[bad/"),
        moved(307, "/v1/traces"),
        moved(301, "/elsewhere"),
        moved(302, "https://login.example/"),
        moved(303, "/"),
        b"HTTP/1.1 308 Moved\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 300 Choices\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 304 Same\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 22\r\n\r\n <!DOCTYPE html><p>hi ",
        b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"",
        reset,
    ],
    ids=range(16),
)
def test_answers_that_speak_of_the_address_set_nothing_aside(
    tmp_path: Path, answer: bytes | Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect we do not follow, a page for people, a broken connection: tried until the address is right."""
    with answering(*[answer] * 5, TAKEN) as raw:
        counts = forwarded(tmp_path, raw.url)

    assert counts.refused == 0
    assert raw.requests[-1][2] == raw.requests[0][2]
    warnings = [record for record in caplog.records if "does not take traces now" in record.message]
    assert len(warnings) == 1


async def test_upgrade_to_tls_is_verified(tmp_path: Path) -> None:
    """A redirect from http to https is followed only to who shows a certificate that we trust."""
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    sink = forwarder("http://127.0.0.1:1", BackendAccess(ca=tmp_path / "ca.pem"))
    assert isinstance(sink, HttpForwarder)
    client = await sink._poster._client.get()
    context = client._secure._transport._pool._ssl_context  # type: ignore[attr-defined]  # no other way to see it
    await sink.close()

    assert context.check_hostname


def test_reset_after_the_body_is_sent_again_as_the_same_bytes(tmp_path: Path) -> None:
    """Nobody knows whether it was taken: the batch comes again, identical."""
    with answering(reset, TAKEN) as raw:
        forwarded(tmp_path, raw.url)

    assert raw.requests[0][2] == raw.requests[1][2]


async def test_name_that_cannot_be_resolved_is_waited_for(tmp_path: Path) -> None:
    """DNS may be back: nothing is set aside."""
    sink = forwarder("http://nobody.invalid:4318")
    with pytest.raises(TryAgain, match="ConnectError"):
        await sink.send("traces", [BODY])
    await sink.close()


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "quota exceeded, 100 requests a second", 0),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (5 vs. 4)", 1),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service", 0),
        (grpc.StatusCode.CANCELLED, "stream reset", 0),
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2", 0),
        (grpc.StatusCode.UNKNOWN, "Stream removed", 0),
    ],
)
def test_grpc_says_what_is_meant(tmp_path: Path, code: grpc.StatusCode, details: str, expected: int) -> None:
    """A quota, a missing service and a broken stream are waited for; only what is too large is cut, and set aside."""
    with grpc_serving(GrpcBackend([Abort(code, details)] * 3)) as url:
        counts = forwarded(tmp_path, url)

    assert counts.refused == expected


@pytest.mark.parametrize("reason", [b"unsupported path requested", b"no such tenant"])
def test_backend_that_refuses_everything_is_misaddressed(
    tmp_path: Path, reason: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """400 for row after row, and for an empty request too: after three rows nothing more is set aside."""
    refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%s" % (len(reason), reason)
    with answering(*[refusal] * 40, TAKEN) as raw:
        counts = forwarded(tmp_path, raw.url, runs=10)

    assert counts.refused == 12  # three runs of four spans
    assert "it refuses an empty request, too" in caplog.text


@pytest.mark.parametrize("status", [400, 404])
def test_backend_that_takes_no_logs_does_not_keep_them_waiting(tmp_path: Path, status: int) -> None:
    """What a backend of traces refuses of other kinds is set aside, however much: it must not fill the disk."""
    enqueue(tmp_path, *[b""] * 8, kind="logs", spans=1)
    with answering(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode()) as raw:
        delivery = delivered(tmp_path, forwarder(raw.url))

    assert delivery.counts[raw.url, "logs"].refused == 8


def test_batches_that_are_refused_for_what_they_hold_are_set_aside_all(tmp_path: Path) -> None:
    """Where an empty request is taken, or refused for another reason, each refused row goes aside."""

    def answer(connection: socket.socket) -> None:
        body = b"bad" if raw.requests[-1][2] else b"empty"
        connection.sendall(b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    with answering(answer) as raw:
        counts = forwarded(tmp_path, raw.url, runs=6)

    assert counts.refused == 24


async def test_verdicts_are_sent_with_the_same_care() -> None:
    """Phoenix and Langfuse follow, limit and bound as OTLP does; their probes leave nothing behind."""
    with answering(moved(308, "/p/"), trickling(b"HTTP/1.1 200 OK\r\n\r\n"), TAKEN) as raw:
        phoenix = PhoenixAnnotations(raw.url, "key", BackendAccess())
        await phoenix.send("verdicts", [told()])
        await phoenix.probe("verdicts")
        await phoenix.close()
    with answering(TAKEN, hang) as other:
        langfuse = LangfuseScores(other.url, ("public", "secret"), BackendAccess())
        await langfuse.probe("verdicts")
        langfuse._limit.limit_s = 0.2
        with pytest.raises(TryAgain, match=r"no answer in 0\.2 s"):
            await langfuse.send("verdicts", [told()])
        await langfuse.close()

    assert [line for line, _, _ in raw.requests] == [
        "POST /v1/span_annotations?sync=true",
        "POST /p/",
        "POST /v1/span_annotations?sync=true",
    ]
    assert raw.requests[1][1]["authorization"] == "Bearer key"
    assert raw.requests[2][2] == b'{"data": []}'
    assert other.requests[0][0] == "GET /api/public/projects"


def test_wrong_address_says_which_url_was_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """404 is logged with the URL that came of what was given, and how that is made; not with credentials."""
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno", TAKEN) as raw:
        forwarded(tmp_path, raw.url.replace("//", "//user:secret@") + "/insert/opentelemetry?token=hush")
    said = "\n".join(caplog.messages)

    assert f"HTTP 404: 'no' from {raw.url}/insert/opentelemetry/v1/traces. Is the address right? /v1/traces is" in said
    assert not re.search("secret|hush", said)


async def test_refusals_of_optional_signals_are_no_outage() -> None:
    """Many backends take no logs: 404 there sets them aside, and traces go on."""
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n") as raw:
        sink = forwarder(raw.url)
        with pytest.raises(Refused):
            await sink.send("logs", [b""])
        await sink.close()

    assert len(raw.requests) == 1
