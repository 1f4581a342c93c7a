"""Who is told of incidents: whoever Apprise reaches, and OTLP log back ends. Blocking, each for one thread.

What a receiver's URL holds (tokens, passwords, paths of web hooks) stands in no log, no error and no file: a receiver
goes by its kind, `slack`, `mailto`, `json 2`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Final, Protocol
from urllib.parse import unquote

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from blamespan import conventions as words
from blamespan.annotate import cut
from blamespan.errors import BlamespanError, ConfigError
from blamespan.otlp.proto import write_attributes
from blamespan.plugins import require
from blamespan.trace import AttributeValue
from blamespan_collector.alerting.text import write_alert
from blamespan_collector.delivering.backend import BackendAccess
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.store import Incident

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blamespan_collector.settings import CollectorSettings

EVENT: Final = "blamespan.incident"
"""Name of the log event."""
INCIDENT_ID: Final = "blamespan.incident.id"
"""str: 12 hex digits, the same in every store."""
INCIDENT_STATE: Final = "blamespan.incident.state"
"""str: `open`; `quiet`, as it was closed after quiet; `closed`, by a person."""
INCIDENT_RUNS: Final = "blamespan.incident.runs"
"""int: how many runs it counts."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,30}(?=://)", re.IGNORECASE)
_PIECES: Final = re.compile(r"[^\w.-]+")
_LEAST_SECRET: Final = 4
_TALKATIVE: Final = ("apprise", "urllib3", "requests", "oauthlib", "requests_oauthlib")
"""Loggers that name whole URLs."""
_MOST_REASON_BYTES: Final = 300


class NotTold(BlamespanError):
    """A receiver did not take an alert now."""


class Receiver(Protocol):
    """Is told of incidents.

    Attributes:
        name: What it goes by, without secrets.
        hears_states: Whether it is told each change of state, rather than at most once an hour that there are runs.
    """

    name: str
    hears_states: bool

    def send(self, incidents: Sequence[Incident]) -> None:
        """Tell of incidents.

        Raises:
            NotTold: if it did not take that.
        """
        ...


class AppriseReceiver:
    """Whoever Apprise reaches.

    Args:
        url: As Apprise writes it.
        name: What it goes by.
        link: URL of the page.

    Raises:
        ConfigError: if Apprise does not know such a URL.
        MissingExtra: if Apprise is not installed.
    """

    hears_states = False

    def __init__(self, url: str, name: str, link: str) -> None:
        require("apprise", "alerts")
        import apprise  # loads a hundred plugins: only where alerts are sent

        self.name, self._url, self._link = name, url, link
        self._format, self._type = apprise.NotifyFormat.TEXT, apprise.NotifyType.WARNING
        asset = apprise.AppriseAsset(app_id="blamespan", app_desc="blamespan", app_url=link, async_mode=False)
        self._apprise = apprise.Apprise(asset=asset)
        with _hear_reasons():
            is_known = self._apprise.add(url)
        if not is_known:
            raise ConfigError(
                f"alerts-to: expected the URL of a receiver as Apprise writes it, got one for {name!r} that it cannot "
                "read. Try it with: apprise -vv --dry-run URL"
            )

    def send(self, incidents: Sequence[Incident]) -> None:
        """Send one message.

        Raises:
            NotTold: if it was not taken.
        """
        title, body = write_alert(incidents, self._link)
        with _hear_reasons() as reasons:
            try:
                is_sent = self._apprise.notify(body, title, notify_type=self._type, body_format=self._format)
            except Exception as error:  # a plugin of somebody's
                raise NotTold(self._redact(f"{type(error).__name__}: {error}")) from None
        if not is_sent:
            raise NotTold(self._redact("; ".join(reasons)) or "it did not take it")

    def _redact(self, reason: str) -> str:
        """Leave out of a reason whatever stands in the URL."""
        pieces = {*_PIECES.split(self._url), *_PIECES.split(unquote(self._url))}
        for piece in sorted(pieces, key=len, reverse=True):
            if len(piece) >= _LEAST_SECRET:
                reason = reason.replace(piece, "***")
        return cut(" ".join(reason.split()), _MOST_REASON_BYTES)


class LogReceiver:
    """An OTLP log back end, which gets an event for each change of an incident's state.

    Args:
        url: As for `forwarder`.
        access: How to come there.
    """

    hears_states = True

    def __init__(self, url: str, access: BackendAccess) -> None:
        self._url, self._access = url, access
        self.name = f"incidents at {forwarder(url, access, ('logs',)).name}"

    def send(self, incidents: Sequence[Incident]) -> None:
        """Send one request.

        Raises:
            NotTold: if it was not taken.
        """
        try:
            asyncio.run(self._send(write_events(incidents)))
        except Exception as error:  # also what the client did not foresee: it is tried again
            raise NotTold(cut(f"{error}", _MOST_REASON_BYTES)) from error

    async def _send(self, request: bytes) -> None:
        sink = forwarder(self._url, self._access, ("logs",))
        try:
            await sink.send("logs", [request])
        finally:
            await sink.close()


def write_events(incidents: Sequence[Incident]) -> bytes:
    """Write a log event for each incident; the same state is the same time and id."""
    request = ExportLogsServiceRequest()
    for incident in incidents:
        group = request.resource_logs.add()
        named = {"service.name": incident.service, "service.version": incident.version}
        group.resource.attributes.extend(write_attributes({key: value for key, value in named.items() if value}))
        scoped = group.scope_logs.add()
        scoped.scope.name = words.VERDICT_SCOPE
        scoped.log_records.append(_log_record(incident))
    return request.SerializeToString()


def _log_record(incident: Incident) -> LogRecord:
    is_open = incident.state == "open"
    taxonomy, _, code = incident.mode.partition(":")
    attributes: dict[str, AttributeValue] = {
        INCIDENT_ID: incident.id,
        INCIDENT_STATE: incident.state,
        INCIDENT_RUNS: incident.runs,
        words.LIKENESS: incident.likeness,
        words.BLAME_AGENT: incident.agent,
        words.EVIDENCE: incident.quote,
        words.ERROR_TAXONOMY: taxonomy,
        words.ERROR_MODE: code,
        words.ERROR_NAME: incident.mode_name,
    }
    warning, info = SeverityNumber.SEVERITY_NUMBER_WARN, SeverityNumber.SEVERITY_NUMBER_INFO
    return LogRecord(
        time_unix_nano=incident.state_ns,
        observed_time_unix_nano=incident.state_ns,
        severity_number=warning if is_open else info,
        event_name=EVENT,
        trace_id=bytes.fromhex(incident.last_trace),
        flags=1,
        attributes=write_attributes({key: value for key, value in attributes.items() if value != ""}),
    )


def receivers(settings: CollectorSettings) -> list[Receiver]:
    """Make the receivers that the settings name.

    Raises:
        ConfigError: if one cannot be what it is told to be.
        MissingExtra: if Apprise is not installed.
    """
    counts: Counter[str] = Counter()
    made: list[Receiver] = []
    for url in settings.alerts_to:
        kind = kind_of(url)
        counts[kind] += 1
        name = kind if counts[kind] == 1 else f"{kind} {counts[kind]}"
        made.append(AppriseReceiver(url, name, page_link(settings)))
    access = BackendAccess.of(settings)
    return [*made, *(LogReceiver(url, access) for url in settings.evaluations)]


def kind_of(url: str) -> str:
    """Return the kind of an Apprise URL, which is all of it that is no secret."""
    match = _SCHEME.match(url)
    return match.group().lower() if match else "no URL"


def page_link(settings: CollectorSettings) -> str:
    """Return where people reach the page."""
    return (settings.alerts_link or f"http://{settings.page}").rstrip("/")


class _Reasons(logging.Handler):
    """Hears why Apprise does not send something, whichever of its threads says so."""

    of_call: ClassVar[ContextVar[list[str] | None]] = ContextVar("of_call", default=None)

    def emit(self, record: logging.LogRecord) -> None:
        reasons = self.of_call.get()
        if reasons is not None and record.levelno >= logging.WARNING:
            reasons.append(record.getMessage())


@contextmanager
def _hear_reasons() -> Iterator[list[str]]:
    """Hear what Apprise and what it is built on log meanwhile, none of which goes on: it may hold a token."""
    for name in _TALKATIVE:
        logging.getLogger(name).propagate = False
    logger = logging.getLogger(_TALKATIVE[0])
    if not any(isinstance(handler, _Reasons) for handler in logger.handlers):
        logger.addHandler(_Reasons())
    reasons: list[str] = []
    token = _Reasons.of_call.set(reasons)
    try:
        yield reasons
    finally:
        _Reasons.of_call.reset(token)
