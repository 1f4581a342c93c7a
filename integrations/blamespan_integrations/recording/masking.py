"""What must not leave the process, taken out of texts and objects before they are cut to size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from blamespan.settings import ContentSettings
from blamespan_integrations.recording.secret_patterns import LONGEST_SECRET, SECRET_KEYS, mask_secrets, signs_of

__all__ = ["MASKED", "REMEMBERED_CHARS", "UUID", "Masker"]

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What many ids are: no secret by its form, and each is another."""
REMEMBERED_CHARS = 4_096
"""Masked texts of up to this length are remembered: one message is recorded up to four times, by the model, its agent,
the next agent and that one's model; a tool's answer by the tool, its agent and that one's model."""
_SHORTEST_SECRET = 10
"""Characters of the shortest secret that is no e-mail address."""

MASKED = "[masked]"
"""Stands for the value of a masked key."""
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
        keys = [*(SECRET_KEYS if settings.mask_secrets else ()), *settings.mask_keys]
        self._keys = frozenset(_bare(key) for key in keys)
        self._known_key = lru_cache(maxsize=1_024)(self._key)
        self._in_text = _key_expression(settings.mask_keys) if settings.mask_keys else None

    def key(self, key: str, on_failure: Callable[[str], None]) -> tuple[str, bool]:
        """Write *key*, and tell whether its value is masked. Case, `-`, `_` and spaces do not count."""
        written, is_hidden = self._known_key(key)
        return written if self._own is None else _masked_by(self._own, written, on_failure), is_hidden

    def _key(self, key: str) -> tuple[str, bool]:
        return self.name(key), _bare(key) in self._keys

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
            text = _mask_again(text) if len(text) <= REMEMBERED_CHARS else _mask_bundled(text)
        if self._own is not None:
            text = _masked_by(self._own, text, on_failure)
        return text[: max(0, len(text) - LONGEST_SECRET)] if is_cut else text


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


def _mask_bundled(text: str) -> str:
    """Mask the values of well-known keys, then common secrets."""
    signs = signs_of(text)
    if (b'":' in signs or b"':" in signs or b"='" in signs) and _may_hold_keys(text):
        text = _mask_keys(text, _SECRET_KEYS_IN_TEXT)
    return mask_secrets(text, signs)


_mask_again = lru_cache(maxsize=256)(_mask_bundled)


def _may_hold_keys(text: str) -> bool:
    return '":' in text or "':" in text or '" :' in text or "' :" in text or "='" in text


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
        end = _value_end(text, found.end(), len(quote) - 1)
    return "".join([*kept, text[end:]]) if kept else text


def _value_end(text: str, start: int, escapes: int) -> int:
    """Find where the value that starts at *start* ends; one that is cut off goes on to the end of *text*."""
    depth = 0
    at = start
    while found := _STRUCTURE.search(text, at):
        at = found.end()
        sign = found[0]
        if sign[-1] in "\"'":
            at = _string_end(text, at, sign[-1], escapes)
            if depth == 0:
                return at
        elif sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
            if depth <= 0:
                return at if depth == 0 else found.start()
        elif depth == 0:  # a comma or a line's end after a bare value
            return found.start()
    return len(text)


def _string_end(text: str, start: int, quote: str, escapes: int) -> int:
    """Find the end of a string: its quote behind as many backslashes as opened it, or an even number for none."""
    at = start
    while (at := text.find(quote, at)) >= 0:
        before = at
        while before > start and text[before - 1] == "\\":
            before -= 1
        if (at - before <= escapes) if escapes else (at - before) % 2 == 0:
            return at + 1
        at += 1
    return len(text)


_STRUCTURE = re.compile(r"""\\{0,8}["']|[{\[(}\]),\n]""")
_SECRET_KEYS_IN_TEXT = _key_expression(SECRET_KEYS)
