"""What must not leave the process, taken out of texts and objects before they are cut to size."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import unescape
from unicodedata import normalize

from blamespan.instrumenting.settings import ContentSettings
from blamespan_integrations.recording.secret_keys import Meaning, is_secret_value, meaning_of, secrets_by_key, value_end
from blamespan_integrations.recording.secret_patterns import (
    LONGEST_SECRET,
    MASKED,
    ScannedText,
    Secret,
    secrets_by_form,
    secrets_in_statements,
    secrets_on_command_lines,
)

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
    levels: list[Unescaped] = []
    while undone is not None and len(levels) < _MOST_LEVELS:
        levels.append(undone)
        for start, end, mask in _secrets_in(undone.text):
            for level in reversed(levels):
                start, end = level.span(start, end)
            secrets.append((start, end, mask))
        undone = undo_escapes(undone.text)
    return _replace_secrets(text, secrets) if secrets else text


_MOST_LEVELS = 3
"""JSON within JSON within JSON."""


def _secrets_in(text: str) -> list[Secret]:
    shape = ScannedText(text)
    return [
        *secrets_by_key(shape),
        *secrets_by_form(shape),
        *secrets_in_statements(shape),
        *secrets_on_command_lines(shape),
    ]


_mask_again = lru_cache(maxsize=256)(mask_secrets)


def _replace_secrets(text: str, secrets: list[Secret]) -> str:
    """Write *text* without *secrets*; of those that overlap the first and longest says what stands there."""
    secrets.sort(key=lambda secret: (secret[0], -secret[1]))
    pieces: list[str] = []
    end = 0
    for start, stop, mask in secrets:
        if start >= end and start < stop:
            pieces += [text[end:start], mask]
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


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
    pieces: list[str] = []
    end = 0
    while match := keys.search(text, end):
        quote = match[1] or text[match.end()]  # with the backslashes of JSON within JSON
        pieces += [text[end : match.end()], quote, MASKED, quote]
        end = value_end(text, match.end(), len(quote) - 1)
    return "".join([*pieces, text[end:]]) if pieces else text


class Unescaped:
    """A text with its escapes undone.

    Attributes:
        text: The text.
    """

    __slots__ = ("_pieces", "_starts", "text")

    def __init__(self, pieces: list[tuple[int, int, int]], text: str) -> None:
        self._pieces = pieces
        self._starts = [piece[0] for piece in pieces]
        self.text = text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where in the text with its escapes stands what stands here from *start* to *end*."""
        return self._place(start, is_end=False), self._place(end - 1, is_end=True)

    def _place(self, at: int, *, is_end: bool) -> int:
        start, first, last = self._pieces[bisect_right(self._starts, at) - 1]
        is_escape = last - first != 0
        if is_escape:
            return last if is_end else first
        return first + at - start + is_end


def undo_escapes(text: str) -> Unescaped | None:
    """Undo one level of escapes; None where there is none.

    What is undone is only looked at, so what was no escape, as in the path of a Windows folder, does no harm.
    """
    if text.isascii():
        if "\\" not in text and "%" not in text and "&" not in text:
            return None
        matches = _ASCII.finditer(text)
    else:
        matches = _ANY.finditer(text)
    pieces: list[tuple[int, int, int]] = []
    written: list[str] = []
    size = at = 0
    for match in matches:
        start, end = match.span()
        if start > at:
            pieces.append((size, at, at))  # as it stands: no length of its own
            written.append(text[at:start])
            size += start - at
        plain = _plain(match[0])
        if plain:
            pieces.append((size, start, end))
            written.append(plain)
            size += 1
        at = end
    if at == 0:
        return None
    if at < len(text):
        pieces.append((size, at, at))
        written.append(text[at:])
    return Unescaped(pieces, "".join(written)) if pieces else None


_ESCAPES = (
    r"""\\(?:u[0-9a-fA-F]{4}|x[0-7][0-9a-fA-F]|["'/\\nrt])|%[2-7][0-9a-fA-F]"""
    r"""|&(?:\#[0-9]{2,4}|\#x[0-9a-fA-F]{2,4}|quot|apos|amp|lt|gt);"""
)
_NO_WIDTH = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f"
)
_ASCII = re.compile(_ESCAPES)
_ANY = re.compile(rf"{_ESCAPES}|[{_NO_WIDTH}]|[\uff01-\uff5e\u3000\u00a0\U0001d400-\U0001d7ff]")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_WIDTHLESS = re.compile(f"[{_NO_WIDTH}]")


def _plain(escape: str) -> str:
    """Undo one escape: one character, or none."""
    if escape[0] == "\\":
        code = escape[2:]
        character = chr(int(code, 16)) if code else _CONTROLS.get(escape[1], escape[1])
    elif escape[0] == "%":
        character = chr(int(escape[1:], 16))
    elif escape[0] == "&":
        character = unescape(escape)[:1]
    else:
        character = normalize("NFKC", escape)[:1]
    return "" if _WIDTHLESS.match(character) else character
