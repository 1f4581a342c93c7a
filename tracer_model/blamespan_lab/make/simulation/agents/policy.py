"""What a simulated agent is to a framework: it gets messages and tools, and replies.

A policy knows nothing of AutoGen or LangGraph; `clients` hand it what their frameworks would send to a
model, and hand back what it says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

InputKind: TypeAlias = Literal["system", "task", "message", "own", "tool_result"]
"""`own` is what the agent said itself, its tool calls among it; `task` is what the user asked."""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call that a model asks for.

    Attributes:
        name: Of the tool, as the model writes it; there need not be such a tool.
        arguments: JSON, as the model writes it; it need not be well formed.
    """

    name: str
    arguments: str

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, object]) -> RequestedCall:
        """Write *arguments* as JSON."""
        return cls(name, json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answers: text, calls, or both."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class InputMessage:
    """One message as it stands in what a model is sent.

    Attributes:
        kind: Whose it is.
        text: Its text; a tool's answer as the framework writes it.
        sender: Name of the agent, or of the tool for a `tool_result`; empty where the framework gives none.
        calls: Of an `own` message: the calls asked for.
    """

    kind: InputKind
    text: str = ""
    sender: str = ""
    calls: tuple[RequestedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """A natural mistake that a policy made in one decision.

    Attributes:
        mode: What it is, `taxonomy:code`.
        kind: One word for it: `misread`, `slip`, ...
        about: Which fact, tool or duty.
    """

    mode: str
    kind: str
    about: str = ""


class AgentPolicy(Protocol):
    """An agent's model."""

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer to *messages*, the latest last; *tools* are those on offer in this call."""
        ...
