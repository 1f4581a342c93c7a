"""Senders that mean harm: slow, many, greedy or deep. They are bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import resource
import socket
import sys
from pathlib import Path

import grpc.aio
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from blamespan.errors import MalformedSpan
from blamespan_collector.receiving import http_server, otlp_grpc, otlp_http
from blamespan_collector.receiving.request_reader import RequestLimits, RequestReader, TooLarge
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.wire.protobuf import FieldBudget, NotProtobuf, TooManyFields, delimit, spend
from tests.collector.fakes import request, run, until
from tests.collector.receiving import BODY, PROTOBUF, Receiving, receiving

TRACES, LOGS, _ = SERVICES
MIB = 1024 * 1024


def head(length: int, *more: str) -> bytes:
    lines = [
        "POST /v1/traces HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/x-protobuf",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, *more, "", ""]).encode()


async def connect(running: Receiving) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", running.http.address.port)


async def is_served(running: Receiving) -> bool:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{running.http_url}/v1/traces", content=BODY, headers=PROTOBUF)
        return answer.status_code == 200


async def test_pipelined_requests_are_answered_each_in_order(tmp_path: Path) -> None:
    """Requests that stand one after the other in a connection are all journalled, and answered one after the other."""
    async with receiving(tmp_path) as running:
        reader, writer = await connect(running)
        bad = b"\xff\xff"
        writer.write(b"".join([head(len(BODY)) + BODY, head(len(bad)) + bad] * 5))
        codes = []
        for _ in range(10):
            answer = await reader.readuntil(b"\r\n\r\n")
            codes.append(int(answer.split()[1]))
            length = next(line for line in answer.lower().splitlines() if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

        assert codes == [200, 400] * 5
        assert len(running.spans) == 5 * len(run(1))


@pytest.mark.slow
async def test_sender_that_reads_no_answers_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without end whose answers nobody reads hold a connection for a while only."""
    monkeypatch.setattr(http_server, "_UNREAD_TIMEOUT_S", 0.3)
    async with receiving(tmp_path) as running:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", running.http.address.port))
        deaf.setblocking(False)
        asks = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
        loop = asyncio.get_running_loop()

        async def ask() -> None:
            while True:
                await loop.sock_sendall(deaf, asks)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask(), 60)
        deaf.close()

        assert await is_served(running)


async def test_slow_body_is_cut_off_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that comes byte by byte is given up on after its time; others are served beside it."""
    monkeypatch.setattr(otlp_http, "_SEND_TIMEOUT_S", 0.5)
    async with receiving(tmp_path) as running:
        slow = [await connect(running) for _ in range(50)]
        for _, writer in slow:
            writer.write(head(len(BODY)) + BODY[:3])
        served = await is_served(running)
        answers = await asyncio.gather(*(reader.readline() for reader, _ in slow))
        for _, writer in slow:
            writer.close()

        assert served
        assert {int(answer.split()[1]) for answer in answers} == {408}
        assert len(running.entries) == 1


async def test_connections_without_end_are_refused_and_the_first_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit connections are dropped unheard: file handles are for the journal, too."""
    monkeypatch.setattr(http_server, "_MOST_CONNECTIONS", 20)
    async with receiving(tmp_path) as running:
        client = httpx.AsyncClient(trust_env=False)
        url = f"{running.http_url}/v1/traces"
        first = await client.post(url, content=BODY, headers=PROTOBUF)
        flood = [await connect(running) for _ in range(60)]
        await until(lambda: sum(reader.at_eof() or reader.exception() is not None for reader, _ in flood) >= 40)
        again = await client.post(url, content=BODY, headers=PROTOBUF)
        for _, writer in flood:
            writer.close()
        await client.aclose()

        assert (first.status_code, again.status_code) == (200, 200)


async def test_grpc_connections_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit gRPC's connections are dropped, too; the first ones are greeted."""
    monkeypatch.setattr(otlp_grpc, "_MOST_CONNECTIONS", 3)
    async with receiving(tmp_path) as running:
        here = running.grpc.address
        flood = [await asyncio.open_connection(here.host, here.port) for _ in range(10)]
        greetings = await asyncio.gather(*(asyncio.wait_for(reader.read(9), 30) for reader, _ in flood))
        for _, writer in flood:
            writer.close()

    assert sum(bool(greeting) for greeting in greetings) == 3


@pytest.mark.parametrize("number", [100, 100_000])
async def test_headers_are_bounded(tmp_path: Path, number: int) -> None:
    """Some headers more are fine; more than 32 KiB of them are refused, and nothing is taken."""
    async with receiving(tmp_path) as running:
        reader, writer = await connect(running)
        with contextlib.suppress(ConnectionError):
            writer.write(head(len(BODY), *[f"x-{place}: y" for place in range(number)]) + BODY)
            await writer.drain()
        answer = await reader.readline()
        writer.close()

        assert int(answer.split()[1]) == (200 if number == 100 else 431)
        assert len(running.entries) == (number == 100)


async def test_grpc_metadata_is_bounded(tmp_path: Path) -> None:
    """A gRPC request with more than 16 KiB of metadata is refused, and others are served."""
    name = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    async with receiving(tmp_path) as running:
        async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
            export = channel.unary_unary(name)
            with pytest.raises(grpc.aio.AioRpcError):
                await export(BODY, timeout=5, metadata=[(f"x-{place}", "y" * 1000) for place in range(50)])
            await export(BODY, timeout=5)

        assert len(running.entries) == 1


async def test_bomb_does_not_keep_others_waiting(tmp_path: Path) -> None:
    """64 MiB in 64 KiB are refused at the limit, in pieces between which others are answered."""
    bomb = gzip.compress(bytes(256 * MIB), 9)
    headers = {**PROTOBUF, "content-encoding": "gzip"}
    async with receiving(tmp_path, max_request_bytes=64 * MIB) as running, httpx.AsyncClient(trust_env=False) as client:
        url = f"{running.http_url}/v1/traces"
        bombs = [asyncio.create_task(client.post(url, content=bomb, headers=headers, timeout=60)) for _ in range(3)]
        await asyncio.sleep(0.05)
        served = await is_served(running)
        is_first = not all(one.done() for one in bombs)
        answers = [answer.status_code for answer in await asyncio.gather(*bombs)]

        assert served
        assert is_first
        assert set(answers) <= {413, 429}
        assert len(running.entries) == 1


def empties(size_bytes: int) -> bytes:
    """Make an attribute that holds as many empty values as fit: each becomes an object of fifty bytes."""
    values = delimit(0x2A, b"\x0a\x00" * (size_bytes // 2))
    return delimit(0x0A, b"k") + delimit(0x12, values)


@pytest.mark.skipif(sys.platform == "win32", reason="measures memory as POSIX does")
def test_small_values_without_end_take_no_memory_without_end() -> None:
    """Two bytes can stand for an object of fifty: a span of such is refused alone, a request of logs whole, cheaply."""
    span = request(run(1)[:1]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    huge = delimit(0x12, span + delimit(0x4A, empties(7 * MIB)))
    body = delimit(0x0A, delimit(0x12, huge + delimit(0x12, span)))
    record = delimit(0x12, delimit(0x2A, delimit(0x2A, b"\x0a\x00" * (4 * MIB))))
    logs = delimit(0x0A, delimit(0x12, record))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = RequestReader().read(TRACES, body, "protobuf", 1)
    with pytest.raises(TooLarge, match="Send smaller batches"):
        RequestReader(RequestLimits(fields=200_000)).read(LOGS, logs, "protobuf", 1)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb

    assert (read.spans, read.refused) == (1, 1)
    assert "at most 200000 values in a span" in read.reason
    assert grown_kb < 100_000


def test_fields_are_counted_however_deep() -> None:
    """What is nested counts, text that looks like fields does not, and a message that is none is noticed."""
    request_ = ExportLogsServiceRequest()
    record = request_.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "\x0a\x00" * 1000
    for _ in range(10):
        record.attributes.add(key="k").value.array_value.values.add().int_value = 1
    body = request_.SerializeToString()
    budget = FieldBudget(1000)
    spend(body, 0, len(body), request_.DESCRIPTOR, budget)

    assert 1000 - budget.left == 3 + 2 + 10 * 6
    with pytest.raises(TooManyFields):
        spend(body, 0, len(body), request_.DESCRIPTOR, FieldBudget(64))
    with pytest.raises(NotProtobuf):
        spend(body[:-1], 0, len(body) - 1, request_.DESCRIPTOR, FieldBudget(1000))


def test_attribute_nested_without_end_is_refused() -> None:
    """Values in values in values: past protobuf's hundred the span is refused, and nothing overflows."""
    value = b"\x0a\x00"
    for _ in range(10_000):
        value = delimit(0x2A, delimit(0x0A, value))
    span = request(run(1)[:1]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    deep = span + delimit(0x4A, delimit(0x12, value))
    read = RequestReader().read(TRACES, delimit(0x0A, delimit(0x12, delimit(0x12, deep))), "protobuf", 1)

    assert (read.spans, read.refused) == (0, 1)
    with pytest.raises(MalformedSpan):
        RequestReader().read(LOGS, delimit(0x0A, delimit(0x12, delimit(0x12, delimit(0x2A, value)))), "protobuf", 1)


def test_hostile_texts_reach_no_reader_of_a_request() -> None:
    """A span's name is quoted in the reason for its refusal: cut, and without what moves a cursor."""
    message = request(run(1)[:1])
    message.resource_spans[0].scope_spans[0].spans[0].name = "\x1b[2J\n" + "x" * 100_000
    message.resource_spans[0].scope_spans[0].spans[0].span_id = b"short"
    read = RequestReader().read(TRACES, message.SerializeToString(), "protobuf", 1)
    said = read.response().SerializeToString()

    assert read.refused == 1
    assert len(said) < 2000
    assert b"\x1b" not in said


SMUGGLED = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length:\r\n 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"X: y\r\n Transfer-Encoding: chunked\r\n",
        b"X: y\rTransfer-Encoding: chunked\r\n",
        b"X: y\nContent-Length: 5\r\n",
        b"X: y\x00\r\nContent-Length: 5\r\n",
        b"Host: elsewhere\r\nContent-Length: 5\r\n",
    ],
)
async def test_request_that_two_servers_may_read_as_two_is_refused(tmp_path: Path, headers: bytes) -> None:
    """Where a body ends must be said once and clearly: else 400, and nothing that comes after it is read."""
    async with receiving(tmp_path) as running:
        reader, writer = await connect(running)
        writer.write(SMUGGLED + headers + b"\r\n0\r\n\r\n" + head(len(BODY)) + BODY)
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()

        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert running.entries == []


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity", b"xchunked", b"chunked, identity"])
async def test_transfer_coding_we_do_not_know_is_refused(tmp_path: Path, coding: bytes) -> None:
    """Only `chunked` says where a body ends; anything else is answered 501, and the connection is closed."""
    async with receiving(tmp_path) as running:
        reader, writer = await connect(running)
        writer.write(SMUGGLED + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()

        assert answer.startswith(b"HTTP/1.1 501 ")


@pytest.mark.parametrize("packets", [1, 7])
@pytest.mark.parametrize(("more_bytes", "status"), [(0, 200), (1, 431)])
async def test_headers_are_taken_to_the_documented_limit(
    tmp_path: Path, packets: int, more_bytes: int, status: int
) -> None:
    """A head of 32 KiB is taken, one byte more is answered 431: whatever packets it comes in."""
    plain = head(len(BODY), "x: ")
    request_head = head(len(BODY), "x: " + "y" * (32 * 1024 - len(plain) + more_bytes))
    async with receiving(tmp_path) as running:
        reader, writer = await connect(running)
        size = len(request_head) // packets + 1
        for at in range(0, len(request_head), size):
            writer.write(request_head[at : at + size] + (BODY if at + size >= len(request_head) else b""))
            await writer.drain()
            await asyncio.sleep(0.01 * (packets > 1))
        answer = await asyncio.wait_for(reader.readline(), 5)
        writer.close()

        assert int(answer.split()[1]) == status
        assert len(running.entries) == (status == 200)


async def flood_from(host: str, running: Receiving, number: int) -> list[asyncio.StreamWriter]:
    """Open connections that begin their headers and never end them."""
    found = []
    for _ in range(number):
        _, writer = await asyncio.open_connection("127.0.0.1", running.http.address.port, local_addr=(host, 0))
        with contextlib.suppress(ConnectionError):
            writer.write(b"POST /v1/traces HTTP/1.1\r\nx: ")
        found.append(writer)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="sends from several loopback addresses")
async def test_half_sent_headers_of_one_client_lock_nobody_else_out(tmp_path: Path) -> None:
    """With 700 connections of one address that never end their headers, another address is served at once."""
    async with receiving(tmp_path) as running:
        flood = await flood_from("127.0.0.2", running, 700)
        began_s = asyncio.get_running_loop().time()
        served = [await is_served(running) for _ in range(5)]
        took_s = asyncio.get_running_loop().time() - began_s
        for writer in flood:
            writer.close()

    assert served == [True] * 5
    assert took_s < 5


@pytest.mark.skipif(sys.platform != "linux", reason="sends from several loopback addresses")
async def test_half_sent_headers_of_many_clients_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many addresses hold all connections by half-sent headers, those that wait longest make room."""
    monkeypatch.setattr(http_server, "_PATIENCE_S", 0.2)
    async with receiving(tmp_path) as running:
        flood = [writer for part in range(4) for writer in await flood_from(f"127.0.0.{part + 2}", running, 200)]
        await asyncio.sleep(0.3)
        served = [await is_served(running) for _ in range(3)]
        for writer in flood:
            writer.close()

    assert served == [True] * 3


async def test_half_sent_headers_make_room_for_their_own_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client at its own limit is served when it sends, and loses the connection that has waited longest."""
    monkeypatch.setattr(http_server, "_CONNECTIONS_PER_CLIENT", 10)
    monkeypatch.setattr(http_server, "_PATIENCE_S", 0.1)
    async with receiving(tmp_path) as running:
        flood = [await connect(running) for _ in range(10)]
        await asyncio.sleep(0.2)
        served = await is_served(running)
        first = await asyncio.wait_for(flood[0][0].read(), 5)
        for _, writer in flood:
            writer.close()

    assert served
    assert first == b""


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_clients_are_told_apart_by_what_they_own(host: str, client: str) -> None:
    """An IPv4 address is a client, however it is written; of IPv6 a network of 64 bits is."""
    assert http_server._client_of(host) == client
