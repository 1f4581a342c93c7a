"""Edits that operators are made of: a number slipped, a word turned round, a sentence dropped or added."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random

from blamespan_lab.make.faults.text_parts import TextPart, find_numbers, replace_parts, split_sentences

_MOST_DIGITS = 15
"""What a float holds exactly."""
_MARK = re.compile(r"\b[A-Z]{4,}\b")
_HEADING = re.compile(r"(?:#{1,6} [^\n]{1,80}|\*\*[^\n*]{1,80}\*\*)\n")
_PARTS = 3


def slip(number: str, rng: Random) -> str | None:
    """Get *number* wrong as people and models do, in the same notation; None where that fails."""
    plain = number.replace(",", "")
    if len(plain) > _MOST_DIGITS:
        return _change_digit(number, rng)
    value, decimals = float(plain), len(plain.partition(".")[2])
    step = 10.0**-decimals
    size = abs(value)
    candidates = [value + step * rng.choice((-2, -1, 1, 2, 3)), value * 10, value * 2, -value if size > step else value]
    if size >= 10 * step:
        candidates += [value / 10, round(value * rng.choice((0.9, 1.1, 1.25)), decimals)]
    if len(plain.lstrip("-").replace(".", "")) >= 2:
        candidates += [_swap_digits(plain, rng)] * 2
    wrong = [candidate for candidate in candidates if round(candidate, decimals) != value]
    if not wrong:
        return None
    text = f"{rng.choice(wrong):{',' if ',' in number else ''}.{decimals}f}"
    return text if text != number else None


def _change_digit(number: str, rng: Random) -> str:
    at = rng.choice([index for index, sign in enumerate(number) if sign.isdigit()])
    return number[:at] + str((int(number[at]) + rng.randint(1, 8)) % 10) + number[at + 1 :]


def _swap_digits(plain: str, rng: Random) -> float:
    indices = [i for i in range(len(plain) - 1) if plain[i].isdigit() and plain[i + 1].isdigit()]
    if not indices:
        return float(plain)
    at = rng.choice(indices)
    return float(plain[:at] + plain[at + 1] + plain[at] + plain[at + 2 :])


def replace_one(text: str, changes: Mapping[str, str], rng: Random) -> str | None:
    """Make one of *changes* at one place; what is longest is looked for first, so that "is not" is not "is"."""
    pattern = re.compile("|".join(re.escape(old) for old in sorted(changes, key=len, reverse=True)))
    hits = [TextPart(m.start(), m.end(), m.group()) for m in pattern.finditer(text)]
    if not hits:
        return None
    hit = rng.choice(hits)
    return replace_parts(text, [(hit, changes[hit.text])])


def drop_sentence(text: str, is_wanted: Callable[[str], bool], rng: Random) -> str | None:
    """Leave out one of the sentences that are wanted, of several."""
    parts = split_sentences(text)
    wanted = [sentence for sentence in parts if is_wanted(sentence.text)]
    if not wanted or len(parts) < 2:
        return None
    return replace_parts(text, [(rng.choice(wanted), "")]).rstrip()


def insert_sentence(text: str, sentence: str, rng: Random) -> str:
    """Put *sentence* between two others, or at the end."""
    ends = [part.end for part in split_sentences(text)] or [len(text)]
    at = rng.choice(ends)
    return (text[:at].rstrip() + " " + sentence + " " + text[at:].lstrip(" ")).strip()


def replace_middle(text: str, replacement: str, *, is_last: bool = False) -> str:
    """Put *replacement* in place of what *text* comes to; how a long message opens and closes stays.

    Args:
        text: The message; it is long if it has three parts or more between blank lines.
        replacement: What stands for all parts but the first and the last. Those go too if they hold an amount or
            a termination word.
        is_last: Whether nothing may follow.
    """
    opening, *work, closing = text.split("\n\n") if text.count("\n\n") >= _PARTS - 1 else ("", "", "")
    heading = _HEADING.match(work[0])
    replacement = f"{heading.group()}{replacement}" if heading else replacement
    frame = [part if part and not find_numbers(part) and not _MARK.search(part) else "" for part in (opening, closing)]
    return "\n\n".join(part for part in (frame[0], replacement, "" if is_last else frame[1]) if part)


def keep_termination_word(text: str, replacement: str) -> str:
    """Keep the word in capitals by which teams end, e.g. APPROVED, where the text had one."""
    marks = _MARK.findall(text)
    return f"{replacement} {marks[-1]}" if marks else replacement
