"""Chat models that answer by a rule, and graphs of agents in a row: what the programs of these tests are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

Rule: TypeAlias = Callable[[list[BaseMessage]], AIMessage | str]
"""Makes the answer to what a model is told."""
Node: TypeAlias = Callable[[Any], dict[str, Any]]


class RuleModel(BaseChatModel):
    """Says what its rule makes of the messages, and takes tools."""

    rule: Rule

    @property
    def _llm_type(self) -> str:
        return "rule"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = self.rule(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said) if isinstance(said, str) else said)])

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.bind(tools=[one.name for one in tools])


def speak(model: Any, *instructions: BaseMessage) -> Node:
    """Make a node in which *model* answers the conversation, told *instructions* before it."""
    return lambda state: {"messages": [model.invoke([*instructions, *state["messages"]])]}


def by_rule(rule: Rule) -> Node:
    """Make a node in which a model answers by a rule."""
    return speak(RuleModel(rule=rule))


def in_a_row(nodes: Mapping[str, Node], *, retry: RetryPolicy | None = None, **options: Any) -> Any:
    """Compile a graph whose nodes speak one after the other; *retry* is the first one's."""
    builder, before = StateGraph(MessagesState), START
    for name, node in nodes.items():
        builder.add_node(name, node, retry_policy=retry if before == START else None)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(**options)
