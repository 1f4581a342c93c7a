"""A model chooses who speaks; the outcome names the result.

task: When does the museum open on Sunday?
step: researcher message notes.md says
step: writer message The museum opens at 9
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import SelectorGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

researcher = AssistantAgent(
    "researcher",
    ReplayChatCompletionClient(["notes.md says: Sunday from 11 to 17."]),
    description="Reads notes.",
)
writer = AssistantAgent(
    "writer", ReplayChatCompletionClient(["The museum opens at 9 on Sunday. DONE"]), description="Writes the answer."
)
team = SelectorGroupChat(
    [researcher, writer],
    model_client=ReplayChatCompletionClient(["researcher", "writer"]),
    termination_condition=TextMentionTermination("DONE"),
)


async def main():
    return await team.run(task="When does the museum open on Sunday?")


result = asyncio.run(main())
print(blamespan.record_outcome("failed", reason="it opens at 11", result=result))
