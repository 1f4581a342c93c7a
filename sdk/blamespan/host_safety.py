"""Never break the host: all recording code runs inside one shield; the user's own calls stay outside it."""

from __future__ import annotations

import logging
from types import TracebackType

_logger = logging.getLogger("blamespan")


class _HostShield:
    """Shields blocks of code. `shield_host.strict = True` lets errors through: for our own tests."""

    def __init__(self) -> None:
        self.strict = False
        self._reported: set[str] = set()

    def __call__(self, action: str) -> _ShieldedBlock:
        """Keep errors of a block that records something from the user's program.

        An error inside ends the block, is logged once per *action* on the logger `blamespan` (later
        ones at DEBUG) and goes no further. `KeyboardInterrupt`, `SystemExit`, cancellation and other
        exceptions that are no `Exception` pass.

        Args:
            action: What is being done, for the log: `"autogen: record message"`. A constant, not data.
        """
        return _ShieldedBlock(self, action)

    def report(self, action: str, error: BaseException) -> None:
        """Log that *action* failed."""
        level = logging.DEBUG if action in self._reported else logging.WARNING
        self._reported.add(action)
        _logger.log(
            level,
            "could not %s: %s: %s. Your program goes on; its trace may be incomplete. Please report this.",
            action,
            type(error).__name__,
            error,
            exc_info=error,
        )


class _ShieldedBlock:
    __slots__ = ("_action", "_shield")

    def __init__(self, shield: _HostShield, action: str) -> None:
        self._shield = shield
        self._action = action

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception) or self._shield.strict:
            return False
        self._shield.report(self._action, error)
        return True


shield_host = _HostShield()
"""The one shield of the process."""
