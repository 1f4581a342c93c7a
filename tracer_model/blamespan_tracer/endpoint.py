"""An OpenAI-compatible endpoint: where it is, what it was asked and did not answer, and when to ask again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Self

import httpx

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError

__all__ = ["ATTEMPTS", "JUDGE", "MANIPULATOR", "SUITE", "Endpoint", "Refused"]

MANIPULATOR = "BLAMESPAN_MANIPULATOR"
"""Names the variables of the endpoint that writes faults: `_URL` (`http://localhost:8000/v1`, up to and without
`/chat/completions`), `_MODEL`, `_KEY` if it wants one, `_TIMEOUT_S`."""
SUITE = "BLAMESPAN_SUITE"
"""The same of the endpoint that speaks for the agents of bundled teams."""
JUDGE = "BLAMESPAN_JUDGE"
"""The same of the endpoint that says who is to blame."""

ATTEMPTS = 3
"""How often an endpoint is asked for one answer."""
_MOST_WAIT_S = 20.0
"""However long a `Retry-After` asks for."""
_MOST_ANSWER_BYTES = 1_000_000
_MOST_REFUSAL_BYTES = 4_000
_MOST_TOLD_CHARS = 160


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
    def from_environment(cls, named: str) -> Self:
        """Read the variables that begin with *named*.

        Raises:
            ConfigError: if one is missing or wrong.
        """
        url, model = os.environ.get(f"{named}_URL", "").strip(), os.environ.get(f"{named}_MODEL", "").strip()
        if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
            raise ConfigError(
                f"{named}_URL must be an http(s) URL, got {url!r}. Set it like {named}_URL=http://localhost:8000/v1"
            )
        if not model:
            raise ConfigError(f"{named}_MODEL must name a model, got nothing. Set it to one the endpoint serves")
        said = os.environ.get(f"{named}_TIMEOUT_S", "60")
        try:
            timeout_s = float(said)
        except ValueError:
            timeout_s = 0.0
        if not 0 < timeout_s < float("inf"):
            raise ConfigError(f"{named}_TIMEOUT_S must be seconds above 0, got {said!r}. Leave it out for 60")
        key = os.environ.get(f"{named}_KEY", "").strip()
        if not re.fullmatch(r"[!-~]*", key):  # it goes into a header; never shown
            raise ConfigError(f"{named}_KEY must be ASCII without blanks, got something else. Copy it again")
        return cls(url.rstrip("/"), model, key, timeout_s)

    def ask(self, asked: Mapping[str, object]) -> bytes:
        """Ask once, and wait; gives the body of the answer.

        Raises:
            Refused: if there is none before the timeout, however slowly headers and body drip.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.ask_async(asked))
        with ThreadPoolExecutor(1) as thread:  # this one has a loop, which waits as its owner wants
            return thread.submit(asyncio.run, self.ask_async(asked)).result()

    async def ask_async(self, asked: Mapping[str, object]) -> bytes:
        """Ask as `ask` does, without keeping the event loop."""
        found, sent = bytearray(), _Sent()
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                httpx.AsyncClient(timeout=self.timeout_s, headers=self._headers(), verify=_tls()) as client,
                client.stream("POST", self._target, json=asked, extensions={"trace": sent.note}) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    raise _refused(response, await _beginning(response))
                async for part in response.aiter_bytes():
                    found += part
                    if len(found) > _MOST_ANSWER_BYTES:
                        raise Refused("answer too long", was_sent=True)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise Refused("timeout", was_sent=sent.is_all) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise Refused(type(error).__name__, was_sent=sent.is_all) from error
        return bytes(found)

    @property
    def _target(self) -> str:
        return f"{self.url}/chat/completions"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


class Refused(Exception):
    """An attempt came to nothing.

    Attributes:
        reason: In a word or two.
        is_passing: Whether asking again can help.
        status: The HTTP status, 0 where there was none.
        said: What the server says of it, its beginning; empty where there was no answer. Untrusted.
        was_sent: Whether the server had the whole question and did not turn it down: it may have been paid for.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait_s: float = 0.0,
        is_passing: bool = True,
        status: int = 0,
        said: str = "",
        was_sent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_passing = is_passing
        self.status = status
        self.said = said
        self.was_sent = was_sent
        self._wait_s = wait_s

    def pause_s(self, attempt: int, first_s: float) -> float:
        """Give the seconds to wait after attempt number *attempt*, from 0: twice as many each time, or as asked for."""
        return max(first_s * float(1 << attempt), min(self._wait_s, _MOST_WAIT_S))

    @property
    def message(self) -> str:
        """Give the server's message of the protocol, short and on one line; empty where there is none. Untrusted."""
        try:
            found = json.loads(self.said)["error"]
            told = found["message"] if isinstance(found, dict) else found
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
        plain = printable(told) if isinstance(told, str) else ""
        return plain if len(plain) <= _MOST_TOLD_CHARS else f"{plain[:_MOST_TOLD_CHARS]}..."


class _Sent:
    """Notes whether a whole question went out."""

    def __init__(self) -> None:
        self.is_all = False

    async def note(self, event: str, _: object) -> None:
        """Hear of what the connection does."""
        self.is_all = self.is_all or event.endswith("send_request_body.complete")


@cache
def _tls() -> ssl.SSLContext:
    """Read the machine's certificates once, not for every question."""
    return httpx.create_ssl_context()


def _refused(response: httpx.Response, said: str) -> Refused:
    status = response.status_code
    asked_for = response.headers.get("retry-after", "")
    is_passing = status in (408, 409, 425, 429) or status >= 500
    wait_s = _seconds(asked_for)
    return Refused(f"HTTP {status}", wait_s=wait_s, is_passing=is_passing, status=status, said=said)


def _seconds(asked_for: str) -> float:
    """Read a `Retry-After`: seconds, or a date; 0 where it is neither."""
    if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", asked_for):
        return float(asked_for)
    try:
        return max(parsedate_to_datetime(asked_for).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError, OSError):
        return 0.0


async def _beginning(response: httpx.Response) -> str:
    """Read the beginning of what a server says beside a status that is no answer."""
    found = bytearray()
    async for part in response.aiter_bytes():
        found += part
        if len(found) >= _MOST_REFUSAL_BYTES:
            break
    return found[:_MOST_REFUSAL_BYTES].decode("utf-8", "replace")
