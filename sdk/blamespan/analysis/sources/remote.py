"""Files that lie elsewhere, by any URL that fsspec opens.

Each is fetched to a temporary file for as long as it is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from blamespan.analysis.sources.spooling import PREFIX, copy_bounded
from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.http_client import TRANSIENT_STATUSES, RetryPolicy, parse_retry_after
from blamespan.plugins import require

RETRIES = RetryPolicy(attempts=3, first_wait_s=1.0)
_SECRET = re.compile(r"(?i)(signature|^sig$|token|key|secret|passw|credential|auth)")
_QUERY = re.compile(r"[?][^\s'\"<>)]+")
_WEB = ("http", "https")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file behind a URL.

    Attributes:
        name: Its URL without what is secret in it.
        url: Its URL.
        size: In bytes, where the other side says so.
    """

    name: str
    url: str
    size: int | None


def check_url(url: str) -> None:
    """See that *url* can be opened at all, without opening it.

    Raises:
        MissingExtra: if that needs a package that is not installed.
        ConfigError: if nobody knows its scheme.
    """
    require("fsspec", "remote")
    import fsspec

    for part in url.split("::"):
        scheme, separator, _ = part.partition("://")
        if not separator:
            continue  # a path on this machine, at the end of a chain
        try:
            fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            raise MissingExtra(f"reading {scheme}:// needs another package: {error}") from error
        except ValueError as error:
            raise ConfigError(
                f"expected a URL of a back end or of a file system that fsspec knows, got {scheme!r}://. "
                "docs/how-to/analyze.md lists them"
            ) from error


def remote_files(url: str, *, is_data: Any) -> Iterator[RemoteFile]:
    """Yield the file at *url*; of a pattern all that match, of a folder all below it that *is_data* takes, sorted.

    Raises:
        UnreadableInput: if the other side does not answer, or there is none.
    """
    import fsspec

    with _hide_secrets(url):
        system, path = fsspec.core.url_to_fs(url)
        is_web = url.partition("://")[0] in _WEB
        if any(mark in path for mark in ("*[" if is_web else "*?[")):
            paths = sorted(system.glob(path))
        elif not is_web and system.isdir(path):
            paths = sorted(name for name in system.find(path) if is_data(Path(name)))
        else:
            yield RemoteFile(public_url(url), url, _size(system, path))
            return
        files = [_member(url, system, name) for name in paths if not system.isdir(name)]
    if not files:
        raise UnreadableInput(f"{public_url(url)}: expected recorded runs, got nothing of that name. Check the URL.")
    yield from files


@contextmanager
def fetched(url: str) -> Iterator[Path]:
    """Fetch *url* to a temporary file, which is removed at the end.

    Raises:
        UnreadableInput: if it cannot be fetched whole.
    """
    with NamedTemporaryFile(prefix=PREFIX) as target:
        for attempt in range(1, RETRIES.attempts + 1):
            try:
                _fetch(url, target)
                break
            except UnreadableInput as error:
                if _is_final(error.__cause__) or attempt == RETRIES.attempts:
                    raise
                time.sleep(RETRIES.wait_s(attempt, _retry_after_s(error.__cause__)))
        yield Path(target.name)


def public_url(url: str) -> str:
    """Return *url* without user, password, and the options that are a signature or a key."""
    return "::".join(_public(part) for part in url.split("::"))


def _fetch(url: str, target: Any) -> None:
    import fsspec

    with _hide_secrets(url):
        target.seek(0)
        target.truncate()
        system, path = fsspec.core.url_to_fs(url)
        with system.open(path, "rb") as source:
            copy_bounded(source, target, public_url(url))


@contextmanager
def _hide_secrets(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into an error that names the URL, and nothing secret of it."""
    try:
        yield
    except UnreadableInput:
        raise
    except Exception as error:  # each file system of fsspec has errors of its own
        why = f"{error}; {error.__cause__}" if error.__cause__ else str(error)
        reason = _QUERY.sub("?...", why.replace(url, public_url(url)))
        raise UnreadableInput(
            f"expected a readable file, got {public_url(url)!r} ({type(error).__name__}: {reason}). Check the URL, "
            "and the keys in the environment."
        ) from error


def _is_final(error: BaseException | None) -> bool:
    """Check whether asking again is no use; over HTTP fsspec calls any trouble a missing file, and keeps its reason."""
    status = getattr(error.__cause__, "status", 404) if error else 404
    is_transient = status in TRANSIENT_STATUSES or status >= 500
    return isinstance(error, FileNotFoundError | PermissionError) and not is_transient


def _retry_after_s(error: BaseException | None) -> float | None:
    """Read the `Retry-After` of a response of aiohttp, which fsspec keeps as the cause of its own error."""
    response = error if hasattr(error, "headers") else getattr(error, "__cause__", None)
    return parse_retry_after((getattr(response, "headers", None) or {}).get("retry-after"), now_s=time.time())


def _member(url: str, system: Any, path: str) -> RemoteFile:
    """Name a file that was found behind *url*."""
    first, chained, rest = url.partition("::")
    whole = f"{first.partition('://')[0]}://{path}{chained}{rest}" if chained else str(system.unstrip_protocol(path))
    return RemoteFile(public_url(whole), whole, _size(system, path))


def _size(system: Any, path: str) -> int | None:
    """Ask for a file's size; whoever cannot say it may still give the file."""
    try:
        size = system.size(path)
    except Exception:  # each file system of fsspec has errors of its own; reading tells the trouble
        return None
    return size if isinstance(size, int) else None


def _public(part: str) -> str:
    scheme, separator, rest = part.partition("://")
    if not separator:
        return part
    address, mark, query = rest.partition("?")
    host, slash, path = address.partition("/")
    kept = "&".join(option for option in query.split("&") if option and not _SECRET.search(option.partition("=")[0]))
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" + (f"{mark}{kept}" if kept else "")
