"""Secrets that are told by the key they stand under: what a key means, and where its value starts and ends.

Keys are found in objects, JSON text and JSON within JSON, in Python's own way of writing objects, in YAML, settings,
headers, URLs, XML, on command lines, and in sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import TypeAlias

from blamespan_integrations.recording.secret_patterns import MASKED, ScannedText, Secret, facts, is_placeholder


class Meaning(Enum):
    """What a key says of its value."""

    NOTHING = 0
    SECRET = 1
    TOKEN = 2
    """A secret, or a piece of text: `token` by itself."""
    WEAK = 3
    """A secret if it looks like one: `pass`, `pin`."""
    RANDOM = 4
    """A secret if it looks random: `key`."""
    AUTHORIZATION = 5
    COOKIE = 6
    PHRASE = 7
    """A secret of several words."""


@lru_cache(maxsize=4_096)
def meaning_of(key: str) -> Meaning:
    """Return what *key* means: its last word decides, as in `userPassword` and `password_hint`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    table = _table()
    while len(words) > 1 and (
        words[-1].isdigit() or words[-1] in table["trailing"] or (words[-1] == "data" and words[-2] == "key")
    ):
        words.pop()
    if not words:
        return Meaning.NOTHING
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if f"{before} {last}" in table["pairs"]:
        return Meaning.PHRASE if last in ("phrase", "words") else Meaning.SECRET
    if (meaning := _meaning_of_pair(last, before)) is not None:
        return meaning
    return Meaning.SECRET if last in table["strong"] or last.endswith(_endings()) else Meaning.NOTHING


def _meaning_of_pair(last: str, before: str) -> Meaning | None:
    """Return what a key means whose last word says it together with the one *before*; None of other words."""
    table = _table()
    if f"{before} {last}" in table["not_pairs"]:
        return Meaning.NOTHING
    if last in table["headers"]:
        if last == "authorization":
            return Meaning.AUTHORIZATION
        return Meaning.COOKIE if before in ("", "set", "x") else Meaning.SECRET
    if last == "sessionid":  # of Django; what else is called so may be the id of a run
        return Meaning.RANDOM
    if last == "token":
        return Meaning.TOKEN if not before else Meaning.NOTHING if before in table["not_token"] else Meaning.SECRET
    if last == "key":
        if before in table["not_key"]:
            return Meaning.NOTHING
        return Meaning.SECRET if before in table["of_key"] else Meaning.RANDOM
    if last in table["weak"]:
        return Meaning.SECRET if before in table["before_weak"] else Meaning.WEAK
    return Meaning.PHRASE if last in ("passphrase", "mnemonic") else None


def is_secret_value(value: object, meaning: Meaning, key: str) -> bool:
    """Return whether *value*, of an object's field *key* of this meaning, is a secret."""
    if isinstance(value, str):
        return _is_secret(value, meaning, key, is_quoted=True)
    if value is None or isinstance(value, bool) or meaning not in _WHOLE:
        return False
    if isinstance(value, Mapping):
        return "type" not in value  # a JSON schema describes the field
    return meaning is not Meaning.TOKEN or not isinstance(value, int | float)


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zà-ÿ]+|[0-9]+(?:fa)?")


@cache
def _table() -> dict[str, frozenset[str]]:
    return {name: frozenset(words) for name, words in facts()["keys"].items()}


@cache
def _endings() -> tuple[str, ...]:
    return tuple(facts()["keys"]["endings"])


def secrets_by_key(shape: ScannedText) -> Iterator[Secret]:
    """Yield the values of keys that mean a secret."""
    hits = _hits(shape.lower)
    if not hits:
        return
    text = shape.text
    ignored = _NONE if shape.may_hold_random() else _NONE_OR_RANDOM
    done = 0
    for start, end in hits:
        if start < done:
            continue
        value = _find_assigned(text, start, end, ignored)
        if value is None:
            continue
        first, last, is_secret, *mask = value
        if is_secret:
            yield first, last, mask[0] if mask else MASKED
        if is_secret or last - first > _LONG_VALUE:  # what stands in it is not looked at over and over
            done = last


def _hits(lower: bytes) -> list[tuple[int, int]]:
    """Find where a word stands that may end the name of a secret."""
    hits: list[tuple[int, int]] = []
    for needle in _NEEDLES:
        at = lower.find(needle)
        while at >= 0:
            hits.append((at, at + len(needle)))
            at = lower.find(needle, at + len(needle))
    hits.sort()
    return hits


_NEEDLES = (
    *(b"pass", b"pw", b"secret", b"token", b"key", b"auth", b"cookie", b"cred", b"sig", b"jwt", b"cvv", b"otp", b"pin"),
    *(b"sess", b"mnemonic", b"phrase", b"code", b"card", b"contrase"),
)
_LONG_VALUE = 256


_Value: TypeAlias = "tuple[int, int, bool] | tuple[int, int, bool, str]"
"""Where a value starts and ends, whether it is a secret, and what stands there instead if not `[masked]`."""


_NONE = frozenset({Meaning.NOTHING})
_NONE_OR_RANDOM = frozenset({Meaning.NOTHING, Meaning.RANDOM})


def _find_assigned(text: str, start: int, end: int, ignored: frozenset[Meaning]) -> _Value | None:
    """Read the key in which *start* to *end* stands, and what it is set to; None where it is set to nothing."""
    rest = _KEY_REST.match(text, end)
    end = rest.end() if rest else end
    before = _KEY_START.match(text[max(0, start - _LONGEST_KEY) : start][::-1])
    start -= before.end() if before else 0
    key = text[start:end]
    meaning = meaning_of(key)
    if (
        " " not in key
        and meaning in _NEEDS_MORE
        and (word := _WORD_BEFORE.match(text[max(0, start - 24) : start][::-1]))
    ):
        start -= word.end()
        longer = meaning_of(text[start:end])
        meaning = longer if longer not in (Meaning.RANDOM, Meaning.WEAK) else meaning
    if meaning in ignored or text[start - 1 : start] == text[end : end + 1] == ":":  # part of a name, as of an ARN
        return None
    return _value_of(text, start, end, meaning)


_LONGEST_KEY = 64
_KEY_REST = re.compile(r"[\w.-]{0,64}")
_KEY_START = re.compile(r"[\w.-]{0,64}")
_WORD_BEFORE = re.compile(r" ([A-Za-z]{1,20})(?![\w.-])")
_NEEDS_MORE = frozenset({Meaning.NOTHING, Meaning.RANDOM, Meaning.WEAK})
"""What another word before it may make a secret: `API key`, `verification code`."""


def _value_of(text: str, start: int, end: int, meaning: Meaning) -> _Value | None:
    """Read what the key from *start* to *end* is set to, as `_assigned` does."""
    key = text[start:end]
    separator = _SEPARATOR.match(text, end)
    if separator is None:
        return _value_in_sentence(text, start, end, meaning)
    at = separator.end()
    sign = separator["sign"] or separator["pair"]
    is_sure = sign in _SURE or separator["pair"] is not None
    if block := _NEXT_LINE.match(text, at):
        at, is_sure = block.end(), block[1] is not None
    elif annotation := _TYPE.match(text, at):
        at = annotation.end()
    if wrapper := _WRAPPER.match(text, at):
        at = wrapper.end()
    is_named = separator["close"][:1] in ("\\", '"', "'")
    if (quote := _QUOTE.match(text, at)) is not None:
        first, last = _find_quoted(text, quote, is_named=is_named)
        is_sure = is_sure and (is_named or text[last : last + 1] not in ("", "\n"))  # else it may end a text around it
        return first, last, _is_secret(text[first:last], meaning, key, is_quoted=True, is_sure=is_sure)
    if value := _read_whole(text, at, key, meaning, separator["close"], is_block=block is not None and is_sure):
        return value
    if meaning in (Meaning.AUTHORIZATION, Meaning.COOKIE):
        line = _HEADER_VALUE.match(text, at)
        return None if line is None else (at, line.end(), _is_secret(line[0], meaning, key))
    is_alone = sign in ("=", ":") and _LINE_START.search(text, max(0, start - 24), start) is not None
    last = _find_unquoted(text, at, is_alone=is_alone, is_tag=sign == ">")
    if meaning is Meaning.PHRASE and (phrase := _PHRASE.match(text, at)) and not _holds_function_word(phrase[0]):
        return at, phrase.end(), True
    if sign != ">" and _is_code_or_sentence(text, at, last, sign, key):
        return at, last, False
    is_secret = _is_secret(text[at:last], meaning, key, is_sure=is_sure)
    return (at, last, is_secret, _as_text(separator["close"])) if is_named else (at, last, is_secret)


def _read_whole(text: str, at: int, key: str, meaning: Meaning, closing: str, *, is_block: bool) -> _Value | None:
    """Read a value of several parts: an object or list of JSON, a dictionary of cookies, the lines of a YAML block."""
    is_named = closing[:1] in ("\\", '"', "'")
    if text[at : at + 1] in ("{", "[", "(") and meaning in _WHOLE and (is_named or meaning is Meaning.COOKIE):
        end = value_end(text, at, 0)
        is_secret = _SCHEMA.match(text, at) is None if is_named else _SESSION.search(text, at, end) is not None
        return at, end, is_secret and end - at > len("[]"), _as_text(closing)
    if is_block and (last := _find_block_end(text, at)) > at:
        return at, last, _is_secret(text[at:last], meaning, key, is_quoted=True)
    return None


_SEPARATOR = re.compile(
    r"""(?x)
    (?P<close> \\{0,8}["'`*\]]{0,3} [)\]]? (?:[ ]?\([^()\n]{0,40}\))?
      (?:[ ]for[ ][\w@.-]{1,30}(?:[ ][\w@.-]{1,30}){0,2})? [*]{0,2} )
    (?:
      (?P<pair>(?:[ ]?,?\s{0,20} \\{0,8}["']?(?:value|val|content|default)|[ ]\{[^{}]{0,200}?\bdefault)
      \\{0,8}["']?\s{0,8}[:=]) \s{0,4}
    | [ \t]{0,8}
      (?P<sign>:=|=>|={1,3}|:(?!:|//)|(?<=["']),|>(?=[^<>]{1,4096}</)|(?<=[ ])(?:->|[-\u2013\u2014\u2192])(?=[ ]))
      [ \t]{0,8} [*]{0,2} [ \t]{0,4}
    )
    """
)
_SURE = frozenset({":=", "=>", "=", "==", "===", ":", ">"})
"""Signs that set a value. Behind others, as in a list of words or beside a dash, it must look like a secret as well."""
_NEXT_LINE = re.compile(r"([|>][-+]?)?[ \t]{0,4}\r?\n\s{0,40}(?=\S)")
_TYPE = re.compile(r"(?:str|string|SecretStr|Any|Optional\[\w{1,20}\]|str ?\| ?None)[ ]{0,2}=[ ]{0,2}")
_WRAPPER = re.compile(
    r"(?:\w{1,20}\.)?(?:SecretStr|Secret|str|String|Text|Some|pydantic\.SecretStr|sensitive|b(?:ase)?64decode)\((?=[\"'])|dict(?=\()"
)
_QUOTE = re.compile(r"""(?:[rbfuRBFU]{1,2}(?=["']))?(\\{0,8}(?:\"\"\"|'''|["'`])|[\u201c\u2018«\u201e])""")
_CLOSING = {"\u201c": "\u201d", "\u2018": "\u2019", "«": "»", "\u201e": "\u201c"}
_HEADER_VALUE = re.compile(
    r"""(?i)(?:digest|oauth|hawk)\s[^\r\n]+|(?:[^\r\n"'`<>,}]|,(?=\s{0,4}\w{1,40}=)|<(?=[^<>\s]{1,40}>))+"""
)
_LINE_START = re.compile(r"(?:^|\n)(?:[ \t]*(?:- |export |set |ENV |ARG |\+ ?)?)\Z")
_PHRASE = re.compile(r"[a-z]{3,12}(?:[ ,-]{1,2}[a-z]{3,12}){3,23}")
_WHOLE = frozenset({Meaning.SECRET, Meaning.TOKEN, Meaning.COOKIE, Meaning.AUTHORIZATION, Meaning.PHRASE})


def _find_quoted(text: str, quote: re.Match[str], *, is_named: bool) -> tuple[int, int]:
    """Find where a quoted value starts and ends; one that is cut off goes on to the end of the line, or of the text."""
    mark, first = quote[1], quote.end()
    if mark in _CLOSING:
        last = text.find(_CLOSING[mark], first)
    elif mark[-3:] in ('"' * 3, "'" * 3):
        last = text.find(mark, first)
    else:
        last = _string_end(text, first, mark[-1], len(mark) - 1)
    if last < 0 or (not is_named and last - first > _LONGEST_VALUE):
        line_end = -1 if is_named else text.find("\n", first)
        last = len(text) if line_end < 0 else line_end
    return first, last


def _find_block_end(text: str, at: int) -> int:
    """Find the end of a YAML block whose first line begins at *at*: of its last line that is indented as far."""
    line_start = text.rfind("\n", 0, at)
    indent = text[line_start:at]
    if len(indent) < _LEAST_INDENT or not indent.isspace():
        return at
    last = at
    while last - at < _LONGEST_VALUE:
        line_end = text.find("\n", last)
        last = len(text) if line_end < 0 else line_end
        if not text.startswith(indent, last):
            break
        last += len(indent)
    return min(last, len(text))


_LONGEST_VALUE = 4_096
_LEAST_INDENT = 2
"""A line's end and a space."""


def _as_text(closing: str) -> str:
    """Write what stands for a value that is no text as one, in the quotes of its key."""
    quote = closing[: len(closing) - len(closing.lstrip("\\")) + 1]
    return f"{quote}{MASKED}{quote}"


_SESSION = re.compile(
    r"""(?i)\w*(?:sess|sid\b|csrf|xsrf|token|auth|jwt)\w*["']?\s?[:=,]|["'](?=[^"'\s]{0,64}\d)[^"'\s]{12}"""
)
"""What a dictionary of cookies holds that opens something; one of settings does not."""
_SCHEMA = re.compile(
    r"""\{\s{0,8}\\{0,8}["'](?:type|description|title|\$ref|anyOf|default|required|in|enum)\\{0,8}["']"""
)


def value_end(text: str, start: int, escapes: int) -> int:
    """Find where the value that starts at *start* ends; one that is cut off goes on to the end of *text*."""
    depth = 0
    at = start
    while match := _STRUCTURE.search(text, at):
        at = match.end()
        sign = match[0]
        if sign[-1] in "\"'":
            at = _string_end(text, at, sign[-1], escapes or len(sign) - 1)
            at = len(text) if at < 0 else at + len(sign)
            if depth == 0:
                return at
        elif sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
            if depth <= 0:
                return at if depth == 0 else match.start()
        elif depth == 0:  # a comma or a line's end after a bare value
            return match.start()
    return len(text)


_STRUCTURE = re.compile(r"""\\{0,8}["']|[{\[(}\]),\n]""")


def _string_end(text: str, start: int, quote: str, escapes: int) -> int:
    """Find the end of a string: its quote behind as many backslashes as opened it, or an even number for none.

    Returns:
        Where its closing quote, with its backslashes, stands; -1 where there is none.
    """
    at = start
    while (at := text.find(quote, at)) >= 0:
        before = at
        while before > start and text[before - 1] == "\\":
            before -= 1
        if (at - before <= escapes) if escapes else (at - before) % 2 == 0:
            return before if escapes else at
        at += 1
    return -1


def _find_unquoted(text: str, at: int, *, is_alone: bool, is_tag: bool) -> int:
    """Find the end of a bare value: of its word, or of its line where it stands there alone."""
    if is_tag:
        return text.find("<", at)
    if is_alone and (line := _ONE_WORD.match(text, at)):
        return line.end()
    word = _BARE.match(text, at)
    if word is None:
        return at
    end = word.end()
    while end > at and text[end - 1] in ".,:!?)]}*|\\":
        end -= 1
    return end


_ONE_WORD = re.compile(r"[^\s\"'`<>]+(?=[ \t]{0,8}(?:\r?\n|\Z|[ \t]#))")
_BARE = re.compile(
    r"""(?x)(?:[^\s"'`<>&;,] | ,(?![\s"'}\]]|[\w-]{1,64}[=:]|\Z) | &(?![\w.-]{1,64}=|amp;)
    | <(?=[^<>\s]{1,40}>) | (?<=.)>(?=\s|\Z) )+"""
)


def _is_code_or_sentence(text: str, at: int, last: int, sign: str, key: str) -> bool:
    """Return whether what a key is set to, without quotes, is an expression of a program or begins a sentence."""
    value = text[at:last]
    if _CODE.match(text, at):
        return True
    if not _PLAIN_WORD.fullmatch(value):
        return False
    is_set = sign in ("=", ":=", "=>", "==", "===")
    if is_set and (meaning_of(value) is not Meaning.NOTHING or len(value) < _SHORTEST_BARE):
        return True  # a variable's name
    after = text[last : last + 2]
    begins_sentence = sign == ":" and after[:1] == " " and (after[1:].isalpha() or after[1:] in ("'", '"', "`"))
    return value.lower() == key.lower() or begins_sentence or after[:1] == "("


_CODE = re.compile(
    r"[A-Za-z_][A-Za-z_0-9]*(?:(?:\.[A-Za-z_][A-Za-z_0-9]*){0,6}[(\[]|(?:\.[A-Za-z_]+){1,6}(?![\w.@!$%^&*+=-]))"
    r"|(?:await|not|lambda|new)\s"
)
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]+(?:[_'\u2019-][A-Za-z]+)*|[A-Z]+(?:_[A-Z]+)*|[a-z]+(?:[A-Z][a-z]+)*")
_SHORTEST_BARE = 4


def _value_in_sentence(text: str, start: int, end: int, meaning: Meaning) -> _Value | None:
    """Read `--password hunter2`, `password is hunter2`, and `login bob password hunter2` of a .netrc file."""
    key = text[start:end]
    if meaning in (Meaning.AUTHORIZATION, Meaning.COOKIE):
        return None
    is_option = key.startswith("-")
    is_said = (gap := None if is_option else _IS.match(text, end)) is not None
    gap = gap or _GAP.match(text, end)
    if gap is None:
        return None
    at = gap.end()
    if not is_said and not is_option and text[at : at + 1] in ("", "-", "=", "|"):
        return None
    if quote := _QUOTE.match(text, at):
        first, last = _find_quoted(text, quote, is_named=False)
        value = text[first:last]
        is_secret = (is_said and " " not in value) or is_option or _is_mixed(value)
        return first, last, is_secret and _is_secret(value, meaning, key, is_quoted=True)
    last = _find_unquoted(text, at, is_alone=False, is_tag=False)
    value = text[at:last]
    if is_option:
        return at, last, value[:1] != "-" and not _CODE.match(text, at) and _is_secret(value, meaning, key)
    if not is_said and key == "password" and _LOGIN.search(text, max(0, start - 80), start):
        return at, last, True
    if is_said and value.isdigit() and len(value) >= _SHORTEST_BARE and key.lower().endswith(_MAY_BE_DIGITS):
        return at, last, not text[last : last + 2].strip(" .").isalpha()
    return at, last, _is_mixed(value) and _is_secret(value, meaning, key)


_IS = re.compile(
    r"""(?xi)["'`*]{0,3}(?:[ ](?:for|of|on|to)[ ][\w@.'-]{1,30}(?:[ ][\w@.'-]{1,30}){0,3}?)?
    [ ](?:is|was|to|as|are|be|of)(?:[ ](?:now|(?:set|changed|reset|updated)[ ]to|currently|still|just|again))?[ ]?:?[ ]
    \s{0,2}"""
)
_GAP = re.compile(r"[ \t]{1,4}")
_LOGIN = re.compile(r"(?i)\b(?:login|user|account)\s{1,4}(?!and\b|or\b)\S{1,64}\s{1,8}\Z")
_MAY_BE_DIGITS = ("pin", "otp", "code", "pass", "passcode", "password")


def _is_secret(value: str, meaning: Meaning, key: str, *, is_quoted: bool = False, is_sure: bool = True) -> bool:
    """Return whether *value* is what the key means, and not a word that stands in its place."""
    if meaning is Meaning.AUTHORIZATION:
        return _is_authorization(value, is_quoted=is_quoted)
    if is_placeholder(value) or _is_sentence(value) or value.lower() == key.lower():
        return False
    if meaning is Meaning.COOKIE:
        return is_quoted or _COOKIE.match(value) is not None
    if meaning is Meaning.RANDOM:
        return _is_random(value, takes_hashes=key.isupper() and "_" in key)
    if not is_sure or meaning is Meaning.WEAK:
        return _is_mixed(value) or (meaning is Meaning.WEAK and value.isdigit() and 4 <= len(value) <= 12)
    if value[:1] in "([{" or value in ("|", ">", "-", "=", "?"):
        return False
    if meaning is Meaning.TOKEN and not is_quoted:
        digits = value.replace(",", "").replace(".", "")
        is_count = digits.isdigit() and len(digits) < 7
        return len(value) >= _SHORTEST_BARE and not is_count and (not value.isalpha() or len(value) >= 8)
    return True


def _is_authorization(value: str, *, is_quoted: bool) -> bool:
    scheme = _SCHEME.match(value)
    rest = value[scheme.end() :] if scheme else value
    word = rest.split(maxsplit=1)[0] if rest.strip() else ""
    if is_placeholder(word) or is_placeholder(rest):
        return False
    if is_quoted and " " not in rest:
        return True
    return (scheme is not None and not _PLAIN_WORD.fullmatch(word)) or len(word) >= 16 or any(map(str.isdigit, word))


_SCHEME = re.compile(
    r"(?i)(?:bearer|basic|token|api-?key|key|digest|negotiate|ntlm|aws4-hmac-sha256|ssws|geniekey|oauth|hawk|jwt|splunk)[\s:=]+"
)
_COOKIE = re.compile(r"[\w.$!%-]{1,64}=\S")


def _is_sentence(value: str) -> bool:
    return " " in value and _holds_function_word(value)


def _holds_function_word(value: str) -> bool:
    return not _function_words().isdisjoint(value.lower().split())


@cache
def _function_words() -> frozenset[str]:
    return frozenset(facts()["values"]["function_words"])


def _is_mixed(value: str) -> bool:
    """Return whether *value* is made up as passwords are: letters with digits or signs, and no word of the trade."""
    value = value.strip(".,;:!?)(]}\"'")
    if len(value) < 6 or not any(map(str.isalpha, value)) or _NO_PASSWORD.fullmatch(value):
        return False
    if any(map(str.isdigit, value)) or any(sign in value for sign in "!@#$%^&*~+="):
        return True
    return len(_CASE_CHANGE.findall(value)) >= _MANY_CHANGES and not _CAMEL_CASE.fullmatch(value)


_CASE_CHANGE = re.compile(r"(?<=[a-z])[A-Z]|(?<=[A-Z])[a-z]")
_CAMEL_CASE = re.compile(r"(?:[A-Z]{0,4}+[a-z]{2,20}+){1,12}|[A-Z]+")
_MANY_CHANGES = 4


_NO_PASSWORD = re.compile(
    r"""(?xi)
    (?:sha|md|hs|rs|es|ps|aes|rsa|utf|base|argon|oauth|tls|ssl|http|ed|x|pbkdf|ipv|web|s|ec|gpt|o|v|rfc|step|part|version)
      [-_/]?\d[\w./-]*
    | \d[\d.,]*-?[a-z]{0,16} | \d+[-/:.]\d[-/:.\dTZ]* | [\w.+-]+@[\w.-]+ | (?:https?|/|\./|~/|[a-z]:\\).*
    | [\w/-]+\.[a-z]{2,4}
    | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | \w+\(.*
    """
)


def _is_random(value: str, *, takes_hashes: bool) -> bool:
    if not _TOKEN.fullmatch(value) or not any(map(str.isdigit, value)) or not any(map(str.isalpha, value)):
        return False
    return takes_hashes or not _HASH.fullmatch(value)


_TOKEN = re.compile(r"(?=[^\s]*[A-Za-z0-9]{12})[\w+/=.~-]{16,4096}")
_HASH = re.compile(
    r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{7,128}|(?:sha\d{1,3}|md5)[-:].*|[\w-]+(?:[./:][\w-]+)+"
)
