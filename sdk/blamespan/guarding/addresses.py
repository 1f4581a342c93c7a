"""The hosts and mail addresses that a text names, where every client reads the same one.

Clients read addresses differently, and one of them opens what another one never saw. So an address is read by a narrow
grammar, and its host again as clients do: what they disagree on, or the grammar does not know, has no host, and no rule
allows it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

UNREADABLE: Final = "\0"
"""Stands for a host or mail address that cannot be read for certain: it fits no pattern but `*`."""

_SCHEME: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]{0,30}:[/\\]+")
_SPECIAL: Final = re.compile(r"(?i)\s*(?:https?|wss?|ftp|file)\s*:")
_AUTHORITY: Final = re.compile(
    r"(?:[A-Za-z0-9._~-]*(?::[A-Za-z0-9._~-]*)?@)?"
    r"(\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+\.?|[^\x00-\x7f]?[\w.-]+)(?::(\d{0,5}))?"
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PROSE_END: Final = ".,;:!?)]}>\"'"
_MAIL: Final = re.compile(r"(?:[\w .'-]*<)?([A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)>?")


def read_hosts(text: str) -> Iterator[str]:
    """Yield the host of each address in a text; one without a scheme is taken for an address itself."""
    plain = text.strip()
    starts = list(_SCHEME.finditer(plain))
    if _CONTROL.search(text) or (not starts and _SPECIAL.match(plain)):
        yield UNREADABLE
        return
    if not starts:
        yield _read_host(plain, "")
    for match in starts:
        rest = plain[match.end() :]
        word, *following = rest.split(maxsplit=2)[:2] or [""]
        is_prose = starts[0].start() > 0 and "@" not in "".join(following)
        yield _read_host(word.rstrip(_PROSE_END) if is_prose else rest, match[0])  # within prose it ends with its word


def _read_host(rest: str, scheme: str) -> str:
    """Read the host of what follows a scheme."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    match = _AUTHORITY.fullmatch(authority)
    is_named = scheme.endswith("://") if scheme else "@" not in authority
    if match is None or not is_named or int(match[2] or 0) > 65_535:
        return UNREADABLE
    host = _canonical(match[1])
    readings = {_canonical(one) for one in _as_clients_read(f"{scheme or 'http://'}{rest}")}
    return host if readings == {host} else UNREADABLE


def _as_clients_read(address: str) -> Iterator[str]:
    """Yield the host as the standard library reads it, and as httpx does where it is installed."""
    try:
        yield urlsplit(address).hostname or UNREADABLE
    except ValueError:
        yield UNREADABLE
    try:
        import httpx
    except ImportError:
        return
    try:
        yield httpx.URL(address).host or UNREADABLE
    except (httpx.InvalidURL, ValueError):
        yield UNREADABLE


def _canonical(host: str) -> str:
    """Write a host in its one form; what looks like a number but is no plain IP address cannot be read."""
    name = host.strip("[]").removesuffix(".").casefold()
    try:
        if ":" in name or re.fullmatch(r"[\d.]+|(?:.*\.)?(?:0x[0-9a-f]*|\d+)", name):
            return str(ipaddress.ip_address(name))
        ascii_name = name.encode("idna").decode()
        return name if ascii_name.encode().decode("idna") == name or name.isascii() else UNREADABLE
    except ValueError:  # of an address, or of a name that cannot be written in ASCII
        return UNREADABLE


def read_mail_addresses(text: str) -> Iterator[str]:
    """Yield each mail address in a text that lists some, parted by commas or semicolons."""
    for part in re.split(r"[,;]", text):
        match = _MAIL.fullmatch(part.strip(" "))
        yield match[1] if match is not None else UNREADABLE
