"""What `blamespan collect --check` tries: everything that a start would stumble over."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from blamespan.errors import BlamespanError, ConfigError
from blamespan_collector.delivering.destinations import destinations
from blamespan_collector.journal import FolderLock, JournalReader
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.settings import DEFAULT_PAGE, Address, CannotListen, CollectorSettings

__all__ = ["problems"]


def problems(settings: CollectorSettings) -> list[str]:
    """Say what would keep a collector with *settings* from starting or working; nothing where it would."""
    found: list[str] = []
    for attempt in _attempts(settings):
        try:
            attempt()
        except BlamespanError as error:
            found.append(str(error))
    return found


def _attempts(settings: CollectorSettings) -> Iterator[Callable[[], object]]:
    page = settings.page if settings.page != DEFAULT_PAGE else None  # a start goes on without it
    given = (
        ("--grpc", settings.grpc),
        ("--http", settings.http),
        ("--monitor", settings.monitor),
        ("--page", page),
    )
    for flag, address in given:
        if address is not None:
            yield lambda flag=flag, address=address: _listen(flag, address)  # type: ignore[misc]  # bound now
    yield lambda: ServerTls.of(settings)
    for path in (settings.forward_ca, settings.forward_cert, settings.forward_key):
        yield lambda path=path: _read(path)  # type: ignore[misc]  # bound now
    yield lambda: _journal(settings)
    yield lambda: destinations(settings)


def _listen(flag: str, address: Address) -> None:
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
