"""A support team of AutoGen under a guard: a sum is said anew, and a person is asked before a large refund.

    pip install 'blamespan[autogen,demo,model]'
    python examples/guard/autogen_refunds.py

The models are scripted, so it runs offline and does the same each time.
"""

import asyncio
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


def refund(amount: int) -> str:
    """Pay an amount back."""
    print(f"  --> {amount} EUR are paid back")
    return f"{amount} EUR are paid back."


def call(amount: int) -> CreateResult:
    wanted = [FunctionCall(id=f"call-{amount}", name="refund", arguments=f'{{"amount": {amount}}}')]
    return CreateResult(finish_reason="function_calls", content=wanted, usage=RequestUsage(9, 9), cached=False)


def support_team() -> RoundRobinGroupChat:
    answers = [
        "3 boxes at 120 EUR: 3 * 120 = 350.",
        "3 boxes at 120 EUR: 3 * 120 = 360.",
        call(360),
        call(360),
        "Done.",
    ]
    support = AssistantAgent("support", ReplayChatCompletionClient(answers, model_info=INFO), tools=[refund])
    reviewer = AssistantAgent("reviewer", ReplayChatCompletionClient(["Go on."] * 9, model_info=INFO))
    return RoundRobinGroupChat([support, reviewer], max_turns=3)


async def main() -> None:
    team = support_team()
    with blamespan.guard(Path(__file__).with_name("policy.toml")) as guard:
        waiting = await team.run(task="Three boxes at 120 EUR each came broken. Pay them back.")
        print("the team waits:", waiting.stop_reason)
        done = await team.run(task="yes")  # the person's answer is the next task
    for message in [*waiting.messages, *done.messages]:
        print(f"{message.source}: {message.to_text()}")
    print("decisions:", dict(guard.counts))


if __name__ == "__main__":
    asyncio.run(main())
