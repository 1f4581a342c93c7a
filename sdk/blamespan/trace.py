"""The message-action trace: one run of a team of agents, as the ordered steps its agents took.

This is what a run looks like to everything that reasons about it: `blamespan.rebuild` makes one from
spans, `blamespan.emit` makes spans from one, importers make one from a file, tracers attribute it.

Source: arXiv 2603.18096 (Message-Action Traces): steps with a kind, an agent, provenance and a status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from blamespan.errors import MalformedTrace
from blamespan.lazy import lazy_property

StepKind: TypeAlias = Literal["message", "tool_call", "tool_result", "handoff", "memory", "plan", "termination"]
"""What a step is. A `tool_result` is the environment's answer, not an agent's decision."""

StepStatus: TypeAlias = Literal["unset", "ok", "error"]
"""The span's status. A silent failure is `unset` or `ok`: that is why this project exists."""

AgentRole: TypeAlias = Literal["agent", "user", "executor"]
"""An `agent` decides and can be to blame; a `user` asks; an `executor` only runs what others decided."""

Outcome: TypeAlias = Literal["succeeded", "failed", "unknown"]

_KINDS = frozenset(get_args(StepKind))
_SPAN_ID = re.compile(r"(?!0+\Z)[0-9a-f]{16}")

Scalar: TypeAlias = str | bool | int | float | bytes | None
AttributeValue: TypeAlias = Scalar | Sequence["AttributeValue"] | Mapping[str, "AttributeValue"]
"""What OTLP can carry as an attribute. Sequences are tuples in our records."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a step cost, its model calls added up."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Agent:
    """One participant of a run.

    Attributes:
        name: Its label in this run. Labels are not knowledge: the same name means nothing elsewhere.
        role: Whether it decides, asks or only executes.
        id: The framework's identifier of the instance, where there is one.
        description: What it says of itself.
    """

    name: str
    role: AgentRole = "agent"
    id: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing an agent, a tool or a user did.

    Attributes:
        index: 0-based place in the run, in causal order.
        span_id: 16 hex digits. A `tool_call` and its `tool_result` may share one: the tool's span.
        agent: Name of the acting agent. For a `tool_result` of a tool span: the agent that called.
        kind: What the step is.
        content: Its text, uncut unless the program cut it.
        recipients: Names of those it is addressed to; empty where that is not known.
        inputs: Indices of the steps it builds on, ascending, all below `index`. A `tool_result`'s
            input is its call, where the call is known.
        status: The span's status.
        error: The class of error it ended with (`error.type`), or None.
        start_ns: Unix time in nanoseconds, 0 where the source has no clock.
        end_ns: Likewise, never before `start_ns`.
        usage: Tokens, where counted.
        attributes: What the span says beyond the fields above.
        input_text: What it was given that no step before it says: a prompt with its documents, instructions, a packet
            that was sent to it, memories. Each text once per agent; empty for a tool's answer, and where nobody says.
    """

    index: int
    span_id: str
    agent: str
    kind: StepKind = "message"
    content: str = ""
    recipients: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    status: StepStatus = "unset"
    error: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    usage: Usage | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    input_text: str = ""


@dataclass(frozen=True)
class MessageActionTrace:
    """One run, ready to be attributed.

    Attributes:
        trace_id: 32 hex digits.
        task: What the run was asked to do.
        steps: In causal order; `steps[i].index == i`.
        agents: Every participant, also those that never spoke.
        outcome: Whether the run reached its goal, where somebody knows.
        resource: OpenTelemetry resource attributes of the process that ran it.

    Raises:
        MalformedTrace: if an id, an index, an input, a time or an agent breaks a rule above.
    """

    trace_id: str
    task: str
    steps: tuple[Step, ...]
    agents: tuple[Agent, ...]
    outcome: Outcome = "unknown"
    resource: Mapping[str, AttributeValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", self.trace_id) or not int(self.trace_id, 16):
            raise MalformedTrace(f"a trace id must be 32 lower-case hex digits, not all zero; got {self.trace_id!r}")
        if len(self._roles) != len(self.agents):
            raise MalformedTrace(f"agent names must be unique in a run; got {[a.name for a in self.agents]!r}")
        spans: dict[str, Step] = {}
        for index, step in enumerate(self.steps):
            _check_step(step, index, self._roles)
            other = spans.setdefault(step.span_id, step)
            if other is not step and not _answers(step, other):
                raise MalformedTrace(
                    f"steps {other.index} and {step.index} share span {step.span_id!r}; only a tool_call and the "
                    "tool_result that has it as only input may, with equal agent, times, status and error"
                )

    @lazy_property
    def _roles(self) -> dict[str, AgentRole]:
        return {agent.name: agent.role for agent in self.agents}

    @property
    def start_ns(self) -> int:
        """When its first step began, Unix time in nanoseconds; 0 where the source has no clock."""
        return min((step.start_ns for step in self.steps if step.start_ns > 0), default=0)

    def can_be_blamed(self, step: Step) -> bool:
        """Check whether *step* is a decision of an agent: not a tool's answer, a user's word or an execution."""
        return step.kind != "tool_result" and self._roles[step.agent] == "agent"


def _check_step(step: Step, index: int, roles: Mapping[str, AgentRole]) -> None:
    if step.index != index:
        raise MalformedTrace(f"step at place {index} must have index {index}, got {step.index!r}")
    if not _SPAN_ID.fullmatch(step.span_id):
        raise MalformedTrace(
            f"step {index}: a span id must be 16 lower-case hex digits, not all zero; got {step.span_id!r}"
        )
    if step.kind not in _KINDS:
        raise MalformedTrace(f"step {index}: kind must be one of {get_args(StepKind)}, got {step.kind!r}")
    if step.agent not in roles:
        raise MalformedTrace(f"step {index}: agent {step.agent!r} is not among the run's agents {sorted(roles)!r}")
    if step.inputs and (
        list(step.inputs) != sorted(set(step.inputs)) or not 0 <= step.inputs[0] <= step.inputs[-1] < index
    ):
        raise MalformedTrace(f"step {index}: inputs must be ascending indices below {index}, got {step.inputs!r}")
    if step.end_ns < step.start_ns:
        raise MalformedTrace(f"step {index}: ends before it starts ({step.end_ns} < {step.start_ns})")


def _answers(result: Step, call: Step) -> bool:
    return (
        (call.kind, result.kind) == ("tool_call", "tool_result")
        and result.inputs == (call.index,)
        and (call.agent, call.start_ns, call.end_ns, call.status, call.error)
        == (result.agent, result.start_ns, result.end_ns, result.status, result.error)
        and not result.attributes
        and not result.recipients
        and result.usage is None
        and not result.input_text
    )
