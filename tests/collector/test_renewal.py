"""Tokens and certificates are read again while the collector runs; what is wrong in them changes nothing."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from blamespan_collector.delivering.backend import BackendAccess
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.delivering.sinks import Undelivered
from blamespan_collector.receiving import renewal
from blamespan_collector.receiving.renewal import Renewal
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.stamps import Stamps
from tests.collector.fakes import until
from tests.collector.receiving import BODY, Certificates, by_grpc, by_http, receiving

OLD, NEW = "an-old-long-token", "a-new-long-token"


async def test_renewed_certificates_count_for_the_next_connection(tmp_path: Path) -> None:
    """After a renewal clients of the new CA are heard and meet the new certificate; those of the old one are not."""
    files = Certificates(tmp_path)
    tls = files.server()
    async with receiving(tmp_path / "journal", tls=tls) as running:
        old, old_channel = files.client(files), files.channel(files)
        before = (await by_http(running, old), await by_grpc(running, old_channel))
        files.issue()
        tls.renew()
        new, new_channel = files.client(files), files.channel(files)
        after = (await by_http(running, new), await by_grpc(running, new_channel))
        left = (await by_http(running, old), await by_grpc(running, old_channel))

    assert (before, after, left) == ((True, True), (True, True), (False, False))


async def test_ca_that_is_taken_away_shuts_its_clients_out(tmp_path: Path) -> None:
    """Where only the CA of clients changes, those of the old one are shut out, also when they were here before."""
    files = Certificates(tmp_path)
    tls = files.server()
    async with receiving(tmp_path / "journal", tls=tls) as running:
        context, channel = files.client(files), files.channel(files)
        before = (await by_http(running, context), await by_grpc(running, channel))
        files.issue(ca_alone=True)
        tls.renew()
        after = (await by_http(running, context), await by_grpc(running, channel))

    assert (before, after) == ((True, True), (False, False))


def chosen(folder: Path, **others: Path) -> CollectorSettings:
    return CollectorSettings(journal=folder / "journal", out="-", **others)  # type: ignore[arg-type]


def test_tokens_are_read_again_when_their_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new token is good from then on, one that is gone is not; those of the variable stay."""
    monkeypatch.setenv("BLAMESPAN_TOKEN", "from-the-variable")
    path = tmp_path / "tokens"
    path.write_text(f"{OLD}\n")
    tokens = BearerTokens((OLD, "from-the-variable"))
    renewing = Renewal(chosen(tmp_path, token_file=path), tokens, None)
    renewing.look()
    before = [tokens.admits(f"Bearer {token}") for token in (OLD, NEW, "from-the-variable")]
    path.write_text(f"{NEW}\n")
    renewing.look()
    after = [tokens.admits(f"Bearer {token}") for token in (OLD, NEW, "from-the-variable")]

    assert (before, after) == ([True, False, True], [False, True, True])


@pytest.mark.parametrize("content", [None, "", "# none\n", "short\n", "\x00\x01"])
def test_token_file_that_went_wrong_opens_no_door_and_closes_none(
    tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty, missing or half-written file is logged once; the tokens stay, and nobody comes in without one."""
    path = tmp_path / "tokens"
    path.write_text(f"{OLD}\n")
    tokens = BearerTokens((OLD,))
    renewing = Renewal(chosen(tmp_path, token_file=path), tokens, None)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    renewing.look()
    renewing.look()

    assert [tokens.admits(one) for one in (f"Bearer {OLD}", "Bearer ", None)] == [True, False, False]
    assert len([text for text in caplog.messages if "tokens stay as they were" in text]) == 1
    assert OLD not in caplog.text


def test_certificates_that_went_wrong_leave_those_from_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate without its key, as between two writes, changes nothing; once its key is there it counts."""
    files = Certificates(tmp_path)
    tls = files.server()
    names = {f"tls_{name}": tmp_path / path for name, path in (("cert", "server.pem"), ("key", "server.key"))}
    renewing = Renewal(chosen(tmp_path, **names), BearerTokens(), tls)
    before = tls._latest
    key = (tmp_path / "server.key").read_bytes()
    files.issue()
    fresh = (tmp_path / "server.key").read_bytes()
    (tmp_path / "server.key").write_bytes(key)
    renewing.look()
    between = tls._latest
    (tmp_path / "server.key").write_bytes(fresh)
    renewing.look()

    assert between is before
    assert tls._latest is not before
    assert [text.partition(":")[0] for text in caplog.messages] == [
        "TLS certificates stay as they were",
        "TLS certificates were read again",
    ]


async def test_files_are_looked_at_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs to tell the collector: it looks by itself, also through a link that is pointed elsewhere."""
    monkeypatch.setattr(renewal, "_LOOK_EVERY_S", 0.02)
    (tmp_path / "one").write_text(f"{OLD}\n")
    (tmp_path / "two").write_text(f"{NEW}\n")
    link = tmp_path / "tokens"
    link.symlink_to(tmp_path / "one")
    tokens = BearerTokens((OLD,))
    task = asyncio.create_task(Renewal(chosen(tmp_path, token_file=link), tokens, None).run())
    link.unlink()
    link.symlink_to(tmp_path / "two")
    await until(lambda: tokens.admits(f"Bearer {NEW}"))
    task.cancel()

    assert not tokens.admits(f"Bearer {OLD}")


def test_file_that_appears_or_goes_has_changed(tmp_path: Path) -> None:
    """Being there is part of how a file looks; looking twice without a change says so."""
    path = tmp_path / "file"
    stamps = Stamps([path])
    found = [stamps.have_changed()]
    for change in (path.touch, lambda: None, path.unlink, lambda: None):
        change()
        found.append(stamps.have_changed())

    assert found == [False, True, False, True, False]


async def test_backend_meets_our_renewed_certificate(tmp_path: Path) -> None:
    """Certificates that we show to backends are read again, too: what was refused before passes then, once."""
    files, for_us = Certificates(tmp_path), tmp_path / "ours"
    Certificates(for_us)
    client = BackendAccess((), tmp_path / "ca.pem", for_us / "client.pem", for_us / "client.key")
    async with receiving(tmp_path / "journal", tls=files.server()) as running:
        for url in (f"https://localhost:{running.http.address.port}", f"grpcs://localhost:{running.grpc.address.port}"):
            sink = forwarder(url, client)
            with pytest.raises(Undelivered):
                await sink.send("traces", [BODY])
            for name in ("client.pem", "client.key"):
                (for_us / name).write_bytes((tmp_path / name).read_bytes())
            await sink.send("traces", [BODY])
            await sink.close()
            Certificates(for_us)
        entries = running.entries

    assert len(entries) == 2


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        (lambda ours, _: ours.client(None), "it showed no certificate"),
        (lambda _, other: other.client(other), "does not trust our tls-cert"),
        (lambda ours, other: ours.client(other), "its certificate is not of tls-client-ca"),
    ],
    ids=["no certificate", "does not trust us", "a stranger's certificate"],
)
async def test_failed_handshake_is_said_in_words(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    connect: Callable[[Certificates, Certificates], ssl.SSLContext],
    reason: str,
) -> None:
    """Why a sender cannot come in stands in our log, once in ten seconds however often it tries."""
    caplog.set_level(logging.WARNING)
    ours, other = Certificates(tmp_path), Certificates(tmp_path / "other")
    tls = ours.server()
    async with receiving(tmp_path / "journal", tls=tls) as running:
        url = f"https://localhost:{running.http.address.port}/v1/traces"
        for _ in range(3):
            with pytest.raises(httpx.TransportError):  # blocking, as then the reason is sent before hanging up
                await asyncio.to_thread(httpx.post, url, verify=connect(ours, other), trust_env=False)
    told = [text for text in caplog.messages if "TLS handshake failed" in text]

    assert len(told) == 1
    assert reason in told[0]
    assert tls.failures >= 3
