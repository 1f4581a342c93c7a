"""Tokens and certificates that change while the collector runs: read again, without a restart."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from blamespan.errors import BlamespanError
from blamespan_collector.receiving.tls import ServerTls
from blamespan_collector.receiving.tokens import BearerTokens, read_tokens
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.stamps import Stamps

_logger = logging.getLogger("blamespan.collector")

_LOOK_EVERY_S = 5.0


class Renewal:
    """Looks at the files every few seconds. What is wrong in them is logged, and what was read before still counts.

    Args:
        settings: Names the files.
        tokens: Gets what the token file holds; a token that is gone from it is refused from then on.
        tls: Told when a file of its own changed.
    """

    def __init__(self, settings: CollectorSettings, tokens: BearerTokens, tls: ServerTls | None) -> None:
        self._settings, self._tokens, self._tls = settings, tokens, tls
        self._token_stamps = Stamps(_existing(settings.token_file))
        self._tls_stamps = Stamps(_existing(settings.tls_cert, settings.tls_key, settings.tls_client_ca))

    @property
    def has_files(self) -> bool:
        """Check whether there is anything to read again."""
        return bool(self._token_stamps.paths or self._tls_stamps.paths)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while self.has_files:
            await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.to_thread(self.look)

    def look(self, *, is_asked: bool = False) -> None:
        """Read what changed since the last look; where somebody asks, all of it."""
        if self._token_stamps.have_changed() or (is_asked and self._token_stamps.paths):
            self._renew_tokens()
        if self._tls is not None and (self._tls_stamps.have_changed() or is_asked):
            try:
                self._tls.renew()
                _logger.warning("TLS certificates were read again")
            except BlamespanError as error:
                _logger.error("TLS certificates stay as they were: %s", error)

    def _renew_tokens(self) -> None:
        try:
            tokens = read_tokens(self._settings.token_file, os.environ.get("BLAMESPAN_TOKEN"))
        except BlamespanError as error:
            _logger.error("tokens stay as they were: %s", error)
            return
        self._tokens.replace(tokens)
        _logger.warning("tokens were read again: %d are known", len(tokens))


def _existing(*paths: Path | None) -> Iterable[Path]:
    return [path for path in paths if path is not None]
