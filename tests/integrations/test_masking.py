"""What is masked: values of keys, common secrets, and what the program's own function takes out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.genai_messages import Message
from blamespan.instrumenting.settings import ContentSettings
from blamespan.testing import SpanRecorder
from blamespan.trace import Agent
from blamespan_integrations.recording import Recorder
from blamespan_integrations.recording.masking import mask_secrets

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq1w2\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("key sk-proj-abcdefghijklmnopqrstuv!", "key [masked api key]!"),
        ("sk-ant-api03-abcdefghijklmnop_qr-st", "[masked api key]"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[masked api key]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[masked api key]"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnop", "[masked api key]"),
        ("glpat-abcdefghij0123456789", "[masked api key]"),
        ("xoxb-123456789012-abcdefghij", "[masked api key]"),
        ("sk_live_abcdefghijklmnop", "[masked api key]"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "[masked api key]"),
        ("gsk_abcdefghijklmnopqrstuvwxyz", "[masked api key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[masked api key]"),
        ("ASIAIOSFODNN7EXAMPLE.", "[masked api key]."),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key=[masked]"),
        ("OPENAI_API_KEY=whatever-it-is go", "OPENAI_API_KEY=[masked] go"),
        ("?id=1&access_token=abc123def&x=1", "?id=1&access_token=[masked]&x=1"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: [masked]"),
        ("authorization: Basic dXNlcjpwYXNz\r\nAccept: */*", "authorization: [masked]\r\nAccept: */*"),
        ("send BEARER abcdefghijklmnop now", "send BEARER [masked token] now"),
        (f"jwt {JWT}.", "jwt [masked token]"),
        (f"a{PEM}b", "a[masked private key]b"),
        (PEM[:50], "[masked private key]"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx", "[masked private key]"),
        ("postgres://me:p@ss@db/x", "postgres://me:[masked]@db/x"),
        ("redis://:pw@cache:6379", "redis://:[masked]@cache:6379"),
        ("password: hunter2, next", "password: [masked], next"),
        ("write to bob.smith+x@mail.example.co.uk.", "write to [masked email]."),
        ("jürgen@exämple.de", "[masked email]"),
        ("pay 4111 1111 1111 1111 now", "pay [masked card number] now"),
        ("5500-0055-5555-5559", "[masked card number]"),
        ("amex 3782 822463 10005", "amex [masked card number]"),
        ("2024 4111111111111111", "2024 [masked card number]"),
        ("2024 4111 1111 1111 1111", "2024 [masked card number]"),
        ('{"Api-Key": "abc", "user": "u"}', '{"Api-Key": "[masked]", "user": "u"}'),
        ("{'password': 'a\\'b', 'n': 1}", "{'password': '[masked]', 'n': 1}"),
        ('{"token": {"a": [1, "}"]}, "n": 1}', '{"token": "[masked]", "n": 1}'),
        ('"{\\"secret\\": \\"x\\\\\\"y\\", \\"n\\": 1}"', '"{\\"secret\\": \\"[masked]\\", \\"n\\": 1}"'),
        ("User(name='u', api_key='abc')", "User(name='u', api_key='[masked]')"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    """Each common secret gives way to what it was, and nothing around it does."""
    assert recorded_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the task-force-of-many-many-people and desk-research-in-2024-and-beyond",
        "at 1763700000000000000 ns, order 4111111111111112, pi 3.4111111111111111",
        "id 550e8400-e29b-41d4-a716-446655440000 in a4111111111111111b",
        "@tool def f(x): return x@y",
        "see https://example.com/a:b@c and http://localhost:4318/v1/traces",
        '{"tokens": 12, "keyboard": "qwerty", "password_hint": "none"}',
        "the bearer of this ring; the key is to think; eyJ",
        "is_live_now = true; sk-short; a == b; monkey=see",
    ],
)
def test_other_text_stays(text: str) -> None:
    """What only looks a little like a secret is evidence, and stays."""
    assert recorded_text(text) == text


def recorded_text(text: str, **settings: Any) -> str:
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider, content=ContentSettings(**settings))
    recorder.start_tool("t", arguments={}).end(result=text)
    return str(spans.spans()[0].attributes[words.TOOL_RESULT])


@pytest.mark.parametrize(
    "around", ["The team's plan - as agreed: look at 2024, then ask. ", "été \ud800 ", "x" * 500 + " "]
)
@pytest.mark.parametrize(
    "secret",
    [
        *("sk-proj-abcdefghijklmnopqrstuv", "xoxb-123456789012-abcdefghij", "pypi-abcdefghijklmnopqrst", PEM, JWT),
        *("sk_live_abcdefghijklmnop", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "dop_v1_abcdefghijklmnopqrst"),
        *("AKIAIOSFODNN7EXAMPLE", "AIzaSyA1234567890abcdefghijklmnopqrstuv", "ya29.abcdefghijklmnopqrstuvw"),
        *(
            "SG.abcdefghijklmnopqrstuv",
            "dapi0123456789abcdef0123456789abcdef",
            "bob@example.com",
            "4111-1111-1111-1111",
        ),
        *("378282246310005", "token=abcdefgh", "redis://:pw@cache:6379", "hooks.slack.com/services/T0/B0/x"),
        *("password: hunter2", "{'api_key': 'abc'}", "token='abc'"),
    ],
)
def test_secret_is_found_in_whatever_stands_around_it(secret: str, around: str) -> None:
    """What is quick to tell of a text that has no secret never hides one: each is masked among prose as by itself."""
    alone, among = recorded_text(secret), recorded_text(f"{around}{secret} {around}")

    assert alone != secret
    assert among == recorded_text(f"{around}{alone} {around}")


def test_values_of_keys_are_masked_at_any_depth() -> None:
    """A named key hides its value in arguments, results and messages: in objects, in JSON text, in a repr."""
    spans = SpanRecorder()
    content = ContentSettings(mask_secrets=False, mask_keys=("ssn", "birth_date"))
    recorder = Recorder("blamespan.test", spans.provider, content=content)
    tool = recorder.start_tool("t", arguments={"a": [{"SSN": 1, "birthDate": {"y": 1}}], "n": 2})
    tool.end(result='found {"ssn": "12", "n": 2} and {\'ssn\': 12}')
    parts = [{"type": "tool_call", "id": "1", "name": "t", "arguments": '{"x":{"ssn":[1,2]},"n":2}'}]
    recorder.start_agent("a", received=[Message("assistant", parts)]).end()
    tool_span, agent_span = spans.spans()

    assert tool_span.attributes[words.TOOL_ARGUMENTS] == '{"a": [{"SSN": "[masked]", "birthDate": "[masked]"}], "n": 2}'
    assert tool_span.attributes[words.TOOL_RESULT] == 'found {"ssn": "[masked]", "n": 2} and {\'ssn\': \'[masked]\'}'
    assert '{\\"x\\":{\\"ssn\\":\\"[masked]\\"},\\"n\\":2}' in str(agent_span.attributes[words.INPUT_MESSAGES])


def test_own_function_sees_every_text() -> None:
    """Task, messages, arguments, their keys, results, descriptions, errors, extras: nothing but names passes it by."""
    spans = SpanRecorder()
    content = ContentSettings(mask=lambda text: text.replace("Alice", "A."))
    recorder = Recorder("blamespan.test", spans.provider, content=content)
    alice = [Message("user", [{"type": "text", "content": "Alice"}, {"type": "x", "y": {"Alice": ["Alice"]}}])]
    run = recorder.start_run("team", task=alice, agents=[Agent("a", description="Alice")])
    agent = recorder.start_agent(
        "a", received=alice, description="Alice", attributes={"x.y": "Alice"}, parent=run.context
    )
    chat = recorder.start_chat("m", sent=alice, parent=agent.context)
    chat.end(output=alice, error=ValueError("Alice"))
    tool = recorder.start_tool("t", arguments={"Alice": "Alice"}, description="Alice", parent=agent.context)
    tool.end(result="Alice", error=ValueError("Alice"))
    agent.end(output=alice, attributes={"x.z": ["Alice"]})
    run.end(output=alice, error=ValueError("Alice"))

    exported = [span.to_json() for span in spans.finished()]

    assert len(exported) == 4
    assert [text.count("Alice") for text in exported] == [0, 0, 0, 0]
    assert all("A." in text for text in exported)


@pytest.mark.parametrize(
    ("mask", "why"), [(lambda text: 1 / 0, "raised ZeroDivisionError"), (len, "gave int, not str")]
)
def test_failing_function_leaks_nothing(mask: Any, why: str) -> None:
    """Where the program's function fails, the text is withheld and the span says so."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider, content=ContentSettings(mask=mask))
    agent = recorder.start_agent("a", received=[Message.of_text("user", "plain")])
    agent.end(error=ValueError("plain"))
    [span] = spans.spans()

    assert "plain" not in spans.finished()[0].to_json()
    assert f"{words.INPUT_MESSAGES}: mask {why}" in span.attributes[words.LOST]  # type: ignore[operator]


@pytest.mark.parametrize("offset", range(-60, 61, 3))
@pytest.mark.parametrize(
    "secret", ["sk-proj-" + "k" * 40, f"mail {'m' * 30}@example.com", JWT, PEM, "4111 1111 1111 1111"]
)
def test_secret_at_the_cut_does_not_survive_in_half(secret: str, offset: int) -> None:
    """Masking comes before cutting: no part of a secret that the limit cuts in two is recorded."""
    text = "a " * ((1_000 + offset) // 2) + secret + " b" * 50_000

    found = recorded_text(text, max_bytes=1_000)

    assert len(found.encode()) <= 1_000
    assert not any(piece in found for piece in ("kkk", "mmm", "eyJ", "MII", "4111"))


@pytest.mark.parametrize(
    "secret", ["sk-" + "k" * 3_000, "m" * 3_000 + "@example.com", PEM.replace("q1w2", "q1w2" * 900)]
)
def test_long_secret_far_behind_many_short_ones_does_not_survive(secret: str) -> None:
    """Masking that shortens a text does not move half a secret from behind the limit before it."""
    text = "sk-abcdefghijklmnopqrstuvwxyz0123456789 " * 100 + secret + " b" * 50_000

    found = recorded_text(text, max_bytes=4_096)

    assert not any(piece in found for piece in ("kkk", "mmm", "MII", "q1w2"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *("a", "@", "a@", "a@b.", "://a:", "eyJaaaaaaaa.", PEM[:31], "-----BEGIN A ", "4", "4 ", "4111 ", "bearer "),
        *("password=", "password ", "key=", "authorization:", "sk-", "sk-aaaa ", "AKIA", "{'token': '", '"token":{'),
        *('\\"', "token='", "\\", "-aaaa ", "_aaaa ", ".aaaa ", "1234 123 "),
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Ten times the text takes about ten times as long: no pattern looks at a character over and over."""
    spent_s = []
    for size in (20_000, 200_000):
        text = unit * (size // len(unit))
        start_s = time.process_time()
        mask_secrets(text)
        recorded_text(text, max_bytes=size)
        spent_s.append(time.process_time() - start_s)

    assert spent_s[1] < 60 * spent_s[0] + 0.05  # a quadratic pattern takes a hundred times as long


def test_masking_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masking is on where nobody says otherwise; an argument wins over the variable."""
    monkeypatch.setenv("BLAMESPAN_MASK_KEYS", "ssn, birth_date")

    assert ContentSettings.of() == ContentSettings(mask_secrets=True, mask_keys=("ssn", "birth_date"))
    monkeypatch.setenv("BLAMESPAN_MASK_SECRETS", "false")
    assert ContentSettings.of(mask_keys=[]) == ContentSettings(mask_secrets=False)
    assert ContentSettings.of(mask_secrets=True).mask_secrets is True
    assert recorded_text("bob@example.com", mask_secrets=False) == "bob@example.com"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask_secrets": "no"}, "mask_secrets must be True or False, got 'no'"),
        ({"capture_content": "false"}, "capture_content must be True or False, got 'false'"),
        ({"mask_keys": "ssn"}, "mask_keys must be a list of names, got 'ssn'"),
        ({"mask": "upper"}, "mask must be a function from text to text, got 'upper'"),
        ({"max_content_bytes": 10}, "BLAMESPAN_MAX_CONTENT_BYTES must be a whole number of at least 64, got 10"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    """A wrong setting is answered where it is written: a mask that silently does nothing would leak."""
    with pytest.raises(ConfigError) as raised:
        ContentSettings.of(**arguments)

    assert message in str(raised.value)


def test_wrong_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of ours that is neither true nor false is named."""
    monkeypatch.setenv("BLAMESPAN_MASK_SECRETS", "maybe")
    with pytest.raises(ConfigError, match="BLAMESPAN_MASK_SECRETS must be true or false, got 'maybe'"):
        ContentSettings.of()
