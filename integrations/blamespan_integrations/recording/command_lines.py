"""Secrets that commands are given without a name, as `curl -u bob:hunter2`, and those in rows of a .pgpass file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blamespan_integrations.recording.secret_patterns import MASKED, ScannedText, Secret, is_placeholder

__all__ = ["secrets_on_command_lines"]

_REACH = 200
"""Characters between a command and its option."""
_USER = re.compile(r"""-(?:u|U|a|-user|-proxy-user)[ =]?\s?(["']?)([^\s:"']{0,64}):(?!//)([^\s"']+)""")
_JOINED = re.compile(r"""-[pPa](["']?)([^\s"'-][^\s"']*)""")
_APART = re.compile(r"""-[pPaw]\s(["']?)([^\s"'-][^\s"']*)""")
_OPTIONS = (
    (_USER, 3, ("curl", "http", "wget", "rclone", "lftp", "smbclient")),
    (_JOINED, 2, ("mysql", "mariadb", "7z", "unrar", "zip")),
    (_APART, 2, ("sshpass", "docker login", "podman login", "helm registry", "redis-cli", "mongo", "oc login")),
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


_LETTERS = (b"u", b"p", b"a", b"w", b"-")


def _option(text: str, at: int) -> Iterator[Secret]:
    """Yield the secret of the option at *at*, if one of the commands that take it stands before it on its line."""
    for expression, group, commands in _OPTIONS:
        option = expression.match(text, at)
        if option and not is_placeholder(option[group]):
            line = text[max(0, at - _REACH) : at]
            line = line[line.replace("\\\n", "  ").rfind("\n") + 1 :]
            if any(command in line for command in commands):
                yield *option.span(group), MASKED
