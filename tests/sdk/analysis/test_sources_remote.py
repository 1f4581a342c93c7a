"""Files that lie elsewhere: fetched for as long as they are read, named without their keys."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

import fsspec

from blamespan.analysis.sources import pieces, remote
from blamespan.analysis.sources.remote import public_url
from blamespan.errors import ConfigError, MissingExtra
from blamespan.http_client import RetryPolicy
from tests.integrations.backends.servers import Answer, Asked, served
from tests.sdk.analysis.test_sources import errors_in, line, numbers_in


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Fetch into a folder that must be empty in the end."""
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(fetched))
    monkeypatch.setattr(remote, "RETRIES", RetryPolicy(attempts=3, first_wait_s=0.01))
    yield
    assert list(fetched.iterdir()) == []


@pytest.fixture
def bucket() -> Iterator[str]:
    """Files in memory."""
    system = fsspec.filesystem("memory")
    for number, path in enumerate(("a/one.jsonl", "a/b/two.jsonl", "three.jsonl"), start=1):
        system.pipe(f"/bucket/{path}", f"{line(number)}\n".encode())
    system.pipe("/bucket/notes.md", b"nothing")
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


def test_folder_pattern_and_file_elsewhere_are_read(bucket: str) -> None:
    """A bucket is walked for exports, a pattern matched, a file read; runs are called by their URLs."""
    found = list(pieces([bucket, f"{bucket}/**/*.jsonl", f"{bucket}/three.jsonl"]))

    assert [piece.name for piece in found] == [
        "memory:///bucket/a/b/two.jsonl",
        "memory:///bucket/a/one.jsonl",
        "memory:///bucket/three.jsonl",
        "memory://bucket/three.jsonl",
    ]
    assert numbers_in(found) == [2, 1, 3, 3]
    assert found[0].size == len(line(2)) + 1
    assert next(iter(found[0].read())).source.startswith("memory:///bucket/a/b/two.jsonl:")  # type: ignore[union-attr]


def test_what_is_not_there_is_an_error_in_its_place(bucket: str) -> None:
    """A file and a pattern without files are named, and the others are read."""
    found = list(pieces([f"{bucket}/none.jsonl", f"{bucket}/x/*.jsonl", f"{bucket}/three.jsonl"]))

    assert numbers_in(found) == [3]
    assert len(errors_in(found)) == 2


def test_archive_is_read_by_a_chained_url(tmp_path: Path) -> None:
    """Files within an archive are pieces of their own."""
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for number in (1, 2):
            archive.writestr(f"in/{number}.jsonl", f"{line(number)}\n")

    assert numbers_in(list(pieces([f"zip://in/*.jsonl::{tmp_path}/runs.zip"]))) == [1, 2]


def test_web_address_is_fetched_and_its_signature_not_told() -> None:
    """A signed URL is read, and named without the signature; where it fails, too."""

    def answer(asked: Asked) -> Answer:
        return Answer(f"{line(1)}\n".encode()) if "good" in asked.path else Answer(b"no", 403)

    with served(answer) as server:
        query = "X-Amz-Signature=deadbeef&part=1"
        good, bad = found = list(pieces([f"http://{server.host}/{name}.jsonl?{query}" for name in ("good", "bad")]))

        assert numbers_in(found) == [1]
        (said,) = errors_in(found)
        assert good.name == f"http://{server.host}/good.jsonl?part=1"
        assert "403" in said
        assert "deadbeef" not in f"{said}{good!r}{bad!r}"


def test_fetching_that_breaks_off_is_tried_again() -> None:
    """A connection that is lost amid a file is made again, and only then is the file read."""
    text = f"{line(1)}\n".encode()
    given = iter([Answer(text[:50], headers={"content-length": str(len(text))})])

    def answer(asked: Asked) -> Answer:
        return next(given, Answer(text)) if asked.method == "GET" else Answer(text)

    with served(answer) as server:
        found = list(pieces([f"http://{server.host}/runs.jsonl"]))

        assert errors_in(found) == []


def test_unknown_schemes_are_refused_before_anything_is_read(bucket: str) -> None:
    """A mistake in one URL is said at once, and a missing package with what brings it."""
    with pytest.raises(ConfigError, match="'nonsense'://"):
        pieces([bucket, "nonsense://host/path"])


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec a URL says what to install."""
    monkeypatch.setattr("blamespan.plugins.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"pip install 'blamespan\[remote\]'"):
        pieces(["s3://bucket/runs.jsonl"])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://me:hunter2@host/a?sig=1&x=2", "https://host/a?x=2"),
        ("s3://bucket/key=5/a.jsonl", "s3://bucket/key=5/a.jsonl"),
        ("zip://a.json::https://h/z?token=1", "zip://a.json::https://h/z"),
        ("https://h/a?design=2&se=x&sv=1&sp=r", "https://h/a?design=2&se=x&sv=1&sp=r"),
    ],
)
def test_names_hold_no_keys(url: str, name: str) -> None:
    """What is a user, a password, a signature or a token is left out of a name; the rest tells files apart."""
    assert public_url(url) == name
