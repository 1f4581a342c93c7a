"""What secrets look like wherever they stand: tokens by how they begin, and other forms that nothing else has.

Most texts hold no secret, and that must cost next to nothing: a token of a service is a long run of letters and
digits, so a text is first searched for such runs, as bytes, and only they are compared with the forms. No
expression looks at a character more often than a constant number of times, so hostile text takes no longer than
other text. The facts are in `secrets.toml`, which says where they come from.
"""

from __future__ import annotations

import binascii
import re
import tomllib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

LONGEST_SECRET = 4_096
"""Characters a secret may have of which half a one is not recognized."""
MASKED = "[masked]"
"""Stands for the value of a key."""

Secret: TypeAlias = tuple[int, int, str]
"""Where a secret starts and ends in a text, and what stands there instead."""

_DATA = Path(__file__).with_name("secrets.toml")


@cache
def facts() -> Mapping[str, Any]:
    """Read `secrets.toml`; `Any`, as its tables differ."""
    return tomllib.loads(_DATA.read_text(encoding="utf-8"))


class ScannedText:
    """A text as bytes of the same length, by which it is quick to tell what it cannot hold.

    Attributes:
        text: The text.
        lower: In lower case, a byte for each character; what is not Latin-1 is `?`.
    """

    __slots__ = ("_flat", "lower", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._flat = text.encode("latin-1", "replace")
        self.lower = self._flat.lower()

    def may_hold_card(self) -> bool:
        """Return whether eight digits stand together, or twice four with a space or hyphen between."""
        digits = self._flat.translate(_DIGIT)
        return b"0000" in digits and (b"00000000" in digits or b"0000 0000" in digits)

    def may_hold_random(self) -> bool:
        """Return whether twelve letters, digits, `-` or `_` stand together."""
        return _RANDOM_RUN in self._flat.translate(_RUN)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield where letters, digits, `-` and `_` stand in a row, as many as a token has."""
        runs, end = self._flat.translate(_RUN), 0
        while (start := runs.find(_LONG_RUN, end)) >= 0:
            end = runs.find(b" ", start)
            end = len(runs) if end < 0 else end
            yield start, end


_SHORTEST_TOKEN = 14
_LONG_RUN = b"a" * _SHORTEST_TOKEN
_RANDOM_RUN = b"a" * 12
_RUN = bytes(97 if (chr(code).isalnum() and code < 128) or code in b"-_" else 32 for code in range(256))
_DIGIT = bytes(48 if code in b"0123456789" else 32 if code in b" -" else 97 for code in range(256))


def secrets_by_form(shape: ScannedText) -> Iterator[Secret]:
    """Yield the secrets that are told by their form, in no order; some may lie within others."""
    text, lower = shape.text, shape.lower
    yield from _tokens(shape)
    if b"bearer" in lower or b"basic" in lower:
        yield from _credentials(text)
    if b"://" in lower:
        yield from (secret for secret in _spans(_IN_URL, text, MASKED) if not is_placeholder(text[slice(*secret[:2])]))
    if b"@" in lower:
        yield from _emails(text)
    if b"-----" in lower:
        yield from _spans(_PRIVATE_KEY, text, "[masked private key]")
    if shape.may_hold_card():
        yield from ((start, end, "[masked card number]") for start, end in _cards(text))


def is_placeholder(value: str) -> bool:
    """Return whether *value* stands where a secret would, and is none: stars, a variable, a word such as `required`."""
    return len(value) <= _LONGEST_PLACEHOLDER and (
        value.strip(" .,:;!?").lower() in _placeholders() or _PLACEHOLDER.fullmatch(value) is not None
    )


@cache
def _placeholders() -> frozenset[str]:
    return frozenset(("", *facts()["values"]["placeholders"]))


_LONGEST_PLACEHOLDER = 120
_NOUN = (
    r"(?:api|secret|access|private|auth|client|bot|bearer|db|admin)?[-_ ]?"
    r"(?:key|token|password|passwd|secret|value|credentials?)s?"
)
_PLACEHOLDER = re.compile(
    rf"""(?ix)
    (?-i:[xX*•●·.#_…-]|\\u2022|&bull;){{2,}} | (?:\w{{1,8}}[-_])?(?:x{{3,}}|\*{{3,}}|\.{{3,}}|…)\w{{0,4}}
    | (?:\w{{1,8}}[-_ ]?){{0,3}}(?:\*{{3,}}|\.{{3,}}|…|x{{4,}})[\w-]{{0,4}}
    | !{{1,2}}(?:vault|secret|env\w*|include|ref|sub|getatt|str|binary|unsafe) | </?[^<>]*>? | \[[a-z _-]*\]?
    | \{{{{.*\}}}} | \{{[^{{}}"']*\}} | %\(?\w*\)?[sdr]? | %\w+%
    | (?:file://|~|\.{{1,2}}|(?=/(?:etc|run|var|home|usr|opt|tmp|mnt|root|app|data|secrets)/))/[\w./@-]*
    | &&?[a-z_]{{2,20}} | \$(?-i:[A-Z_][A-Z0-9_]*|[a-z_]+|\d+) | \$\{{.*\}}? | \$\(.*\)? | \$\{{\{{.*
    | (?:[\w-]{{1,20}}[-_ ])?(?:your|insert|replace|paste|enter|put)(?:[-_ ].*)?(?:here|{_NOUN}|me|this)
    | (?:your|changeme|change|my|the|some|an?|dummy|fake|example|sample)[-_ ]?(?:[a-z]+[-_ ])?{_NOUN}
      (?:[-_ ]?(?:goes[-_ ])?here)?
    | (?:os\.environ|os\.getenv|process\.env|getenv|env|secrets|vault|settings|config|self|args|vars)[.\[(].*
    """
)


def _tokens(shape: ScannedText) -> Iterator[Secret]:
    """Yield what services issue: only around long runs of letters and digits, of which most texts have none."""
    text = shape.text
    expression = None
    done = 0
    for start, end in shape.runs():
        expression = expression or _token_expression()
        begin = max(done, start - _LONGEST_PREFIX)
        while match := expression.search(text, begin, end):
            whole = expression.match(text, match.start()) or match  # it may go on beyond the run
            begin = done = whole.end()
            yield whole.start(), done, _TOKEN_MASK
    if expression is not None or b"hook" in shape.lower:  # what follows a webhook's address may be short
        for needle, form, mask in _forms():
            if needle in shape.lower:
                yield from _spans(form, text, mask)


_LONGEST_PREFIX = 24
_TOKEN_MASK = "[masked api key]"  # noqa: S105 - what stands there instead of one


@cache
def _token_expression() -> re.Pattern[str]:
    """Make one expression of all tokens, a branch for each first letter: most places are left after one look."""
    branches: dict[str, dict[str, list[str]]] = {}
    for token in facts()["token"]:
        body, length = token.get("body"), token["length"]
        if body is None:
            rest = rf"(?:[A-Za-z0-9]{{{length}}}|{_MIXED}[\w-]{{{length}}})[\w-]*"
        else:
            rest = rf"{_MIXED if token.get('mixed') else ''}{body}{{{length},{LONGEST_SECRET}}}"
        for prefix in token["prefixes"]:
            branches.setdefault(prefix[0], {}).setdefault(rest, []).append(prefix[1:])
    initials = "".join(sorted(branches))
    alternatives = (
        re.escape(initial)
        + _any_of(_any_of(map(re.escape, sorted(prefixes, reverse=True))) + rest for rest, prefixes in rests.items())
        for initial, rests in sorted(branches.items())
    )
    return re.compile(rf"(?<![A-Za-z0-9])(?=[{re.escape(initials)}]){_any_of(alternatives)}", re.ASCII)


_MIXED = r"(?=[\w.-]{0,40}[0-9])(?=[\w.-]{0,40}[A-Z])"


def _any_of(expressions: Iterable[str]) -> str:
    return f"(?:{'|'.join(expressions)})"


@cache
def _forms() -> tuple[tuple[bytes, re.Pattern[str], str], ...]:
    return tuple(
        (
            form["needle"].encode(),
            re.compile(form["find"], re.ASCII),
            f"[masked {label}]" if (label := form.get("label", "api key")) else MASKED,
        )
        for form in facts()["form"]
    )


def _spans(expression: re.Pattern[str], text: str, mask: str) -> Iterator[Secret]:
    for match in expression.finditer(text):
        start, end = match.span(expression.groups)  # the group if there is one, else all
        yield start, end, mask


def _credentials(text: str) -> Iterator[Secret]:
    """Yield what stands behind `Bearer` and `Basic`, also without the header's name."""
    for match in _SCHEME.finditer(text):
        start, end = match.span(2)
        if match[1][1] in "eE" or _is_user_and_password(match[2]):
            yield start, end, "[masked token]"


def _is_user_and_password(encoded: str) -> bool:
    try:
        decoded = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


_SCHEME = re.compile(
    r"(?i)\b(bearer(?:\s{1,4}|%20|\+|[:=]\s?)|basic(?:\s{1,4}|%20|\+))"
    r"[\"']?((?:[a-z0-9]{16,}|(?=[^\s\d]{0,64}\d)[\w.~+/-]{8,})[\w.~+/-]*=*)"
)


def _emails(text: str) -> Iterator[Secret]:
    """Find the `@`s and look both ways: an expression that starts at the left is quadratic."""
    end = 0
    for domain in _DOMAIN.finditer(text):
        start = domain.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in _LOCAL_PART):
            start -= 1
        if start < domain.start():
            end = domain.end()
            yield start, end, "[masked email]"


def _cards(text: str) -> Iterator[tuple[int, int]]:
    """Find card numbers; a run of digits that is none may hold the start of one."""
    at = 0
    while match := _CARD.search(text, at):
        at = match.start() + 1
        if _has_check_digit(match[0]):
            at = match.end()
            yield match.span()


def _has_check_digit(number: str) -> bool:
    """Return whether *number* ends as ISO/IEC 7812-1 says (Luhn): one number in ten does by chance."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_DOMAIN = re.compile(r"@[^\W_][\w-]{0,62}(?:\.[\w-]{1,63})+")
_LOCAL_PART = frozenset("._%+-'=~!#$&*/?^{|}`")
_CARD = re.compile(
    r"(?<![\w.])[2-6](?:[0-9]{12,18}|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3})?|"
    r"[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?!\w)"
)
_IN_URL = re.compile(r"://(?:[^\s/@:\"'<>]{0,256}:(?=[^\s/@\"'])|(?=[0-9a-f]{16}))([^\s/\"'<>]+)@")
_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = re.compile(rf"-----BEGIN {_BLOCK}(?s:.*?)(?:-----END {_BLOCK}|\Z)")


_REACH = 200
"""Characters between a command and its option."""
_USER = re.compile(r"""-(?:u|U|a|-user|-proxy-user)[ =]?\s?(["']?)([^\s:"']{0,64}):(?!//)([^\s"']+)""")
_JOINED = re.compile(r"""-[pPa](["']?)([^\s"'-][^\s"']*)""")
_APART = re.compile(r"""-[pPaw]\s(["']?)([^\s"'-][^\s"']*)""")
_NEW = re.compile(r"""-[NP]\s(["']?)([^\s"'-][^\s"']*)""")
_COOKIE = re.compile(r"""-(?:b|-cookie)[ =]?\s?(["']?)([\w.$-]{1,64}=(?:[^"'\s]|(?<=;) )+)""")
_OPTIONS = (
    (_USER, 3, ("curl", "http", "wget", "rclone", "lftp", "smbclient")),
    (_JOINED, 2, ("mysql", "mariadb", "7z", "unrar", "zip")),
    (
        _APART,
        2,
        (
            "sshpass",
            "docker login",
            "podman login",
            "helm registry",
            "redis-cli",
            "mongo",
            "oc login",
            "az login",
            "sqlcmd",
            "bcp",
            "ldap",
        ),
    ),
    (_NEW, 2, ("ssh-keygen",)),
    (_COOKIE, 2, ("curl", "http", "wget")),
)
"""Options, where their value stands, and the commands that have them."""
_PGPASS = re.compile(r"(?m)^[\w.*-]{1,253}:(?:\d{2,5}|\*):[\w.*-]{1,63}:[\w.*@-]{1,63}:(\S{1,256})[ \t]*$")


def secrets_on_command_lines(shape: ScannedText) -> Iterator[Secret]:
    """Yield passwords on the command lines of programs that take them so, and in rows of .pgpass."""
    text, lower = shape.text, shape.lower
    at = lower.find(b" -")
    while at >= 0:
        if lower[at + 2 : at + 3] in _LETTERS:
            yield from _option(text, at + 1)
        at = lower.find(b" -", at + 2)
    if b":543" in lower or b":*:" in lower or b":6432:" in lower:
        for row in _PGPASS.finditer(text):
            yield *row.span(1), MASKED


_LETTERS = (b"u", b"p", b"a", b"w", b"n", b"b", b"-")


def _option(text: str, at: int) -> Iterator[Secret]:
    """Yield the secret of the option at *at*, if one of the commands that take it stands before it on its line."""
    for expression, group, commands in _OPTIONS:
        option = expression.match(text, at)
        if option and not is_placeholder(option[group]):
            line = text[max(0, at - _REACH) : at]
            line = line[line.replace("\\\n", "  ").rfind("\n") + 1 :]
            if any(command in line for command in commands):
                yield *option.span(group), MASKED


def secrets_in_statements(shape: ScannedText) -> Iterator[Secret]:
    """Yield passwords in statements of SQL, cookies and passwords in calls, hashes of passwords, encrypted vaults."""
    text, lower = shape.text, shape.lower
    for needle, expression in _STATEMENTS:
        at = lower.find(needle)
        while at >= 0:
            match = expression.match(text, at)
            if match and not is_placeholder(match[match.lastindex or 0]) and _stands_right(match):
                yield *match.span(match.lastindex or 0), MASKED
            at = lower.find(needle, match.end() if match else at + len(needle))


def _stands_right(match: re.Match[str]) -> bool:
    """Return whether a password of SQL stands in a statement that sets one; other matches need nothing more."""
    if match.re is not _SQL_PASSWORD or match[0].startswith("IDENTIFIED"):
        return True
    before = match.string[max(0, match.start() - _REACH) : match.start() + len("password")]
    return _SQL_ACCOUNT.search(before, before.rfind(";") + 1) is not None


_QUOTED = r"""\s{0,2}["'][^"'\n]{0,64}["']\s{0,2},\s{0,2}["']"""
_DIGIT_IN = r"""(?=[^"'\n\d]{0,64}\d)"""
_LONG_VALUE = r"""["'](?=[^"'\s\d]{0,64}\d)[^"'\s]{12}"""
_BASIC = "|".join(f"(?<={name}auth)" for name in ("basic", "basic_", "digest", "digest_", "proxy", "ntlm"))
_SQL_PASSWORD = re.compile(
    r"""(?ix)
    (?: identified \s{1,4} (?:with\s{1,4}["'`]?\w{1,40}["'`]?\s{1,4})? (?:by|as) (?:\s{1,4}password)? | password )
    \s{0,4} [=(]? \s{0,4}
    (?: N?'((?:[^'\\\n]|\\.){1,256}) | "((?:[^"\\\n]|\\.){1,256})
      | (?<=by\ )(?!password|values|external)([\w$#!%*^&+]{1,128}) )
    """
)
_SQL_ACCOUNT = re.compile(
    r"(?i)\b(?:(?:create(?:\s{1,4}or\s{1,4}replace)?|alter)\s{1,4}(?:user|role|login|group|server|database\s{1,4}link)|set\s{1,4}password|grant)\b"
)
_ACCOUNT = r"[\w$#]{1,64}/([^@\s/]{1,256})(?=@)"
_STATEMENTS = (
    *((needle, _SQL_PASSWORD) for needle in (b"identified", b"password")),
    (b"cookie", re.compile(rf"""(?i)cookies?(?:\.set)?\({_QUOTED}({_DIGIT_IN}[^"'\n]{{6,512}})["']""")),
    (b"jar.set(", re.compile(rf"""(?i)jar\.set\({_QUOTED}({_DIGIT_IN}[^"'\n]{{6,512}})["']""")),
    (
        b"cookies.update(",
        re.compile(rf"(?i)cookies\.update\((\{{(?=[^{{}}]{{0,256}}?{_LONG_VALUE})[^{{}}]{{0,4096}}\}})"),
    ),
    (b"cookie", re.compile(r"""(?i)cookies?\(\[?\{[^{}]{0,200}?value["']?\s?:\s?["']([^"'\n]{6,512})["']""")),
    (b"login(", re.compile(rf"""(?i)login\((?:\w{{1,20}}=)?{_QUOTED}({_DIGIT_IN}[^"'\n]{{6,256}})["']\s{{0,2}}\)""")),
    (b"auth", re.compile(rf"""(?i)auth(?:\s{{0,2}}=\s{{0,2}}|{_BASIC})\({_QUOTED}([^"'\n]{{1,256}})["']\s{{0,2}}\)""")),
    (
        b"net use ",
        re.compile(
            r"(?i)net use [^\n]{0,200}?(?:/user:\S{1,64}\s{1,4}([^\s*/]\S{0,256})|\s([^\s/*\\:]{4,256})\s/user:)"
        ),
    ),
    (b"jdbc:oracle:", re.compile(rf"(?i)jdbc:oracle:\w{{1,8}}:{_ACCOUNT}")),
    (b"sqlplus ", re.compile(rf"(?i)sqlplus (?:-\w\s{{1,4}})?{_ACCOUNT}")),
    (b"$", re.compile(r"(?<![\w$])(\$(?:apr1|2[abxy]|[156y]|argon2i?d?|scrypt)\$[\w./$=,+-]{20,256})")),
    *((needle, re.compile(r"(?i)(\{s?sha\}[\w+/=]{20,128})")) for needle in (b"{sha}", b"{ssha}")),
    (b"private-lines:", re.compile(r"(?i)private-lines: \d{1,3}\s{1,4}((?:[\w+/=]{1,128}(?:\r?\n|\Z)){1,64})")),
    (
        b"$ansible_vault",
        re.compile(r"(?i)\$ANSIBLE_VAULT;[\w.;-]{1,80}\s{1,40}((?:[0-9a-f]{2,80}\s{0,40}(?![^\s0-9a-f]))+)"),
    ),
)
"""How a statement begins, and what is masked of it."""
