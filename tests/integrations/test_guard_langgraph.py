"""The guard in LangGraph: what each action does, what is recorded, and that watching alone changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from pydantic import Field

import blamespan
from blamespan import conventions as words
from blamespan import rebuild
from blamespan.guarding.decisions import Decision, GuardedRun, ProposedStep
from blamespan.guarding.policy import Policy, parse_policy
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import ScriptedModel, asks_for, calculator, model

GIVEN: Any = {"messages": [HumanMessage("Go.")]}
SECRET = {"forbidden_pattern": "secret"}
QUESTION = {"tool": "pay", "argument": "amount", "at_most": 10, "action": "ask"}


class Told(ScriptedModel):
    """Answers as it is told, and keeps what it was sent."""

    sent: list[str] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.sent.append(" / ".join(message.text for message in messages))
        return super()._generate(messages, *args, **options)


def told(*answers: AIMessage | str) -> Told:
    return Told(answers=iter([AIMessage(a) if isinstance(a, str) else a for a in answers]), sent=[])


def policy(**tables: Any) -> Policy:
    return parse_policy(tables)


@pytest.fixture
def paid() -> list[int]:
    """Keeps what was paid."""
    return []


def pay_tool(paid: list[int]) -> StructuredTool:
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return StructuredTool.from_function(pay)


def nodes(**models: ScriptedModel) -> Any:
    """Make a graph of agents who speak in turn."""
    graph = StateGraph(MessagesState)
    before = START
    for name, one in models.items():
        graph.add_node(name, lambda state, one=one: {"messages": [one.invoke(state["messages"])]})
        graph.add_edge(before, name)
        before = name
    return graph.compile()


def texts(state: Any) -> list[str]:
    return [message.text for message in state["messages"]]


def test_agent_is_asked_again_with_every_reason() -> None:
    """Of several rules each says in a sentence what is wrong, once; who broke one rule hears of that one alone."""
    writer, other = told("a secret of mine", "nothing"), told("a secret", "nothing")
    rules = [{"forbidden_pattern": pattern, "action": "rewrite"} for pattern in ("secret", "mine")]

    def nobody_says_of(step: ProposedStep, run: GuardedRun) -> Decision | None:
        del run
        wrong = step.kind == "message" and " of " in step.text
        return Decision(("rewrite",), "it says whose it is.", "of", "own") if wrong else None

    with blamespan.guard(policy(texts=rules), nobody_says_of) as guard:
        state = nodes(writer=writer, other=other).invoke(GIVEN)

    pattern = "the message says what a pattern forbids"
    assert texts(state) == ["Go.", "nothing", "nothing"]
    assert f"not passed on: {pattern}. Also: it says whose it is. It was: <<a secret of mine>>" in writer.sent[1]
    assert writer.sent[1].endswith("Answer again without any of that.")
    assert f"not passed on: {pattern}. It was: <<a secret>>. Answer again without that." in other.sent[1]
    assert guard.counts["rewrite"] == 4


def test_second_try_hears_what_was_wrong_with_the_first() -> None:
    """Reasons add up within a turn, each with the answer that it is about; the next turn begins without them."""
    writer, other = told("a secret", "a secret plan", "nothing"), told("read")
    with blamespan.guard(policy(texts=[{**SECRET, "action": "rewrite"}])):
        nodes(writer=writer, other=other).invoke(GIVEN)

    assert "It was: <<a secret>>" in writer.sent[2]
    assert "It was: <<a secret plan>>" in writer.sent[2]
    assert "<<" not in other.sent[0]


def test_node_without_a_model_is_guarded() -> None:
    """What it says that is blocked reaches nobody."""
    reader = told("read")
    graph = StateGraph(MessagesState)
    graph.add_node("plain", lambda _: {"messages": [AIMessage("a secret")]})
    graph.add_node("reader", lambda state: {"messages": [reader.invoke(state["messages"])]})
    graph.add_edge(START, "plain")
    graph.add_edge("plain", "reader")
    with blamespan.guard(policy(texts=[SECRET])):
        state = graph.compile().invoke(GIVEN)

    assert texts(state)[1].startswith("[A message of 'plain' was not passed on")
    assert "secret" not in reader.sent[0]


def test_command_goes_only_where_it_may() -> None:
    """A node that hands over to one that it must not address ends there; to one that it may, the graph goes on."""

    def first(_: Any) -> Command[Any]:
        return Command(goto="boss", update={"messages": [AIMessage("take it")]})

    graph = StateGraph(MessagesState)
    graph.add_node("first", first)
    graph.add_node("boss", lambda _: {"messages": [AIMessage("thanks")]})
    graph.add_edge(START, "first")
    program = graph.compile()
    with blamespan.guard(policy(agents={"first": {"recipients": ["clerk"]}})):
        refused = program.invoke(GIVEN)
    with blamespan.guard(policy(agents={"first": {"recipients": ["boss"]}})) as guard:
        passed = program.invoke(GIVEN)

    assert "thanks" not in texts(refused)
    assert "thanks" in texts(passed)
    assert not guard.counts


# --- ask


def paying(paid: list[int], **options: Any) -> Any:
    answers = [asks_for("pay", amount=900), "done", "done"]
    return create_agent(told(*answers), tools=[pay_tool(paid)], name="clerk", checkpointer=InMemorySaver(), **options)


@pytest.mark.parametrize(
    ("answer", "is_paid"),
    [
        ("yes", True),
        (True, True),
        ({"type": "approve"}, True),
        ({"decisions": [{"type": "approve"}]}, True),
        ("no", False),
        (False, False),
        ("yes, but only 5", False),
        ({"type": "reject"}, False),
        (["yes", "no"], False),
    ],
)
def test_graph_is_interrupted_and_goes_on_when_answered(paid: list[int], answer: Any, is_paid: bool) -> None:
    """The question is the interrupt's value; only a plain yes lets the tool be called, and then once."""
    agent, config = paying(paid), {"configurable": {"thread_id": "one"}}
    with blamespan.guard(policy(arguments=[QUESTION])):
        waiting = agent.invoke(GIVEN, config)
        before = list(paid)
        state = agent.invoke(Command(resume=answer), config)

    (asked,) = waiting["__interrupt__"]
    assert asked.value["question"].startswith("May 'clerk' go on: pay(")
    assert before == []
    assert paid == ([900] if is_paid else [])
    assert state["messages"][-1].text == "done"
    assert ("was not called" in state["messages"][-2].text) is not is_paid


def test_interrupt_that_nobody_answers_calls_nothing(paid: list[int]) -> None:
    """A graph that goes on without an answer asks again."""
    agent, config = paying(paid), {"configurable": {"thread_id": "one"}}
    with blamespan.guard(policy(arguments=[QUESTION])):
        first = agent.invoke(GIVEN, config)
        second = agent.invoke(None, config)

    assert first["__interrupt__"] == second["__interrupt__"]
    assert paid == []


async def test_tool_on_the_event_loop_is_asked_about(paid: list[int]) -> None:
    """Asking interrupts an async graph alike."""
    agent, config = paying(paid), {"configurable": {"thread_id": "one"}}
    with blamespan.guard(policy(arguments=[QUESTION])):
        await agent.ainvoke(GIVEN, config)
        await agent.ainvoke(Command(resume="yes"), config)

    assert paid == [900]


def test_where_nobody_can_be_asked_the_next_action_is_taken(paid: list[int]) -> None:
    """A tool outside every graph is not called: there is nobody who could allow it."""
    with blamespan.guard(policy(arguments=[QUESTION])) as guard:
        answer = pay_tool(paid).invoke({"amount": 900})

    assert "was not called" in answer
    assert paid == []
    assert guard.counts["ask"] == 1


# --- budgets


def test_no_call_goes_beyond_a_budget_in_branches_side_by_side() -> None:
    """Of many branches in threads as many ask their model as the budget says."""
    one = model(*["word"] * 20)
    graph = StateGraph(MessagesState)
    graph.add_node("start", lambda _: {"messages": [AIMessage("go")]})
    graph.add_node("worker", lambda _: {"messages": [one.invoke("work")]})
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda _: [Send("worker", {}) for _ in range(12)], ["worker"])
    with blamespan.guard(policy(budgets=[{"model_calls": 5}])) as guard:
        state = graph.compile().invoke(GIVEN)

    assert texts(state).count("word") == 5
    assert guard.counts == {"block": 7}


def test_run_that_is_resumed_keeps_its_budget(paid: list[int]) -> None:
    """What was spent before an interrupt counts after it."""
    agent, config = paying(paid), {"configurable": {"thread_id": "one"}}
    with blamespan.guard(policy(arguments=[QUESTION], budgets=[{"model_calls": 1}])):
        agent.invoke(GIVEN, config)
        state = agent.invoke(Command(resume="yes"), config)

    assert state["messages"][-1].text.startswith("[No model was asked: the budget for this run is used up")


# --- streams, recording, and that nothing else changes


class Streaming(ScriptedModel):
    """Streams word by word, and notes when."""

    seen: list[str] = Field(default_factory=list)

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\S+\s*", next(self.answers).text):
            self.seen.append(f"made {word.strip()}")
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


@pytest.mark.parametrize("action", ["observe", "rewrite"])
def test_streams_are_held_back_only_where_an_answer_may_be_another(action: str) -> None:
    """An observing guard lets pieces pass as they come; one that rewrites shows none that does not stand."""
    one = Streaming(answers=iter([AIMessage("a secret"), AIMessage("a plan")]))
    with blamespan.guard(policy(texts=[{**SECRET, "action": action}])):
        for chunk in one.stream("Go."):
            one.seen.append(f"seen {chunk.text.strip()}")

    as_it_comes = ["made a", "seen a", "made secret", "seen secret"]
    held_back = ["made a", "made secret", "made a", "made plan", "seen a", "seen plan"]
    expected = as_it_comes if action == "observe" else held_back
    assert one.seen[: len(expected)] == expected


@tool
def look(city: str) -> str:
    """Look."""
    return f"{city} is fine"


def test_decisions_stand_on_the_step_that_they_are_about() -> None:
    """Each decision is an event of the step's span; attributes say the strictest."""
    tables: dict[str, Any] = {
        "agents": {"solver": {"forbidden": ["divide"]}},
        "texts": [{"forbidden_pattern": "checked", "action": "warn"}],
    }
    with blamespan.guard(policy(**tables)), recording("langgraph") as recorder:
        calculator(asks_for("divide", a=1, b=2), "Done.").invoke(GIVEN)

    about = {
        (step.kind, step.agent): step.attributes[words.GUARD_ACTION]
        for step in rebuild(recorder.spans()).steps
        if words.GUARD_ACTION in step.attributes
    }
    events = [event for span in recorder.spans() for event in span.events if event.name == words.GUARD_EVENT]
    assert about == {("tool_call", "solver"): "block", ("message", "checker"): "warn"}
    assert len(events) == 2
