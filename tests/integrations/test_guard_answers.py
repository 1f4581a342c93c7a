"""An answer belongs to the call that was shown: what nobody was shown stays closed, in both frameworks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

import blamespan
from blamespan.guarding.policy import parse_policy
from blamespan_integrations.interception import _langgraph_graphs
from tests.integrations.autogen_runs import INFO, calls
from tests.integrations.langgraph_programs import model
from tests.integrations.test_autogen_constructs_teams import ledger

ASKS = parse_policy({"arguments": [{"tool": "pay", "argument": "amount", "at_most": 10, "action": "ask"}]})
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def pay_into(paid: list[int]) -> Callable[[int], str]:
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay


def amounts(text: str | None) -> set[int]:
    """Return the amounts of the calls that a text shows."""
    return {int(amount) for amount in re.findall(r'pay\(\{"amount": (\d+)\}\)', text or "")}


def clerk(paid: list[int], *answers: Any) -> AssistantAgent:
    client = ReplayChatCompletionClient([*answers, *["done"] * 6], model_info=INFO)
    return AssistantAgent("clerk", client, tools=[pay_into(paid)], description="pays")


def wanted(*numbers: int) -> Any:
    return calls(*(("pay", {"amount": number}) for number in numbers))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((20,), (20,), [20]),
        ((20, 900), (20, 900), [20, 900]),
        ((20,), (900,), []),
        ((20,), (20, 900), [20]),
        ((20,), (20, 20), [20]),
        ((5, 20), (20,), [5, 20]),
    ],
    ids=[
        "the shown call",
        "two shown calls",
        "another call",
        "another call beside it",
        "it twice",
        "one without asking",
    ],
)
def test_yes_to_a_team_pays_what_was_shown(
    first: tuple[int, ...], second: tuple[int, ...], expected: list[int]
) -> None:
    """Every call that is paid stands in the question; each question is shown, and allows one call."""
    paid: list[int] = []
    team = RoundRobinGroupChat([clerk(paid, wanted(*first), wanted(*second))], max_turns=2)

    async def both() -> tuple[Any, Any]:
        return await team.run(task="Pay."), await team.run(task="yes")

    with blamespan.guard(ASKS):
        asked, _ = asyncio.run(both())

    assert amounts(asked.stop_reason) == {number for number in first if number > 10}
    assert sorted(paid) == expected


def test_question_that_comes_up_later_is_shown_before_it_is_answered() -> None:
    """A second question is not answered by the first one's yes, but by its own."""
    paid: list[int] = []
    team = RoundRobinGroupChat([clerk(paid, wanted(20), wanted(20, 900), wanted(900))], max_turns=1)

    async def thrice() -> list[Any]:
        return [await team.run(task=task) for task in ("Pay.", "yes", "yes")]

    with blamespan.guard(ASKS):
        shown = [amounts(result.stop_reason) for result in asyncio.run(thrice())]

    assert shown == [{20}, {900}, set()]
    assert paid == [20, 900]


def test_calls_that_begin_alike_are_two_questions() -> None:
    """A call of which not all can be shown is not asked about at all: nobody could allow it."""
    paid: list[int] = []

    def pay(note: str, amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    note = "n" * 5_000
    answers = [calls(("pay", {"note": note, "amount": 20})), calls(("pay", {"note": note, "amount": 900}))]
    agent = AssistantAgent("clerk", ReplayChatCompletionClient([*answers, *["done"] * 4], model_info=INFO), tools=[pay])
    team = RoundRobinGroupChat([agent], max_turns=2)

    async def both() -> None:
        await team.run(task="Pay.")
        await team.run(task="yes")

    with blamespan.guard(ASKS):
        asyncio.run(both())

    assert paid == []


def test_what_does_not_show_is_written_out() -> None:
    """A question cannot be made to look like another one by characters that turn it around or hide."""
    paid: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    answers = [calls(("pay", {"amount": "\u202e009\u200b"})), "done"]
    agent = AssistantAgent("clerk", ReplayChatCompletionClient(answers, model_info=INFO), tools=[pay])
    with blamespan.guard(ASKS):
        result = asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="Pay."))

    assert paid == []
    assert "\\u202e009\\u200b" in str(result.stop_reason)


@pytest.mark.parametrize(("answer", "expected"), [("yes", [20, 900]), ("no", [])])
def test_person_of_the_team_sees_each_question(answer: str, expected: list[int]) -> None:
    """Who takes part as a person is shown all that is asked before the answer counts."""
    paid: list[int] = []
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return answer

    team = RoundRobinGroupChat(
        [clerk(paid, wanted(20, 900), wanted(20, 900)), UserProxyAgent("person", input_func=ask)], max_turns=3
    )
    with blamespan.guard(ASKS):
        asyncio.run(team.run(task="Pay."))

    assert amounts(prompts[0]) == {20, 900}
    assert sorted(paid) == expected


def test_team_that_does_not_stop_shows_its_question_at_the_end() -> None:
    """MagenticOne goes on without the tool: its result shows what is still asked, and the next task answers that."""
    paid: list[int] = []
    said = ["facts", "plan", ledger("clerk", "Pay."), ledger("clerk", "", done=True), "all done"]
    team = MagenticOneGroupChat(
        [clerk(paid, wanted(20), "waiting", wanted(20, 900))], ReplayChatCompletionClient(said * 2, model_info=INFO)
    )

    async def both() -> Any:
        first = await team.run(task="Pay.")
        await team.run(task="yes")
        return first

    with blamespan.guard(ASKS):
        first = asyncio.run(both())

    assert amounts(first.stop_reason) == {20}
    assert 900 not in paid


# --- LangGraph


def pay_tool(paid: list[int]) -> StructuredTool:
    return StructuredTool.from_function(pay_into(paid), name="pay")


def asks(*numbers: int) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": "pay", "args": {"amount": number}, "id": f"call_{place}"} for place, number in enumerate(numbers)
        ],
    )


def graph_of(tools: list[Any], *answers: Any, fan_out: bool = False, saver: Any = None) -> Any:
    """Make a graph whose tools run in one node, or each in its own."""
    speaker = model(*answers, *["done"] * 4)

    def route(state: MessagesState) -> Any:
        message: Any = state["messages"][-1]
        if not message.tool_calls:
            return END
        return [Send("tools", [call]) for call in message.tool_calls] if fan_out else "tools"

    graph = StateGraph(MessagesState)
    graph.add_node("clerk", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "clerk")
    graph.add_conditional_edges("clerk", route, ["tools", END])
    graph.add_edge("tools", "clerk")
    return graph.compile(checkpointer=saver or InMemorySaver())


GIVEN: Any = {"messages": [HumanMessage("Pay.")]}
CONFIG: Any = {"configurable": {"thread_id": "one"}}


def shown(state: Any) -> set[int]:
    return {amount for one in state.get("__interrupt__", ()) for amount in amounts(one.value["question"])}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("yes", [20, 900]),
        ("no", []),
        (["yes", "no"], [20]),
        ({"decisions": [{"type": "reject"}, {"type": "approve"}]}, [900]),
        (["yes"], [20, 900]),
        (["yes", "yes", "yes"], []),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_yes_to_a_tool_node_pays_what_was_shown(answer: Any, expected: list[int], is_async: bool) -> None:
    """All questions of one node stand in one interrupt: an answer holds for each of them, a list for each its own."""
    paid: list[int] = []
    graph = graph_of([pay_tool(paid)], asks(20, 900, 5))

    async def both() -> Any:
        first = await graph.ainvoke(GIVEN, CONFIG)
        await graph.ainvoke(Command(resume=answer), CONFIG)
        return first

    with blamespan.guard(ASKS):
        if is_async:
            first = asyncio.run(both())
        else:
            first = graph.invoke(GIVEN, CONFIG)
            graph.invoke(Command(resume=answer), CONFIG)

    assert shown(first) == {20, 900}
    assert sorted(number for number in paid if number > 10) == expected


def test_same_call_twice_is_two_questions() -> None:
    """Two calls alike have two ids, and both are shown."""
    paid: list[int] = []
    graph = graph_of([pay_tool(paid)], asks(20, 20))
    with blamespan.guard(ASKS):
        first = graph.invoke(GIVEN, CONFIG)
        graph.invoke(Command(resume=["yes", "no"]), CONFIG)

    assert len(first["__interrupt__"][0].value["questions"]) == 2
    assert paid == [20]


def test_calls_in_nodes_of_their_own_are_answered_by_id() -> None:
    """Where each call is a node, each interrupt has its own answer."""
    paid: list[int] = []
    graph = graph_of([pay_tool(paid)], asks(20, 900), fan_out=True)
    with blamespan.guard(ASKS):
        first = graph.invoke(GIVEN, CONFIG)
        answers = {one.id: "yes" if shown({"__interrupt__": [one]}) == {20} else "no" for one in first["__interrupt__"]}
        graph.invoke(Command(resume=answers), CONFIG)

    assert paid == [20]


def wait_tool(heard: list[str]) -> Any:
    """A tool that stops the program with a question of its own."""

    @tool
    def wait() -> str:
        """Wait for somebody."""
        heard.append(str(interrupt("go on?")))
        return heard[-1]

    return wait


def test_answer_to_the_program_is_none_to_the_guard() -> None:
    """What a tool itself asks is answered to the tool; the guard's question comes after it, and is shown."""
    paid: list[int] = []
    heard: list[str] = []

    first_asks = AIMessage("", tool_calls=[{"name": "wait", "args": {}, "id": "call_w"}])
    graph = graph_of([pay_tool(paid), wait_tool(heard)], first_asks, asks(900))
    with blamespan.guard(ASKS):
        graph.invoke(GIVEN, CONFIG)
        second = graph.invoke(Command(resume="yes"), CONFIG)
        before = list(paid)
        graph.invoke(Command(resume="yes"), CONFIG)

    assert (heard, before, shown(second), paid) == (["yes"], [], {900}, [900])


@pytest.mark.parametrize("first_tool", ["wait", "pay"])
def test_program_and_guard_that_ask_in_one_node_each_hear_their_own_answer(first_tool: str) -> None:
    """Both stop one node, one after the other: a yes to the program's question pays nothing."""
    paid: list[int] = []
    heard: list[str] = []

    names = ["wait", "pay"] if first_tool == "wait" else ["pay", "wait"]
    both = [{"name": name, "args": {"amount": 900} if name == "pay" else {}, "id": f"call_{name}"} for name in names]
    graph = graph_of([pay_tool(paid), wait_tool(heard)], AIMessage("", tool_calls=both))
    with blamespan.guard(ASKS):
        state = graph.invoke(GIVEN, CONFIG)
        for _ in range(4):
            if not state.get("__interrupt__"):
                break
            (asked,) = state["__interrupt__"]
            is_guard = isinstance(asked.value, dict)
            before = len(paid)
            state = graph.invoke(Command(resume="no" if is_guard else "yes"), CONFIG)
            assert len(paid) == before

    assert paid == []


def test_tool_that_asks_itself_is_asked_about_first() -> None:
    """The yes to the guard is no answer to the tool's own question."""
    paid: list[Any] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append((amount, interrupt("from which account?")))
        return "paid"

    graph = graph_of([pay], asks(900))
    with blamespan.guard(ASKS):
        graph.invoke(GIVEN, CONFIG)
        second = graph.invoke(Command(resume="yes"), CONFIG)
        before = list(paid)
        graph.invoke(Command(resume="savings"), CONFIG)

    assert [one.value for one in second["__interrupt__"]] == ["from which account?"]
    assert (before, paid) == ([], [(900, "savings")])


def test_answer_counts_in_another_process() -> None:
    """What was shown is kept with the graph's own state: a process that has not asked knows it."""
    paid: list[int] = []
    saver = InMemorySaver()
    with blamespan.guard(ASKS):
        graph_of([pay_tool(paid)], asks(900), saver=saver).invoke(GIVEN, CONFIG)
        _langgraph_graphs._runs_by_thread.clear()
        graph_of([pay_tool(paid)], saver=saver).invoke(Command(resume="yes"), CONFIG)

    assert paid == [900]


def test_question_within_a_subgraph_is_answered() -> None:
    """A graph within a node asks by the outer graph's interrupt, and hears its answer."""
    paid: list[int] = []
    inner = graph_of([pay_tool(paid)], asks(20, 900))
    inner.checkpointer = None
    outer = StateGraph(MessagesState)
    outer.add_node("desk", inner)
    outer.add_edge(START, "desk")
    graph = outer.compile(checkpointer=InMemorySaver())
    with blamespan.guard(ASKS):
        first = graph.invoke(GIVEN, CONFIG)
        graph.invoke(Command(resume=["yes", "no"]), CONFIG)

    assert shown(first) == {20, 900}
    assert paid == [20]
