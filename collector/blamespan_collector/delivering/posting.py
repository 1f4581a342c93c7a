"""HTTP requests to backends: no answer of theirs can hold us, fill our memory, or lead our credentials elsewhere."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx

from blamespan_collector.delivering.backend import Client, Renewed
from blamespan_collector.delivering.sinks import Refused, TryAgain

__all__ = ["ATTEMPT_TIMEOUT_S", "AttemptLimit", "HttpAnswer", "Poster"]

ATTEMPT_TIMEOUT_S = 10.0
"""How long an attempt may take, as long as the sink answers in time."""
LONGEST_ATTEMPT_S = 120.0
_CONNECT_S = 10.0
_ANSWER_S = 5.0
"""How long the body of an answer may take once its status is known: that says what became of the request."""
_MAX_ANSWER_BYTES = 256 * 1024
_MAX_REDIRECTS = 3
_REDIRECTS = (307, 308)
"""They keep method and body; what other redirects mean for a POST is not agreed upon."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a backend answered.

    Attributes:
        url: Which one was asked in the end, without credentials.
        status: HTTP's.
        headers: Lower-cased.
        content: The body, decompressed, as far as it came and was read.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request was taken."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_page(self) -> bool:
        """Whether the body is a page for people, as a proxy or a wrong address answers."""
        return self.content.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")


class AttemptLimit:
    """How long an attempt may take: twice as long after each that took too long, so that a backend that hangs does
    not get the same batch again and again; as before, or twice what it took, once one was answered.
    """

    def __init__(self) -> None:
        self.limit_s = ATTEMPT_TIMEOUT_S

    async def run(self, attempt: Callable[[float], Awaitable[_Result]]) -> _Result:
        """Attempt, within the limit, of which the attempt is told.

        Raises:
            TryAgain: if it took too long, or raised TimeoutError.
        """
        began_s, limit_s = time.monotonic(), self.limit_s
        try:
            async with asyncio.timeout(limit_s):
                result = await attempt(limit_s)
        except TimeoutError as error:
            self.limit_s = min(2 * limit_s, LONGEST_ATTEMPT_S)
            raise TryAgain(f"no answer in {limit_s:g} s; the next attempt may take {self.limit_s:g} s") from error
        self.limit_s = min(max(ATTEMPT_TIMEOUT_S, 2 * (time.monotonic() - began_s)), LONGEST_ATTEMPT_S)
        return result


class Poster:
    """Sends requests to one backend.

    307 and 308 are followed with the same method and body, three times at most, on the same host, never from https to
    http. What the user gave as headers, and what authenticates us, goes to the same port or to https only.

    Args:
        headers: Sent wherever we are led.
        secrets: Sent to the backend itself only.
        client: Its TLS.
        auth: Authenticates us.
        is_near: Whether it is on this machine: what the environment says of proxies is for other hosts.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        client: Client,
        *,
        auth: httpx.Auth | None = None,
        is_near: bool = False,
    ) -> None:
        self._secrets, self._auth = dict(secrets), auth
        own = {"accept-encoding": "gzip", **headers}

        def connect(*, is_tls: bool) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                headers=own,
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
                verify=client.ssl_context() if is_tls else False,
                trust_env=not is_near,
            )

        self._plain = Renewed(lambda: connect(is_tls=False), httpx.AsyncClient.aclose, ())
        self._secure = Renewed(lambda: connect(is_tls=True), httpx.AsyncClient.aclose, client.files)

    async def request(self, limit: AttemptLimit, method: str, url: str, content: bytes = b"") -> HttpAnswer:
        """Send one request and read its answer.

        Raises:
            TryAgain: if there is none, or not in time.
            Refused: if it cannot be sent at all.
        """
        try:
            response = await limit.run(lambda _: self._follow(method, httpx.URL(url), content))
            try:
                return await _answer(response)
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise TryAgain(f"{type(error).__name__}: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._plain.close()
        await self._secure.close()

    async def _follow(self, method: str, url: httpx.URL, content: bytes) -> httpx.Response:
        """Send a request, and send it on; returns the answer once its status is known, to be read and closed."""
        is_trusted = True
        for _ in range(_MAX_REDIRECTS + 1):
            client = await (self._secure if url.scheme == "https" else self._plain).get()
            request = client.build_request(method, url, content=content, headers=self._secrets if is_trusted else {})
            # Where no other way is given, a URL's own user and password authenticate us
            auth = (self._auth or httpx.USE_CLIENT_DEFAULT) if is_trusted else None
            response = await client.send(request, stream=True, auth=auth)
            target = _target(response) if response.status_code in _REDIRECTS else None
            if target is None:
                return response
            await response.aclose()
            is_trusted = is_trusted and _is_trusted(url, target)
            url = target.copy_with(userinfo=url.userinfo if is_trusted else b"")
        raise TryAgain(f"it redirects again and again, at last to {_public(url)}")


def _target(response: httpx.Response) -> httpx.URL | None:
    """Return where a redirect leads; None where we do not go there."""
    asked = response.request.url
    try:
        target = asked.join(response.headers["location"])
    except (KeyError, httpx.InvalidURL, ValueError):
        return None
    is_way = (asked.scheme, target.scheme) in (("http", "http"), ("http", "https"), ("https", "https"))
    return target if is_way and target.host == asked.host else None


def _is_trusted(asked: httpx.URL, target: httpx.URL) -> bool:
    return asked.scheme != target.scheme or asked.port == target.port


async def _answer(response: httpx.Response) -> HttpAnswer:
    """Read an answer whose status is known; of its body only what comes in time and fits."""
    body = bytearray()
    try:
        async with asyncio.timeout(_ANSWER_S):
            async for part in response.aiter_raw():
                body += part
                if len(body) >= _MAX_ANSWER_BYTES:
                    break
    except (TimeoutError, httpx.HTTPError):  # it stands for the reason, or for nothing
        pass
    content = bytes(body[:_MAX_ANSWER_BYTES])
    if response.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        content = _inflated(content)
    return HttpAnswer(_public(response.request.url), response.status_code, response.headers, content)


def _inflated(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(47).decompress(content, _MAX_ANSWER_BYTES)  # gzip or zlib, as its head says
    except zlib.error:
        return b""


def _public(url: httpx.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))
