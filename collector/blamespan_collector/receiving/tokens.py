"""Who may send: bearer tokens."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path

from blamespan.errors import ConfigError, reason_of

_SCHEME = "bearer "
_SHORTEST = 8


class BearerTokens:
    """The tokens that open the door; without any it stands open.

    Args:
        tokens: Each is good.
    """

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self.replace(tokens)

    def replace(self, tokens: Sequence[str]) -> None:
        """Know these from now on, and no others."""
        self._tokens = [token.encode() for token in tokens]

    def admits(self, authorization: str | bytes | None) -> bool:
        """Check whether an `Authorization` header brings one of them, in a time that tells nothing about them."""
        if not self._tokens:
            return True
        header = authorization.decode("latin-1") if isinstance(authorization, bytes) else authorization or ""
        if header[: len(_SCHEME)].lower() != _SCHEME:
            return False
        presented = header[len(_SCHEME) :].strip().encode("utf-8", "replace")
        return sum(hmac.compare_digest(presented, token) for token in self._tokens) > 0  # all are compared


def read_tokens(path: Path | None, variable: str | None) -> tuple[str, ...]:
    """Read tokens from a file, one a line, and from a variable's value, parted by spaces.

    Raises:
        ConfigError: if the file cannot be read or is empty, or a token is too short or no header could bring it.
    """
    tokens = (variable or "").split()
    if path is not None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"expected a file of tokens, one a line, at {str(path)!r}, got {reason_of(error)}"
            ) from error
        of_file = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not of_file:
            raise ConfigError(f"expected at least one token in {str(path)!r}, got none. Write one a line")
        tokens += of_file
    for token in tokens:
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(
                f"expected tokens of at least {_SHORTEST} ASCII characters without spaces, got one of {len(token)} "
                "characters. Make one with: openssl rand -hex 32"
            )
    return tuple(dict.fromkeys(tokens))
