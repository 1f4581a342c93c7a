"""What `blamespan collect --check` tries: everything that a start would stumble over."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import BlamespanError, ConfigError
from blamespan_collector.delivering.destinations import destinations
from blamespan_collector.delivering.sinks import Refused, Remote, Sink
from blamespan_collector.journal import FolderLock, JournalReader
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.settings import DEFAULT_PAGE, CannotListen, CollectorSettings, ListenAddress

_OPTIONAL = frozenset({"logs", "metrics"})
"""What many backends of traces do not take, each in its own way."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of trying everything.

    Attributes:
        addresses: `NAME = URL` for each backend and kind, in order.
        answers: What backends answered that is in order.
        problems: What would keep a collector from starting or working.
    """

    addresses: Sequence[str]
    answers: Sequence[str]
    problems: Sequence[str]


def check(settings: CollectorSettings) -> Checked:
    """Try what a start with *settings* would need, and send every backend a request with nothing in it."""
    with _leaving_nothing(settings):
        return _try(settings)


def _try(settings: CollectorSettings) -> Checked:
    problems: list[str] = []
    for attempt in _attempts(settings):
        try:
            attempt()
        except BlamespanError as error:
            problems.append(str(error))
    sinks: Sequence[Sink] = ()
    try:
        sinks = destinations(settings)
    except BlamespanError as error:
        problems.append(str(error))
    addresses, answers, failures = asyncio.run(_ask(sinks))
    return Checked(addresses, answers, [*problems, *failures])


@contextmanager
def _leaving_nothing(settings: CollectorSettings) -> Iterator[None]:
    """Take away what a try makes: files that were not there, and folders that nobody has put something into since."""
    out = Path(settings.out) if settings.out and settings.out != "-" else None
    journal = settings.journal
    files = [path for path in (journal / "segments", journal / "intake.lock", settings.store, out) if path is not None]
    paths = {path for file in files for path in (file, *file.parents) if not path.exists()}
    try:
        yield
    finally:
        for path in sorted(paths, key=lambda path: -len(path.parts)):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()


async def _ask(sinks: Sequence[Sink]) -> tuple[list[str], list[str], list[str]]:
    """Ask every backend for every kind, all at the same time."""
    asked = [
        (sink, kind, url)
        for sink in sinks
        if isinstance(sink, Remote)
        for kind, url in sorted(sink.addresses().items())
    ]
    results = await asyncio.gather(*(sink.probe(kind) for sink, kind, _ in asked), return_exceptions=True)
    await asyncio.gather(*(sink.close() for sink in sinks), return_exceptions=True)
    addresses, answers, problems = [], [], []
    for (_, kind, url), result in zip(asked, results, strict=True):
        addresses.append(f"{kind} to {url}")
        if isinstance(result, Refused) and kind in _OPTIONAL:
            answers.append(f"{url} takes no {kind}, which are set aside where they come: {result}")
        elif isinstance(result, BaseException):
            problems.append(f"{url} does not take {kind}: {_describe(result)}")
        else:
            answers.append(f"{url} took an empty request of {kind}: {result}")
    return addresses, answers, problems


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, BlamespanError) else f"{type(error).__name__}: {error}"


def _attempts(settings: CollectorSettings) -> Iterator[Callable[[], object]]:
    page = settings.page if settings.page != DEFAULT_PAGE else None  # a start goes on without it
    listeners = (
        ("--grpc", settings.grpc),
        ("--http", settings.http),
        ("monitor", settings.monitor),
        ("--page", page),
    )
    for flag, address in listeners:
        if address is not None:
            yield lambda flag=flag, address=address: _listen(flag, address)  # type: ignore[misc]  # bound now
    yield lambda: ServerTls.of(settings)
    for path in (settings.forward_ca, settings.forward_cert, settings.forward_key):
        yield lambda path=path: _read(path)  # type: ignore[misc]  # bound now
    yield lambda: _journal(settings)


def _listen(flag: str, address: ListenAddress) -> None:
    try:
        family, *_ = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {address}: {error.strerror or error}. Stop what listens there, or choose another "
            f"with {flag} {address.host}:PORT"
        ) from error


def _read(path: Path | None) -> None:
    if path is None:
        return
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(f"expected a file at {str(path)!r}: {error.strerror}") from error


def _journal(settings: CollectorSettings) -> None:
    FolderLock(settings.journal, "intake").release()
    reader = JournalReader(settings.journal)
    for segment in reader.segments():
        reader.check(segment)
    reader.close()
