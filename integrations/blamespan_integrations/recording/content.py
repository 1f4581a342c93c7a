"""Contents on the wire: captured or withheld, masked, then capped; what was withheld, cut or lost says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from blamespan import conventions as words
from blamespan.genai_messages import Message, Part
from blamespan.instrumenting.settings import ContentSettings
from blamespan.rebuilding.state_text import state_lines, state_text
from blamespan.trace import Agent, AttributeValue
from blamespan_integrations.recording.json_encoding import (
    Json,
    Plain,
    encode,
    encode_spaced,
    fit_messages,
    fit_value,
    fits,
    quote_json,
    replace_surrogates,
)
from blamespan_integrations.recording.masking import REMEMBERED_CHARS, UUID, Masker
from blamespan_integrations.recording.secret_patterns import LONGEST_SECRET, MASKED

_MAX_NAME_CHARS = 512
"""Names of agents, tools and models are labels; one this long is a mistake, and back ends index them."""
_NAME_KEY = re.compile(r"(?:^|[._])(?:id|name|node|type|kind|path|namespace|ns)$")
"""Keys of an integration's own attributes whose text names something and is no content."""
_WORD = re.compile(r"[A-Za-z_][\w.]{0,127}")
_LEAST_MESSAGE_BYTES = 32
"""A message takes at least so much; of more than fit the oldest are not even looked at."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    "text": ("content",),
    "reasoning": ("content",),
    "tool_call": ("name", "arguments"),
    "tool_call_response": ("response",),
    "blob": ("modality", "content"),
    "file": ("modality", "file_id"),
    "uri": ("modality", "uri"),
}
"""Fields a part must have. Source: GenAI message JSON schemas of the semantic conventions."""
_OPENINGS = {kind: f'{{"type":"{kind}","content":' for kind in ("text", "reasoning")}
_ROLES = {role: quote_json(role) for role in ("system", "user", "assistant", "tool")}
_PART_NAMES = frozenset({"type", "id", "name", "modality", "mime_type"})
"""Fields of a part that are no content."""


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """What of contents is recorded, for all spans of one integration.

    Attributes:
        capture: Whether contents are recorded at all.
        masker: What is masked in them.
        max_bytes: Most UTF-8 bytes one value may have.
        name: Masks a name; the same few come again and again, so it remembers some.
        quote_json: Masks a text and writes it as JSON, and remembers some; None where the program masks by a function
            of its own.
    """

    capture: bool
    masker: Masker
    max_bytes: int
    name: Callable[[str], str]
    quote_json: Callable[[str], str] | None

    @classmethod
    def of(cls, settings: ContentSettings, max_value_chars: int | None = None) -> ContentPolicy:
        """Make the policy of *settings*, the SDK cutting values at *max_value_chars*."""
        limit = settings.max_bytes if max_value_chars is None else min(settings.max_bytes, max_value_chars)
        masker = Masker(settings)

        @lru_cache(maxsize=1_024)
        def name(name: str) -> str:
            return replace_surrogates(masker.name(name))

        @lru_cache(maxsize=256)
        def quote_remembered(text: str) -> str:
            return quote_json(masker.text(text, limit, _ignore))

        def quote_masked(text: str) -> str:
            return (
                quote_remembered(text)
                if len(text) <= REMEMBERED_CHARS
                else quote_json(masker.text(text, limit, _ignore))
            )

        return cls(settings.capture, masker, limit, name, quote_masked if settings.mask is None else None)


class Contents:
    """Writes the contents of one span, and remembers what of them is missing.

    Args:
        policy: What may be recorded.
    """

    __slots__ = ("_cut", "_lost", "_policy", "_withheld")

    def __init__(self, policy: ContentPolicy) -> None:
        self._policy = policy
        self._cut: dict[str, int] = {}
        self._withheld: dict[str, int] = {}
        self._lost: list[str] = []

    @property
    def is_captured(self) -> bool:
        """Whether contents are recorded at all."""
        return self._policy.capture

    def lose(self, what: str) -> None:
        """Remember something that could not be recorded. Not a content itself: names and types only."""
        if len(self._lost) < _MOST_LOSSES and what not in self._lost:
            self._lost.append(what)

    def name(self, name: object) -> str:
        """Write the name or id of something. It is recorded even where contents are not."""
        if type(name) is str and len(name) <= _MAX_NAME_CHARS:
            return name if len(name) == 36 and UUID.fullmatch(name) else self._policy.name(name)
        return self._policy.name(str(Plain(self._policy.masker, _MAX_NAME_CHARS, self.lose).of(name))[:_MAX_NAME_CHARS])

    def word(self, error: str) -> str:
        """Write a word for how something failed; where contents are not recorded, only if it is one word."""
        if not self._policy.capture and not _WORD.fullmatch(error):
            return "_OTHER"  # the conventions' word for an error of no known class
        return self.name(error)

    def text(self, key: str, text: str, limit: int | None = None) -> str | None:
        """Write *text* under *key*, cut on a character boundary; None where contents are withheld."""
        if not self._policy.capture:
            self._withhold(key, text)
            return None
        limit = min(limit or self._policy.max_bytes, self._policy.max_bytes)
        masked = self._policy.masker.text(text, limit, self._loss_recorder(key))
        is_cut = len(text) > limit + LONGEST_SECRET
        if not is_cut and fits(masked, limit):
            return masked
        encoded = replace_surrogates(masked).encode()
        if is_cut or len(encoded) > limit:
            self._cut[key] = _size(text)
        return encoded[:limit].decode("utf-8", "ignore")

    def value(self, key: str, value: object) -> str | None:
        """Write any object as JSON under *key*; a text stays as it is. None where contents are withheld."""
        if not self._policy.capture:
            self._withhold(key, value)
            return None
        limit = self._policy.max_bytes
        if type(value) is str:
            parsed = _parse_json(value) if limit < len(value) <= _PARSED_LIMITS * limit else None
            if parsed is None:
                return self.text(key, value)
            value = parsed
        plain = Plain(self._policy.masker, limit, self._loss_recorder(key))
        json_value = plain.of(value)
        if isinstance(json_value, str):
            return self.text(key, json_value)
        text = encode_spaced(json_value)
        if fits(text, limit) and not plain.omitted:
            return text
        size = _size(text) + plain.omitted
        if size > limit or plain.omitted:
            self._cut[key] = size
        return fit_value(json_value, limit)

    def messages(self, key: str, messages: Sequence[Message]) -> str:
        """Write messages as JSON: the longest texts are cut, then the oldest messages left out.

        Args:
            key: The attribute.
            messages: Any number, of any size; why a model's answer ended is not written here.
        """
        limit = self._policy.max_bytes
        messages = [self._masked_states(message) for message in messages]
        text = self._in_full(key, messages) if self._policy.capture else None
        if text is not None and fits(text, limit):
            return text
        most = max(1, limit // _LEAST_MESSAGE_BYTES)
        newest = messages if len(messages) <= most else messages[-most:]
        plain = Plain(self._policy.masker, self._per_text(newest), self._loss_recorder(key))
        rows = [self._message(message, plain, most) for message in newest]
        text = encode(rows)
        if fits(text, limit) and not plain.omitted and len(newest) == len(messages):
            return text
        text = replace_surrogates(text)
        size = len(text.encode()) + plain.omitted
        if size > limit or len(newest) < len(messages):
            self._cut[key] = size
        return fit_messages(rows, limit)

    def agents(self, agents: Sequence[Agent]) -> str:
        """Write the participants; without their descriptions where those do not fit, then only the first ones."""
        limit = self._policy.max_bytes
        rows = [self._agent(agent) for agent in agents[: limit // _LEAST_MESSAGE_BYTES + 1]]
        text = encode(rows)
        if fits(text, limit) and len(rows) == len(agents):
            return text
        self._cut[words.RUN_AGENTS] = _size(text)
        rows = [{name: value for name, value in row.items() if name != "description"} for row in rows]
        while rows and not fits(encode(rows), limit):
            rows = rows[: len(rows) * 3 // 4]
        return encode(rows)

    def extras(self, attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
        """Write what else an integration knows: numbers and names stay, other text is content."""
        extras: dict[str, AttributeValue] = {}
        for key, value in attributes.items():
            json_value = value if isinstance(value, _NUMBERS) else self._extra(str(key), value)
            if json_value is not None:
                extras[str(key)] = json_value
        return extras

    def notes(self) -> dict[str, list[str] | list[int]]:
        """Write what is missing: `blamespan.truncated`, `blamespan.withheld`, `blamespan.lost`."""
        notes: dict[str, list[str] | list[int]] = {}
        if self._cut:
            notes |= {words.TRUNCATED: list(self._cut), words.ORIGINAL_BYTES: list(self._cut.values())}
        if self._withheld:
            notes |= {words.WITHHELD: list(self._withheld), words.WITHHELD_BYTES: list(self._withheld.values())}
        if self._lost:
            notes[words.LOST] = list(self._lost)
        return notes

    def _loss_recorder(self, key: str) -> Callable[[str], None]:
        return lambda what: self.lose(f"{key}: {what}")

    def _withhold(self, key: str, value: object) -> None:
        self._withheld[key] = self._withheld.get(key, 0) + self._size_of(value)

    def _size_of(self, value: object) -> int:
        if isinstance(value, str):
            return _size(value)
        return _size(encode(Plain(_UNMASKED, self._policy.max_bytes, _ignore).of(value)))

    def _extra(self, key: str, value: object) -> AttributeValue:
        if value is None:
            return None
        is_name = _NAME_KEY.search(key) is not None
        if isinstance(value, str):
            return self.name(value) if is_name else self.value(key, value)
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            if not is_name and not self._policy.capture:
                self._withhold(key, "".join(value))
                return None
            return [self.name(item) if is_name else self.text(key, item) or "" for item in value[:_MOST_ITEMS]]
        if isinstance(value, list | tuple) and all(isinstance(item, _NUMBERS) for item in value):
            return list(value[:_MOST_ITEMS])
        return self.value(key, value)

    def _agent(self, agent: Agent) -> dict[str, Json]:
        row: dict[str, Json] = {"name": self.name(agent.name), "role": agent.role}
        if agent.id is not None:
            row["id"] = self.name(agent.id)
        if agent.description is not None and self._policy.capture:
            row["description"] = self._policy.masker.text(agent.description, self._policy.max_bytes, self.lose)
        elif agent.description is not None:
            self._withhold(words.RUN_AGENTS, agent.description)
        return row

    def _per_text(self, messages: Sequence[Message]) -> int:
        """Share out the limit where all texts together are far over it: each is looked at no longer than is of use."""
        limit = self._policy.max_bytes
        lengths = [len(value) for m in messages for part in m.parts for value in part.values() if type(value) is str]
        return limit if sum(lengths) <= 2 * limit else max(64, 2 * limit // len(lengths))

    def _in_full(self, key: str, messages: Sequence[Message]) -> str | None:
        """Write messages of nothing but text, most there are, all they say; None where there is more to it."""
        room = self._policy.max_bytes
        for message in messages:
            for part in message.parts:
                text = part.get("content")
                if len(part) != 2 or type(text) is not str or part.get("type") not in _OPENINGS:
                    return None
                room -= len(text)
        if room < 0:
            return None
        write = self._policy.quote_json or self._make_quoter(key)
        texts: list[str] = []
        for message in messages:
            parts = ",".join([f"{_OPENINGS[part['type']]}{write(part['content'])}}}" for part in message.parts])
            name = "" if message.name is None else f',"name":{quote_json(self.name(message.name))}'
            texts.append(f'{{"role":{_ROLES.get(message.role) or quote_json(message.role)}{name},"parts":[{parts}]}}')
        return f"[{','.join(texts)}]"

    def _masked_states(self, message: Message) -> Message:
        """Write the states in a message as text, without what their keys say is secret."""
        if not any("state" in part for part in message.parts):
            return message
        return replace(message, parts=tuple([self._state_part(p) if "state" in p else p for p in message.parts]))

    def _state_part(self, part: Part) -> Part:
        state, key = part["state"], part.get("key")
        hidden = self._hidden({key: state}) if key is not None else self._hidden(state)
        text = part["content"]
        if hidden != ({key: state} if key is not None else state):
            is_alone = key is None or part.get("is_bare")
            value = hidden if key is None else next(iter(hidden.values()))
            text = state_text(value) if is_alone else state_lines(hidden)[0]
        return {"type": "text", "content": text}

    def _hidden(self, value: Any) -> Any:
        """Mask what is secret by its key in a JSON value."""
        if isinstance(value, dict):
            return {
                key: MASKED if self._policy.masker.hides(key, item) else self._hidden(item)
                for key, item in value.items()
            }
        return [self._hidden(item) for item in value] if isinstance(value, list) else value

    def _make_quoter(self, key: str) -> Callable[[str], str]:
        """Return what masks a text by the program's own function and writes it as JSON."""
        mask, limit, loses = self._policy.masker.text, self._policy.max_bytes, self._loss_recorder(key)
        return lambda text: quote_json(mask(text, limit, loses))

    def _message(self, message: Message, plain: Plain, most: int) -> dict[str, Json]:
        fields: dict[str, Json] = {"role": message.role}
        if message.name is not None:
            fields["name"] = self.name(message.name)
        fields["parts"] = [self._part(part, plain) for part in message.parts[:most]]
        plain.renew()
        return fields

    def _part(self, part: Part, plain: Plain) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        size = 0
        for field, value in part.items():
            if field in _PART_NAMES:
                fields[field] = None if value is None else self.name(value)
            elif self._policy.capture:
                fields[field] = plain.of(value)
            else:
                size += self._size_of(value)
        for field in _REQUIRED.get(cast(str, fields.get("type")), ()):
            if fields.get(field) is None:
                fields[field] = ""
        if not self._policy.capture:
            fields["size_bytes"] = size
        return fields


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _parse_json(text: str) -> object | None:
    """Read a long text that is JSON, so that it is cut as JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _ignore(_: str) -> None:
    return None


_UNMASKED = Masker(ContentSettings(mask_secrets=False))
"""For measuring: what it writes goes nowhere."""
_PARSED_LIMITS = 64
_NUMBERS = (bool, int, float)
_MOST_LOSSES = 8
_MOST_ITEMS = 128
