"""A run's agents while a framework runs them: their decisions are counted, kept and, where asked for, replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from opentelemetry import trace

from blamespan_lab.make.simulation.agents.agent import AgentProfile, DecisionContext
from blamespan_lab.make.simulation.agents.policy import (
    AgentPolicy,
    InputMessage,
    Mistake,
    Reply,
    ToolSpec,
)
from blamespan_lab.make.simulation.agents.protocols import decide
from blamespan_lab.make.simulation.agents.team import TeamMember
from blamespan_lab.make.simulation.tasks.task import Task, Tool

OnReply = Callable[[str, int, "tuple[InputMessage, ...]", Reply], Reply]
"""Sees each decision (agent, its number, the messages, its reply) and returns the reply that is given instead."""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """One answer of an agent's model.

    Attributes:
        agent: Its name in this run.
        index: The number of the decision among this agent's, from 0.
        reply: What it answered in the end.
        mistakes: What its policy did wrong in it; empty where the reply was replaced from outside.
        trace_id: Of the span that was current, 32 hex digits; empty without instrumentation.
        span_ids: Of the span that was current and of the one above it, 16 hex digits each: one of them is the step's.
    """

    agent: str
    index: int
    reply: Reply
    mistakes: tuple[Mistake, ...] = ()
    trace_id: str = ""
    span_ids: tuple[str, ...] = ()


@dataclass
class SimulatedPolicy:
    """An agent's profile as a policy: stateless but for the number of its next decision, and of its draws.

    Attributes:
        profile: Whose decisions they are.
        index: Number of the next decision.
        repairs: For the numbers of decisions: mistakes that it does not make there.
        mistakes: What it did wrong in the last decision.
        draws: How often it has drawn for each purpose.
    """

    profile: AgentProfile
    index: int = 0
    repairs: Mapping[int, Collection[Mistake]] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    draws: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer to *messages*, the latest last; *tools* are those on offer in this call."""
        context = DecisionContext(
            self.profile, self.index, messages, tools, self.repairs.get(self.index, ()), self.draws
        )
        self.index += 1
        reply = decide(context)
        self.mistakes = tuple(context.mistakes)
        return reply


@dataclass
class SimulatedRun:
    """One run.

    Attributes:
        task: What the team works on.
        team: Everybody.
        policies: By name of the agent.
        system: What each agent is told to be, by name.
        tools: Names of the tools that each agent has, by its name.
        overrides: For (agent, number of its decision): what it answers instead.
        on_reply: Called at each decision.
        decisions: What was decided so far.
        ran_out: Whether the team has come to a limit on its rounds.
    """

    task: Task
    team: tuple[TeamMember, ...]
    policies: Mapping[str, AgentPolicy]
    system: Mapping[str, str]
    tools: Mapping[str, frozenset[str]]
    overrides: Mapping[tuple[str, int], Reply] = field(default_factory=dict)
    on_reply: OnReply | None = None
    decisions: list[PolicyDecision] = field(default_factory=list)
    ran_out: bool = False

    def reply(self, name: str, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Let the agent *name* decide."""
        policy = self.policies[name]
        reply = policy.reply(messages, tools)
        index = sum(1 for decision in self.decisions if decision.agent == name)
        final = self.overrides.get((name, index), reply)
        if self.on_reply is not None:
            final = self.on_reply(name, index, tuple(messages), final)
        span = trace.get_current_span()
        context, parent = span.get_span_context(), getattr(span, "parent", None)
        self.decisions.append(
            PolicyDecision(
                name,
                index,
                final,
                policy.mistakes if isinstance(policy, SimulatedPolicy) and final == reply else (),
                f"{context.trace_id:032x}" if context.is_valid else "",
                tuple(
                    f"{span_context.span_id:016x}"
                    for span_context in (context, parent)
                    if span_context is not None and span_context.is_valid
                ),
            )
        )
        return final

    def tools_of(self, name: str) -> tuple[Tool, ...]:
        """List the task's tools that the agent *name* has."""
        return tuple(tool for tool in self.task.tools if tool.name in self.tools.get(name, ()))

    def describe(self, name: str) -> str:
        """Describe in a few words what the agent *name* does."""
        return next(f"Does the part of a {member.role}." for member in self.team if member.name == name)

    def names_of(self, *roles: str) -> list[str]:
        """List the names of those who have one of *roles*."""
        return [member.name for member in self.team if member.role in roles]


CURRENT_RUN: ContextVar[SimulatedRun] = ContextVar("blamespan_simulated_run")
"""The run that is on in this context: graphs are compiled once and used by many runs."""
