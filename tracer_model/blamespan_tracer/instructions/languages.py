"""Which language a text is written in, by its commonest words; of scripts that few languages have by their letters."""

from __future__ import annotations

import re
from typing import Final

_COMMON: Final = {
    "english": "the and is of to in you it that for on with are this be will not your have from at or can",
    "german": "der die das und ist nicht ein eine sie es den von zu mit auf für im dem wird ihnen des auch sich aus am",
    "french": "le la les et est un une des vous que pas pour dans du de ce il sur avec au sont ne votre mais",
    "spanish": "el la los las y es un una que no por para en con del se su está al lo usted pero más de",
    "italian": "il lo la gli e è un una che non per di con del della sono nel si le suo anche da",
    "portuguese": "o os as e é um uma que não por para em com do da se seu está ao mais você dos",
    "dutch": "de het een en is niet van te dat voor op met zijn u aan er maar om ook bij wordt",
    "polish": "i w na się nie jest z do to że jak po ale za od przez są",
    "swedish": "och det är en ett att som på för med inte av den till har om kan",
}
_WORDS: Final = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_SCRIPTS: Final = (
    ("japanese", re.compile(r"[\u3040-\u30ff]")),
    ("korean", re.compile(r"[\uac00-\ud7af]")),
    ("chinese", re.compile(r"[\u4e00-\u9fff]")),
    ("russian", re.compile(r"[\u0400-\u04ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("hindi", re.compile(r"[\u0900-\u097f]")),
)
LANGUAGES: Final = (*_WORDS, *(name for name, _ in _SCRIPTS), "turkish", "danish", "norwegian", "czech")
"""Names of languages that a text may ask for; not all of them can be told."""

_LETTERS = re.compile(r"[^\W\d_]+")
_MAX_CHARS = 4_000
_LEAST_WORDS, _LEAST_COMMON = 4, 2
"""Words of a text, and common ones among them, from which on its language is told."""


def find_language(text: str) -> str | None:
    """Return the language of *text*; None where it is too short or two are as likely."""
    text = text[:_MAX_CHARS]
    for name, script in _SCRIPTS:
        if len(script.findall(text)) * 4 > len(text):
            return name
    words = _LETTERS.findall(text.lower())
    if len(words) < _LEAST_WORDS:
        return None
    ranked = sorted(((sum(word in common for word in words), name) for name, common in _WORDS.items()), reverse=True)
    (most, name), (second, _) = ranked[0], ranked[1]
    return name if most >= _LEAST_COMMON and most > second else None
