"""The topologies as AutoGen AgentChat teams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

try:
    from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, MessageFilterConfig, PerSourceFilter
    from autogen_agentchat.base import ChatAgent, TaskResult, Team, TerminationCondition
    from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
    from autogen_agentchat.messages import BaseChatMessage
    from autogen_agentchat.teams import (
        DiGraphBuilder,
        GraphFlow,
        MagenticOneGroupChat,
        RoundRobinGroupChat,
    )
except ImportError as error:
    raise ImportError("simulated AutoGen teams need AutoGen: pip install 'blamespan[autogen]'") from error

from blamespan_lab.make.simulation.model_clients.autogen import PolicyClient, tool_for
from blamespan_lab.make.simulation.simulated_run import SimulatedRun
from blamespan_lab.make.wordings.banks import TALK

_MAX_MESSAGES = 60
_OUT_OF_ROUNDS = "Max rounds reached"
"""How MagenticOne says that it was stopped."""
_MAX_TOOL_ROUNDS = 12


async def perform(topology: str, run: SimulatedRun) -> list[tuple[str, str]]:
    """Build the team and run it on the run's task.

    Returns:
        Sender and text of each message of the conversation, in order.
    """
    result: TaskResult = await _TEAMS[topology](run).run(task=run.task.question)
    spoken = [message for message in result.messages if isinstance(message, BaseChatMessage)]
    run.ran_out = len(spoken) >= _MAX_MESSAGES or (result.stop_reason or "").startswith(_OUT_OF_ROUNDS)
    return [(message.source, message.to_text()) for message in spoken if message.source != "user"]


def _make_agents(run: SimulatedRun, *roles: str) -> list[AssistantAgent]:
    members = [member for member in run.team if member.role in roles] if roles else run.team
    return [make_agent(run, member.name) for member in members]


def make_agent(run: SimulatedRun, name: str) -> AssistantAgent:
    """Make the agent *name* of a run: its instructions, its tools, its policy behind a model client."""
    tools: list[Any] = [tool_for(tool) for tool in run.tools_of(name)]
    return AssistantAgent(
        name,
        PolicyClient(run, name),
        description=run.describe(name),
        system_message=run.system[name],
        tools=tools,
        max_tool_iterations=_MAX_TOOL_ROUNDS,
    )


def _make_termination() -> TerminationCondition:
    ends: TerminationCondition = MaxMessageTermination(_MAX_MESSAGES)
    for mark in TALK.termination_words:
        ends = ends | TextMentionTermination(mark)
    return ends


def _chain(run: SimulatedRun) -> Team:
    return _flow(_make_agents(run))


def _relay(run: SimulatedRun) -> Team:
    agents = _make_agents(run)
    before = ["user", *(agent.name for agent in agents[:-1])]
    return _flow(
        [
            MessageFilterAgent(
                agent.name,
                agent,
                MessageFilterConfig(per_source=[PerSourceFilter(source=source, position="last", count=1)]),
            )
            for agent, source in zip(agents, before, strict=True)
        ]
    )


def _flow(agents: Sequence[ChatAgent]) -> Team:
    builder = DiGraphBuilder()
    for agent in agents:
        builder.add_node(agent)
    for agent, following in pairwise(agents):
        builder.add_edge(agent, following)
    return GraphFlow(list(agents), builder.build())


def _round_robin(run: SimulatedRun) -> Team:
    members: list[ChatAgent | Team] = [*_make_agents(run)]
    return RoundRobinGroupChat(members, termination_condition=_make_termination())


def _orchestrator(run: SimulatedRun) -> Team:
    (orchestrator,) = run.names_of("orchestrator")
    members: list[ChatAgent] = [*_make_agents(run, "researcher", "solver", "verifier")]
    return MagenticOneGroupChat(members, PolicyClient(run, orchestrator), max_turns=_MAX_MESSAGES, max_stalls=3)


_TEAMS: Mapping[str, Callable[[SimulatedRun], Team]] = MappingProxyType(
    {
        "chain": _chain,
        "relay": _relay,
        "round_robin": _round_robin,
        "orchestrator": _orchestrator,
    }
)
