"""The bundled set: what common secrets look like in text.

Most texts hold no secret, and that must cost next to nothing: of a text only the characters are left that
secrets need (its *signs*), and only a text with the signs of a pattern is searched for its needles. No pattern
looks at a character more often than a constant number of times, so hostile text takes no longer than other text.

Sources: the providers' documentation of their key formats, and the rules of secret scanners
(detect-secrets, gitleaks, GitHub's list of partner patterns).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["LONGEST_SECRET", "SECRET_KEYS", "mask_secrets", "signs_of"]

LONGEST_SECRET = 4_096
"""Characters a secret may have of which half a one is not recognized."""

SECRET_KEYS = (
    *("password", "passwd", "pwd", "passphrase", "secret", "client_secret", "secret_key", "private_key"),
    *("api_key", "x_api_key", "access_key", "secret_access_key", "aws_secret_access_key", "account_key"),
    *("shared_access_key", "access_token", "refresh_token", "id_token", "auth_token", "session_token", "bearer_token"),
    *("token", "authorization", "proxy_authorization", "cookie", "set_cookie", "card_number", "cvv"),
)
"""JSON keys whose values are secrets whatever they look like; case, `-` and `_` do not count."""

_Replace = Callable[[str], str]


def signs_of(text: str) -> bytes:
    """Leave of *text* the characters by which secrets are told: what stands together in it stands together there."""
    return text.encode("utf-8", "replace").translate(None, _SILENT)


def mask_secrets(text: str, signs: bytes | None = None) -> str:
    """Replace what looks like a secret by what it was: `[masked email]`.

    Args:
        text: Any text.
        signs: Its `signs_of`, where they are known; those of a text that holds this one do as well.
    """
    signs = signs_of(text) if signs is None else signs
    lower = text.lower()
    if "bearer " in lower:
        text = _mask_bearer(text)
    if b":" in signs or b"=" in signs:
        for needle, replace in _ASSIGNED:
            if needle in lower:
                text = replace(text)
    for sign, hint, patterns in _AS_WRITTEN:
        if sign in signs and (hint is None or hint.search(text)):
            for needle, replace in patterns:
                if needle in text:
                    text = replace(text)
    if len(signs.translate(None, _NO_DIGITS)) >= _SHORTEST_CARD and _EIGHT_DIGITS.search(text):
        text = _mask_cards(text)
    return text


_SIGNS = b"0123456789@=:/_-.\"'AIJzp"
_SILENT = bytes(set(range(256)) - set(_SIGNS))
_NO_DIGITS = bytes(set(_SIGNS) - set(b"0123456789"))


def _where(*needles: str, find: str, put: str) -> list[tuple[str, _Replace]]:
    expression = re.compile(find)

    def replace(text: str) -> str:
        return expression.sub(put, text)

    return [(needle, replace) for needle in needles]


def _mask_emails(text: str) -> str:
    """Find the `@`s and look both ways: an expression that starts at the left is quadratic."""
    kept: list[str] = []
    end = 0
    for domain in _DOMAIN.finditer(text):
        start = domain.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in _LOCAL_PART):
            start -= 1
        if start < domain.start():
            kept += [text[end:start], "[masked email]"]
            end = domain.end()
    return "".join([*kept, text[end:]])


def _mask_cards(text: str) -> str:
    kept: list[str] = []
    end = 0
    for start, stop in _cards(text):
        kept += [text[end:start], "[masked card number]"]
        end = stop
    return "".join([*kept, text[end:]])


def _cards(text: str) -> Iterator[tuple[int, int]]:
    """Find card numbers; a run of digits that is none may hold the start of one."""
    at = 0
    while found := _CARD.search(text, at):
        at = found.start() + 1
        if _has_check_digit(found[0]):
            at = found.end()
            yield found.span()


def _has_check_digit(number: str) -> bool:
    """Tell whether *number* ends as ISO/IEC 7812-1 says (Luhn): one number in ten does by chance."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_DOMAIN = re.compile(r"@[^\W_][\w-]{0,62}(?:\.[\w-]{1,63})+")
_LOCAL_PART = frozenset("._%+-'=~!#$&*/?^{|}`")
_SHORTEST_CARD = 13
_EIGHT_DIGITS = re.compile(r"[0-9]{4}[ -]?[0-9]{4}")
_CARD = re.compile(
    r"(?<![\w.])[2-6](?:[0-9]{12,18}|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3})?|"
    r"[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?!\w)"
)
_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_TOKEN = r"(?:[\w.~+/-]{16,}|(?=[^\s\d]{0,64}\d)[\w.~+/-]{8,})=*"  # noqa: S105 - what tokens look like

[(_, _mask_bearer)] = _where("bearer ", find=rf"(?i)(\bbearer\s{{1,4}}){_TOKEN}", put=r"\1[masked token]")
_ASSIGNED: list[tuple[str, _Replace]] = [
    *_where(
        "authorization",
        find=r"(?i)(\bauthorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\r\n\"',}]+",
        put=r"\1[masked]",
    ),
    *_where(
        *("passw", "passphrase", "pwd"),
        find=r"(?i)((?:password|passwd|passphrase|pwd)\s{0,4}[:=]\s{0,4})[^\s\"',;&}\[][^\s\"',;&}]*",
        put=r"\1[masked]",
    ),
]
"""Needles in lower case, and what to do with a text that holds one in any case and a sign of assignment."""

_KEY = "[masked api key]"
_AS_WRITTEN: list[tuple[bytes, re.Pattern[str] | None, list[tuple[str, _Replace]]]] = [
    (
        b"--",
        None,
        _where(
            "PRIVATE KEY-",
            "BLOCK-",
            find=rf"-----BEGIN {_BLOCK}(?s:.*?)(?:-----END {_BLOCK}|\Z)",
            put="[masked private key]",
        ),
    ),
    (
        b"-",
        re.compile(r"-[\w-]{10}"),
        [
            *_where("sk-", find=r"\bsk-[\w-]{16,}", put=_KEY),
            *_where("xox", find=r"\bxox[abeprs]-[\w-]{10,}", put=_KEY),
            *_where(
                *("xai-", "pplx-", "tvly-", "nvapi-", "pypi-", "glpat-"),
                find=r"\b(?:xai|pplx|tvly|nvapi|pypi|glpat)-[\w-]{16,}",
                put=_KEY,
            ),
        ],
    ),
    (
        b"_",
        re.compile(r"_\w{10}"),
        [
            *_where("_live_", "_test_", find=r"\b[spr]k_(?:live|test)_\w{10,}", put=_KEY),
            *_where("gsk_", "hf_", "npm_", "whsec_", find=r"\b(?:gsk|hf|npm|whsec)_\w{16,}", put=_KEY),
            *_where("ghp_", "gho_", "ghu_", "ghs_", "ghr_", find=r"\bgh[pousr]_\w{16,}", put=_KEY),
            *_where(
                *("github_pat_", "dop_v1_", "lsv2_", "r8_"), find=r"\b(?:github_pat|dop_v1|lsv2|r8)_\w{16,}", put=_KEY
            ),
        ],
    ),
    (
        b"=",
        None,
        _where(
            *("key=", "Key=", "KEY=", "oken=", "OKEN=", "ecret=", "ECRET="),
            find=r"(?i)((?:key|token|secret)=)[\"']?[^\s\"',;&}\[][^\s\"',;&}]{3,}",
            put=r"\1[masked]",
        ),
    ),
    (b"://", None, _where("://", find=r"(://[^\s/@:\"']{0,256}:)[^\s/\"']+@", put=r"\1[masked]@")),
    (
        b"/",
        None,
        _where("hooks.slack.com/", find=r"(hooks\.slack\.com/(?:services|workflows)/)[\w/]+", put=r"\1[masked]"),
    ),
    (b"@", None, [("@", _mask_emails)]),
    (b"J", None, _where("eyJ", find=r"(?<![\w-])eyJ[\w-]{8,}(?:\.[\w-]*){0,4}", put="[masked token]")),
    (b"IA", None, _where("AKIA", "ASIA", find=r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b", put=_KEY)),
    (b"AIz", None, _where("AIza", find=r"\bAIza[\w-]{20,}", put=_KEY)),
    (b".", re.compile(r"\.[\w.-]{20}"), _where("ya29.", "SG.", find=r"\b(?:ya29|SG)\.[\w.-]{20,}", put=_KEY)),
    (b"p", None, _where("dapi", find=r"\bdapi[0-9a-f]{32}", put=_KEY)),
]
"""The signs of a pattern, what else is quick to look for, needles, and what to do with a text that holds one."""
