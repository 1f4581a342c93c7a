"""Back ends that hold traces: how `blamespan analyze` asks them for runs, and writes verdicts back.

A back end is named by a URL whose scheme is the name of an entry point of the group `blamespan.backends`:
`phoenix://localhost:6006/my-project`, `tempo+https://tempo.example.com`. Keys never stand in it: each back end says
which environment variables it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Protocol, cast, runtime_checkable
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from blamespan.attribution import Attribution
from blamespan.errors import ConfigError, NotWritten, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection, time_of
from blamespan.plugins import load_plugin, plugins

_GROUP = "blamespan.backends"
_SECURE = "+https"
_OPTIONS = ("since", "until", "limit")
_KEY_OPTIONS = frozenset({"api_key", "apikey", "key", "password", "secret", "secret_key", "token"})
_OTLP_SCHEMES = {"http": "otlp", "https": "otlp+https"}
"""Where verdicts go as spans: what people call an OTLP endpoint."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a back end is.

    Attributes:
        origin: Scheme, host and port of its API: `http://localhost:6006`.
        path: What follows, as it stands in the URL.
        name: The URL for people and as a source's name: without options.
    """

    origin: str
    path: str
    name: str

    def base_and_last(self) -> tuple[str, str]:
        """Split the URL into that of the API and its last part, as a project's or a service's name.

        What stands before the last slash is where the API lies, behind a proxy for example.
        """
        before, _, last = self.path.rpartition("/")
        return self.origin + before, unquote(last)

    @property
    def base(self) -> str:
        """The whole URL as that of the API."""
        return self.origin + self.path.rstrip("/")


class Reader(Protocol):
    """A back end that is asked. It finds traces, and reads the runs in them; each trouble is an error in its place."""

    remaining: Selection
    """What the back end was not asked for, and must be looked for in each run; how many are wanted is no part of it."""

    def trace_ids(self) -> Iterator[str | UnreadableInput]:
        """Yield the ids of the traces that are wanted, as the back end writes them, the oldest first."""
        ...

    def runs(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class SpanReader(Reader, Protocol):
    """A back end that holds spans, and can give them along."""

    def runs_with_spans(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces, each with its spans (`RecordedRun.spans`)."""
        ...


class Writer(Protocol):
    """Takes verdicts back to where people look at the runs.

    The same verdict twice changes nothing where the back end keeps one, or the run was read from there.

    Attributes:
        written: Runs whose verdicts were taken.
        failed: Runs whose verdicts were not; each was told to whoever opened it.
        notes: What whoever wrote verdicts should know of the back end and of verdicts left out; may be missing.
    """

    written: int
    failed: int

    def write(self, results: Iterable[tuple[RecordedRun, Attribution]]) -> None:
        """Write the verdicts on runs; one that is refused does not keep the others back."""
        ...

    def close(self) -> None:
        """Write what is left, and let go of connections."""
        ...


class Backend(Protocol):
    """Knows one kind of back end. Offered as an entry point of the group `blamespan.backends`."""

    name: str
    """The scheme of its URLs."""
    description: str
    """One line: what it gives, what that loses, and the variables with its keys."""

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Open it for reading.

        Raises:
            ConfigError: if it cannot be read, or a key is missing.
        """
        ...

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Open it for writing.

        Raises:
            ConfigError: if it cannot be written, or a key is missing.
        """
        ...


def is_backend(source: str) -> bool:
    """Check whether *source* is the URL of a back end that somebody offers."""
    scheme, separator, _ = source.partition("://")
    return bool(separator) and scheme.lower().removesuffix(_SECURE) in _names()


def open_reader(url: str, selection: Selection) -> Reader:
    """Open the back end at *url* for reading; options of the URL go before *selection*.

    The options `since` and `until` say what `Selection` says, `limit` how many traces to ask for at most; all others
    are filters.

    Raises:
        ConfigError: if the URL is none, holds a key, or the back end cannot be read.
        MissingExtra: if it needs a package that is not installed.
    """
    parts = _parts(url)
    return _load(parts.scheme).reader(_address(parts), _select(parts, selection))


def open_writer(url: str, *, on_failure: Callable[[NotWritten], None] = lambda failure: None) -> Writer:
    """Open the back end at *url* for writing verdicts; `http://` and `https://` are OTLP endpoints.

    Args:
        url: `phoenix://`, `langfuse://`, `otlp://`, or with `+https`.
        on_failure: Told each time a run's verdict could not be written, and why.

    Raises:
        ConfigError: if the URL is none, holds a key, or the back end cannot be written.
        MissingExtra: if it needs a package that is not installed.
    """
    scheme, _, rest = url.partition("://")
    parts = _parts(f"{_OTLP_SCHEMES.get(scheme.lower(), scheme)}://{rest}")
    if parts.query:
        raise ConfigError(f"--write-back takes no options, got {parts.query!r}. Leave them out")
    return _load(parts.scheme).writer(_address(parts), on_failure)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_url = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigError(
            f"expected a URL like phoenix://localhost:6006, got {url.rpartition('@')[2]!r}. Write scheme, host and port"
        )
    if "@" in parts.netloc:
        raise ConfigError(
            f"expected a URL without a key, got one for {parts.hostname!r} with it. Keys are read from the "
            "environment: see docs/how-to/analyze.md"
        )
    return parts


@cache
def _names() -> frozenset[str]:
    """List the back ends that are offered; once, as each piece asks."""
    return frozenset(plugins(_GROUP))


@cache
def _load(scheme: str) -> Backend:
    return cast(Backend, load_plugin(_GROUP, scheme.lower().removesuffix(_SECURE))())


def _address(parts: SplitResult) -> Address:
    scheme = "https" if parts.scheme.lower().endswith(_SECURE) else "http"
    name = f"{parts.scheme.lower()}://{parts.netloc}{parts.path}"
    return Address(f"{scheme}://{parts.netloc}", parts.path, name)


def _select(parts: SplitResult, selection: Selection) -> Selection:
    options: Mapping[str, str] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if _KEY_OPTIONS & {name.lower() for name in options}:
        raise ConfigError(
            f"expected a URL without a key, got one for {parts.hostname!r} with it. Keys are read from the "
            "environment: see docs/how-to/analyze.md"
        )
    now = datetime.now(UTC)
    since, until, limit = (options.get(name) for name in ("since", "until", "limit"))
    if limit is not None and not limit.isdecimal():
        raise ConfigError(f"expected limit= with a whole number, got {limit!r}. Write it like limit=100")
    return Selection(
        since=time_of(since, now) if since else selection.since,
        until=time_of(until, now) if until else selection.until,
        filters={**selection.filters, **{k: v for k, v in options.items() if k not in _OPTIONS}},
        limit=int(limit) if limit else None,
    )
