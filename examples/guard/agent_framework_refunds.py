"""A support team of Agent Framework under a guard: a sum is said anew, and a person is asked before a large refund.

    pip install 'blamespan[agent-framework,model]'
    python examples/guard/agent_framework_refunds.py

The models are scripted, so it runs offline and does the same each time.
"""

import asyncio
from pathlib import Path

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool
from agent_framework_orchestrations import SequentialBuilder

import blamespan


class Script(FunctionInvocationLayer, BaseChatClient):
    """Gives its answers one after the other."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = iter(answers)

    async def _inner_get_response(self, **_):
        return ChatResponse(messages=[Message("assistant", [next(self.answers)])])


@tool(approval_mode="never_require")
def refund(amount: int) -> str:
    """Pay an amount back."""
    print(f"  --> {amount} EUR are paid back")
    return f"{amount} EUR are paid back."


def ask_person(question: str) -> bool:
    """Stands in for a person who is asked in your own interface."""
    print("a person is asked:", question)
    return True


async def main() -> None:
    pay = Content.from_function_call(call_id="call-360", name="refund", arguments={"amount": 360})
    clerk = Agent(Script("3 boxes at 120 EUR: 3 * 120 = 350.", "3 boxes at 120 EUR: 3 * 120 = 360."), name="clerk")
    support = Agent(Script(pay, "Done."), name="support", tools=[refund])
    team = SequentialBuilder(participants=[clerk, support], output_from="all").build()
    with blamespan.guard(Path(__file__).with_name("policy.toml"), ask=ask_person) as guard:
        result = await team.run("Three boxes at 120 EUR each came broken. Pay them back.")
    for response in result.get_outputs():
        print(f"{response.messages[-1].author_name}: {response.text}")
    print("decisions:", dict(guard.counts))


if __name__ == "__main__":
    asyncio.run(main())
