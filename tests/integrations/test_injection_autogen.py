"""Faults injected into AutoGen teams, beyond what holds in every framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, SelectorGroupChat
from autogen_core.models import CreateResult, LLMMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan
from blamespan.injecting.injection import PlannedFault
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.faults import manipulator
from tests.integrations.autogen_runs import INFO, Echo, assistant, calls, trace_of
from tests.integrations.hosts import recording
from tests.integrations.injected_autogen import members
from tests.integrations.injection_laws import PLAN, REVIEW, TASK, faulty, run_team
from tests.tracer_model.lab.make.faults.test_manipulator import served


def run_recorded(team: Any, *, task: str = TASK) -> Any:
    """Run a team with AutoGen instrumented."""
    with recording("autogen") as recorder:
        asyncio.run(team.run(task=task))
    return trace_of(recorder)


def run_members() -> MessageActionTrace:
    return run_team("autogen")


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
    written = {faulty(run_members, "blamespan:X4", "tool", seed=seed)[1].applied[0].operator for seed in range(10)}

    assert written >= {"tool-error", "tool-timeout", "tool-empty", "tool-partial"}


def test_works_without_instrumentation() -> None:
    """What is said is faulty whether it is recorded or not; the label then has no span."""
    with blamespan.inject("aegis:FM-3.1", agent="planner") as injection:
        result = asyncio.run(RoundRobinGroupChat(members(), max_turns=1).run(task="Book"))

    (applied,) = injection.applied
    assert result.messages[-1].to_text() == applied.after  # type: ignore[union-attr]
    assert (applied.label()["span_id"], applied.step) == (None, None)


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
    with served({"say": answer}) as endpoint:
        monkeypatch.setenv("BLAMESPAN_MANIPULATOR_URL", endpoint.url)
        monkeypatch.setenv("BLAMESPAN_MANIPULATOR_MODEL", "small")
        monkeypatch.setattr(manipulator.time, "sleep", lambda _: None)  # between the attempts
        with blamespan.inject("aegis:FM-2.6", writer="model", agent="planner") as injection:
            trace = run_recorded(RoundRobinGroupChat(members(), max_turns=1))

    assert trace.steps[0].content == ("It is 84." if is_written else PLAN[0])
    assert is_written or injection.missed[0].reason == "the endpoint gave nothing to write: nonsense 3 times"
