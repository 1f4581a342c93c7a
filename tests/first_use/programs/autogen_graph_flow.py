"""A directed graph of agents: two work side by side, one joins what they wrote.

task: Plan a day in Vienna for 50 euros.
step: planner message A museum and a lunch
step: museum message 21 euros | food message 18 euros
step: museum message 21 euros | food message 18 euros
step: summary message 59 euros
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)


def agent(name, reply):
    """An agent with one thing to say."""
    return AssistantAgent(name, ReplayChatCompletionClient([reply]))


planner = agent("planner", "A museum and a lunch.")
museum = agent("museum", "The Belvedere costs 21 euros.")
food = agent("food", "A lunch costs 18 euros.")
summary = agent("summary", "Both together cost 59 euros.")
builder = DiGraphBuilder()
for node in (planner, museum, food, summary):
    builder.add_node(node)
builder.add_edge(planner, museum).add_edge(planner, food).add_edge(museum, summary).add_edge(food, summary)
team = GraphFlow([planner, museum, food, summary], graph=builder.build())

asyncio.run(team.run(task="Plan a day in Vienna for 50 euros."))
print(blamespan.record_outcome("failed", reason="39 euros"))
