"""A run's agents while a framework runs them: their decisions are counted, kept and, where asked for, replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from opentelemetry import trace

from blamespan_lab.simulation.agents.agent import AgentProfile, DecisionContext
from blamespan_lab.simulation.agents.policy import AsyncPolicy, InputMessage, Mistake, NoAnswer, Policy, Reply, ToolSpec
from blamespan_lab.simulation.agents.protocols import decide
from blamespan_lab.simulation.agents.team import TeamMember
from blamespan_lab.simulation.tasks.task import Task, Tool

__all__ = ["CURRENT_RUN", "OnReply", "PolicyDecision", "SimulatedPolicy", "SimulatedRun"]

OnReply = Callable[[str, int, "tuple[InputMessage, ...]", Reply], Reply]
"""Sees each decision (agent, its number, what was heard, what would be said) and gives what is said instead."""


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
    """A character as a policy: stateless but for the number of its next decision, and of its draws.

    Attributes:
        character: Whose.
        index: Number of the next decision.
        repairs: For the numbers of decisions: mistakes that it does not make there.
        mistakes: What it did wrong in the last decision.
        draws: How often it has drawn for each purpose.
    """

    character: AgentProfile
    index: int = 0
    repairs: Mapping[int, Collection[Mistake]] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    draws: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def reply(self, heard: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer to the messages *heard*, the latest last; *tools* are those on offer in this call."""
        moment = DecisionContext(self.character, self.index, heard, tools, self.repairs.get(self.index, ()), self.draws)
        self.index += 1
        said = decide(moment)
        self.mistakes = tuple(moment.mistakes)
        return said


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
        trouble: Why a policy gave no answer, so that the run says nothing of the team; empty if all did.
    """

    task: Task
    team: tuple[TeamMember, ...]
    policies: Mapping[str, Policy | AsyncPolicy]
    system: Mapping[str, str]
    tools: Mapping[str, frozenset[str]]
    overrides: Mapping[tuple[str, int], Reply] = field(default_factory=dict)
    on_reply: OnReply | None = None
    decisions: list[PolicyDecision] = field(default_factory=list)
    ran_out: bool = False
    trouble: str = ""

    async def areply(self, name: str, heard: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Let the agent *name* decide, and wait for it where its policy is one to wait for.

        Raises:
            NoAnswer: if it gives none.
        """
        policy = self.policies[name]
        if not isinstance(policy, AsyncPolicy):
            return self.reply(name, heard, tools)
        try:
            said = await policy.areply(heard, tools)
        except NoAnswer as error:
            self.trouble = str(error)
            raise
        return self._decided(name, heard, said)

    def reply(self, name: str, heard: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Let the agent *name* decide at once.

        Raises:
            TypeError: if its policy must be waited for.
        """
        policy = self.policies[name]
        if isinstance(policy, AsyncPolicy):
            raise TypeError(f"expected {name!r} to be asked in an event loop, got a plain call. Run the graph async")
        return self._decided(name, heard, policy.reply(heard, tools))

    def _decided(self, name: str, heard: Sequence[InputMessage], said: Reply) -> Reply:
        policy = self.policies[name]
        index = sum(1 for decision in self.decisions if decision.agent == name)
        final = self.overrides.get((name, index), said)
        if self.on_reply is not None:
            final = self.on_reply(name, index, tuple(heard), final)
        span = trace.get_current_span()
        context, parent = span.get_span_context(), getattr(span, "parent", None)
        self.decisions.append(
            PolicyDecision(
                name,
                index,
                final,
                policy.mistakes if isinstance(policy, SimulatedPolicy) and final == said else (),
                f"{context.trace_id:032x}" if context.is_valid else "",
                tuple(f"{each.span_id:016x}" for each in (context, parent) if each is not None and each.is_valid),
            )
        )
        return final

    def tools_of(self, name: str) -> tuple[Tool, ...]:
        """List the task's tools that the agent *name* has."""
        return tuple(tool for tool in self.task.tools if tool.name in self.tools.get(name, ()))

    def described(self, name: str) -> str:
        """Say in a few words what the agent *name* does."""
        return next(f"Does the part of a {member.role}." for member in self.team if member.name == name)

    def named(self, *roles: str) -> list[str]:
        """List the names of those who have one of *roles*."""
        return [member.name for member in self.team if member.role in roles]


CURRENT_RUN: ContextVar[SimulatedRun] = ContextVar("blamespan_simulation_stage")
"""The run that is on in this context: graphs are compiled once and used by many runs."""
