"""An AutoGen team that answers a question about sales: planner, analyst with tools, reviewer with tools.

The agents' words are scripted (no network, no key); the team, its tools and its spans are real.
Run it beside a collector:  python -m blamespan_integrations.demo.autogen_team
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_core.tools import BaseTool, FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry import trace

import blamespan

TASK = (
    "How much revenue did the north region make in the second quarter, and how much more is that than in the first? "
    "Use the sales ledger and check the figures before you report them."
)

SALES_IN_THOUSANDS = {("north", "Q1"): 1_120, ("north", "Q2"): 1_310, ("south", "Q1"): 870, ("south", "Q2"): 905}


async def read_ledger(region: str, quarter: str) -> int:
    """Read a region's revenue of one quarter from the sales ledger, in thousands of euros."""
    return SALES_IN_THOUSANDS[region, quarter]


async def subtract(minuend: int, subtrahend: int) -> int:
    """Subtract one amount from another."""
    return minuend - subtrahend


Reply: TypeAlias = str | Sequence[tuple[str, Mapping[str, object]]]
"""What a scripted model says: text, or calls of tools."""

PLANNER: list[Reply] = [
    "Plan: 1. The analyst reads the north region's revenue for Q1 and Q2 from the ledger. 2. The analyst subtracts Q1 "
    "from Q2. 3. The reviewer reads the ledger again, checks both figures and the difference, and approves."
]
ANALYST: list[Reply] = [
    [("read_ledger", {"region": "north", "quarter": "Q1"}), ("read_ledger", {"region": "north", "quarter": "Q2"})],
    [("subtract", {"minuend": 1_310, "subtrahend": 1_120})],
    "The ledger says 1,120 thousand euros for north in Q1 and 1,310 thousand in Q2. That is 190 thousand more.",
]
ANALYST_GONE_WRONG: list[Reply] = [
    [("read_ledger", {"region": "north", "quarter": "Q1"}), ("read_ledger", {"region": "north", "quarter": "Q2"})],
    "The ledger says 1,120 thousand euros for north in Q1 and 1,130 thousand in Q2. That is 10 thousand more.",
]
REVIEWER: list[Reply] = [
    [("read_ledger", {"region": "north", "quarter": "Q2"}), ("subtract", {"minuend": 1_310, "subtrahend": 1_120})],
    "I read the ledger again: 1,310 thousand in Q2, 190 thousand above Q1. Both agree with the report. APPROVED",
]
REVIEWER_MISLED: list[Reply] = [
    [("subtract", {"minuend": 1_130, "subtrahend": 1_120})],
    "I checked the difference: 1,130 less 1,120 is 10 thousand, as reported. APPROVED",
]


def scripted(replies: Sequence[Reply]) -> ReplayChatCompletionClient:
    """Make a model client that gives *replies* one after the other; a list is a reply of tool calls."""
    info = ModelInfo(
        vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
    )
    return ReplayChatCompletionClient([_result(reply) for reply in replies], model_info=info)


def _result(reply: Reply) -> CreateResult | str:
    if isinstance(reply, str):
        return reply
    calls = [FunctionCall(f"call_{i}", json.dumps(arguments), name) for i, (name, arguments) in enumerate(reply)]
    return CreateResult(finish_reason="function_calls", content=calls, usage=RequestUsage(40, 12), cached=False)


def team(analyst: Sequence[Reply], reviewer: Sequence[Reply]) -> RoundRobinGroupChat:
    """Build the team."""
    tools: list[BaseTool[Any, Any]] = [
        FunctionTool(read_ledger, "Read a region's revenue of one quarter from the sales ledger."),
        FunctionTool(subtract, "Subtract one amount from another."),
    ]
    members: list[ChatAgent | Team] = [
        AssistantAgent("planner", scripted(PLANNER)),
        AssistantAgent("analyst", scripted(analyst), tools=list(tools), max_tool_iterations=4),
        AssistantAgent("reviewer", scripted(reviewer), tools=list(tools), max_tool_iterations=4),
    ]
    return RoundRobinGroupChat(
        members, name="sales_desk", termination_condition=TextMentionTermination("APPROVED"), max_turns=3
    )


async def main() -> None:
    """Run the team clean, then with an analyst who gets the digits of a figure wrong, which sales notice."""
    blamespan.instrument()
    await team(ANALYST, REVIEWER).run(task=TASK)
    await team(ANALYST_GONE_WRONG, REVIEWER_MISLED).run(task=TASK)
    blamespan.record_outcome("failed", "sales say it was 1,310")
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]  # the SDK's provider


if __name__ == "__main__":
    asyncio.run(main())
