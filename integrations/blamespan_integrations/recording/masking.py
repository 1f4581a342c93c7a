"""What must not leave the process, taken out of texts and objects before they are cut to size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from blamespan.instrumenting.settings import ContentSettings
from blamespan_integrations.recording.command_lines import secrets_on_command_lines
from blamespan_integrations.recording.escapes import Undone, undo_escapes
from blamespan_integrations.recording.secret_keys import Meaning, is_secret_value, meaning_of, secrets_by_key, value_end
from blamespan_integrations.recording.secret_patterns import (
    LONGEST_SECRET,
    MASKED,
    ScannedText,
    Secret,
    secrets_by_form,
)

__all__ = ["MASKED", "REMEMBERED_CHARS", "UUID", "Masker", "mask_secrets"]

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What many ids are: no secret by its form, and each is another."""
REMEMBERED_CHARS = 4_096
"""Masked texts of up to this length are remembered: one message is recorded up to four times, by the model, its agent,
the next agent and that one's model; a tool's answer by the tool, its agent and that one's model."""
_SHORTEST_SECRET = 10
"""Characters of the shortest secret that is no e-mail address."""
_UNMASKABLE = "[withheld: mask failed]"
"""Stands for a text that the program's own masking failed on."""


class Masker:
    """Masks as *settings* say: values of keys, common secrets, then what the program's own function masks.

    Args:
        settings: What to mask.
    """

    def __init__(self, settings: ContentSettings) -> None:
        self._secrets = settings.mask_secrets
        self._own = settings.mask
        self._keys = frozenset(_bare(key) for key in settings.mask_keys)
        self._known_key = lru_cache(maxsize=1_024)(self._key)
        self._in_text = _key_expression(settings.mask_keys) if settings.mask_keys else None

    def key(self, key: str, on_failure: Callable[[str], None]) -> str:
        """Write *key*."""
        written, _ = self._known_key(key)
        return written if self._own is None else _masked_by(self._own, written, on_failure)

    def hides(self, key: str, value: object) -> bool:
        """Return whether *value* is masked because of its *key*. Case, `-`, `_` and spaces do not count."""
        _, meaning = self._known_key(key)
        return meaning is None or (meaning is not Meaning.NOTHING and is_secret_value(value, meaning, key))

    def _key(self, key: str) -> tuple[str, Meaning | None]:
        if _bare(key) in self._keys:
            return self.name(key), None
        return self.name(key), meaning_of(key) if self._secrets else Meaning.NOTHING

    def name(self, name: str) -> str:
        """Mask secrets in the name or id of something, which the program's own function does not see."""
        if not self._secrets or UUID.fullmatch(name) or (len(name) < _SHORTEST_SECRET and "@" not in name):
            return name
        return mask_secrets(name)

    def text(self, text: str, limit: int, on_failure: Callable[[str], None]) -> str:
        """Mask *text*, of which no more than *limit* characters will be kept.

        Only so much of it is looked at that no secret that starts within *limit* is missed; what lies
        beyond is cut off, and so is an end in which half a secret could hide.

        Args:
            text: Any length.
            limit: Characters of use to the caller.
            on_failure: Told what the program's own function did, if it failed; its text is then withheld.
        """
        is_cut = len(text) > limit + LONGEST_SECRET
        if is_cut:
            text = text[: limit + LONGEST_SECRET]
        if self._in_text is not None:
            text = _mask_keys(text, self._in_text)
        if self._secrets:
            text = _mask_again(text) if len(text) <= REMEMBERED_CHARS else mask_secrets(text)
        if self._own is not None:
            text = _masked_by(self._own, text, on_failure)
        return text[: max(0, len(text) - LONGEST_SECRET)] if is_cut else text


def mask_secrets(text: str) -> str:
    """Replace what is a secret, by its form or by the key it stands under: `[masked email]`."""
    secrets = _secrets_in(text)
    undone = undo_escapes(text)
    levels: list[Undone] = []
    while undone is not None and len(levels) < _MOST_LEVELS:
        levels.append(undone)
        for start, end, mask in _secrets_in(undone.text):
            for level in reversed(levels):
                start, end = level.span(start, end)
            secrets.append((start, end, mask))
        undone = undo_escapes(undone.text)
    return _replaced(text, secrets) if secrets else text


_MOST_LEVELS = 3
"""JSON within JSON within JSON."""


def _secrets_in(text: str) -> list[Secret]:
    shape = ScannedText(text)
    return [*secrets_by_key(shape), *secrets_by_form(shape), *secrets_on_command_lines(shape)]


_mask_again = lru_cache(maxsize=256)(mask_secrets)


def _replaced(text: str, secrets: list[Secret]) -> str:
    """Write *text* without *secrets*; of those that overlap the first and longest says what stands there."""
    secrets.sort(key=lambda secret: (secret[0], -secret[1]))
    kept: list[str] = []
    end = 0
    for start, stop, mask in secrets:
        if start >= end and start < stop:
            kept += [text[end:start], mask]
        end = max(end, stop)
    return "".join([*kept, text[end:]])


def _masked_by(mask: Callable[[str], str], text: str, on_failure: Callable[[str], None]) -> str:
    try:
        masked = mask(text)
    except Exception as error:  # the program's own function may raise anything
        on_failure(f"mask raised {type(error).__name__}")
        return _UNMASKABLE
    if not isinstance(masked, str):
        on_failure(f"mask gave {type(masked).__name__}, not str")
        return _UNMASKABLE
    return masked


def _bare(key: str) -> str:
    return key.translate(_SEPARATORS).lower()


_SEPARATORS = {ord(character): None for character in "-_ "}


def _key_expression(keys: Iterable[str]) -> re.Pattern[str]:
    """Find keys before their values: quoted and before a colon, also as JSON within JSON; or as in a repr."""
    names = "|".join(sorted(("[-_ ]?".join(map(re.escape, _bare(key))) for key in keys if _bare(key)), reverse=True))
    return re.compile(rf"""(?i)(\\{{0,8}}["'])(?:{names})\1\s{{0,8}}:\s{{0,8}}|\b(?:{names})=(?=["'])""")


def _mask_keys(text: str, keys: re.Pattern[str]) -> str:
    kept: list[str] = []
    end = 0
    while found := keys.search(text, end):
        quote = found[1] or text[found.end()]  # with the backslashes of JSON within JSON
        kept += [text[end : found.end()], quote, MASKED, quote]
        end = value_end(text, found.end(), len(quote) - 1)
    return "".join([*kept, text[end:]]) if kept else text
