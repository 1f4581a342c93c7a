"""Faults injected into AutoGen teams: every kind shows in a rebuilt trace, and nothing in it says so."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, SelectorGroupChat
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import BaseTool
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan
from blamespan.injecting.injection import PlannedFault
from blamespan.intercepting.boundaries import Mechanism
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import INFO, Echo, assistant, calls, trace_of
from tests.integrations.injection_laws import check_is_shown, drawn, every_fault, faulty, words_of
from tests.tracer_model.lab.make.faults.test_manipulator import served

PLAN = (
    "We need 48 rooms in Paris for 2 nights. The budget must be at least 300 euros. The hotel is not far, before June.",
    "So it is 48 rooms and not 50, as the clerk in Paris told us. DONE",
    "We stay with 48 rooms.",
)
WORK = ("Paris has 120 rooms, we take 48.", "Rome has 90 rooms, so 48 is valid and correct.", "Still 48.")
REVIEW = ("I checked it: 48 is right. APPROVED", "I checked it again: 48 is right. APPROVED", "48. APPROVED")


class Quoting(ReplayChatCompletionClient):
    """Says what it is told to, and after that everything that it was sent: so what it was sent shows."""

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        result = await super().create(messages, **options)
        if not isinstance(result.content, str):
            return result
        told = " / ".join(str(message.content) for message in messages)
        return result.model_copy(update={"content": f"{result.content} <- {told}"})


def look(city: str, nights: int) -> str:
    """Look up a city's rooms."""
    return f"{city} has {120 if city == 'Paris' else 90} rooms\nfor {nights} nights\nin all hotels"


def count(city: str, nights: int) -> str:
    """Count a city's rooms."""
    return f"{city}: {nights}"


def members(quoting: bool = False) -> list[AssistantAgent]:
    """Make a planner, a worker with tools and a reviewer, each with three things to say."""
    make = Quoting if quoting else ReplayChatCompletionClient

    def member(name: str, *answers: str | CreateResult, **options: Any) -> AssistantAgent:
        client = make(list(answers), model_info=INFO)
        told = f"You are the {name}. You must check each number. Only 2 nights in Paris."
        return AssistantAgent(name, client, description=f"the {name}", system_message=told, **options)

    first, second = (calls(("look", {"city": city, "nights": 2})) for city in ("Paris", "Rome"))
    options = {"tools": [look, count], "reflect_on_tool_use": True}
    worker = member("worker", first, WORK[0], second, WORK[1], WORK[2], **options)
    return [member("planner", *PLAN), worker, member("reviewer", *REVIEW)]


def run_recorded(team: Any, *, task: str = "Book 48 rooms in Paris", recorder: SpanRecorder | None = None) -> Any:
    """Run a team with AutoGen instrumented."""
    recorder = recorder or SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        asyncio.run(team.run(task=task))
    finally:
        AutoGenInstrumentor().uninstrument()
    return trace_of(recorder)


def run_members(quoting: bool = False) -> MessageActionTrace:
    """Run the three in turn, two rounds of them."""
    trace: MessageActionTrace = run_recorded(RoundRobinGroupChat(members(quoting), max_turns=6))
    return trace


@pytest.mark.filterwarnings("ignore::UserWarning")  # AutoGen's, where a model has asked for no tool there is
@pytest.mark.parametrize(("kind", "mechanism"), every_fault())
def test_every_kind_shows_in_a_rebuilt_trace(kind: str, mechanism: Mechanism) -> None:
    """Whatever the fault, its step is where the label says, and the trace is another one than without it."""
    quoting = mechanism in ("prompt", "memory")
    clean = run_members(quoting)

    trace, injection = faulty(lambda: run_members(quoting), kind, mechanism)

    assert injection.missed == []
    for applied in injection.applied:
        check_is_shown(clean, trace, applied)


@pytest.mark.parametrize("kind", ["aegis:FM-3.2", "blamespan:X4", "blamespan:X2", "mas-fire:message-cycle"])
def test_order_of_activation_does_not_matter(kind: str) -> None:
    """Recording first or injecting first: the spans show the faulty text."""
    inside, _ = faulty(run_members, kind, blamespan_mechanism(kind), seed=4)
    recorder = SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        with blamespan.inject(kind, seed=4):
            asyncio.run(RoundRobinGroupChat(members(), max_turns=6).run(task="Book 48 rooms in Paris"))
    finally:
        AutoGenInstrumentor().uninstrument()

    assert drawn(trace_of(recorder)) == drawn(inside)


def blamespan_mechanism(kind: str) -> Mechanism:
    from blamespan_lab.make.faults.catalogue import KINDS

    return KINDS[kind].mechanisms[0]


@pytest.mark.parametrize(("kind", "operator"), [("blamespan:X4", "tool-timeout"), ("aegis:FM-3.2", None)])
def test_spans_say_nothing_of_the_injection(kind: str, operator: str | None) -> None:
    """Apart from the faulty content no word is in the spans that is not in a clean run's; stacks show no hook."""
    clean, recorder = SpanRecorder(), SpanRecorder()
    run_recorded(RoundRobinGroupChat(members(), max_turns=6), recorder=clean)
    with blamespan.inject(kind, operator=operator) as injection:
        run_recorded(RoundRobinGroupChat(members(), max_turns=6), recorder=recorder)

    (applied,) = injection.applied
    new = words_of(recorder.spans()) - words_of(clean.spans())
    if operator is None:
        assert {word for word in new if word not in applied.after} == set()
    assert {word for word in new if word not in applied.after and not _is_of_an_error(word)} == set()


def _is_of_an_error(word: str) -> bool:
    """Tell whether a word is what any exception brings: AutoGen's own stack, never a file of ours."""
    return not re.search("inject|fault|splice|boundar|hook", word, re.IGNORECASE) and word not in ("offer", "asking")


def test_same_seed_same_fault() -> None:
    """Two runs with one seed say the same; another seed says something else somewhere."""
    first, second = (faulty(run_members, "aegis:FM-3.2", "response", seed=5)[0] for _ in range(2))
    others = {drawn(faulty(run_members, "aegis:FM-3.2", "response", seed=seed)[0]) for seed in range(8)}

    assert drawn(first) == drawn(second)
    assert len(others) > 1


def test_labels_are_one_line_for_each_fault(tmp_path: Path) -> None:
    """The file says where, what and how; a second injection adds to it."""
    labels = tmp_path / "labels.jsonl"
    for _ in range(2):
        with blamespan.inject("aegis:FM-3.2", agent="reviewer", step=3, seed=7, labels=labels):
            trace = run_members()

    first, second = map(json.loads, labels.read_text(encoding="utf-8").splitlines())
    assert list(first) == [
        *("trace_id", "span_id", "step", "agent", "decision", "kind", "mechanism", "operator"),
        *("modes", "before", "after", "seed"),
    ]
    assert (first["kind"], first["modes"], first["seed"]) == ("aegis:FM-3.2", ["aegis:FM-3.2", "mast:FM-3.2"], 7)
    assert trace.steps[second["step"]].content == second["after"]
    assert trace.steps[second["step"]].span_id == second["span_id"]
    assert (trace.trace_id, second["before"], second["decision"]) == (second["trace_id"], REVIEW[0], 3)


@pytest.mark.parametrize(
    ("operator", "is_called"), [("tool-error", False), ("tool-timeout", False), ("tool-empty", True)]
)
def test_tool_that_fails_is_not_called(operator: str, is_called: bool) -> None:
    """A call that fails has no effect on the world; one whose answer is wrong was made."""
    asked: list[str] = []

    def book(city: str) -> str:
        """Book rooms."""
        asked.append(city)
        return "booked, thank you"

    client = ReplayChatCompletionClient([calls(("book", {"city": "Paris"})), "done"], model_info=INFO)
    team = RoundRobinGroupChat([AssistantAgent("clerk", client, tools=[book], reflect_on_tool_use=True)], max_turns=1)
    with blamespan.inject("blamespan:X4", operator=operator) as injection:
        trace = run_recorded(team)

    (applied,) = injection.applied
    assert applied.operator == operator
    assert asked == (["Paris"] if is_called else [])
    assert [step.kind for step in trace.steps][-2:] == ["tool_result", "message"]


def test_every_way_a_tool_can_fail_has_its_turn() -> None:
    """Failures are not preferred because they come before the answer: which is written is drawn among all."""
    written = {faulty(run_members, "blamespan:X4", "tool", seed=seed)[1].applied[0].operator for seed in range(16)}

    assert written >= {"tool-error", "tool-timeout", "tool-empty", "tool-partial"}


def test_works_without_instrumentation() -> None:
    """What is said is faulty whether it is recorded or not; the label then has no span."""
    with blamespan.inject("aegis:FM-3.1", agent="planner") as injection:
        result = asyncio.run(RoundRobinGroupChat(members(), max_turns=1).run(task="Book"))

    (applied,) = injection.applied
    assert result.messages[-1].to_text() == applied.after  # type: ignore[union-attr]
    assert (applied.label()["span_id"], applied.step) == (None, None)


def test_originals_are_back_after_the_block() -> None:
    """Leaving the last block restores every method, in whatever order recording came and went."""

    def methods() -> list[Any]:
        owners = (
            ReplayChatCompletionClient,
            AssistantAgent,
            RoundRobinGroupChat.__mro__[1],
            BaseTool,
            ChatCompletionClient,
        )
        names = ("create", "create_stream", "on_messages", "on_messages_stream", "run_stream", "run")
        watched = [vars(owner).get("__init_subclass__") for owner in (ChatAgent, Team, *owners)]
        return [*watched, *(vars(owner).get(name) for owner in owners for name in names)]

    before = methods()
    with blamespan.inject("aegis:FM-3.2"):
        inside = methods()
        with blamespan.inject("aegis:FM-3.1"):
            pass
        assert methods() == inside
    assert methods() == before != inside

    AutoGenInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    with blamespan.inject("aegis:FM-3.2"):
        AutoGenInstrumentor().uninstrument()
    assert methods() == before

    with blamespan.inject("aegis:FM-3.2"):
        AutoGenInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    AutoGenInstrumentor().uninstrument()
    assert methods() == before


def test_blocks_hold_only_for_what_they_call() -> None:
    """Of two teams that run at once, only the one within the block errs."""

    async def both() -> tuple[str, str]:
        async def run(inject: bool) -> str:
            team = RoundRobinGroupChat([assistant("planner", PLAN[0])], max_turns=1)
            if not inject:
                return (await team.run(task="Book")).messages[-1].to_text()  # type: ignore[union-attr]
            with blamespan.inject("aegis:FM-3.1"):
                await asyncio.sleep(0.01)
                return (await team.run(task="Book")).messages[-1].to_text()  # type: ignore[union-attr]

        errs, works = await asyncio.gather(run(True), run(False))
        return errs, works

    errs, works = asyncio.run(both())
    assert works == PLAN[0] != errs


def test_nested_blocks_all_hold_and_several_faults_go_into_one_run() -> None:
    """Two faults of one block and one of an inner block are all written."""
    with blamespan.inject("aegis:FM-3.2", PlannedFault("blamespan:X4", tool="look"), agent="reviewer") as outer:  # noqa: SIM117
        with blamespan.inject("aegis:FM-2.4", agent="planner", seed=2) as inner:
            run_members()

    assert [one.kind for one in outer.applied] == ["blamespan:X4", "aegis:FM-3.2"]
    assert [one.agent for one in inner.applied] == ["planner"]


def test_probability_draws_at_each_place() -> None:
    """At probability 1 every answer errs, at 0 none."""
    with (
        blamespan.inject("aegis:FM-3.1", probability=1) as always,
        blamespan.inject("aegis:FM-3.2", probability=0) as no,
    ):
        run_members()

    assert len(always.applied) == 6
    assert "never reached probability=0" in no.missed[0].reason


def test_streams_are_rewritten_as_a_whole() -> None:
    """A stream's chunks add up to the faulty text that ends it."""

    async def chunks() -> list[str]:
        agent = AssistantAgent(
            "planner", ReplayChatCompletionClient([PLAN[0]], model_info=INFO), model_client_stream=True
        )
        found = [item async for item in agent.run_stream(task="Book")]
        return [item.content for item in found if type(item).__name__ == "ModelClientStreamingChunkEvent"]  # type: ignore[union-attr]

    with blamespan.inject("aegis:FM-3.1") as injection:
        told = asyncio.run(chunks())

    assert "".join(told) == injection.applied[0].after


def test_agent_without_a_model_can_err() -> None:
    """What an agent of the program's own says is rewritten where it is said."""
    with blamespan.inject("aegis:FM-3.1") as injection:
        trace = run_recorded(RoundRobinGroupChat([Echo()], max_turns=1), task="Is it 48?")

    assert [step.content for step in trace.steps] == [injection.applied[0].after]


def test_classes_defined_in_the_block_are_reached() -> None:
    """A client that is written, or imported, only after the block began is hooked too."""
    with blamespan.inject("aegis:FM-3.1") as injection:

        class Late(ReplayChatCompletionClient):
            async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
                return await super().create(messages, **options)

            async def create_stream(self, *args: Any, **options: Any) -> AsyncGenerator[str | CreateResult, None]:
                async for item in super().create_stream(*args, **options):
                    yield item

        agent = AssistantAgent("planner", Late(["It is 48."], model_info=INFO))
        asyncio.run(agent.run(task="How many?"))

    assert len(injection.applied) == 1


@pytest.mark.parametrize("kind", ["blamespan:X6", "mas-fire:message-cycle", "mas-fire:broadcast-amplification"])
def test_routing_faults_do_not_break_other_teams(kind: str) -> None:
    """A selector and a graph go on, wherever messages are sent."""
    for make in (_selector, _graph):
        with blamespan.inject(kind, probability=0.5, seed=3) as injection:
            trace = run_recorded(make())

        assert trace.steps
        assert all(step.error is None for step in trace.steps)
        assert injection.applied or injection.missed


def _selector() -> Any:
    pick = ReplayChatCompletionClient(["worker", "planner", "worker", "planner"], model_info=INFO)
    several = [assistant(name, *["It is 48."] * 9) for name in ("planner", "worker", "reviewer")]
    return SelectorGroupChat(several, pick, termination_condition=MaxMessageTermination(5))


def _graph() -> Any:
    several = [assistant(name, *["It is 48."] * 9) for name in ("planner", "worker", "reviewer")]
    builder = DiGraphBuilder()
    for one in several:
        builder.add_node(one)
    builder.add_edge(several[0], several[1]).add_edge(several[1], several[2])
    return GraphFlow(several, builder.build(), termination_condition=MaxMessageTermination(8))


@pytest.mark.parametrize(("answer", "is_written"), [('{"text": "It is 84."}', True), ("I would rather not", False)])
def test_model_behind_an_endpoint_writes_the_fault(
    monkeypatch: pytest.MonkeyPatch, answer: str, is_written: bool
) -> None:
    """With the model as writer the text is its own; where it gives none the run goes on, and `missed` says why."""
    with served(answer) as endpoint:
        monkeypatch.setenv("BLAMESPAN_MANIPULATOR_URL", endpoint.url)
        monkeypatch.setenv("BLAMESPAN_MANIPULATOR_MODEL", "small")
        with blamespan.inject("aegis:FM-2.6", writer="model", agent="planner") as injection:
            trace = run_recorded(RoundRobinGroupChat(members(), max_turns=1))

    assert trace.steps[0].content == ("It is 84." if is_written else PLAN[0])
    assert is_written or injection.missed[0].reason == "the endpoint gave nothing to write: nonsense 3 times"
