"""What one span of another instrumentation says, in words that all dialects share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from blamespan.genai_messages import Message
from blamespan.spans import Span
from blamespan.trace import StepKind, Usage

Role: TypeAlias = Literal["run", "chain", "agent", "tool", "model", "delivery", "other"]
"""What a span stands for.

`run`: a team, crew or graph at work. `chain`: something that runs others and may be a graph, a node of one or
neither. `agent`, `tool`, `model`: one call of it. `delivery`: a message on its way, somewhere else than in the span
of who said it. `other`: nothing of a run's story; what lies below it may be.
"""


@dataclass(frozen=True, slots=True)
class SpanReading:
    """What a span says.

    Attributes:
        role: What it stands for.
        name: Of the team, node, agent, tool or model.
        agent: On whose behalf, where a tool or node says so.
        agent_id: The framework's identifier of the agent instance.
        description: What the agent says of itself.
        node: Name of the graph's node it runs in, where there is one.
        place: What tells that node's execution from all others in the trace, e.g. LangGraph's checkpoint namespace.
        superstep: Of a node: when it ran, where the graph counts; nodes of the same superstep ran side by side.
        instructions: What it was told to do at all times, where that stands apart from its messages.
        inputs: Messages it was given.
        outputs: Messages it produced, of a run possibly the whole conversation.
        text: What it produced where that is no message.
        arguments: What a tool was called with, as JSON or text.
        result: What a tool answered; None where it says nothing of it.
        call_id: The model's identifier of the tool call.
        recipients: Who received what it produced.
        participants: Of a run: who takes part.
        causes: Ids of the spans whose outcome it took up, where it says so.
        usage: Tokens it cost.
        kind: The kind of its step, where it is not the role's own.
    """

    role: Role = "other"
    name: str = ""
    agent: str | None = None
    agent_id: str | None = None
    description: str | None = None
    node: str | None = None
    place: str | None = None
    superstep: int | None = None
    instructions: Sequence[Message] = ()
    inputs: Sequence[Message] = ()
    outputs: Sequence[Message] = ()
    text: str | None = None
    arguments: str | None = None
    result: str | None = None
    call_id: str | None = None
    recipients: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    usage: Usage | None = None
    kind: StepKind | None = None

    def as_other(self) -> SpanReading:
        """Copy it as one that tells nothing of the run."""
        return replace(self, role="other")

    @property
    def has_content(self) -> bool:
        """Check whether it holds anything that was said."""
        return bool(self.outputs or self.text or self.arguments is not None or self.result is not None)


class Dialect(Protocol):
    """Reads the spans of one instrumentation. Offered under the entry-point group `blamespan.dialects`.

    Attributes:
        name: Its name, unique among the dialects.
        scopes: Beginnings of the instrumentation scope names that only it makes.
        marks: Attributes, one of which tells a span as its own, whatever the scope.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def scopes(self) -> Sequence[str]: ...  # noqa: D102

    @property
    def marks(self) -> Sequence[str]: ...  # noqa: D102

    def read(self, span: Span) -> SpanReading | None:
        """Read one span; None where it tells nothing of a run.

        May raise on what it cannot make sense of: the span is then read as any other's.
        """
        ...
