"""Who may send is asked before anything is read; what strangers write stays text."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio
from google.rpc.status_pb2 import Status

from blamespan.errors import ConfigError
from blamespan_collector.logs import _JsonLines, _TextLines
from blamespan_collector.receiving import http_server
from blamespan_collector.receiving.otlp_http import HttpReceiver
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.service.metrics import Metrics, monitor_routes
from blamespan_collector.settings import ListenAddress
from tests.collector.receiving import (
    BODY,
    EXPORT,
    PROTOBUF,
    Certificates,
    Receiving,
    by_grpc,
    by_http,
    post,
    receiving,
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def test_mutual_tls_asks_who_it_is(tmp_path: Path, certificates: Certificates) -> None:
    """With a client CA, only who brings a certificate of it is heard, over HTTP and gRPC."""
    stranger = Certificates(tmp_path / "stranger")
    async with receiving(tmp_path / "journal", tls=certificates.server()) as running:
        taken = [
            (await by_http(running, certificates.client(shown)), await by_grpc(running, certificates.channel(shown)))
            for shown in (certificates, None, stranger)
        ]

        assert taken == [(True, True), (False, False), (False, False)]
        assert len(running.entries) == 2


async def test_tls_keeps_plain_text_out(tmp_path: Path, certificates: Certificates) -> None:
    """With TLS, nothing is taken without it."""
    tls = certificates.server(asks_clients=False)
    async with receiving(tmp_path, tls=tls) as running, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(f"{running.http_url}/v1/traces", content=BODY, headers=PROTOBUF)

        assert running.entries == []


async def test_half_a_tls_handshake_does_not_keep_its_connection(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who connects and says nothing is cut off soon; who completes the handshake is not."""
    monkeypatch.setattr(http_server, "_HANDSHAKE_TIMEOUT_S", 0.3)
    tls = certificates.server(asks_clients=False)
    async with receiving(tmp_path, tls=tls) as running:
        here = running.http.address
        silent, unsaid = await asyncio.open_connection(here.host, here.port)
        greeted, writer = await asyncio.open_connection(
            here.host, here.port, ssl=certificates.client(None), server_hostname="localhost"
        )
        rest = await asyncio.wait_for(silent.read(), 10)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await greeted.read()
        for side in (writer, unsaid):
            side.close()

    assert rest == b""
    assert answer.startswith(b"HTTP/1.1 ")


def test_wrong_tls_files_are_named(tmp_path: Path, certificates: Certificates) -> None:
    """A key of another certificate, or no certificate at all, is an error with the files' names."""
    folder = certificates.folder
    with pytest.raises(ConfigError, match=r"server\.pem"):
        ServerTls(folder / "server.pem", folder / "client.key")
    with pytest.raises(ConfigError, match="nowhere"):
        ServerTls(tmp_path / "nowhere", folder / "client.key")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Receiving]:
    """Receivers that know two tokens."""
    tokens = BearerTokens(["old-secret", "new-secret"])
    async with receiving(tmp_path_factory.mktemp("guarded"), tokens=tokens) as running:
        yield running


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
@pytest.mark.asyncio(loop_scope="module")
async def test_token_opens_the_door(guarded: Receiving, authorization: str | None, is_taken: bool) -> None:
    """Any of the tokens is good; without one the answer is 401 or UNAUTHENTICATED, and nothing is journalled."""
    running = guarded.anew()
    headers = {"authorization": authorization} if authorization else {}
    answer = await post(running, **headers)
    async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
        try:
            await channel.unary_unary(EXPORT)(BODY, metadata=tuple(headers.items()))
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()

    expected = (200, grpc.StatusCode.OK) if is_taken else (401, grpc.StatusCode.UNAUTHENTICATED)
    assert (answer.status_code, code) == expected
    assert len(running.entries) == 2 * is_taken
    assert running.intake.counts.requests_unauthorized == 2 * (not is_taken)


@pytest.mark.asyncio(loop_scope="module")
async def test_body_of_a_stranger_is_not_read(guarded: Receiving) -> None:
    """Who brings no token is answered before its body, however long that is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.http.address.port)
    writer.write(b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
    said = await asyncio.wait_for(reader.readline(), 5)
    writer.close()

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


OURS = ["127.0.0.1:4318", "LOCALHOST.", "[::1]:4318", "host.docker.internal"]
STRANGERS = ["evil.example:4318", "localhost.evil.example", "collector", ""]
ANSWERED, REFUSED = frozenset((200, 404)), frozenset((421,))
BROWSER = {"origin": "http://evil.example:4318", "accept-language": "en"}


@asynccontextmanager
async def listening(folder: Path, host: str, *names: str) -> AsyncIterator[httpx.AsyncClient]:
    """A receiver that listens on *host*, with the monitor on the same address; gives a client on this machine."""
    async with receiving(folder) as running:
        metrics = monitor_routes(Metrics(running.intake.counts), lambda: None, BearerTokens())
        receiver = HttpReceiver(running.intake, ListenAddress(host, 0), 1024 * 1024, routes=metrics, hosts=names)
        await receiver.start()
        url = f"http://127.0.0.1:{receiver.address.port}"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            try:
                yield client
            finally:
                await receiver.stop()


async def statuses(client: httpx.AsyncClient, **headers: str) -> frozenset[int]:
    """Ask for everything that is served."""
    answers = [await client.post("/v1/traces", content=BODY, headers={**PROTOBUF, **headers})]
    answers += [await client.get(path, headers=headers) for path in ("/metrics", "/healthz", "/readyz", "/nowhere")]
    return frozenset(answer.status_code for answer in answers)


async def test_receiver_on_loopback_answers_by_its_own_names(tmp_path: Path) -> None:
    """On loopback spans are taken and metrics told by names of ours and by addresses; by another name nothing is."""
    async with listening(tmp_path, "127.0.0.1", "proxy.example") as client:
        ours = {host: await statuses(client, host=host) for host in [*OURS, "proxy.example:443"]}
        strangers = {host: await statuses(client, host=host) for host in STRANGERS}

    assert ours == dict.fromkeys(ours, ANSWERED)
    assert strangers == dict.fromkeys(strangers, REFUSED)


async def test_receiver_elsewhere_answers_programs_by_any_name(tmp_path: Path) -> None:
    """Beyond loopback exporters come by names of services that nobody told us; browsers must come by ours."""
    async with listening(tmp_path, "0.0.0.0") as client:
        programs = {host: await statuses(client, host=host) for host in [*OURS, *STRANGERS]}
        browsers = {host: await statuses(client, host=host, **BROWSER) for host in OURS}
        rebound = {host: await statuses(client, host=host, **BROWSER) for host in STRANGERS}
        by_one = [await statuses(client, host="evil.example", **{name: "x"}) for name in ("sec-fetch-site", *BROWSER)]

    assert programs == dict.fromkeys(programs, ANSWERED)
    assert browsers == dict.fromkeys(browsers, ANSWERED)
    assert rebound == dict.fromkeys(rebound, REFUSED)
    assert by_one == [REFUSED] * 3


async def test_receiver_elsewhere_is_as_strict_as_it_is_told(tmp_path: Path) -> None:
    """Once a name is told, only known ones are answered there, too."""
    async with listening(tmp_path, "0.0.0.0", "collector.example") as client:
        assert await statuses(client, host="collector.example") == ANSWERED
        assert await statuses(client, host="localhost") == ANSWERED
        assert await statuses(client, host="evil.example") == REFUSED


async def test_refusal_of_a_name_says_what_to_do(tmp_path: Path) -> None:
    """The answer is a status in the encoding of the request, and names the option; nothing is journalled."""
    async with listening(tmp_path, "127.0.0.1") as client:
        answer = await client.post("/v1/traces", content=BODY, headers={**PROTOBUF, "host": "evil.example"})
        status = Status.FromString(answer.content)

    assert answer.status_code == 421
    assert status.code == grpc.StatusCode.PERMISSION_DENIED.value[0]
    assert status.message.startswith("expected a Host header that names this machine, got 'evil.example'")
    assert "BLAMESPAN_HTTP_HOST" in status.message


@pytest.mark.asyncio(loop_scope="module")
async def test_request_without_a_host_is_answered(guarded: Receiving) -> None:
    """HTTP/1.0 asks without a Host header, as some probes do; no browser does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.http.address.port)
    writer.write(b"GET /nowhere HTTP/1.0\r\n\r\n")
    answer = await asyncio.wait_for(reader.readline(), 5)
    writer.close()

    assert b"404" in answer


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
