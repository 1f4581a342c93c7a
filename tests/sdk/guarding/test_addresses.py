"""Hosts and mail addresses: what clients read differently, or nobody reads for certain, no rule allows."""

# ruff: noqa: RUF001 - letters that look alike are what is tried here

from __future__ import annotations

from typing import Any

import pytest

from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import parse_policy
from blamespan.guarding.rules import judge_step

HOSTS = ["good.example", "*.good.example", "127.0.0.1", "::1", "bücher.example"]


def passes(rule: dict[str, Any], value: object) -> bool:
    policy = parse_policy({"arguments": [{"tool": "fetch", "argument": "to", **rule}]})
    return not judge_step(policy, ProposedStep("tool_call", "clerk", "", "fetch", arguments={"to": value}))


@pytest.mark.parametrize(
    "address",
    [
        "http://good.example/",
        "https://good.example",
        "HTTPS://GOOD.example./a?b=c#d",
        "https://api.good.example:8443/v1",
        "http://user@good.example/",
        "http://user:secret@good.example/path",
        'https://good.example/it\'s?q=<a>&r=\\"b\\"',
        "https://good.example/straße?q=ü",
        "https://good.example/a@b",
        "https://good.example?next=/a",
        "good.example",
        "good.example/path",
        "good.example:8080/path",
        "http://127.0.0.1:8000/",
        "http://[::1]:8000/",
        "http://[0:0:0:0:0:0:0:1]/",
        "https://bücher.example/",
        "See https://good.example/a, and (https://api.good.example).",
        "see https://good.example for more",
        ["https://good.example/a", "https://api.good.example/b"],
    ],
)
def test_allowed_hosts_pass(address: object) -> None:
    """The sound twin: whatever way an allowed host is ordinarily written."""
    assert passes({"hosts": HOSTS}, address)


@pytest.mark.parametrize(
    "address",
    [
        "http://good.example'@evil.org/",
        'http://good.example"@evil.org/',
        "http://good.example<@evil.org/",
        "http://good.example>@evil.org/",
        "http://good.example @evil.org/",
        "http://good.example\\@evil.org/",
        "http://good.example\\evil.org/",
        "http://good.example^@evil.org/",
        "http://good.example`@evil.org/",
        "http://good.example{@evil.org/",
        "http://good.example|@evil.org/",
        "http://good.example;@evil.org/",
        "http://good.example,@evil.org/",
        "http://good.example&@evil.org/",
        "http://good.example:80@evil.org/",
        "http://good.example:80:80/",
        "http://good.example@evil.org@good.example/",
        "http://good.example%40evil.org/",
        "http://good%2eexample/",
        "http://%67ood.example/",
        "http://good.example\t.evil.org/",
        "http://good.example\n.evil.org/",
        "ht\ntp://evil.org/",
        "http://good.example\x00.evil.org/",
        "\x01http://good.example/",
        "http:///evil.org/",
        "http:////evil.org/",
        "http:/evil.org/",
        "http:evil.org",
        "http:\\\\evil.org",
        "https:/\\evil.org",
        "//evil.org/",
        "\\\\evil.org",
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@good.example",
        "evil.org",
        "evil.org/good.example",
        "https://evil.org/?good.example",
        "https://evil.org#good.example",
        "https://good.example.evil.org/",
        "https://goodXexample/",
        "https://notgood.example/",
        "https://gооd.example/",
        "https://ｇood.example/",
        "https://good。example/",
        "https://good．example/",
        "https://good.ex\u00adample/",
        "https://good.example\u200b/",
        "https://good..example/",
        "https://.good.example/",
        "https://good.example../",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.01/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::1%25eth0]/",
        "http://[::1/",
        "http://::1/",
        "http://good.example:99999/",
        "http://good.example:8o/",
        "https://good.example/ https://evil.org/",
        "https://good.example/?next=https://evil.org/",
        "see https://evil.org/",
        "\u00a0http://good.example @evil.org/",
        "\u2003http://good.example @evil.org/",
        "<http://good.example @evil.org/>",
        "'http://good.example  @evil.org/'",
        2130706433,
        "see https://good.example'@evil.org/",
        "https://büc her.example/",
        "",
        " ",
        ["https://good.example/", "https://evil.org/"],
    ],
)
def test_other_hosts_do_not_pass(address: object) -> None:
    """One character is enough for a client to go elsewhere: such an address has no host that is allowed."""
    assert not passes({"hosts": HOSTS}, address)


@pytest.mark.parametrize("value", ["a@ok.org", "a@ok.org, b@ok.org", "Ann B. <a@ok.org>; b.c+d@ok.org"])
def test_allowed_recipients_pass(value: str) -> None:
    """The sound twin: addresses of the allowed host, with names and in lists."""
    assert passes({"recipients": ["*@ok.org"]}, value)


@pytest.mark.parametrize(
    "value",
    [
        "a@evil.org",
        "a@ok.org, b@evil.org",
        "a@ok.org, bob",
        'a@ok.org;"b c"@evil.org',
        "a@ok.org@evil.org",
        "a@ok.org <b@evil.org>",
        "a@ok.org\nBcc: b@evil.org",
        "a@ok.org b＠evil.org",
        "a@ok.org.evil.org",
        "a%evil.org@ok.org, =?utf-8?q?b=40evil.org?=",
        "@ok.org",
        "",
    ],
)
def test_other_recipients_do_not_pass(value: str) -> None:
    """What is no plain mail address of an allowed host is none that is allowed."""
    assert not passes({"recipients": ["*@ok.org"]}, value)
