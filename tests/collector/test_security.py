"""Who may send is asked before anything is read; what strangers write stays text."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest
import trustme

from blamespan.errors import ConfigError
from blamespan_collector.logs import _JsonLines, _TextLines
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import Tokens
from tests.collector.fakes import request, run
from tests.collector.receiving import receiving

PROTOBUF = {"content-type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BODY = request(run(1)).SerializeToString()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and what it signed for a server and a client; and what a CA signed that nobody here knows."""
    folder = tmp_path_factory.mktemp("certificates")
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    for ca, name in ((ours, "server"), (ours, "client"), (theirs, "stranger")):
        certificate = ca.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        certificate.private_key_pem.write_to_path(folder / f"{name}.key")
    return folder


def _client(folder: Path, name: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if name:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


def _channel(folder: Path, name: str | None) -> grpc.ChannelCredentials:
    key, chain = (
        ((folder / f"{name}.key").read_bytes(), (folder / f"{name}.pem").read_bytes()) if name else (None, None)
    )
    return grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes(), key, chain)


@pytest.mark.parametrize(("name", "is_taken"), [("client", True), (None, False), ("stranger", False)])
async def test_mutual_tls_asks_who_it_is(tmp_path: Path, certificates: Path, name: str | None, is_taken: bool) -> None:
    """With a client CA, only who brings a certificate of it is heard, over HTTP and gRPC."""
    tls = ServerTls(certificates / "server.pem", certificates / "server.key", certificates / "ca.pem")
    async with receiving(tmp_path, tls=tls) as running:
        async with httpx.AsyncClient(verify=_client(certificates, name), trust_env=False) as client:
            try:
                url = f"https://localhost:{running.http.address.port}/v1/traces"
                by_http = (await client.post(url, content=BODY, headers=PROTOBUF)).status_code == 200
            except httpx.TransportError:
                by_http = False
        target = f"localhost:{running.grpc.address.port}"
        async with grpc.aio.secure_channel(target, _channel(certificates, name)) as channel:
            try:
                await channel.unary_unary(EXPORT)(BODY, timeout=5)
                by_grpc = True
            except grpc.aio.AioRpcError:
                by_grpc = False

        assert (by_http, by_grpc) == (is_taken, is_taken)
        assert len(running.entries) == 2 * is_taken


async def test_tls_keeps_plain_text_out(tmp_path: Path, certificates: Path) -> None:
    """With TLS, nothing is taken without it."""
    tls = ServerTls(certificates / "server.pem", certificates / "server.key")
    async with receiving(tmp_path, tls=tls) as running, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(f"{running.http_url}/v1/traces", content=BODY, headers=PROTOBUF)

        assert running.entries == []


def test_wrong_tls_files_are_named(tmp_path: Path, certificates: Path) -> None:
    """A key of another certificate, or no certificate at all, is an error with the files' names."""
    with pytest.raises(ConfigError, match=r"server\.pem"):
        ServerTls(certificates / "server.pem", certificates / "client.key").context()
    with pytest.raises(ConfigError, match="nowhere"):
        ServerTls(tmp_path / "nowhere", certificates / "client.key").context()


@pytest.mark.parametrize(
    ("authorization", "is_taken"),
    [
        ("Bearer old-secret", True),
        ("bearer new-secret", True),
        ("Bearer new-secre", False),
        ("Bearer new-secret2", False),
        ("Bearer", False),
        ("Basic new-secret", False),
        ("new-secret", False),
        (None, False),
    ],
)
async def test_token_opens_the_door(tmp_path: Path, authorization: str | None, is_taken: bool) -> None:
    """Any of the tokens is good; without one the answer is 401 or UNAUTHENTICATED, and nothing is journalled."""
    headers = {"authorization": authorization} if authorization else {}
    async with (
        receiving(tmp_path, tokens=Tokens(["old-secret", "new-secret"])) as running,
        httpx.AsyncClient(base_url=running.http_url, trust_env=False) as client,
        grpc.aio.insecure_channel(str(running.grpc.address)) as channel,
    ):
        answer = await client.post("/v1/traces", content=BODY, headers={**PROTOBUF, **headers})
        try:
            await channel.unary_unary(EXPORT)(BODY, metadata=tuple(headers.items()))
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()

        expected = (200, grpc.StatusCode.OK) if is_taken else (401, grpc.StatusCode.UNAUTHENTICATED)
        assert (answer.status_code, code) == expected
        assert len(running.entries) == 2 * is_taken
        assert running.intake.counts.requests_unauthorized == 2 * (not is_taken)


async def test_body_of_a_stranger_is_not_read(tmp_path: Path) -> None:
    """Who brings no token is answered before its body, however long that is."""
    async with receiving(tmp_path, tokens=Tokens(["a-long-secret"])) as running:
        with socket.create_connection(("127.0.0.1", running.http.address.port)) as stranger:
            stranger.setblocking(False)
            loop = asyncio.get_running_loop()
            head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"
            await loop.sock_sendall(stranger, head)
            said = await asyncio.wait_for(loop.sock_recv(stranger, 100), 5)

    assert said.startswith(b"HTTP/1.1 401")


@pytest.fixture
def record() -> Iterator[logging.LogRecord]:
    try:
        raise ValueError("of a span: \x1b[2J\nroot login accepted")
    except ValueError as error:
        yield logging.LogRecord(
            "blamespan",
            logging.ERROR,
            "",
            0,
            "name %s",
            ("\x1b]0;x\x07\r\nfaked \u202e line",),
            (ValueError, error, None),
        )


def test_text_log_escapes_what_strangers_wrote(record: logging.LogRecord) -> None:
    """No control character, line break or change of direction that came in with a span reaches the log."""
    first, *rest = _TextLines().format(record).split("\n")

    assert "name \\x1b]0;x\\x07\\r\\nfaked \\u202e line" in first
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_json_log_is_one_line_of_ascii(record: logging.LogRecord) -> None:
    """One record is one line, whatever is in it."""
    line = _JsonLines().format(record)

    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == "name \x1b]0;x\x07\r\nfaked \u202e line"
