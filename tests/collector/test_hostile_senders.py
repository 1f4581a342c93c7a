"""Senders that mean harm: slow, many, greedy or deep. They are bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import sys
from pathlib import Path

import grpc.aio
import httpx
import pytest

from blamespan_collector.receiving import http_server, otlp_grpc, otlp_http
from tests.collector.fakes import run, until
from tests.collector.receiving import BODY, EXPORT, PROTOBUF, Receiving, post, receiving

MIB = 1024 * 1024

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    return (await post(running)).status_code == 200


async def test_pipelined_requests_are_answered_each_in_order(running: Receiving) -> None:
    """Requests that stand one after the other in a connection are all journalled, and answered one after the other."""
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
async def test_sender_that_reads_no_answers_is_cut_off(running: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without end whose answers nobody reads hold a connection for a while only."""
    monkeypatch.setattr(http_server, "_UNREAD_TIMEOUT_S", 0.3)
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


async def test_slow_body_is_cut_off_and_holds_nobody_up(running: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that comes byte by byte is given up on after its time; others are served beside it."""
    monkeypatch.setattr(otlp_http, "_SEND_TIMEOUT_S", 0.3)
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
async def test_headers_are_bounded(running: Receiving, number: int) -> None:
    """Some headers more are fine; more than 32 KiB of them are refused, and nothing is taken."""
    reader, writer = await connect(running)
    with contextlib.suppress(ConnectionError):
        writer.write(head(len(BODY), *[f"x-{place}: y" for place in range(number)]) + BODY)
        await writer.drain()
    answer = await reader.readline()
    writer.close()

    assert int(answer.split()[1]) == (200 if number == 100 else 431)
    assert len(running.entries) == (number == 100)


async def test_grpc_metadata_is_bounded(running: Receiving) -> None:
    """A gRPC request with more than 16 KiB of metadata is refused, and others are served."""
    async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
        export = channel.unary_unary(EXPORT)
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
async def test_request_that_two_servers_may_read_as_two_is_refused(running: Receiving, headers: bytes) -> None:
    """Where a body ends must be said once and clearly: else 400, and nothing that comes after it is read."""
    reader, writer = await connect(running)
    writer.write(SMUGGLED + headers + b"\r\n0\r\n\r\n" + head(len(BODY)) + BODY)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert running.entries == []


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity", b"xchunked", b"chunked, identity"])
async def test_transfer_coding_we_do_not_know_is_refused(running: Receiving, coding: bytes) -> None:
    """Only `chunked` says where a body ends; anything else is answered 501, and the connection is closed."""
    reader, writer = await connect(running)
    writer.write(SMUGGLED + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert answer.startswith(b"HTTP/1.1 501 ")


@pytest.mark.parametrize("packets", [1, 7])
@pytest.mark.parametrize(("more_bytes", "status"), [(0, 200), (1, 431)])
async def test_headers_are_taken_to_the_documented_limit(
    running: Receiving, packets: int, more_bytes: int, status: int
) -> None:
    """A head of 32 KiB is taken, one byte more is answered 431: whatever packets it comes in."""
    plain = head(len(BODY), "x: ")
    request_head = head(len(BODY), "x: " + "y" * (32 * 1024 - len(plain) + more_bytes))
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
