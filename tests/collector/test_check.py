"""`--check` asks every backend: what it would answer to spans is known before there are any."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from blamespan_collector.service.checks import Checked, check
from blamespan_collector.settings import CollectorSettings, ListenAddress
from tests.collector.backends import Asked, GrpcBackend, HttpBackend, grpc_serving, serving


def knowing(*paths: str, otherwise: int = 404) -> HttpBackend:
    """A backend that takes requests at the paths it knows."""

    def refuses(asked: Asked) -> tuple[int, bytes] | None:
        return None if asked.target in paths else (otherwise, b"")

    return HttpBackend(refuses=refuses)


def checked(folder: Path, **settings: Any) -> Checked:
    chosen = CollectorSettings(
        journal=folder / "journal", grpc=None, http=ListenAddress("127.0.0.1", 0), store=folder / "runs.db", **settings
    )
    return check(chosen)


def test_base_url_and_full_path_come_to_the_same(tmp_path: Path) -> None:
    """Both are asked, with nothing in the request, and the URLs that come of them are shown."""
    backend = knowing(*(f"/insert/opentelemetry/v1/{kind}" for kind in ("traces", "logs", "metrics")))
    with serving(backend) as url:
        base, full = f"{url}/insert/opentelemetry", f"{url}/insert/opentelemetry/v1/traces"
        result = checked(tmp_path, forward=(base, full))

    assert result.problems == []
    assert result.addresses == [f"{kind} to {base}/v1/{kind}" for kind in ("logs", "metrics", "traces")] * 2
    assert result.answers[2] == f"{full} took an empty request of traces: HTTP 200"
    assert {asked.body for asked in backend.asked} == {b""}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "HTTP 404: '' from {url}/v1/traces. Is the address right? /v1/traces is appended to a base URL"),
        (401, "HTTP 401"),
        (400, "HTTP 400"),
        (405, "HTTP 405"),
        (301, "leads to ''"),
        (503, "HTTP 503"),
    ],
)
def test_backend_that_would_not_take_spans_fails(tmp_path: Path, status: int, said: str) -> None:
    """Whatever is no success is a problem, with the URL that was asked."""
    with serving(knowing(otherwise=status)) as url:
        result = checked(tmp_path, forward=(url,))

    assert any(f"{url}/v1/traces does not take traces: " in one for one in result.problems)
    assert any(said.format(url=url) in one for one in result.problems)


def test_backend_of_traces_alone_is_in_order(tmp_path: Path) -> None:
    """Many take no logs and no metrics: that is said, and no problem."""
    grpc_backend = GrpcBackend()
    with serving(knowing("/v1/traces")) as url, grpc_serving(grpc_backend) as grpc_url:
        result = checked(tmp_path, forward=(url, grpc_url))

    assert result.problems == []
    assert len([answer for answer in result.answers if "takes no logs, which are set aside" in answer]) == 2
    assert f"{grpc_url} took an empty request of traces: OK" in result.answers
    assert [len(one.resource_spans) for one in grpc_backend.requests] == [0]


def test_every_kind_of_sink_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead port fails for OTLP over HTTP and gRPC, evaluations, Phoenix and Langfuse; files need no asking."""
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "public")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "secret")
    dead = "http://127.0.0.1:9"
    result = checked(
        tmp_path,
        forward=(dead, "grpc://127.0.0.1:9", "traces=http://127.0.0.1:9/v2/trace/otlp"),
        evaluations=("http://127.0.0.1:9/logs",),
        phoenix=dead,
        langfuse=dead,
        out=str(tmp_path / "out"),
    )

    assert [problem.split(" does not take")[0] for problem in result.problems if "verdicts" in problem] == [
        "http://127.0.0.1:9/logs",
        f"{dead}/v1/span_annotations",
        f"{dead}/api/public/scores",
    ]
    assert len(result.problems) == len(result.addresses) == 10
    assert "http://127.0.0.1:9/v2/trace/otlp does not take traces" in "\n".join(result.problems)


def test_certificate_that_is_not_trusted_fails(tmp_path: Path) -> None:
    """A TLS failure is named; with the CA that signed it, the backend is in order."""
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serving(HttpBackend(), context) as url:
        stranger = checked(tmp_path, forward=(url,))
        trusted = checked(tmp_path, forward=(url,), forward_ca=tmp_path / "ca.pem")

    assert "CERTIFICATE_VERIFY_FAILED" in stranger.problems[0]
    assert trusted.problems == []


def test_store_that_is_a_folder_is_a_problem(tmp_path: Path) -> None:
    """It can never be a store, and that is one sentence."""
    (tmp_path / "runs.db").mkdir()

    [problem] = checked(tmp_path).problems
    assert problem.startswith(f"expected a file for the store of runs that can be written, got '{tmp_path}/runs.db'")


def test_check_leaves_nothing_behind(tmp_path: Path) -> None:
    """What it makes to try the journal, the store and the file is taken away; what was there stays."""
    (tmp_path / "old" / "journal").mkdir(parents=True)
    (tmp_path / "old" / "out").write_text("kept\n")
    before = sorted(tmp_path.rglob("*"))
    for folder in ("old", "new"):
        assert checked(tmp_path / folder, out=str(tmp_path / folder / "out")).problems == []

    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "old" / "out").read_text() == "kept\n"
