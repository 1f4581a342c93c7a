"""A support graph of LangGraph under a guard: it is interrupted before a large refund, and goes on when answered.

    pip install 'blamespan[langgraph,model]' langchain
    python examples/guard/langgraph_refunds.py

The model is scripted, so it runs offline and does the same each time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import blamespan


@tool
def refund(amount: int) -> str:
    """Pay an amount back."""
    print(f"  --> {amount} EUR are paid back")
    return f"{amount} EUR are paid back."


@tool
def delete_account(customer: str) -> str:
    """Delete a customer's account."""
    print(f"  --> {customer} is gone")
    return f"{customer} is gone."


class Scripted(BaseChatModel):
    """A model that says what it is told."""

    answers: Iterator[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next(self.answers))])

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Take tools: which ones it asks for stands in the script."""
        return self


def asks_for(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])


def main() -> None:
    script = iter(
        [asks_for("delete_account", customer="eve"), asks_for("refund", amount=360), AIMessage("It is paid back.")]
    )
    model, tools = Scripted(answers=script), [refund, delete_account]
    agent = create_agent(model, tools=tools, name="support", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "one"}}
    with blamespan.guard(Path(__file__).with_name("policy.toml")) as guard:
        waiting = agent.invoke({"messages": [("user", "Pay 360 EUR back.")]}, config)
        print("the graph waits:", waiting["__interrupt__"][0].value["question"])
        done = agent.invoke(Command(resume="yes"), config)
    for message in done["messages"]:
        print(f"{message.type}: {message.text or message.tool_calls}")
    print("decisions:", dict(guard.counts))


if __name__ == "__main__":
    main()
