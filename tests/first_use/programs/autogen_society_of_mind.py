"""A team within an agent.

task: Write a line about the sea in four words.
step: writer message The sea is very wide today
step: critic message Four words, good
step: author message The sea is very wide today
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

writer = AssistantAgent("writer", ReplayChatCompletionClient(["The sea is very wide today."]))
critic = AssistantAgent("critic", ReplayChatCompletionClient(["Four words, good."]))
inner = RoundRobinGroupChat([writer, critic], max_turns=2)
author = SocietyOfMindAgent("author", inner, ReplayChatCompletionClient(["The sea is very wide today."]))
team = RoundRobinGroupChat([author], max_turns=1)

asyncio.run(team.run(task="Write a line about the sea in four words."))
print(blamespan.record_outcome("failed", reason="six words"))
