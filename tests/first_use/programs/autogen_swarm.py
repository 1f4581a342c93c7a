"""One agent hands over to another.

task: My lamp arrived broken. I paid 40 euros. What do I get back?
step: desk tool_call transfer_to_refunds
step: desk tool_result Transferred to refunds
step: desk handoff Transferred to refunds
step: refunds tool_call price_of
step: refunds tool_result 40
step: refunds message You get 14 euros back
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import Swarm
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": "unknown",
}


def call(name, arguments):
    """A model's answer that calls a tool."""
    return CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id=f"call_{name}", name=name, arguments=arguments)],
        usage=RequestUsage(prompt_tokens=10, completion_tokens=5),
        cached=False,
    )


async def price_of(item: str) -> int:
    """Look up what an item costs, in euros."""
    return 40


desk = AssistantAgent(
    "desk",
    ReplayChatCompletionClient([call("transfer_to_refunds", "{}")], model_info=INFO),
    handoffs=["refunds"],
)
refunds = AssistantAgent(
    "refunds",
    ReplayChatCompletionClient([call("price_of", '{"item": "lamp"}'), "You get 14 euros back. DONE"], model_info=INFO),
    tools=[price_of],
    reflect_on_tool_use=True,
)
team = Swarm([desk, refunds], termination_condition=TextMentionTermination("DONE"))

asyncio.run(team.run(task="My lamp arrived broken. I paid 40 euros. What do I get back?"))
print(blamespan.record_outcome("failed", reason="40 euros, not 14"))
