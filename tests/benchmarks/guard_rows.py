"""The rows of the guard's table: forbidden tools, and time."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import CreateResult, LLMMessage, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import Field
from tests.integrations.autogen_runs import INFO
from tests.integrations.guard_ways import AUTOGEN_WAYS, FORBIDDEN, LANGGRAPH_WAYS, PYTHON_CODES, SHELL_CODES, code
from tests.integrations.langgraph_programs import ScriptedModel

import blamespan
from blamespan.guarding.guard import Guard
from blamespan.guarding.policy import Policy, parse_policy

FrameworkName = Literal["autogen", "langgraph"]
FRAMEWORKS: tuple[FrameworkName, ...] = ("autogen", "langgraph")


def hush_frameworks() -> None:
    """Keep the frameworks quiet about what is done to them here."""
    for name in ("autogen_core", "langgraph", "asyncio", "blamespan_lab.make.simulation", "blamespan"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")


# --- ways to a forbidden tool


@dataclass(frozen=True, slots=True)
class WayTries:
    """Tries of one way to a forbidden tool.

    Attributes:
        framework: Which.
        way: Its name.
        tries: How often it was tried.
        through: How often the tool was called.
        leads: Whether it leads to the tool without a guard: else it proves nothing.
    """

    framework: str
    way: str
    tries: int
    through: int
    leads: bool


def try_ways(tries: int) -> Iterator[WayTries]:
    """Try every way of both frameworks, *tries* in all, each from other seeds."""
    ways = [("autogen", way) for way in AUTOGEN_WAYS] + [("langgraph", way) for way in LANGGRAPH_WAYS]
    policy = parse_policy({"agents": {"clerk": {"forbidden": [FORBIDDEN]}}})
    for number, (framework, way) in enumerate(ways):
        share = tries // len(ways) + (number < tries % len(ways))
        share = max(share, len(PYTHON_CODES) + len(SHELL_CODES)) if way is code else share  # each piece once
        free: list[Any] = []
        way(0, free)
        sent: list[Any] = []
        through = 0
        with blamespan.guard(policy):
            for seed in range(share):
                sent.clear()
                way(seed, sent)
                through += bool(sent)
        yield WayTries(framework, way.__name__, share, through, bool(free))


# --- time

RULES: dict[str, Any] = {
    "agents": {"*": {"forbidden": ["*"], "recipients": [], "action": "observe"}},
    "arguments": [{"tool": "*", "max_chars": 0, "action": "observe"}],
    "texts": [{"forbidden_pattern": ".", "action": "observe"}],
    "budgets": [{"calls": 1, "action": "observe"}],
}
"""A policy that finds something wrong with every step by rules alone, and only observes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a guard adds to the messages of a run, in seconds.

    Attributes:
        framework: Which.
        policy: Name of the policy.
        steps: Length of the run.
        added: For each message what it takes longer than without a guard: the medians of all rounds, compared.
        cpu: The same in CPU time, which what else the machine does leaves alone.
        rounds: How often the run was repeated, with a guard and without.
    """

    framework: str
    policy: str
    steps: int
    added: tuple[float, ...]
    cpu: tuple[float, ...]
    rounds: int


def time_messages(
    framework: FrameworkName, steps: int, policies: Mapping[str, Policy], rounds: int
) -> Iterator[Timing]:
    """Time the messages of a run of *steps*, with each policy and without, in turns."""
    run = _chat if framework == "autogen" else _loop
    for policy in policies.values():
        with Guard([policy]):
            run(min(steps, 20), [])  # what is imported late is imported now
    plain: list[list[_Stamp]] = []
    guarded: dict[str, list[list[_Stamp]]] = {name: [] for name in policies}
    for _ in range(rounds):
        plain.append(_time(run, steps, nullcontext()))
        for name, policy in policies.items():
            guarded[name].append(_time(run, steps, Guard([policy])))
    for name, found in guarded.items():
        wall, cpu = (
            tuple(a - b for a, b in zip(_medians(found, clock), _medians(plain, clock), strict=True))
            for clock in (0, 1)
        )
        yield Timing(framework, name, steps, wall, cpu, rounds)


_Stamp = tuple[float, float]
"""Seconds by the clock and of the CPU."""


def _medians(rounds: Sequence[Sequence[_Stamp]], clock: int) -> list[float]:
    return [sorted(one[clock] for one in times)[len(times) // 2] for times in zip(*rounds, strict=True)]


def _time(run: Callable[[int, list[_Stamp]], None], steps: int, around: AbstractContextManager[Any]) -> list[_Stamp]:
    stamps: list[_Stamp] = []
    gc.collect()
    with around:
        run(steps, stamps)
        stamps.append(_stamp())
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(stamps)]


def _stamp() -> _Stamp:
    return time.perf_counter(), time.process_time()


_QUESTION = "How many crates were shipped in 52 weeks?"
_CITIES = ("Leeds", "Porto", "Ghent", "Turin", "Bergen", "Graz", "Lyon", "Cadiz")


def _report(number: int) -> str:
    """Write a message of about 1 KB with eleven numbers: some of others' messages, some new."""
    city, sold, kept = _CITIES[number % 8], 100 + 7 * number, 40 + 3 * (number // 2)
    return " ".join(
        (
            f"This is report {number}, and it goes on from what was said about the depots so far.",
            f"In week {number} the depot in {city} shipped {sold} crates and kept {kept}, which makes {sold + kept}.",
            "Nothing was broken on the way, as far as the people who unloaded the lorries could tell in the evening.",
            f"The depot in {_CITIES[(number + 3) % 8]} had said that it would need {sold - 7} of them by the weekend.",
            "Whether that can be done depends on the drivers, who have to be asked first, and on the roads.",
            f"Of the crates that were kept, {kept - 3} stand in the yard under a roof, and others wait at the gate.",
            "I would rather not promise anything before somebody has counted them again and has told us the result.",
            f"If it helps, the plan of week {max(number - 1, 0)} can stay as it is, with {sold + 12} crates at most.",
            "Please look at the figures once more and say what is missing, so that the next depot may go on with them.",
            "There is no hurry, but the office would like to have an answer in the morning, before the lorries leave.",
        )
    )


def _answer(texts: Sequence[str], stamps: list[_Stamp]) -> str:
    """Answer to a conversation, and note when; who is asked again by the guard answers the same."""
    is_asked_again = texts[-1].startswith("Your last answer is not passed on")
    if not is_asked_again:
        stamps.append(_stamp())
    return _report(len(texts) - is_asked_again)


class _StampingClient(ReplayChatCompletionClient):
    def __init__(self, stamps: list[_Stamp]) -> None:
        super().__init__([], model_info=INFO)
        self._stamps = stamps

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        del options
        text = _answer([str(message.content) for message in messages], self._stamps)
        return CreateResult(finish_reason="stop", content=text, usage=RequestUsage(1, 1), cached=False)


def _chat(steps: int, stamps: list[_Stamp]) -> None:
    members: list[Any] = [AssistantAgent(name, _StampingClient(stamps)) for name in ("ada", "bob")]
    asyncio.run(RoundRobinGroupChat(members, max_turns=steps).run(task=_QUESTION))


class _StampingModel(ScriptedModel):
    stamps: list[_Stamp] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = _answer([message.text for message in messages], self.stamps)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def _loop(steps: int, stamps: list[_Stamp]) -> None:
    one = _StampingModel(answers=iter(()))
    one.stamps = stamps  # pydantic copies a list that it is given
    graph = StateGraph(MessagesState)
    for name, other in (("ada", "bob"), ("bob", "ada")):
        graph.add_node(name, lambda state: {"messages": [one.invoke(state["messages"])]})
        graph.add_conditional_edges(
            name, lambda state, other=other: END if len(state["messages"]) > steps else other, [other, END]
        )
    graph.add_edge(START, "ada")
    graph.compile().invoke({"messages": [HumanMessage(_QUESTION)]}, {"recursion_limit": steps + 10})
