"""Settings of the process that is watched: an argument wins over a variable, that over a default."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from blamespan import conventions
from blamespan.errors import ConfigError

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The standard variable that says whether contents may be recorded.

Source: OpenTelemetry GenAI conventions; `true`/`false` in the older instrumentations, a mode in the newer.
"""
CONTENT_ARGUMENTS = ("capture_content", "mask_secrets", "mask_keys", "mask", "max_content_bytes")
"""The arguments of `blamespan.instrument()`, and of every instrumentor's, that `ContentSettings.of` reads."""

_EXIT_S = 10.0

Mask = Callable[[str], str]
"""Gives a text back without what must not leave the process."""

_MODES = {
    "true": True,
    "span_only": True,
    "span_and_event": True,
    "false": False,
    "no_content": False,
    "event_only": False,  # we write no content events, and it forbids contents on spans
}
_SWITCH = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}

_logger = logging.getLogger("blamespan")


@dataclass(frozen=True, slots=True)
class ContentSettings:
    """What of a program's contents may leave the process.

    Attributes:
        capture: Whether contents are recorded at all: texts, arguments, results, descriptions, error messages.
        mask_secrets: Whether common secrets are masked: keys, tokens, e-mail addresses, card numbers.
        mask_keys: JSON keys whose values are masked at any depth.
        mask: The program's own masking; it sees every text after the other masks.
        max_bytes: Most UTF-8 bytes one content attribute may have.
    """

    capture: bool = True
    mask_secrets: bool = True
    mask_keys: tuple[str, ...] = ()
    mask: Mask | None = None
    max_bytes: int = conventions.DEFAULT_MAX_CONTENT_BYTES

    @classmethod
    def of(
        cls,
        *,
        capture_content: bool | None = None,
        mask_secrets: bool | None = None,
        mask_keys: Collection[str] | None = None,
        mask: Mask | None = None,
        max_content_bytes: int | None = None,
    ) -> ContentSettings:
        """Read each setting: its argument, else its variable, else its default.

        Raises:
            ConfigError: if an argument or a `BLAMESPAN_*` variable is wrong.
        """
        return cls(
            capture=_capture(capture_content),
            mask_secrets=_switch("mask_secrets", mask_secrets, "BLAMESPAN_MASK_SECRETS"),
            mask_keys=_names(mask_keys, "BLAMESPAN_MASK_KEYS"),
            mask=_callable(mask),
            max_bytes=_max_bytes(max_content_bytes),
        )

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> ContentSettings:
        """Read the settings among the arguments an instrumentor was given; others are left alone."""
        return cls.of(**{name: arguments[name] for name in CONTENT_ARGUMENTS if name in arguments})


def links_checkpoints(argument: bool | None) -> bool:
    """Return whether runs are noted in checkpoints: the argument, else its variable, else no.

    Raises:
        ConfigError: if either is wrong.
    """
    return _switch("link_checkpoints", argument, "BLAMESPAN_LINK_CHECKPOINTS", default=False)


def is_quiet(argument: bool | None) -> bool:
    """Return whether an embedded program writes nothing to stderr: the argument, else its variable, else no.

    Raises:
        ConfigError: if either is wrong.
    """
    return _switch("quiet", argument, "BLAMESPAN_QUIET", default=False)


def exit_s() -> float:
    """Return how long the end of the program waits at most for what is held: `BLAMESPAN_EXIT_S`, else 10 s.

    Raises:
        ConfigError: if the variable is wrong.
    """
    text = os.environ.get("BLAMESPAN_EXIT_S", "").strip()
    try:
        seconds = float(text) if text else _EXIT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ConfigError(
            f"BLAMESPAN_EXIT_S must be a number of seconds, got {text!r}. Set it like BLAMESPAN_EXIT_S=10"
        )
    return seconds


def _max_bytes(argument: int | None) -> int:
    name = "BLAMESPAN_MAX_CONTENT_BYTES"
    variable = os.environ.get(name, "").strip()
    limit = argument if argument is not None else variable or conventions.DEFAULT_MAX_CONTENT_BYTES
    try:
        value = int(limit)
    except (TypeError, ValueError):
        value = 0
    if value < 64:
        raise ConfigError(f"{name} must be a whole number of at least 64, got {limit!r}. Set it like {name}=32768")
    return value


def _capture(argument: bool | None) -> bool:
    if argument is not None:
        return _switch("capture_content", argument, CAPTURE_CONTENT)
    text = os.environ.get(CAPTURE_CONTENT, "").strip()
    if not text:
        return True
    if text.lower() not in _MODES:  # shared with other instrumentations, so no error: but nothing may leak
        _logger.warning("%s must be one of %s, got %r: no contents are recorded", CAPTURE_CONTENT, sorted(_MODES), text)
    return _MODES.get(text.lower(), False)


def _switch(name: str, argument: bool | None, variable: str, *, default: bool = True) -> bool:
    if argument is not None:
        if not isinstance(argument, bool):
            raise ConfigError(f"{name} must be True or False, got {argument!r}. Leave it out to have {variable} decide")
        return argument
    text = os.environ.get(variable, "").strip()
    if text and text.lower() not in _SWITCH:
        raise ConfigError(f"{variable} must be true or false, got {text!r}. Set it like {variable}=false")
    return _SWITCH.get(text.lower(), default)


def _names(argument: Collection[str] | None, variable: str) -> tuple[str, ...]:
    names = os.environ.get(variable, "").split(",") if argument is None else argument
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"mask_keys must be a list of names, got {argument!r}. Write it like mask_keys=['ssn']")
    return tuple(name.strip() for name in names if name.strip())


def _callable(mask: Mask | None) -> Mask | None:
    if mask is not None and not callable(mask):
        raise ConfigError(f"mask must be a function from text to text, got {mask!r}. Write it like mask=str.upper")
    return mask
