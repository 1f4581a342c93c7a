"""What can be set: one record per concern, one field per setting, whose metadata is its help.

`options.py` reads them: an option wins over a `BLAMESPAN_*` variable, that over the file, that over the default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from blamespan.errors import BlamespanError, ConfigError
from blamespan.tracers import DEFAULT_TRACER

DEFAULT_MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""The most that OpenTelemetry's Python exporter sends in one request; what it sends, we take."""
_MAY_BE_ZERO = ("drain_s", "keep_delivered_s")

Sync: TypeAlias = Literal["full", "normal"]
"""When something is acknowledged. `full`: once it is on the disk. `normal`: once it is handed to the system; it
survives `kill -9`, but not a power cut."""
LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class CannotListen(BlamespanError):
    """An address is taken or not ours; the same command may work later, or with another address."""


def _about(metavar: str, help_text: str) -> dict[str, str]:
    return {"metavar": metavar, "help": help_text}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a trace and how much to hold.

    Attributes:
        quiet_s: Seconds without a new span after which a trace whose root ended is complete.
        idle_s: Seconds without a new span after which any trace is let go. A span is sent when it ends: while a
            model thinks or a person is asked, nothing comes.
        max_age_s: Seconds after its first span at which any trace is let go.
        max_traces: Traces held at most.
        max_bytes: Bytes held at most: as the spans came for `blamespan collect`, which holds them on disk; as they
            are in memory for the embedded mode.

    Raises:
        ConfigError: if one is not positive.
    """

    quiet_s: float = field(default=1.0, metadata=_about("SECONDS", "Silence that completes an ended trace."))
    idle_s: float = field(default=300.0, metadata=_about("SECONDS", "Silence after which any trace is let go."))
    max_age_s: float = field(default=3600.0, metadata=_about("SECONDS", "Age at which any trace is let go."))
    max_traces: int = field(default=10_000, metadata=_about("NUMBER", "Traces held at most."))
    max_bytes: int = field(default=128 * 1024 * 1024, metadata=_about("BYTES", "Bytes of spans held at most."))

    def __post_init__(self) -> None:
        for setting in fields(self):
            may_be_zero = setting.name == "quiet_s"
            _check_positive(setting.name, getattr(self, setting.name), setting.default, may_be_zero=may_be_zero)

    @classmethod
    def of_environment(cls, **defaults: float) -> Limits:
        """Read `BLAMESPAN_QUIET_S`, `BLAMESPAN_IDLE_S` and so on; what is not set is as in *defaults*.

        Raises:
            ConfigError: if one is not a number, or not positive.
        """
        values: dict[str, float] = dict(defaults)
        for setting in fields(cls):
            name = f"BLAMESPAN_{setting.name.upper()}"
            text = os.environ.get(name)
            if text:
                values[setting.name] = _number(name, text, whole=isinstance(setting.default, int))
        return cls(**values)  # type: ignore[arg-type]  # whole numbers where the fields are


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen.

    Attributes:
        host: Name or IP address.
        port: 0 for any free one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Check whether only this machine can reach it."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    @classmethod
    def parse(cls, text: str) -> ListenAddress | None:
        """Read `HOST:PORT` or `[IPV6]:PORT`; `none` gives None.

        Raises:
            ConfigError: if it is something else.
        """
        if text.strip().lower() == "none":
            return None
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ConfigError(f"expected an address as HOST:PORT, or 'none', got {text!r}. Set it like 127.0.0.1:4318")
        return cls(host, int(port))


DEFAULT_PAGE = ListenAddress("127.0.0.1", 4320)
"""Where `blamespan collect` serves the page unless told otherwise; it goes on without where that is taken."""


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """What `blamespan collect` can be told; `metadata["help"]` of each field says what it is.

    Paths are as given; secrets are left out of its `repr`.

    Raises:
        ConfigError: if there is nowhere to listen or nowhere to send, a number is not positive, or one file of a
            TLS pair is missing.
    """

    journal: Path = field(metadata=_about("DIR", "Folder that holds what was acknowledged until it is delivered."))
    grpc: ListenAddress | None = field(
        default=ListenAddress("127.0.0.1", 4317), metadata=_about("HOST:PORT", "OTLP/gRPC; `none`: off.")
    )
    http: ListenAddress | None = field(
        default=ListenAddress("127.0.0.1", 4318), metadata=_about("HOST:PORT", "OTLP/HTTP; `none`: off.")
    )
    http_hosts: tuple[str, ...] = field(
        default=(),
        metadata={
            "name": "http-host",
            "metavar": "NAME",
            "help": "Further name that OTLP/HTTP and the monitor are asked for by.",
        },
    )
    monitor: ListenAddress | None = field(
        default=None,
        metadata=_about("HOST:PORT", "Own address of /healthz, /readyz and /metrics; `none`: on the one of OTLP/HTTP."),
    )
    tls_cert: Path | None = field(default=None, metadata=_about("FILE", "Certificate chain (PEM) of both receivers."))
    tls_key: Path | None = field(default=None, metadata=_about("FILE", "Its key (PEM)."))
    tls_client_ca: Path | None = field(
        default=None, metadata=_about("FILE", "Take only clients with a certificate of this CA (PEM).")
    )
    token_file: Path | None = field(
        default=None, metadata=_about("FILE", "Bearer tokens senders must bring one of, one a line.")
    )
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """What `token_file` and `BLAMESPAN_TOKEN` hold; empty: anybody who can reach us may send."""

    forward: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "URL",
            "Backend: grpc(s)://HOST:PORT or http(s)://HOST:PORT[/PATH]. /v1/traces is appended to a base URL; a path "
            "whose last part is traces is used as it is.",
        ),
    )
    headers: tuple[tuple[str, str], ...] = field(
        default=(),
        repr=False,
        metadata={"name": "header", "metavar": "NAME=VALUE", "help": "Sent with what is forwarded.", "is_secret": True},
    )
    forward_ca: Path | None = field(
        default=None, metadata=_about("FILE", "Trust backends with a certificate of this CA (PEM).")
    )
    forward_cert: Path | None = field(default=None, metadata=_about("FILE", "Certificate (PEM) we show to backends."))
    forward_key: Path | None = field(default=None, metadata=_about("FILE", "Its key (PEM)."))
    out: str | None = field(default=None, metadata=_about("FILE", "Append traces as OTLP-JSON lines; `-`: stdout."))
    evaluations: tuple[str, ...] = field(
        default=(),
        metadata=_about("URL", "OTLP logs backend that gets verdicts as gen_ai.evaluation.result."),
    )
    phoenix: str | None = field(
        default=None, metadata=_about("URL", "Phoenix that gets verdicts as span annotations; key: PHOENIX_API_KEY.")
    )
    langfuse: str | None = field(
        default=None,
        metadata=_about(
            "URL", "Langfuse that gets verdicts as scores; keys: LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY."
        ),
    )
    store: Path | None = field(
        default=None,
        metadata=_about("FILE", "Store of the runs to look at; `none`: off."),
    )
    store_max_age_s: float = field(default=7 * 86_400.0, metadata=_about("SECONDS", "How long a run is stored."))
    store_max_bytes: int = field(
        default=2 * 1024**3, metadata=_about("BYTES", "Size at which the oldest stored runs go.")
    )
    page: ListenAddress | None = field(
        default=None,
        metadata={
            **_about("HOST:PORT", "The page that shows stored runs; `none`: off."),
            "default": str(DEFAULT_PAGE),
        },
    )
    page_hosts: tuple[str, ...] = field(
        default=(),
        metadata={
            "name": "page-host",
            "metavar": "NAME",
            "help": "Further name that the page is asked for by, as behind a proxy.",
        },
    )
    incident_after: int = field(
        default=1, metadata=_about("NUMBER", "Runs that fail alike from which on they are an open incident.")
    )
    incident_quiet_s: float = field(
        default=86_400.0, metadata=_about("SECONDS", "Time without another such run that closes an incident.")
    )
    alerts_to: tuple[str, ...] = field(
        default=(),
        repr=False,
        metadata={
            "name": "alerts-to",
            "metavar": "URL",
            "help": "Receiver of alerts on incidents, as Apprise writes it: mailto://..., slack://..., json://...",
            "is_secret": True,
        },
    )
    alerts_link: str | None = field(
        default=None, metadata=_about("URL", "Where people reach the page: alerts link to it.")
    )
    jaeger_ui: str | None = field(
        default=None,
        metadata=_about("URL", "Where people reach Jaeger's UI: the page links each run to its trace there."),
    )
    keep_delivered_s: float = field(
        default=300.0,
        metadata=_about(
            "SECONDS", "How long what a backend took is kept for `blamespan collect resend`; 0: not at all."
        ),
    )
    tracer: str = field(default=DEFAULT_TRACER, metadata=_about("NAME", "Who gives the verdicts."))
    tracer_processes: int = field(
        default=1,
        metadata=_about("NUMBER", "Processes that judge, a core each; 1: the worker judges, beside what else it does."),
    )
    deadline_s: float = field(
        default=60.0,
        metadata=_about(
            "SECONDS", "Time a verdict may take; after it the trace goes on, and the verdict follows as a revision."
        ),
    )
    limits: Limits = field(default_factory=lambda: Limits(max_traces=100_000, max_bytes=4 * 1024**3))

    journal_sync: Sync = field(
        default="full", metadata=_about("full|normal", "Acknowledge what survives a power cut, or a crash of ours.")
    )
    max_journal_bytes: int = field(
        default=10 * 1024**3, metadata=_about("BYTES", "Size of the journal at which senders must wait.")
    )
    max_request_bytes: int = field(
        default=DEFAULT_MAX_REQUEST_BYTES, metadata=_about("BYTES", "Largest request taken, decompressed.")
    )
    max_request_spans: int = field(default=50_000, metadata=_about("NUMBER", "Most spans in one request."))
    max_span_attributes: int = field(
        default=1024, metadata=_about("NUMBER", "Most attributes, events or links of one span.")
    )

    drain_s: float = field(
        default=7.0, metadata=_about("SECONDS", "Time to deliver after SIGTERM; the rest waits in the journal.")
    )
    log_format: LogFormat = field(default="text", metadata=_about("text|json", "How the log on stderr is written."))
    log_level: LogLevel = field(default="warning", metadata=_about("debug|info|warning|error", "How much is logged."))

    def __post_init__(self) -> None:
        if self.grpc is None and self.http is None:
            raise ConfigError("expected an address for --grpc or --http, got 'none' for both. Leave one of them out")
        if not self.forward and not self.out and not self.store:
            raise ConfigError(
                "expected somewhere to send annotated traces, got neither --forward nor --out nor a --store. Add "
                "--forward http://localhost:14318 (any OTLP backend) or --out traces.jsonl"
            )
        if self.page and not self.store:
            raise ConfigError(
                f"expected a --store for the --page at {self.page} to show, got none. Add --page none, or a --store"
            )
        if self.alerts_to and not self.store:
            raise ConfigError("expected a --store for alerts-to, got none: incidents are kept there. Leave one of them")
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, int | float):
                _check_positive(setting.name, value, setting.default, may_be_zero=setting.name in _MAY_BE_ZERO)
        self._check_choice("journal_sync", self.journal_sync, get_args(Sync))
        self._check_choice("log_format", self.log_format, get_args(LogFormat))
        self._check_choice("log_level", self.log_level, get_args(LogLevel))
        self._check_pair("tls_cert", "tls_key")
        self._check_pair("forward_cert", "forward_key")
        if self.tls_client_ca and not self.tls_cert:
            raise ConfigError("tls-client-ca needs tls-cert and tls-key: clients are asked inside TLS only")

    def _check_choice(self, name: str, value: str, choices: tuple[str, ...]) -> None:
        if value not in choices:
            raise ConfigError(f"{name.replace('_', '-')} must be one of {', '.join(choices)}, got {value!r}")

    def _check_pair(self, cert: str, key: str) -> None:
        if bool(getattr(self, cert)) != bool(getattr(self, key)):
            names = (cert.replace("_", "-"), key.replace("_", "-"))
            given, missing = names if getattr(self, cert) else reversed(names)
            raise ConfigError(f"{given} needs {missing} beside it: TLS takes a certificate and its key")


def _check_positive(name: str, value: float, default: object, *, may_be_zero: bool = False) -> None:
    if isinstance(value, bool) or not (value > 0 or (may_be_zero and value == 0)):
        raise ConfigError(
            f"{name} must be {'at least' if may_be_zero else 'above'} 0, got {value!r}. "
            f"Leave it out for the default, {default!r}"
        )


def _number(name: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        raise ConfigError(f"{name} must be a {'whole ' if whole else ''}number, got {text!r}") from error
