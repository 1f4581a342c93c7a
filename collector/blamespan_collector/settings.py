"""What can be set, and how it is read: an argument wins over a `BLAMESPAN_*` variable, that over the default."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from blamespan.errors import BlamespanError, ConfigError
from blamespan.tracers import DEFAULT_TRACER

__all__ = ["Address", "CannotListen", "CollectorSettings", "Limits"]

DEFAULT_MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""The most that OpenTelemetry's Python exporter sends in one request; what it sends, we take."""


class CannotListen(BlamespanError):
    """An address is taken or not ours; the same command may work later, or with another address."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a trace and how much to hold.

    Attributes:
        quiet_s: Seconds without a new span after which a trace whose root ended is complete.
        idle_s: Seconds without a new span after which any trace is let go. A span is sent when it ends: while a
            model thinks or a person is asked, nothing comes.
        max_age_s: Seconds after its first span at which any trace is let go.
        max_traces: Traces held at most.
        max_bytes: Bytes held at most, as the spans came. In memory they take 4 times that with contents of
            10 KB, 9 times with contents of 100 bytes (measured).

    Raises:
        ConfigError: if one is not positive.
    """

    quiet_s: float = 1.0
    idle_s: float = 300.0
    max_age_s: float = 3600.0
    max_traces: int = 10_000
    max_bytes: int = 128 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_zero = field.name == "quiet_s"
            if not (value > 0 or (may_be_zero and value == 0)):
                raise ConfigError(
                    f"{field.name} must be {'at least' if may_be_zero else 'above'} 0, got {value!r}. "
                    f"Leave it out for the default, {field.default!r}"
                )

    @classmethod
    def of_environment(cls, **defaults: float) -> Limits:
        """Read `BLAMESPAN_QUIET_S`, `BLAMESPAN_IDLE_S` and so on; what is not set is as in *defaults*.

        Raises:
            ConfigError: if one is not a number, or not positive.
        """
        found: dict[str, float] = dict(defaults)
        for field in fields(cls):
            name = f"BLAMESPAN_{field.name.upper()}"
            said = os.environ.get(name)
            if said:
                found[field.name] = _number(name, said, whole=isinstance(field.default, int))
        return cls(**found)  # type: ignore[arg-type]  # whole numbers where the fields are


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.

    Attributes:
        host: Name or IP address.
        port: 0 for any free one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address | None:
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


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """What `blamespan collect` can be told.

    Attributes:
        grpc: Where to listen for OTLP/gRPC; None: not at all.
        http: Where to listen for OTLP/HTTP; None: not at all.
        forward: URLs of the backends that get the annotated spans.
        headers: Sent with every forwarded request, e.g. for authorization.
        out: File that gets the annotated traces as OTLP-JSON lines; `-` for stdout.
        tracer: Name of the tracer.
        limits: How long to wait and how much to hold.
        max_request_bytes: Largest request taken, after decompression.

    Raises:
        ConfigError: if there is nowhere to listen or nowhere to send.
    """

    grpc: Address | None = Address("127.0.0.1", 4317)
    http: Address | None = Address("127.0.0.1", 4318)
    forward: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    out: str | None = None
    tracer: str = DEFAULT_TRACER
    limits: Limits = Limits()
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES

    def __post_init__(self) -> None:
        if self.grpc is None and self.http is None:
            raise ConfigError("expected an address for --grpc or --http, got 'none' for both. Leave one of them out")
        if not self.forward and not self.out:
            raise ConfigError(
                "expected somewhere to send annotated traces, got neither --forward nor --out. Add "
                "--forward http://localhost:14318 (any OTLP backend) or --out traces.jsonl"
            )
        if self.max_request_bytes <= 0:
            raise ConfigError(f"max_request_bytes must be above 0, got {self.max_request_bytes!r}")


def _number(name: str, said: str, *, whole: bool) -> float:
    try:
        return int(said) if whole else float(said)
    except ValueError as error:
        raise ConfigError(f"{name} must be a {'whole ' if whole else ''}number, got {said!r}") from error
