"""Connections to backends that are made anew when their certificates change."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from blamespan.errors import ConfigError
from blamespan_collector.stamps import Stamps

__all__ = ["Renewed"]

_logger = logging.getLogger("blamespan.collector")

_Connection = TypeVar("_Connection")


class Renewed(Generic[_Connection]):
    """Gives the connection to use now.

    Args:
        make: Makes one of the files as they are; called first when one is asked for.
        close: Closes one.
        files: What it is made of.
    """

    def __init__(
        self,
        make: Callable[[], _Connection],
        close: Callable[[_Connection], Awaitable[object]],
        files: Iterable[Path | None],
    ) -> None:
        self._make, self._close = make, close
        self._stamps = Stamps(path for path in files if path)
        self._open: list[_Connection] = []

    async def get(self) -> _Connection:
        """Give it; where files are not what they should be, the one from before.

        Raises:
            ConfigError: if there is none from before.
        """
        if self._stamps.have_changed() or not self._open:
            try:
                self._open.append(self._make())
            except ConfigError as error:
                if not self._open:
                    raise
                _logger.error("certificates for backends stay as they were: %s", error)
            while len(self._open) > 2:  # requests may still be under way on the one before
                await self._close(self._open.pop(0))
        return self._open[-1]

    async def close(self) -> None:
        """Close all there are."""
        while self._open:
            await self._close(self._open.pop())
