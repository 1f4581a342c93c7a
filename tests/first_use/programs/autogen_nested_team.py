"""A team as a member of a team, read as a stream.

task: Name a capital north of Rome.
step: proposer message Athens
step: doubter message Fine
step: closer message Athens is the answer
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

proposer = AssistantAgent("proposer", ReplayChatCompletionClient(["Athens."]))
doubter = AssistantAgent("doubter", ReplayChatCompletionClient(["Fine."]))
closer = AssistantAgent("closer", ReplayChatCompletionClient(["Athens is the answer."]))
inner = RoundRobinGroupChat([proposer, doubter], max_turns=2, name="inner")
team = RoundRobinGroupChat([inner, closer], max_turns=2, name="outer")


async def main():
    async for item in team.run_stream(task="Name a capital north of Rome."):
        if isinstance(item, TaskResult):
            result = item
    return result


result = asyncio.run(main())
print(blamespan.record_outcome("failed", "Athens lies south of Rome", result=result))
