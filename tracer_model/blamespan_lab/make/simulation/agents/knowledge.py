"""What an agent knows: what it read in its messages and what tools told it, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from blamespan.lazy import lazy_property
from blamespan_lab.make.simulation.agents.policy import InputMessage, RequestedCall
from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, TaskFact, evaluate, is_same
from blamespan_lab.make.simulation.statements.reading import TaskLexicon
from blamespan_lab.make.simulation.statements.values import find_fact_values
from blamespan_lab.make.simulation.statements.writing import write_arithmetic

_FAILED = re.compile(
    r"error|exception|expected |no rows?\b|no document|timed? ?out|unavailable|not found|not a tool|failed to|invalid",
    re.IGNORECASE,
)
_ATTEMPTS = 3
"""How often an agent asks a tool for the same thing."""


@dataclass(frozen=True, slots=True)
class StatedFact:
    """Somebody stated a fact.

    Attributes:
        index: Of the message among those the agent was sent.
        speaker: Who; empty for the task, the tool's name for a tool.
        source: What kind of message it stood in.
        key: Which fact.
        value: Which value.
    """

    index: int
    speaker: str
    source: Literal["task", "tool", "said"]
    key: str
    value: FactValue


class Knowledge:
    """All that can be known from messages.

    Args:
        lexicon: What things are called.
        implied: Rules that go without saying.
        messages: The messages, in order.
        me: The reader's name.

    Attributes:
        claims: Every statement, in order.
        values: What is believed: the last statement of each fact.
        origins: What the task or a tool said of each fact, whatever was said since.
        rules: By what they give; the last statement counts.
        rule_origins: Those that the task states or that go without saying.
        calls: How often each fact was asked of a tool by the reader.
    """

    def __init__(
        self, lexicon: TaskLexicon, implied: Sequence[DerivationRule], messages: Sequence[InputMessage], me: str = ""
    ) -> None:
        self.lexicon = lexicon
        self.messages = messages
        self.me = me
        self.claims: list[StatedFact] = []
        self.values: dict[str, FactValue] = {}
        self.origins: dict[str, FactValue] = {}
        self.rules: dict[str, DerivationRule] = {rule.out: rule for rule in implied}
        self.rule_origins: dict[str, DerivationRule] = dict(self.rules)
        self.calls: dict[str, int] = {}
        self._changed: dict[str, int] = {}
        self._stated: dict[str, int] = {}
        self._pending: list[RequestedCall] = []
        for index, message in enumerate(messages):
            self._read_message(index, message)

    @lazy_property
    def needed(self) -> tuple[str, ...]:
        """List what the answer depends on, inputs before what follows from them; the target is the last."""
        order: list[str] = []
        self._visit(self.lexicon.target, order, set())
        return tuple(order)

    def missing(self) -> list[str]:
        """List what a tool could tell now and has not."""
        return [
            key
            for key in self.needed
            if self.lexicon.facts[key].lookup is not None
            and key not in self.values
            and self.calls.get(key, 0) < _ATTEMPTS
        ]

    def open_keys(self, values: Mapping[str, FactValue] | None = None) -> list[str]:
        """List what follows from what is known but is not known yet, or no longer holds."""
        values = self.values if values is None else values
        if self.lexicon.target in values and not self.is_stale(self.lexicon.target):
            return []
        return [key for key in self.needed if self._follows(key, values) and (key not in values or self.is_stale(key))]

    def is_settled(self) -> bool:
        """Return whether the answer is known and nothing it rests on has changed since."""
        return self.lexicon.target in self.values and not self.is_stale(self.lexicon.target)

    def is_stale(self, key: str) -> bool:
        """Return whether anything that *key* rests on has changed since *key* was stated."""
        return key in self._stated and self._rests_on_change(key, self._stated[key])

    def statements_since(self, index: int) -> list[StatedFact]:
        """List the last statement of each fact, where another made it after message *index*."""
        last = {claim.key: claim for claim in self.claims}
        return [c for c in last.values() if c.index > index and c.source == "said" and c.speaker != self.me]

    def unstated(self) -> list[str]:
        """List what the reader found with tools and nobody has stated."""
        stated = {claim.key for claim in self.claims if claim.source == "said" and claim.speaker != "calculate"}
        return [c.key for c in self.claims if (c.source == "tool" or c.speaker == "calculate") and c.key not in stated]

    def last_text_index(self) -> int:
        """Return the index of the reader's last message that is text, or -1."""
        own = [index for index, message in enumerate(self.messages) if message.kind == "own" and message.text]
        return own[-1] if own else -1

    def arguments(self, key: str) -> dict[str, str] | None:
        """Return the arguments by which a tool is asked for *key*, or None where no tool gives it."""
        lookup = self.lexicon.facts[key].lookup
        return None if lookup is None else {name: _plain(text) for name, text in lookup.arguments.items()}

    def working(self, key: str, values: Mapping[str, FactValue] | None = None) -> str:
        """Write the arithmetic that leads to *key*, or nothing."""
        rule, values = self.rules.get(key), self.values if values is None else values
        if rule is None or any(name not in values for name in rule.inputs):
            return ""
        return write_arithmetic(rule, [values[name] for name in rule.inputs])

    def _follows(self, key: str, values: Mapping[str, FactValue]) -> bool:
        rule = self.rules.get(key)
        if rule is None:
            return False
        return all(name in values and not self.is_stale(name) for name in rule.inputs)

    def _rests_on_change(self, key: str, since: int, depth: int = 0) -> bool:
        rule = self.rules.get(key)
        if rule is None or depth > len(self.lexicon.facts):  # rules that were misread may go round in a circle
            return False
        return any(
            self._changed.get(name, -1) > since or self._rests_on_change(name, since, depth + 1) for name in rule.inputs
        )

    def _visit(self, key: str, order: list[str], visited: set[str]) -> None:
        if key in visited or key not in self.lexicon.facts:
            return
        visited.add(key)
        for name in self.rules[key].inputs if key in self.rules else ():
            self._visit(name, order, visited)
        order.append(key)

    def _read_message(self, index: int, message: InputMessage) -> None:
        if message.kind == "own" and message.calls:
            self._pending = list(message.calls)
        if message.kind == "tool_result":
            self._read_tool_result(index, message)
        elif message.kind != "system" and message.text:
            source: Literal["task", "said"] = "task" if message.kind == "task" else "said"
            speaker = self.me if message.kind == "own" else "" if source == "task" else message.sender
            self._learn(index, message.text, source, speaker)

    def _learn(self, index: int, text: str, source: Literal["task", "tool", "said"], speaker: str) -> None:
        parsed = self.lexicon.read(text)
        for rule in parsed.rules:
            self.rules[rule.out] = rule
            if source == "task":
                self.rule_origins[rule.out] = rule
            self.__dict__.pop("needed", None)
        for statement in parsed.statements:
            if statement.is_denied:
                if is_same(self.values.get(statement.key), statement.value):
                    self.values.pop(statement.key)
                    self._stated.pop(statement.key, None)
            else:
                self._believe(StatedFact(index, speaker, source, statement.key, statement.value))

    def _believe(self, claim: StatedFact) -> None:
        self.claims.append(claim)
        if claim.key in self.values and not is_same(self.values[claim.key], claim.value):
            self._changed[claim.key] = claim.index
        self.values[claim.key] = claim.value
        self._stated[claim.key] = claim.index
        if claim.source != "said":
            self.origins[claim.key] = claim.value

    def _read_tool_result(self, index: int, message: InputMessage) -> None:
        call = self._pending.pop(0) if self._pending else None
        if call is None:
            self._learn(index, message.text, "tool", message.sender)
            return
        key = self.match_call(call)
        if key is not None:
            self.calls[key] = self.calls.get(key, 0) + 1
        fact = self.lexicon.facts[key] if key is not None else None
        if fact is not None and (call.name == "calculate" or (fact.lookup and fact.lookup.answer == "value")):
            value = _bare_value(message.text, fact)
            if value is not None:
                self._believe(
                    StatedFact(index, message.sender, "tool" if call.name != "calculate" else "said", fact.key, value)
                )
        elif call.name != "calculate":
            self._learn(index, message.text, "tool", message.sender)

    def match_call(self, call: RequestedCall) -> str | None:
        """Return which fact the reader meant to find by *call*: the one asked for like this, else most like this."""
        call_arguments = arguments_of(call)
        if call.name == "calculate":
            return self._match_calculation(call_arguments.get("expression", ""))
        asked = {key: self.arguments(key) for key in self.needed if self.lexicon.facts[key].lookup is not None}
        exact = [key for key, arguments in asked.items() if arguments == call_arguments]
        if exact:
            return exact[0]
        alike = {
            key: SequenceMatcher(None, " ".join(arguments.values()), " ".join(call_arguments.values())).ratio()
            for key, arguments in asked.items()
            if arguments is not None and key not in self.values
        }
        return max(alike, key=lambda key: alike[key]) if alike else None

    def _match_calculation(self, expression: str) -> str | None:
        open_keys = self.open_keys()
        exact = [key for key in open_keys if _plain(self.working(key)) == _plain(expression)]
        likely = exact or [key for key in open_keys if self.lexicon.facts[key].kind == "amount"]
        return likely[0] if likely else None


def arguments_of(call: RequestedCall) -> dict[str, str]:
    """Read a call's arguments as texts; nothing where they are no JSON object."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in arguments.items()} if isinstance(arguments, dict) else {}


def rederive(knowledge: Knowledge, key: str, base: Mapping[str, FactValue]) -> FactValue | None:
    """Work *key* out again from *base* alone, by the rules of the task where it states them."""
    values = dict(base)
    for name in knowledge.needed:
        rule = knowledge.rule_origins.get(name) or knowledge.rules.get(name)
        if rule is not None:
            value = evaluate(rule, values, knowledge.lexicon.facts)
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        if name == key:
            break
    return values.get(key)


def _plain(text: str) -> str:
    return text.replace("×", "*").strip()  # noqa: RUF001


def _bare_value(text: str, fact: TaskFact) -> FactValue | None:
    """Read a tool's answer that is a bare value; one that says it failed has none."""
    if _FAILED.search(text):
        return None
    matches = find_fact_values(text, fact)
    return matches[-1].value if matches else None
