"""TLS of the receivers: whether its files are what they should be, and reading them again when they change."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from blamespan.errors import ConfigError
from blamespan_collector.settings import CollectorSettings

_logger = logging.getLogger("blamespan.collector")

_TELL_EVERY_S = 10.0
"""Whoever can reach us can make handshakes fail: they must not fill the log."""
_WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ServerTls:
    """Who we are, and whom we take; connections that come after `renew` see the files as they are then.

    Args:
        cert: Certificate chain, PEM.
        key: Its key, PEM.
        client_ca: Certificates of the CA that clients must bring one of, PEM; None: anybody may come.

    Attributes:
        failures: HTTP connections whose handshake failed.

    Raises:
        ConfigError: if a file cannot be read, or certificate and key do not belong together.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None) -> None:
        self.cert, self.key, self.client_ca = cert, key, client_ca
        self.failures = 0
        self._told_s = -_TELL_EVERY_S
        self.renew()

    @classmethod
    def of(cls, settings: CollectorSettings) -> ServerTls | None:
        """Take the receivers' files from *settings*; None where there is no TLS.

        Raises:
            ConfigError: as the class.
        """
        if settings.tls_cert is None or settings.tls_key is None:
            return None
        return cls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)

    def renew(self) -> None:
        """Read the files again.

        Raises:
            ConfigError: if they are not what they should be; then those from before still count.
        """
        try:
            context = self._context()
            pair = (self.key.read_bytes(), self.cert.read_bytes())
            ca = self.client_ca.read_bytes() if self.client_ca else None
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise ConfigError(
                f"expected a certificate and its key as PEM, got tls-cert {str(self.cert)!r}, "
                f"tls-key {str(self.key)!r}, tls-client-ca {str(self.client_ca)!r}: {error}"
            ) from error
        self._latest = context
        self._for_grpc = grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)

    def http_context(self) -> ssl.SSLContext:
        """Make what HTTPS needs: at every handshake it looks for what was read last."""
        outer = self._context()

        def choose(handshake: ssl.SSLObject, *_: object) -> None:
            handshake.context = self._latest

        outer.sni_callback = choose  # called for every handshake, also where the client names no host
        outer.sslobject_class = _noticing(self._note_failure)
        return outer

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Make what gRPC needs; it, too, asks at every handshake."""
        configuration = self._for_grpc

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal configuration
            if configuration is self._for_grpc:
                return None  # as before
            configuration = self._for_grpc
            return configuration

        return grpc.dynamic_ssl_server_credentials(
            configuration,
            fetch,  # type: ignore[arg-type]  # None means: as before, says its documentation
            require_client_authentication=self.client_ca is not None,
        )

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key, password=_no_password)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A session that is resumed shows no certificate: a CA that was taken away would still count
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _note_failure(self, error: ssl.SSLError) -> None:
        self.failures += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            _logger.warning("a sender's TLS handshake failed, %d by now: %s", self.failures, _why(error))


def _noticing(note: Callable[[ssl.SSLError], None]) -> type[ssl.SSLObject]:
    """Make a class of TLS connections that says why a handshake failed: asyncio tells nobody."""

    class Noticing(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except _WANTS:
                raise
            except ssl.SSLError as error:
                note(error)
                raise

    return Noticing


def _why(error: ssl.SSLError) -> str:
    reason: Any = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not of tls-client-ca ({error.verify_message})"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it showed no certificate, and tls-client-ca asks for one"
    if reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER"):
        return "it does not speak TLS: its URL should begin with https"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason or "CERTIFICATE_UNKNOWN" in reason:
        return f"it does not trust our tls-cert ({reason})"
    return f"{reason or error}"


def _no_password() -> str:
    raise ValueError("the key is encrypted. Give one that is not")
