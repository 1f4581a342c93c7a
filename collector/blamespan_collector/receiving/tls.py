"""TLS of the receivers: which files, and whether they are what they should be."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan_collector.settings import CollectorSettings

__all__ = ["ServerTls"]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Who we are, and whom we take.

    Attributes:
        cert: Certificate chain, PEM.
        key: Its key, PEM.
        client_ca: Certificates of the CA that clients must bring one of, PEM; None: anybody may come.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    @classmethod
    def of(cls, settings: CollectorSettings) -> ServerTls | None:
        """Take the receivers' files from *settings*; None where there is no TLS.

        Raises:
            ConfigError: if a file cannot be read, or certificate and key do not belong together.
        """
        if settings.tls_cert is None or settings.tls_key is None:
            return None
        tls = cls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        tls.context()
        return tls

    def context(self) -> ssl.SSLContext:
        """Make Python's record of it.

        Raises:
            ConfigError: as `of`.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise ConfigError(
                f"expected a certificate and its key as PEM, got --tls-cert {str(self.cert)!r}, "
                f"--tls-key {str(self.key)!r}, --tls-client-ca {str(self.client_ca)!r}: {error}"
            ) from error
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted. Give one that is not")
