"""An AutoGen team whose spans say who is to blame. Needs: pip install 'blamespan[demo]'."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient  # stands in for your model client
from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # stands in for your tracing backend

import blamespan

console = ConsoleSpanExporter(formatter=lambda span: f"{span.name}  {dict(span.attributes)}\n")
blamespan.instrument(embedded=True, exporter=console)  # the one line

writer = AssistantAgent("writer", ReplayChatCompletionClient(["Paris has 2.1 million people, I assume."]))
checker = AssistantAgent("checker", ReplayChatCompletionClient(["Sounds right, no need to verify that."]))
team = RoundRobinGroupChat([writer, checker], max_turns=2)

if __name__ == "__main__":
    asyncio.run(team.run(task="How many people live in Paris? Check the figure."))
