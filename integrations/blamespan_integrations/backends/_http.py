"""Asking the HTTP API of a back end that may be slow, throttle, fail midway, or not be what its address says.

Keys go to the address that was named and nowhere else: a redirect is followed within it only, and no message of ours
tells a header, or an option of a URL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.importing.files import MAX_LINE_BYTES
from blamespan.json_text import parse_json

try:
    import httpx
except ModuleNotFoundError as error:
    raise MissingExtra(
        "asking a back end needs the package 'httpx', which is not installed. "
        "Install it with: pip install 'blamespan[remote]'"
    ) from error

__all__ = ["Api", "Options", "Patience", "TooLarge", "Unanswered", "headers_from", "listed", "text_of"]

Options: TypeAlias = Sequence[tuple[str, str | int]]
"""Of a URL; one may stand there several times."""

_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_ENCODINGS = ("", "identity", "gzip", "deflate")
"""Others may hide many thousand times as much as they send."""
_BLOCK_BYTES = 1 << 16
_GIVEN_UP_AFTER = 3
"""So many questions in a row without an answer, and the next ones are asked once each, without waiting."""
_silent: dict[str, int] = {}
"""How many questions in a row had no answer, by origin: kept over clients, as each piece has its own."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on asking.

    Attributes:
        attempts: At most.
        first_wait_s: Before the second attempt, twice as long before each further one, unless the answer says how long.
        longest_wait_s: Before any attempt, unless the answer says how long.
        in_all_s: From the first attempt on, waiting included; none begins later.
        answer_s: For one answer to come, from its first byte to its last.
        silence_s: For a connection, or for the next byte.
    """

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0
    in_all_s: float = 180.0
    answer_s: float = 300.0
    silence_s: float = 60.0


PATIENCE = Patience()
"""What every client begins with."""


class Unanswered(UnreadableInput):
    """A back end did not give what it was asked for.

    Attributes:
        status: Of its answer, or None where there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Unanswered):
    """An answer is larger than what is read at once; a narrower question may have a smaller one."""


class Api:
    """The HTTP API of one back end.

    Args:
        who: Its name, for messages.
        base: Its URL, with the path it lies at.
        headers: Sent with every request.
        auth: User and password.
        keys: The environment variables with its keys, for messages.
    """

    def __init__(
        self,
        who: str,
        base: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        keys: str = "",
    ) -> None:
        self._who = who
        self._base = base
        self._keys = keys
        self._patience = PATIENCE
        self._origin = _origin(httpx.URL(base))
        is_secure = base.startswith("https:")
        try:
            self._client = httpx.Client(
                headers={"user-agent": "blamespan", "accept-encoding": "gzip", **(headers or {})},
                auth=auth,
                timeout=self._patience.silence_s,
                follow_redirects=False,
                verify=is_secure,  # certificates take longer to load than many an answer to come
                trust_env=is_secure,  # proxies and certificates; never for what goes in the clear
            )
        except (UnicodeEncodeError, ValueError) as error:
            raise ConfigError(
                f"expected keys and headers for {who} in ASCII, got others. Check {keys or 'the environment'}"
            ) from error

    def get_json(self, path: str, options: Options = ()) -> Any:
        """Ask for JSON.

        Args:
            path: Below the base.
            options: Of the URL.

        Raises:
            Unanswered: if the back end did not give it, however often it was asked.
            TooLarge: if it is longer than `MAX_LINE_BYTES`.
        """
        body = self.get(path, options)
        try:
            return parse_json(body)
        except ValueError as error:
            raise Unanswered(
                f"{self._place(path)}: expected JSON from {self._who}, got {body[:60]!r}. Is this its address?"
            ) from error

    def get_object(self, path: str, options: Options = ()) -> dict[str, Any]:
        """Ask for one JSON object; likewise."""
        found = self.get_json(path, options)
        if not isinstance(found, dict):
            raise Unanswered(
                f"{self._place(path)}: expected an object from {self._who}, got {str(found)[:60]!r}. "
                "Is this its address?"
            )
        return found

    def get(self, path: str, options: Options = ()) -> bytes:
        """Ask for anything; likewise."""
        return self._asked("GET", path, options, b"", {"accept": "application/json"})

    def post(self, path: str, body: bytes, media_type: str, options: Options = ()) -> bytes:
        """Send something that may be sent twice; likewise."""
        return self._asked("POST", path, options, body, {"content-type": media_type})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _asked(self, method: str, path: str, options: Options, body: bytes, headers: Mapping[str, str]) -> bytes:
        patience = self._patience
        began_s = time.monotonic()
        attempts = 1 if _silent.get(self._origin, 0) >= _GIVEN_UP_AFTER else patience.attempts
        attempt = 0
        while True:
            attempt += 1
            answer = self._sent(method, path, options, body, headers)
            if isinstance(answer, bytes):
                _silent.pop(self._origin, None)
                return answer
            wait_s = answer.wait_s or min(patience.first_wait_s * 2 ** (attempt - 1), patience.longest_wait_s)
            if attempt >= attempts or time.monotonic() - began_s + wait_s > patience.in_all_s:
                break
            time.sleep(wait_s)
        _silent[self._origin] = _silent.get(self._origin, 0) + 1
        raise Unanswered(f"{self._place(path)}: {answer.reason}, at attempt {attempt}. Try again later.", answer.status)

    def _sent(
        self, method: str, path: str, options: Options, body: bytes, headers: Mapping[str, str]
    ) -> bytes | _Again:
        url = httpx.URL(self._base + path).copy_merge_params([(key, str(value)) for key, value in options])
        for _ in range(_MAX_REDIRECTS):
            try:
                with self._client.stream(method, url, content=body or None, headers=dict(headers)) as answer:
                    if answer.status_code not in _REDIRECTS:
                        return self._read(answer, path)
                    url = self._elsewhere(answer, path)
            except httpx.TransportError as error:
                return _Again(f"expected an answer from {self._who}, got {type(error).__name__}: {error}")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Unanswered(
                    f"{self._place(path)}: expected an answer from {self._who}, got one that cannot be read "
                    f"({type(error).__name__}). Is this its address?"
                ) from error
        raise Unanswered(f"{self._place(path)}: expected an answer from {self._who}, got redirects without end.")

    def _read(self, answer: httpx.Response, path: str) -> bytes | _Again:
        place, status = self._place(path), answer.status_code
        if status in _TRY_AGAIN:
            return _Again(f"expected an answer from {self._who}, got HTTP {status}", status, _retry_after_s(answer))
        if answer.headers.get("content-encoding", "").lower() not in _ENCODINGS:
            raise Unanswered(f"{place}: expected an answer compressed by gzip or not, got another.", status)
        body = self._body(answer, place) if answer.is_success else self._body(answer, place, max_bytes=2_000)
        if answer.is_success:
            return body
        if status in (401, 403):
            raise Unanswered(
                f"{place}: expected to be let in by {self._who}, got HTTP {status}. "
                f"Set {self._keys or 'its keys in the environment'}.",
                status,
            )
        raise Unanswered(f"{place}: expected an answer from {self._who}, got HTTP {status} {body[:120]!r}.", status)

    def _body(self, answer: httpx.Response, place: str, *, max_bytes: int = MAX_LINE_BYTES) -> bytes:
        found = bytearray()
        began_s = time.monotonic()
        for block in answer.iter_bytes(_BLOCK_BYTES):
            found += block
            if len(found) > max_bytes:
                if not answer.is_success:
                    break
                raise TooLarge(f"{place}: expected an answer of at most {max_bytes} bytes, got more.")
            if time.monotonic() - began_s > self._patience.answer_s:
                raise Unanswered(
                    f"{place}: expected an answer within {self._patience.answer_s:.0f} s, got part of one."
                )
        return bytes(found)

    def _elsewhere(self, answer: httpx.Response, path: str) -> httpx.URL:
        """Follow a redirect within the same origin."""
        target = answer.url.join(answer.headers.get("location", ""))
        if _origin(target) != self._origin or answer.request.method != "GET":
            raise Unanswered(
                f"{self._place(path)}: expected an answer from {self._who}, got a redirect to {_origin(target)!r}. "
                "It is not followed, as keys would go there; name that address if it is the right one.",
                answer.status_code,
            )
        return target

    def _place(self, path: str) -> str:
        return f"{self._base}{path}"


@dataclass(frozen=True, slots=True)
class _Again:
    """Why to ask again, and when, if the answer says so."""

    reason: str
    status: int | None = None
    wait_s: float | None = None


def headers_from(variable: str) -> dict[str, str]:
    """Read headers from an environment variable, written as OpenTelemetry's: `name=value,name=value`, values encoded.

    Raises:
        ConfigError: if it is written otherwise; the message does not say what.
    """
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in os.environ.get(variable, "").split(","))):
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise ConfigError(
                f"expected {variable} to list headers, got something else. Write it like "
                f"{variable}='Authorization=Bearer%20KEY,X-Scope-OrgID=team'"
            )
        found[name.strip()] = unquote(value.strip())
    return found


def text_of(value: Any, key: str) -> str | None:
    """Read a field that should be text, fit to be sent again; None where it is absent or something else."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) and found else None


def listed(owner: Mapping[str, Any], key: str, place: str) -> Iterable[Mapping[str, Any]]:
    """Read a field that should list objects.

    Raises:
        UnreadableInput: if it does not.
    """
    found = owner.get(key)
    if isinstance(found, list) and all(isinstance(item, Mapping) for item in found):
        return found
    raise UnreadableInput(f"{place}: expected {key!r} to list objects, got {str(found)[:60]!r}.")


def _origin(url: httpx.URL) -> str:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return f"{url.scheme}://{url.host}:{port}"


def _retry_after_s(answer: httpx.Response) -> float | None:
    said = answer.headers.get("retry-after", "").strip()
    if said.isdecimal():
        return float(said[:6])
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
