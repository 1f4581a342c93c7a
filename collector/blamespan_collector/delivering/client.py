"""How we come to a backend: what we send with every request, and the certificates of either side."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from blamespan.errors import ConfigError

__all__ = ["MAX_BATCH_BYTES", "Client"]

MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Largest request sent: gRPC servers take 4 MiB unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Client:
    """How we come to a backend.

    Attributes:
        headers: Sent with every request.
        ca: Certificates (PEM) to trust instead of the system's.
        cert: Certificate (PEM) that we show.
        key: Its key (PEM).
        max_bytes: Largest request sent.
    """

    headers: tuple[tuple[str, str], ...] = ()
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    max_bytes: int = MAX_BATCH_BYTES

    @property
    def files(self) -> tuple[Path | None, ...]:
        """List the files of its TLS."""
        return self.ca, self.cert, self.key

    def ssl_context(self) -> ssl.SSLContext:
        """Make what HTTPS needs.

        Raises:
            ConfigError: if a file is not what it should be.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"expected PEM files in --forward-ca, --forward-cert and --forward-key: {error}"
            ) from error
        return context

    def grpc_credentials(self) -> grpc.ChannelCredentials:
        """Make what gRPC over TLS needs.

        Raises:
            ConfigError: if a file cannot be read.
        """
        self.ssl_context()  # names what is wrong; gRPC would fail at every request, without saying why
        ca, cert, key = (path.read_bytes() if path else None for path in (self.ca, self.cert, self.key))
        return grpc.ssl_channel_credentials(ca, key, cert)
