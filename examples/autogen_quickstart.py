"""An AutoGen team whose spans say who is to blame. Needs: README's install."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient  # stands in for your model client
from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # stands in for your tracing backend

import blamespan

console = ConsoleSpanExporter(formatter=lambda span: f"{span.name}  {dict(span.attributes)}\n")
blamespan.instrument(embedded=True, exporter=console)  # the one line

solver = AssistantAgent("solver", ReplayChatCompletionClient(["12 * 31 = 362, so 3 crates hold 1086 lamps."]))
checker = AssistantAgent("checker", ReplayChatCompletionClient(["Looks right: 1086 lamps."]))
team = RoundRobinGroupChat([solver, checker], max_turns=2)

if __name__ == "__main__":
    asyncio.run(team.run(task="A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?"))
