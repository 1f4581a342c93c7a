"""JSON that somebody else wrote is read, or refused in one way."""

from __future__ import annotations

import json

import pytest

from blamespan.genai_messages import load_messages, text_of
from blamespan.json_text import MAX_NESTING, parse_json


def nested(depth: int) -> str:
    """Write lists in lists, *depth* of them."""
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("text", ['{"a": [1, null, "\u00fc"]}', b"[true]", "1.5", '"[[[["'])
def test_json_is_read(text: str | bytes) -> None:
    """What is JSON comes back as Python has it."""
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize("depth", [MAX_NESTING + 2, 2_000, 1_000_000])
def test_deep_json_is_refused(depth: int) -> None:
    """A text that would exhaust the stack is no value, whether reading or walking it would."""
    with pytest.raises(ValueError, match="nested at most 100 deep"):
        parse_json(nested(depth))


def test_nesting_up_to_the_limit_is_read() -> None:
    """Brackets side by side, or as deep as is allowed, do no harm."""
    assert parse_json(nested(MAX_NESTING)) == json.loads(nested(MAX_NESTING))
    assert parse_json(f"[{'[],' * 5_000}[]]") == [[]] * 5_001


@pytest.mark.parametrize("text", ["", "{", "nope", "1" * 5_000 + "x"])
def test_no_json_is_refused(text: str) -> None:
    """What is no JSON is a ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011  # the text is json's own
        parse_json(text)


def test_deep_message_attribute_is_plain_text() -> None:
    """An attribute that nests too deep is read as the text it is."""
    assert load_messages(nested(5_000)) is None
    assert text_of(nested(5_000)) == nested(5_000)
