"""What a back end may answer, and what becomes of it: an error that says where, and no key that goes elsewhere."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("httpx")

from blamespan.errors import ConfigError
from blamespan.http_client import HttpLimits, RetryPolicy
from blamespan_integrations.backends import _api
from blamespan_integrations.backends._api import AnswerTooLarge, BackendApi, BackendError, read_headers
from tests.integrations.backends.servers import Answer, Asked, served

KEY = "secret-key-of-a-customer"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_api, "RETRIES", RetryPolicy(attempts=3, first_wait_s=0.01, deadline_s=1.5))
    monkeypatch.setattr(_api, "LIMITS", HttpLimits(silence_s=0.5, max_bytes=_api.LIMITS.max_bytes))
    yield
    _api._unanswered.clear()


def ask(host: str, *, key: str = f"Bearer {KEY}") -> object:
    """Ask once, with a key."""
    with closing(BackendApi("Test", f"http://{host}", headers={"authorization": key}, keys="TEST_KEY")) as api:
        return api.get_json("/x")


def refused(answer: Answer) -> str:
    """Give what is said of an answer that is refused."""
    with served(lambda asked: answer) as server, pytest.raises(BackendError) as caught:
        ask(server.host)
    return str(caught.value)


def test_page_instead_of_json_is_named() -> None:
    """HTML, as of a login page, is an error that shows how it begins."""
    said = refused(Answer(b"<!doctype html><title>Log in</title>", headers={"content-type": "text/html"}))

    assert "expected JSON from Test, got b'<!doctype html>" in said
    assert KEY not in said


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"a": 1e999999} trailing', b'"\\ud800"' * 2]
)
def test_broken_json_is_named(body: bytes) -> None:
    """Nothing, half of something, other bytes and brackets without end are errors, and none is a crash."""
    assert "expected JSON" in refused(Answer(body))


def test_redirect_to_another_host_takes_no_key_there() -> None:
    """A key goes to the address that was named, and the message names the other without its options."""
    with served(lambda asked: Answer({"stolen": True})) as other:
        location = f"http://{other.host}/here?token=1"
        said = refused(Answer(b"", 302, {"location": location}))

        assert other.asked == []
        assert f"a redirect to 'http://{other.host}'" in said
        assert "token" not in said


def test_redirect_within_the_address_is_followed_for_a_while() -> None:
    """A redirect of the same origin leads on; one that leads round ends."""

    def answer(asked: Asked) -> Answer:
        return Answer({"at": "last"}) if asked.path == "/y" else Answer(b"", 307, {"location": "/y"})

    with served(answer) as server:
        assert ask(server.host) == {"at": "last"}
    assert "redirects without end" in refused(Answer(b"", 307, {"location": "/x"}))


def test_gigantic_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is read up to a bound, and counted as it unfolds."""
    monkeypatch.setattr(_api, "LIMITS", HttpLimits(max_bytes=1_000_000))
    folded = gzip.compress(b" " * 8_000_000)
    with (
        served(lambda asked: Answer(folded, headers={"content-encoding": "gzip"})) as server,
        pytest.raises(AnswerTooLarge),
    ):
        ask(server.host)


def test_answer_in_another_compression_is_refused() -> None:
    """What could unfold to many thousand times its size is not unfolded."""
    assert "compressed by gzip or not" in refused(Answer(b"x", headers={"content-encoding": "zstd"}))


def test_answer_that_is_not_gzip_is_named() -> None:
    """A body that is not what its header says is an error, not a crash."""
    assert "cannot be read" in refused(Answer(b"plain", headers={"content-encoding": "gzip"}))


@pytest.mark.parametrize("status", [401, 403])
def test_missing_key_names_its_variable(status: int) -> None:
    """Who is not let in is told which variable to set, and never what stands in it."""
    said = refused(Answer(b"no", status))

    assert "Set TEST_KEY" in said
    assert KEY not in said


def test_answer_breaking_off_is_asked_for_again() -> None:
    """A body shorter than announced is asked for again, and named in the end."""
    given = Answer(b'{"half":', headers={"content-length": "1000", "connection": "close"})
    with served(lambda asked: given) as server, pytest.raises(BackendError, match="at attempt 3"):
        ask(server.host)
    assert len(server.asked) == 3


def test_wait_that_is_asked_for_is_kept_within_bounds() -> None:
    """Whoever asks us to wait an hour is left at once, and named: others wait for us."""
    assert "at attempt 1" in refused(Answer(b"", 429, {"retry-after": "3600"}))


def test_wait_that_is_asked_for_as_a_date_is_read() -> None:
    """A date of the past asks for no wait; one that is none counts as nothing said."""
    assert "at attempt 3" in refused(Answer(b"", 503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert "at attempt 3" in refused(Answer(b"", 503, {"retry-after": "soon"}))


def test_headers_are_read_as_opentelemetry_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and values, encoded; what is written otherwise is refused without being told."""
    monkeypatch.setenv("TEST_HEADERS", "Authorization=Bearer%20abc, X-Scope-OrgID=team")
    assert read_headers("TEST_HEADERS") == {"Authorization": "Bearer abc", "X-Scope-OrgID": "team"}

    monkeypatch.setenv("TEST_HEADERS", KEY)
    with pytest.raises(ConfigError) as caught:
        read_headers("TEST_HEADERS")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["ключ", "line\r\nx-evil: 1"])
def test_key_that_cannot_be_sent_is_not_told(key: str) -> None:
    """A key with a line end or other letters is refused before anything is sent; the message does not tell it."""
    with served(lambda asked: Answer({})) as server, pytest.raises((ConfigError, BackendError)) as caught:
        ask(server.host, key=key)

    assert key not in str(caught.value)
    assert "x-evil" not in {name for one in server.asked for name in one.headers}
