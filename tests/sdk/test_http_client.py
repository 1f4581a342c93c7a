"""The HTTP client: bounded in time and bytes, careful with secrets, and one reading of `Retry-After`."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("httpx")

from blamespan.errors import ConfigError
from blamespan.http_client import (
    BlockingHttpClient,
    HttpClient,
    HttpLimits,
    HttpResponse,
    ResponseTimeout,
    ResponseTooLarge,
    RetryPolicy,
    TransportError,
    parse_retry_after,
)
from tests.integrations.backends.servers import Answer, served

NOW_S = 1_445_412_420.0
"""Wed, 21 Oct 2015 07:27:00 GMT."""


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("-5", None),
        ("٣", None),
        ("0", 0.0),
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60.0),
        ("Wed, 21 Oct 2015 07:26:00 GMT", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, wait_s: float | None) -> None:
    """Both forms count from the clock that is given; what is past asks for no wait, anything else is not said."""
    assert parse_retry_after(value, now_s=NOW_S) == wait_s


def test_waits_grow_and_are_never_shorter_than_our_own() -> None:
    """Each wait is twice the one before, up to a bound; `Retry-After` lengthens it, up to another."""
    policy = RetryPolicy(first_wait_s=0.5, longest_wait_s=3.0, longest_asked_s=20.0)

    assert [policy.wait_s(failures) for failures in (1, 2, 3, 4, 5_000)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [policy.wait_s(1, asked_s) for asked_s in (0.0, 4.0, 3_600.0)] == [0.5, 4.0, 20.0]


@contextmanager
def dripping(head: bytes) -> Iterator[str]:
    """Serve *head*, then one byte every 20 ms."""
    stopping = threading.Event()

    def drip() -> None:
        with listener.accept()[0] as connection:
            connection.sendall(head)
            for byte in b"a" * 1_000:
                if stopping.wait(0.02):
                    return
                connection.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopping.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n"


def request(url: str, client: HttpClient, method: str = "GET", *, retries: RetryPolicy | None = None) -> HttpResponse:
    with closing(BlockingHttpClient(client)) as blocking:
        return blocking.request(method, url, retries=retries or RetryPolicy(attempts=1))


@pytest.mark.parametrize("head", [HEAD + b"x-", HEAD + b"\r\n"])
def test_response_that_drips_ends_with_the_deadline(head: bytes) -> None:
    """However regularly bytes come, of the headers or of the body, an exchange ends when its time is over."""
    began_s = time.monotonic()
    with dripping(head) as url, pytest.raises(ResponseTimeout, match="Try again later") as caught:
        request(url, HttpClient(limits=HttpLimits(total_s=0.5)))

    assert time.monotonic() - began_s < 5
    assert caught.value.was_sent


def test_body_may_be_cut_where_the_status_is_what_counts() -> None:
    """With `cuts_body`, a body that is too slow or too large is what came of it."""
    with dripping(HEAD + b"\r\n") as url:
        slow = request(url, HttpClient(limits=HttpLimits(total_s=0.6, cuts_body=True)))
    with served(lambda asked: Answer(b"b" * 1_000)) as server:
        large = request(f"http://{server.host}", HttpClient(limits=HttpLimits(max_bytes=10, cuts_body=True)))

    assert (slow.status, slow.content[:3]) == (200, b"aaa")
    assert large.content == b"b" * 10


def test_size_is_counted_as_a_body_unfolds() -> None:
    """A body that unfolds beyond the limit is an error, however small it was on the way."""
    folded = gzip.compress(b" " * 50_000_000)
    with (
        served(lambda asked: Answer(folded, headers={"content-encoding": "gzip"})) as server,
        pytest.raises(ResponseTooLarge, match="at most 1000 bytes"),
    ):
        request(f"http://{server.host}", HttpClient(limits=HttpLimits(max_bytes=1_000)))


def test_secrets_are_not_sent_to_another_port() -> None:
    """With `same_host` another port of the host is gone to, without what is meant for the first."""
    with served(lambda asked: Answer(b"there")) as other:
        redirect = Answer(b"", 307, {"location": f"http://{other.host}/x"})
        with served(lambda asked: redirect) as server:
            stays = request(f"http://u:p@{server.host}", HttpClient(secrets={"x-key": "k"}))
            goes = request(
                f"http://u:p@{server.host}", HttpClient(secrets={"x-key": "k"}, redirects="same_host"), "POST"
            )

    assert (stays.status, stays.redirected_to) == (307, f"http://{other.host}")
    assert goes.content == b"there"
    assert [{"x-key", "authorization"} & set(asked.headers) for asked in other.asked] == [set()]
    assert all(asked.headers["x-key"] == "k" for asked in server.asked)


def test_transient_answers_are_tried_again() -> None:
    """A status that passes is tried again, as often as the policy says; the last answer says how often that was."""
    answers = iter([Answer(b"", 503), Answer(b"", 429, {"retry-after": "0"}), Answer(b"yes")])
    policy = RetryPolicy(attempts=3, first_wait_s=0.01)
    with served(lambda asked: next(answers)) as server:
        response = request(f"http://{server.host}", HttpClient(), retries=policy)
    with served(lambda asked: Answer(b"", 503)) as server:
        last = request(f"http://{server.host}", HttpClient(), retries=policy)
    with pytest.raises(TransportError) as caught:
        request(f"http://{server.host}", HttpClient(), retries=policy)

    assert (response.content, response.attempts) == (b"yes", 3)
    assert (last.status, last.attempts) == (503, 3)
    assert (caught.value.attempts, caught.value.was_sent) == (3, False)


def test_wait_beyond_the_deadline_is_not_begun() -> None:
    """Whoever asks for an hour is left at once where there is a minute."""
    with served(lambda asked: Answer(b"", 503, {"retry-after": "3600"})) as server:
        response = request(f"http://{server.host}", HttpClient(), retries=RetryPolicy(deadline_s=60))

    assert (response.status, response.attempts) == (503, 1)


async def test_blocking_client_works_inside_an_event_loop() -> None:
    """Code that waits may itself be called from a coroutine, as in a notebook."""
    with served(lambda asked: Answer(b"yes")) as server:
        response = request(f"http://{server.host}", HttpClient())

    assert response.content == b"yes"


def test_header_that_cannot_be_sent_is_not_shown() -> None:
    """A key with other letters is refused before anything is sent, or with a line end before it leaves."""
    with pytest.raises(ConfigError) as caught:
        HttpClient(secrets={"authorization": "ключ"})
    with served(lambda asked: Answer()) as server, pytest.raises(TransportError) as refused:
        request(f"http://{server.host}", HttpClient(secrets={"authorization": "secret\r\nx: y"}))

    assert "ключ" not in str(caught.value)
    assert "secret" not in str(refused.value)
    assert server.asked == []
