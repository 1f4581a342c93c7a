"""Attribute values that may be anything: read as what they should be, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blamespan.json_text import parse_json, text_or_json
from blamespan.spans import Span
from blamespan.trace import Usage

_MAX_JSON_CHARACTERS = 4_000_000
"""Longer texts are left as they are: no instrumentation writes them, and reading one would hold up all others."""


def parse_structure(value: object) -> Any:
    """Read JSON text; None where it is none. A value that is structured already comes back as it is.

    `Any`, as JSON is: what holds its parts checks each.
    """
    if not isinstance(value, str):
        return value if isinstance(value, Mapping | Sequence) and not isinstance(value, bytes) else None
    if value[:1] not in ("{", "[", '"') or len(value) > _MAX_JSON_CHARACTERS:
        return None
    try:
        return parse_json(value)
    except ValueError:
        return None


def as_text(value: object) -> str:
    """Write any value as text: JSON where it is none already."""
    return "" if value is None else text_or_json(value)


def mappings(value: object) -> list[Mapping[str, Any]]:
    """List the mappings in a sequence; none where it is no sequence."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def names(value: object) -> tuple[str, ...]:
    """Read a list of names; empty where it is none."""
    items = parse_structure(value)
    if not isinstance(items, Sequence) or isinstance(items, str):
        return ()
    return tuple(name for name in items if isinstance(name, str) and name)


def hands_over(tool: str | None, arguments: object) -> bool:
    """Check whether a call hands over to another agent and says all there is to it; its span then tells it again.

    Source: Google's ADK, `transfer_to_agent`; LlamaIndex' workflows, `handoff`, whose answer repeats its `reason`.
    """
    return tool == "transfer_to_agent" or (tool == "handoff" and '"to_agent"' in as_text(arguments))


def text_of_blocks(value: object) -> str | None:
    """Join the texts of content blocks, Anthropic's, Bedrock's or MCP's; anything else is written as text."""
    blocks = parse_structure(value)
    if not isinstance(blocks, list) or not blocks:
        return None if value is None else as_text(value)
    texts: list[str] = []
    for block in blocks:
        if not isinstance(block, Mapping) or block.keys() not in _BLOCK_KEYS:
            return as_text(value)
        texts.append(as_text(block.get("text", block.get("json"))))
    return "\n".join(texts)


_BLOCK_KEYS = ({"text"}, {"json"}, {"type", "text"})


def number(value: object) -> int | None:
    """Read a count, also where it came as text or as a float; None where it is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**63 else None


def counted(counts: Mapping[str, object], read_key: str, written_key: str) -> Usage | None:
    """Read the tokens of a call; None where neither key has a count."""
    read, written = number(counts.get(read_key)), number(counts.get(written_key))
    return None if read is None and written is None else Usage(read or 0, written or 0)


def tokens(span: Span, *keys: tuple[str, str]) -> Usage | None:
    """Read the tokens of a call, under the first pair of keys that is there."""
    return next((usage for pair in keys if (usage := counted(span.attributes, *pair)) is not None), None)
