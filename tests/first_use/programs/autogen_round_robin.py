"""Two agents take turns.

task: A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?
step: solver message 12 * 31 = 362
step: checker message Looks right
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

solver = AssistantAgent("solver", ReplayChatCompletionClient(["12 * 31 = 362, so 3 crates hold 1086 lamps."]))
checker = AssistantAgent("checker", ReplayChatCompletionClient(["Looks right: 1086 lamps."]))
team = RoundRobinGroupChat([solver, checker], max_turns=2)

asyncio.run(team.run(task="A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?"))
print(blamespan.record_outcome("failed", reason="expected 1116"))
