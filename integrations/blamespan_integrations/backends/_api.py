"""Asking the HTTP API of a back end for JSON, again and again where that may help.

Keys go to the address that was named and nowhere else: a redirect is followed within it only, and no message of ours
shows a header, or the query of a URL.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from blamespan.errors import ConfigError, UnreadableInput
from blamespan.http_client import (
    TRANSIENT_STATUSES,
    BlockingHttpClient,
    HttpClient,
    HttpError,
    HttpLimits,
    HttpResponse,
    Params,
    ResponseTooLarge,
    RetryPolicy,
    TransportError,
    UnreadableResponse,
    UnsupportedEncoding,
)
from blamespan.importing.files import MAX_LINE_BYTES
from blamespan.json_text import parse_json

LIMITS = HttpLimits(max_bytes=MAX_LINE_BYTES, max_error_bytes=2_000)
"""Of each answer, for every new client."""
RETRIES = RetryPolicy()
"""Of each question, for every new client."""
_MAX_UNANSWERED = 3
"""So many questions in a row without an answer, and the next ones are asked once each, without waiting."""
_unanswered: dict[str, int] = {}
"""How many questions in a row had no answer, by base URL: kept over clients, as each piece has its own."""


class BackendError(UnreadableInput):
    """A back end did not give what it was asked for.

    Attributes:
        status: Of its answer, or None where there was none.
        is_address_wrong: Whether the answer is not that of such a back end.
    """

    def __init__(self, message: str, status: int | None = None, *, is_address_wrong: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.is_address_wrong = is_address_wrong


class AnswerTooLarge(BackendError):
    """An answer is larger than what is read at once; a narrower question may have a smaller one."""


class BackendApi:
    """The HTTP API of one back end.

    Args:
        product: Its name, for messages.
        base: Its URL, with the path it lies at.
        headers: Sent with every request.
        auth: User and password.
        keys: The environment variables with its keys, for messages.
    """

    def __init__(
        self,
        product: str,
        base: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        keys: str = "",
    ) -> None:
        self._product = product
        self._base = base
        self._keys = keys
        self._retries = RETRIES
        try:
            client = HttpClient(
                secrets=headers,
                auth=auth,
                limits=LIMITS,
                trust_env=base.startswith("https:"),  # proxies and certificates; never for what goes in the clear
            )
        except ConfigError as error:
            raise ConfigError(
                f"expected keys and headers for {product} in ASCII, got others. Check {keys or 'the environment'}"
            ) from error
        self._client = BlockingHttpClient(client)

    def get_json(self, path: str, params: Params = ()) -> Any:
        """Ask for JSON.

        Args:
            path: Below the base.
            params: The query of the URL.

        Raises:
            BackendError: if the back end did not give it, however often it was asked.
            AnswerTooLarge: if it is longer than `MAX_LINE_BYTES`.
        """
        body = self.get(path, params)
        try:
            return parse_json(body)
        except ValueError as error:
            raise self._wrong_address(path, "JSON", repr(body[:60])) from error

    def get_object(self, path: str, params: Params = ()) -> dict[str, Any]:
        """Ask for one JSON object; likewise."""
        value = self.get_json(path, params)
        if not isinstance(value, dict):
            raise self._wrong_address(path, "an object", repr(str(value)[:60]))
        return value

    def get(self, path: str, params: Params = ()) -> bytes:
        """Ask for anything; likewise."""
        return self._request("GET", path, params, b"", {"accept": "application/json"})

    def post(self, path: str, body: bytes, media_type: str, params: Params = ()) -> bytes:
        """Send something that may be sent twice; likewise."""
        return self._request("POST", path, params, body, {"content-type": media_type})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, method: str, path: str, params: Params, body: bytes, headers: Mapping[str, str]) -> bytes:
        retries = self._retries
        if _unanswered.get(self._base, 0) >= _MAX_UNANSWERED:
            retries = RetryPolicy(attempts=1)
        try:
            response = self._client.request(
                method, self._base + path, content=body, headers=headers, params=params, retries=retries
            )
        except TransportError as error:
            raise self._no_answer(path, error.reason, error.attempts) from error
        except HttpError as error:
            raise self._unusable(path, error) from error
        if response.status in TRANSIENT_STATUSES:
            raise self._no_answer(path, f"HTTP {response.status}", response.attempts, response.status)
        _unanswered.pop(self._base, None)
        return self._body(path, response)

    def _body(self, path: str, response: HttpResponse) -> bytes:
        """Return the body of a success.

        Raises:
            BackendError: for any other status.
        """
        url, status = self._base + path, response.status
        if response.is_success:
            return response.content
        if response.redirected_to:
            raise BackendError(
                f"{url}: expected an answer from {self._product}, got a redirect to {response.redirected_to!r}. "
                "It is not followed, as keys would go there; name that address if it is the right one.",
                status,
            )
        if status in (401, 403):
            raise BackendError(
                f"{url}: expected to be let in by {self._product}, got HTTP {status}. "
                f"Set {self._keys or 'its keys in the environment'}.",
                status,
            )
        raise BackendError(
            f"{url}: expected an answer from {self._product}, got HTTP {status} {response.content[:120]!r}.", status
        )

    def _no_answer(self, path: str, reason: str, attempts: int, status: int | None = None) -> BackendError:
        _unanswered[self._base] = _unanswered.get(self._base, 0) + 1
        return BackendError(
            f"{self._base}{path}: expected an answer from {self._product}, got {reason}, at attempt {attempts}. "
            "Try again later.",
            status,
        )

    def _unusable(self, path: str, error: HttpError) -> BackendError:
        if isinstance(error, ResponseTooLarge):
            return AnswerTooLarge(f"{self._base}{path}: {error}")
        if isinstance(error, UnsupportedEncoding):
            return BackendError(f"{self._base}{path}: {error}")
        if isinstance(error, UnreadableResponse):
            return self._wrong_address(path, f"an answer from {self._product}", error.reason)
        return BackendError(f"{self._base}{path}: expected an answer from {self._product}, got {error.reason}.")

    def _wrong_address(self, path: str, expected: str, got: str) -> BackendError:
        source = "" if self._product in expected else f" from {self._product}"
        return BackendError(
            f"{self._base}{path}: expected {expected}{source}, got {got}. Is this its address?", is_address_wrong=True
        )


def read_headers(variable: str) -> dict[str, str]:
    """Read headers from an environment variable, written as OpenTelemetry's: `name=value,name=value`, values encoded.

    Raises:
        ConfigError: if it is written otherwise; the message does not show its value.
    """
    headers: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in os.environ.get(variable, "").split(","))):
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise ConfigError(
                f"expected {variable} to list headers, got something else. Write it like "
                f"{variable}='Authorization=Bearer%20KEY,X-Scope-OrgID=team'"
            )
        headers[name.strip()] = unquote(value.strip())
    return headers


def text_in(record: Any, key: str) -> str | None:
    """Read a field that should be text, fit to be sent again; None where it is absent or something else."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def objects_in(record: Mapping[str, Any], key: str, source: str) -> Iterable[Mapping[str, Any]]:
    """Read a field that should list objects.

    Args:
        record: The object with the field.
        key: The field.
        source: Where the object came from, for the message.

    Raises:
        UnreadableInput: if it does not.
    """
    value = record.get(key)
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        return value
    raise UnreadableInput(f"{source}: expected {key!r} to list objects, got {str(value)[:60]!r}.")
