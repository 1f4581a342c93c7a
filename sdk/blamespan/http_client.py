"""The HTTP client for back ends, which may be slow, throttle, break off, or not be what their addresses say.

One exchange is bounded in time and in bytes, and its secrets go nowhere but to the address that was named. Statuses and
failures that pass are tried again: `RetryPolicy` says how often, `Retry-After` how late.

`HttpClient` is for coroutines, `BlockingHttpClient` for code that waits. httpx is imported when a client is made, so
that `RetryPolicy` and `parse_retry_after` need no extra.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from blamespan.errors import BlamespanError, ConfigError, MissingExtra
from blamespan.lazy import lazy_property

if TYPE_CHECKING:
    import ssl

    import httpx

Params: TypeAlias = Sequence[tuple[str, str | int]]
"""The query of a URL; a name may stand there several times."""
RedirectPolicy: TypeAlias = Literal["same_origin", "same_host"]

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which the same request may succeed later."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_OF_ANY_METHOD = frozenset({307, 308})
"""They keep method and body; what the others mean for a POST is not agreed upon."""
_MAX_REDIRECTS = 4
_GZIP = ("gzip", "x-gzip")
"""The only compression that is asked for. Others may hide many thousand times what they send."""
_GZIP_WINDOW = 31
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")

_Result = TypeVar("_Result")


class HttpError(BlamespanError):
    """A back end gave no response that can be used.

    Attributes:
        reason: What came instead, short.
        was_sent: Whether the whole request went out, so that the back end may have acted on it.
        attempts: How often it was asked.
    """

    def __init__(self, message: str, reason: str, *, was_sent: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.was_sent = was_sent
        self.attempts = 1


class TransportError(HttpError):
    """There was no response, or it broke off: another attempt may succeed."""


class ResponseTimeout(TransportError):
    """The response did not come in time."""


class UnreadableResponse(HttpError):
    """What came is not HTTP, or not what its headers say."""


class UnsupportedEncoding(UnreadableResponse):
    """The response is compressed by something else than gzip."""


class ResponseTooLarge(HttpError):
    """The response is larger than the limit; a narrower question may have a smaller one."""


class TooManyRedirects(HttpError):
    """Redirects led to further redirects."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How much one exchange may take.

    Attributes:
        total_s: Seconds from the first byte sent to the last byte received, redirects included.
        head_s: Seconds until the status and the headers of the last response are known; None: `total_s`.
        body_s: Seconds for the body from then on; None: what is left of `total_s`.
        silence_s: Seconds for the next byte; None: no limit of its own.
        connect_s: Seconds for a connection.
        max_bytes: Size of the body, decompressed.
        max_error_bytes: How much of a body is read whose status is no success; it is cut there.
        cuts_body: Whether a body that is too large, too slow or breaks off is cut, instead of an error.
    """

    total_s: float = 300.0
    head_s: float | None = None
    body_s: float | None = None
    silence_s: float | None = 60.0
    connect_s: float = 60.0
    max_bytes: int = 16 * 1024 * 1024
    max_error_bytes: int = 4_000
    cuts_body: bool = False


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried, and how long to wait before.

    Attributes:
        attempts: At most.
        first_wait_s: Seconds before the second attempt, twice as many before each further one.
        longest_wait_s: However many attempts there were; `Retry-After` may ask for more.
        longest_asked_s: However long `Retry-After` asks for.
        deadline_s: No attempt begins later, counted from the first one.
    """

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    longest_asked_s: float = float("inf")
    deadline_s: float = 180.0

    def wait_s(self, failures: int, asked_s: float | None = None) -> float:
        """Return the seconds to wait after so many failures, from 1: our own wait, or what is asked for if longer.

        A back end in trouble that answers `Retry-After: 0` would otherwise get a thousand requests a second.
        """
        own_s = min(self.first_wait_s * 2.0 ** min(failures - 1, 64), self.longest_wait_s)
        return max(own_s, min(asked_s or 0.0, self.longest_asked_s))


NO_RETRIES = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a back end answered, whatever the status.

    Attributes:
        url: Which URL was asked in the end, without credentials, query and fragment.
        status: HTTP's.
        headers: Names in any case.
        content: The body, decompressed.
        redirected_to: Origin that a redirect leads to which was not followed, or None.
        attempts: How often it was asked.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes
    redirected_to: str | None = None
    attempts: int = 1

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

    def retry_after_s(self) -> float | None:
        """Return the seconds that the back end asks us to wait; None where it does not say."""
        return parse_retry_after(self.headers.get("retry-after"), now_s=time.time())


def parse_retry_after(value: str | None, *, now_s: float) -> float | None:
    """Read the header `Retry-After`: seconds, or an HTTP date.

    Args:
        value: The header, or None where there is none.
        now_s: The time, in seconds since 1970.

    Returns:
        Seconds from now on, 0 for a time in the past; None where the header says neither.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, date.timestamp() - now_s)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def origin_of(url: httpx.URL) -> str:
    """Return scheme, host and port of *url*."""
    return f"{url.scheme}://{url.host}:{url.port or {'http': 80, 'https': 443}.get(url.scheme)}"


class HttpClient:
    """Sends requests to back ends, for coroutines of one event loop.

    A GET follows every redirect, other methods 307 and 308. A redirect is followed to the same origin, or with
    `same_host` to another port, and from http to https. A redirect that is not followed is the response.

    Args:
        headers: Sent wherever we are led.
        secrets: Headers sent to the origin that was named only, or to its https.
        auth: Authenticates us, likewise; a URL's own user and password do where this is None.
        limits: Of each exchange.
        redirects: How far a redirect is followed.
        make_ssl_context: Makes what HTTPS needs, at the first request that needs it; None: the system's certificates.
        trust_env: Whether the environment names proxies and certificates.

    Raises:
        MissingExtra: if httpx is not installed.
        ConfigError: if a header cannot be sent; the message does not show it.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        auth: httpx.Auth | tuple[str, str] | None = None,
        limits: HttpLimits | None = None,
        redirects: RedirectPolicy = "same_origin",
        make_ssl_context: Callable[[], ssl.SSLContext] | None = None,
        trust_env: bool = True,
    ) -> None:
        _require_httpx()
        import httpx

        try:
            self._headers = httpx.Headers({"user-agent": "blamespan", "accept-encoding": "gzip", **(headers or {})})
            self._secrets = httpx.Headers(secrets or {})
        except ValueError as error:
            raise ConfigError(
                "expected headers in ASCII, got others. Check the keys and headers that were set"
            ) from error
        self._auth = auth
        self._limits = limits or HttpLimits()
        self._redirects = redirects
        self._make_ssl_context = make_ssl_context
        self._trust_env = trust_env
        self._connections: list[httpx.AsyncClient] = []

    async def request(
        self,
        method: str,
        url: str,
        *,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        params: Params = (),
        limits: HttpLimits | None = None,
        retries: RetryPolicy = NO_RETRIES,
    ) -> HttpResponse:
        """Send a request that may be sent again, and read the response, whatever its status.

        Raises:
            TransportError: if the last attempt had no response.
            UnreadableResponse: if the response is not HTTP, or not what its headers say.
            ResponseTooLarge: if it exceeds the limit.
            TooManyRedirects: if redirects lead to further redirects.
        """
        began_s, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            failure: TransportError | None = None
            response: HttpResponse | None = None
            try:
                response = await self._exchange(method, url, content, headers or {}, params, limits or self._limits)
                if response.status not in TRANSIENT_STATUSES:
                    return replace(response, attempts=attempt)
            except TransportError as error:
                failure = error
            wait_s = retries.wait_s(attempt, response.retry_after_s() if response else None)
            if attempt >= retries.attempts or time.monotonic() - began_s + wait_s > retries.deadline_s:
                break
            await asyncio.sleep(wait_s)
        if response is None:
            assert failure is not None
            failure.attempts = attempt
            raise failure
        return replace(response, attempts=attempt)

    async def aclose(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            await connection.aclose()

    async def _exchange(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str], params: Params, limits: HttpLimits
    ) -> HttpResponse:
        """Send one request, follow redirects and read the response."""
        import httpx

        request = _RequestTrace()
        head_s = limits.total_s if limits.head_s is None else limits.head_s
        began_s = time.monotonic()
        try:
            target = httpx.URL(url).copy_merge_params([(key, str(value)) for key, value in params])
        except httpx.InvalidURL as error:
            raise ConfigError(f"expected the URL of a back end, got one that is none: {error}. Check it") from error
        public = _public_url(target)
        try:
            async with asyncio.timeout(head_s):
                response = await self._follow(method, target, content, headers, limits, request)
            try:
                left_s = max(0.0, limits.total_s - (time.monotonic() - began_s))
                body_s = left_s if limits.body_s is None else min(left_s, limits.body_s)
                body = await _read_body(response, limits, body_s)
            finally:
                await response.aclose()
        except (TimeoutError, httpx.TimeoutException) as error:
            reason = type(error).__name__ if isinstance(error, httpx.TimeoutException) else f"none in {head_s:g} s"
            raise ResponseTimeout(
                f"expected an answer from {public}, got {reason}. Try again later.", reason, was_sent=request.is_sent
            ) from error
        except httpx.TransportError as error:
            # What h11 refuses to send it quotes, secrets included
            is_ours = isinstance(error, httpx.LocalProtocolError)
            reason = type(error).__name__ if is_ours else f"{type(error).__name__}: {error}"
            raise TransportError(
                f"expected an answer from {public}, got {reason}. Try again later.", reason, was_sent=request.is_sent
            ) from error
        except (httpx.HTTPError, httpx.StreamError, zlib.error) as error:
            reason = f"one that cannot be read ({type(error).__name__})"
            raise UnreadableResponse(
                f"expected an answer from {public}, got {reason}. Is this its address?",
                reason,
                was_sent=request.is_sent,
            ) from error
        refused = _location(response) if response.status_code in _REDIRECTS else None
        return HttpResponse(
            _public_url(response.request.url),
            response.status_code,
            response.headers,
            body,
            None if refused is None else origin_of(refused),
        )

    async def _follow(
        self,
        method: str,
        url: httpx.URL,
        content: bytes,
        headers: Mapping[str, str],
        limits: HttpLimits,
        trace: _RequestTrace,
    ) -> httpx.Response:
        """Send a request, and send it on; returns the response once its status is known, to be read and closed."""
        import httpx

        is_trusted = True
        for _ in range(_MAX_REDIRECTS + 1):
            client = self._secure if url.scheme == "https" else self._plain
            request = client.build_request(
                method,
                url,
                content=content or None,
                headers={**headers, **(self._secrets if is_trusted else {})},
                timeout=httpx.Timeout(limits.silence_s, connect=limits.connect_s),
                extensions={"trace": trace.record},
            )
            auth = (self._auth or httpx.USE_CLIENT_DEFAULT) if is_trusted else None
            response = await client.send(request, stream=True, auth=auth)
            target = self._redirect_target(method, response)
            if target is None:
                return response
            await response.aclose()
            is_trusted = is_trusted and (url.scheme != target.scheme or url.port == target.port)
            url = target.copy_with(userinfo=url.userinfo if is_trusted else b"")
        reason = "redirects without end"
        raise TooManyRedirects(
            f"expected an answer, got {reason}, at last to {_public_url(url)}. Is this its address?", reason
        )

    def _redirect_target(self, method: str, response: httpx.Response) -> httpx.URL | None:
        """Return where a redirect leads; None where we do not go there."""
        if response.status_code not in (_REDIRECTS if method == "GET" else _REDIRECTS_OF_ANY_METHOD):
            return None
        asked, target = response.request.url, _location(response)
        if target is None:
            return None
        if self._redirects == "same_origin":
            return target if origin_of(target) == origin_of(asked) else None
        is_way = (asked.scheme, target.scheme) in (("http", "http"), ("http", "https"), ("https", "https"))
        return target if is_way and target.host == asked.host else None

    @lazy_property
    def _plain(self) -> httpx.AsyncClient:
        return self._connect(verify=False)  # certificates take longer to load than many an answer to come

    @lazy_property
    def _secure(self) -> httpx.AsyncClient:
        return self._connect(verify=self._make_ssl_context() if self._make_ssl_context else True)

    def _connect(self, *, verify: ssl.SSLContext | bool) -> httpx.AsyncClient:
        import httpx

        client = httpx.AsyncClient(
            headers=self._headers, verify=verify, trust_env=self._trust_env, follow_redirects=False
        )
        self._connections.append(client)
        return client


class BlockingHttpClient:
    """`HttpClient` for code that waits, also where that code runs inside an event loop.

    The connections belong to an event loop in a thread of its own. A wait that is interrupted ends the request.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="blamespan-http", daemon=True)
        self._thread.start()

    def request(
        self,
        method: str,
        url: str,
        *,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        params: Params = (),
        limits: HttpLimits | None = None,
        retries: RetryPolicy = NO_RETRIES,
    ) -> HttpResponse:
        """Send a request as `HttpClient.request` does, and wait for the response."""
        return self._run(
            self._client.request(
                method, url, content=content, headers=headers, params=params, limits=limits, retries=retries
            )
        )

    def close(self) -> None:
        """Close the connections, and end the thread."""
        if self._loop.is_closed():
            return
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, request: Coroutine[Any, Any, _Result]) -> _Result:
        future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class _RequestTrace:
    """Notes whether a whole request went out."""

    def __init__(self) -> None:
        self.is_sent = False

    async def record(self, event: str, _: object) -> None:
        """Record what httpcore says of the connection."""
        self.is_sent = self.is_sent or event.endswith("send_request_body.complete")


async def _read_body(response: httpx.Response, limits: HttpLimits, body_s: float) -> bytes:
    """Read and decompress a body, in *body_s* seconds and up to the limit of its size."""
    import httpx

    is_cut = limits.cuts_body or not response.is_success
    max_bytes = limits.max_bytes if response.is_success else min(limits.max_bytes, limits.max_error_bytes)
    body = _Body(response.headers.get("content-encoding", "").strip().lower(), max_bytes)
    try:
        async with asyncio.timeout(body_s):
            async for block in response.aiter_raw():
                body.add(block)
                if body.is_full:
                    break
            else:
                body.finish()
    except (TimeoutError, httpx.HTTPError, zlib.error, UnsupportedEncoding):
        if not is_cut:
            raise
    if body.is_full and not is_cut:
        reason = f"more than {max_bytes} bytes"
        raise ResponseTooLarge(
            f"expected an answer of at most {max_bytes} bytes, got more. Ask for less at once.", reason, was_sent=True
        )
    return bytes(body.content[:max_bytes])


class _Body:
    """A body that is decompressed as it comes, never beyond a bound."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self.content = bytearray()
        self._max_bytes = max_bytes
        self._encoding = encoding
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if encoding in _GZIP else None
        self._is_begun = False

    @property
    def is_full(self) -> bool:
        """Whether there is more than the bound."""
        return len(self.content) > self._max_bytes

    def add(self, block: bytes) -> None:
        """Add what came next.

        Raises:
            UnsupportedEncoding: if it is compressed otherwise.
            zlib.error: if it is not what its headers say.
        """
        if self._inflater is None:
            if self._encoding not in ("", "identity"):
                reason = "another compression"
                raise UnsupportedEncoding(
                    f"expected an answer compressed by gzip or not, got {self._encoding[:40]!r}. Is this its address?",
                    reason,
                    was_sent=True,
                )
            self.content += block
            return
        self.content += self._inflater.decompress(block, self._max_bytes + 1 - len(self.content))
        self._is_begun = True

    def finish(self) -> None:
        """Check that a compressed body is whole.

        Raises:
            zlib.error: if it is not.
        """
        if self._inflater is not None and self._is_begun and not self._inflater.eof and not self.is_full:
            raise zlib.error("the body ends early")


def _location(response: httpx.Response) -> httpx.URL | None:
    import httpx

    with contextlib.suppress(KeyError, httpx.InvalidURL, ValueError):
        return response.request.url.join(response.headers["location"])
    return None


def _public_url(url: httpx.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _require_httpx() -> None:
    try:
        import httpx  # noqa: F401  # asks whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "asking a back end needs the package 'httpx', which is not installed. "
            "Install it with: pip install 'blamespan[remote]'"
        ) from error
