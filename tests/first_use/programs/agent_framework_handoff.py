"""One agent hands over to another.

task: My lamp arrived broken. I paid 40 euros. What do I get back?
step: desk handoff handoff_to_refunds
step: refunds tool_call price_of
step: refunds tool_result 40
step: refunds message You get 14 euros back
"""

import asyncio

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool
from agent_framework_orchestrations import HandoffBuilder

import blamespan

blamespan.instrument(embedded=True)


class Script(FunctionInvocationLayer, BaseChatClient):
    """A model that gives its answers one after the other."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = iter(answers)

    async def _inner_get_response(self, **_):
        return ChatResponse(messages=[Message("assistant", [next(self.answers)])])


def call(name, **arguments):
    """A model's answer that calls a tool."""
    return Content.from_function_call(call_id=f"call_{name}", name=name, arguments=arguments)


@tool(approval_mode="never_require")
def price_of(item: str) -> int:
    """Look up what an item costs, in euros."""
    return 40


keeps = {"require_per_service_call_history_persistence": True}
desk = Agent(Script(call("handoff_to_refunds")), name="desk", **keeps)
refunds = Agent(
    Script(call("price_of", item="lamp"), "You get 14 euros back. DONE"), name="refunds", tools=[price_of], **keeps
)
builder = HandoffBuilder(name="shop", participants=[desk, refunds]).with_start_agent(desk)
builder = builder.add_handoff(desk, [refunds]).add_handoff(refunds, [desk])
team = builder.with_termination_condition(lambda messages: "DONE" in messages[-1].text).build()

asyncio.run(team.run("My lamp arrived broken. I paid 40 euros. What do I get back?"))
print(blamespan.record_outcome("failed", reason="40 euros, not 14"))
