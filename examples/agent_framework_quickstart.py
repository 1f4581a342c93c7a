"""An Agent Framework team whose spans say who is to blame. Needs: blamespan[agent-framework,collector,model]."""

import asyncio

from agent_framework import Agent, BaseChatClient, ChatResponse, Message
from agent_framework_orchestrations import SequentialBuilder
from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # stands in for your tracing backend

import blamespan

console = ConsoleSpanExporter(formatter=lambda span: f"{span.name}  {dict(span.attributes)}\n")
blamespan.instrument(embedded=True, exporter=console)  # the one line


class Says(BaseChatClient):
    """Stands in for your chat client."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    async def _inner_get_response(self, **_):
        return ChatResponse(messages=[Message("assistant", [self.answer])])


solver = Agent(Says("12 * 31 = 362, so 3 crates hold 1086 lamps."), name="solver")
checker = Agent(Says("Looks right: 1086 lamps."), name="checker")
team = SequentialBuilder(participants=[solver, checker]).build()

if __name__ == "__main__":
    asyncio.run(team.run("A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?"))
