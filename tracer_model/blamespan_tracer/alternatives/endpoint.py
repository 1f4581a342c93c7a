"""An OpenAI-compatible endpoint: its address, one request to it, and why there is no answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Self

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.http_client import HttpClient, HttpError, HttpLimits, ResponseTimeout, ResponseTooLarge, RetryPolicy

MANIPULATOR = "BLAMESPAN_MANIPULATOR"
"""Names the variables of the endpoint that writes faults: `_URL` (`http://localhost:8000/v1`, up to and without
`/chat/completions`), `_MODEL`, `_KEY` if it wants one, `_TIMEOUT_S`."""
JUDGE = "BLAMESPAN_JUDGE"
"""The same of the endpoint that says who is to blame."""

ATTEMPTS = 3
"""How often an endpoint is asked for one answer."""
_LONGEST_ASKED_S = 20.0
"""However long a `Retry-After` asks for."""
_MAX_ANSWER_BYTES = 1_000_000
_MAX_ERROR_BYTES = 4_000
_MAX_MESSAGE_CHARS = 160
_OK = 200
_TRANSIENT_STATUSES = (408, 409, 425, 429)
"""Beside those of 500 and more."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        url: Up to and without `/chat/completions`.
        model: Which model.
        key: API key; empty if it wants none. Never shown.
        timeout_s: Seconds for one attempt, answer and all.
    """

    url: str
    model: str
    key: str = ""
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, {self.model!r})"

    @classmethod
    def from_environment(cls, prefix: str) -> Self:
        """Read the variables that begin with *prefix*.

        Raises:
            ConfigError: if one is missing or wrong.
        """
        url, model = os.environ.get(f"{prefix}_URL", "").strip(), os.environ.get(f"{prefix}_MODEL", "").strip()
        if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
            raise ConfigError(
                f"{prefix}_URL must be an http(s) URL, got {url!r}. Set it like {prefix}_URL=http://localhost:8000/v1"
            )
        if not model:
            raise ConfigError(f"{prefix}_MODEL must name a model, got nothing. Set it to one the endpoint serves")
        timeout = os.environ.get(f"{prefix}_TIMEOUT_S", "60")
        try:
            timeout_s = float(timeout)
        except ValueError:
            timeout_s = 0.0
        if not 0 < timeout_s < float("inf"):
            raise ConfigError(f"{prefix}_TIMEOUT_S must be seconds above 0, got {timeout!r}. Leave it out for 60")
        key = os.environ.get(f"{prefix}_KEY", "").strip()
        if not re.fullmatch(r"[!-~]*", key):  # it goes into a header; never shown
            raise ConfigError(f"{prefix}_KEY must be ASCII without blanks, got something else. Copy it again")
        return cls(url.rstrip("/"), model, key, timeout_s)

    def ask(self, request: Mapping[str, object]) -> bytes:
        """Send a request once, wait, and return the body of the answer.

        Raises:
            EndpointError: if there is no answer before the timeout, however slowly headers and body drip.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.ask_async(request))
        with ThreadPoolExecutor(1) as thread:  # this one has a loop, which waits as its owner wants
            return thread.submit(asyncio.run, self.ask_async(request)).result()

    async def ask_async(self, request: Mapping[str, object]) -> bytes:
        """Send a request as `ask` does, without keeping the event loop."""
        limits = HttpLimits(
            total_s=self.timeout_s,
            silence_s=self.timeout_s,
            connect_s=self.timeout_s,
            max_bytes=_MAX_ANSWER_BYTES,
            max_error_bytes=_MAX_ERROR_BYTES,
        )
        client = HttpClient(
            headers={"Content-Type": "application/json"},
            secrets={"Authorization": f"Bearer {self.key}"} if self.key else None,
            limits=limits,
            make_ssl_context=_make_ssl_context,
        )
        content = json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        try:
            response = await client.request("POST", f"{self.url}/chat/completions", content=content)
        except ResponseTimeout as error:
            raise EndpointError("timeout", was_sent=error.was_sent) from error
        except ResponseTooLarge as error:
            raise EndpointError("answer too long", was_sent=True) from error
        except HttpError as error:
            raise EndpointError(type(error.__cause__ or error).__name__, was_sent=error.was_sent) from error
        except ConfigError as error:
            raise EndpointError("InvalidURL") from error
        finally:
            await client.aclose()
        if response.status != _OK:
            raise EndpointError(
                f"HTTP {response.status}",
                retry_after_s=response.retry_after_s(),
                is_transient=response.status in _TRANSIENT_STATUSES or response.status >= 500,
                status=response.status,
                body=response.text,
            )
        return response.content


class EndpointError(Exception):
    """An attempt had no answer that can be used.

    Attributes:
        reason: In a word or two.
        is_transient: Whether another attempt can succeed.
        status: The HTTP status, 0 where there was none.
        body: The beginning of what the server answered; empty where there was no answer. Untrusted.
        was_sent: Whether the server had the whole request and did not refuse it: it may have been paid for.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after_s: float | None = None,
        is_transient: bool = True,
        status: int = 0,
        body: str = "",
        was_sent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_transient = is_transient
        self.status = status
        self.body = body
        self.was_sent = was_sent
        self._retry_after_s = retry_after_s

    def wait_s(self, attempt: int, first_wait_s: float) -> float:
        """Return the seconds to wait after attempt *attempt*, from 0: twice as many each time, or `Retry-After`."""
        policy = RetryPolicy(first_wait_s=first_wait_s, longest_asked_s=_LONGEST_ASKED_S)
        return policy.wait_s(attempt + 1, self._retry_after_s)

    @property
    def message(self) -> str:
        """Return the server's message of the protocol, short and on one line; empty without one. Untrusted."""
        try:
            error = json.loads(self.body)["error"]
            message = error["message"] if isinstance(error, dict) else error
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
        text = printable(message) if isinstance(message, str) else ""
        return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}..."


@cache
def _make_ssl_context() -> ssl.SSLContext:
    """Read the machine's certificates once, not for every request."""
    import httpx

    return httpx.create_ssl_context()
