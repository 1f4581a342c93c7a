"""What is masked of secrets as people, programs and models write them, and what only looks like one and stays."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path

import pytest

from blamespan_integrations.recording.masking import mask_secrets

SAMPLES = {
    name: tomllib.loads((Path(__file__).parent / name).read_text())
    for name in ("masking_samples.toml", "masking_samples_more.toml", "masking_samples_programs.toml")
}
_PIECE = 6
"""Characters of a secret that may not be left."""


def pieces_left(sample: str) -> list[str]:
    """List what a marked sample's masked text still has of its secrets."""
    marked = sample.replace("|", "")
    masked = mask_secrets(re.sub("[«»]", "", marked))
    return [
        piece
        for secret in re.findall("«(.*?)»", marked, re.DOTALL)
        for piece in (secret[at : at + _PIECE] for at in range(max(1, len(secret) - _PIECE + 1)))
        if piece in masked
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_everyday_secrets_are_masked_whole(name: str) -> None:
    """Of a hundred secrets in the contexts that agents meet at least 97 leave no piece of six characters."""
    samples = SAMPLES[name]["secrets"]
    leaking = [sample for sample in samples if pieces_left(sample)]

    assert len(samples) >= 100
    assert len(leaking) <= 0.03 * len(samples), leaking


@pytest.mark.parametrize("name", SAMPLES)
def test_what_only_looks_like_a_secret_stays(name: str) -> None:
    """Of a hundred texts with hashes, ids, variables, type hints and sentences at most three are changed."""
    samples = SAMPLES[name]["look_alikes"]
    changed = [sample for sample in samples if mask_secrets(sample) != sample]

    assert len(samples) >= 100
    assert len(changed) <= 0.03 * len(samples), changed


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"password": 12345678, "n": 1}', '{"password": "[masked]", "n": 1}'),
        ('{\\"password\\": 12345678, \\"n\\": 1}', '{\\"password\\": \\"[masked]\\", \\"n\\": 1}'),
        ("A s\u200bk-proj-abcd\u200befghijklmnop B", "A [masked api key] B"),
        ("q=password%3Dhunter2%26n%3D1", "q=password%3D[masked]%26n%3D1"),
        ("<password>hunter2</password>", "<password>[masked]</password>"),
        ("password: |\n  hunter2\nuser: bob", "password: |\n  [masked]\nuser: bob"),
        ("DB_PASSWORD=a;b,c#d\nDB_HOST=db", "DB_PASSWORD=[masked]\nDB_HOST=db"),
        ("curl -u bob:hunter2 http://ci", "curl -u bob:[masked] http://ci"),
        ("Cookie: a=b; c=d\r\nHost: h", "Cookie: [masked]\r\nHost: h"),
        ("get(u, cookies={'sessionid': 'k3j2'}, timeout=5)", "get(u, cookies=[masked], timeout=5)"),
        ("CREATE USER a IDENTIFIED BY 'tulip' ACCOUNT LOCK;", "CREATE USER a IDENTIFIED BY '[masked]' ACCOUNT LOCK;"),
        ("secret: |\n  k3j2\n  h4g5\nuser: bob", "secret: |\n  [masked]\nuser: bob"),
        ("{'cookies': [], 'token': {}}", "{'cookies': [], 'token': {}}"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, masked: str) -> None:
    """Only the secret gives way: JSON stays JSON, the next line and field are read."""
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "unit",
    [
        *("password ", "password: ", "password='", "password,", "password for a for b ", "key (", "key:\n", "key="),
        *("token is ", "api key ", "--password ", " -p ", "curl -u ", " -u a:", "secret>", "password=<a", "cookie: a="),
        *("password: [", "authorization: bearer ", "password: correct horse battery ", "login a password ", "sig="),
        *("\\u0073", "\\\\u005c", "%70", "%25", "&quot;", "&amp;", "\u200b", "\uff50", 'password\\\\\\"', "xoxb-"),
        *("token=a,b", "a:5432:a:a:", "\u201c", "pass\n", "ghp_", "SG."),
        *("identified by 'a", "create user identified ", "alter user password '", "cookies={", "cookies=dict(a='b',"),
        *(
            "cookie('a','",
            "add_cookies([{",
            "login('a','",
            "auth=('a','",
            "net use a /user:a ",
            "jdbc:oracle:a:a/",
            "sqlplus a/",
        ),
        *(
            "$2a$",
            "$ANSIBLE_VAULT;1\n00",
            'password" { default',
            "secret: |\n  a",
            "curl -b a=",
            " -N a",
            "password {a ",
        ),
    ],
)
def test_hostile_keys_and_escapes_take_linear_time(unit: str) -> None:
    """Eight times the text takes about eight times as long, whatever is repeated in it."""
    spent_s = []
    for size in (6_000, 48_000):
        text = (unit * (size // len(unit) + 1))[:size]
        start_s = time.process_time()
        mask_secrets(text)
        spent_s.append(time.process_time() - start_s)

    assert spent_s[1] < 40 * spent_s[0] + 0.05  # a quadratic expression takes 64 times as long


def test_hundreds_of_thousands_of_hostile_characters_end() -> None:
    """A long text made to hold many keys without a value is masked within seconds."""
    text = ("password: 'token=\\\"api key is %73 cookie: a=b; " * 8_000)[:300_000]
    start_s = time.process_time()
    mask_secrets(text)

    assert time.process_time() - start_s < 60
