"""Transcripts played by real frameworks: scripted models say what the transcript says, and the spans are read back.

A run that is read from a text has the steps that its author wrote. A run on the wire has those that a framework makes
and an integration records: handoffs, nodes without a model, messages that ask for calls. `play` runs a transcript as an
AutoGen team or a LangGraph graph and moves its labels to the steps of the recorded run.

`team:` of a transcript names the framework: `autogen round robin`, `autogen selector`, `autogen swarm`, `langgraph`.
Another team is played as an AutoGen selector, or by LangGraph where a turn ends with the answer of a
tool or a name is no identifier, which AutoGen refuses.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Annotated, Any, TypeAlias

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_core.tools import BaseTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, create_model

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.rerun.feedback.retrying import record_spans

_HANDOFF = "transfer_to_"
_MASK = re.compile(r"\[masked[a-z]*\]")
_INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=False)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a tool, what it answered, and whether that is an error."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    answer: str
    is_error: bool


_Reply: TypeAlias = str | list[_Call]
"""One answer of a model: words, or calls made at once."""
_Turn: TypeAlias = tuple[str, list[_Reply]]
"""An agent, and its answers before another one speaks."""


def play(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Run each transcript in its framework and return what was recorded, with the labels of the transcript.

    Raises:
        ConfigError: if a framework does not go through a transcript step by step.
    """
    with record_spans() as spans:
        played = []
        for run in runs:
            spans.clear()
            asyncio.run(_perform(run, _turns(run.trace)))
            played.append(_move_labels(run, spans.spans()))
    return played


def _turns(trace: MessageActionTrace) -> list[_Turn]:
    answers = {step.inputs[0]: step for step in trace.steps if _is_answer(step, trace)}
    turns: list[_Turn] = []
    for step in trace.steps:
        if _is_answer(step, trace):
            continue
        if not turns or turns[-1][0] != step.agent or isinstance(turns[-1][1][-1], str):
            turns.append((step.agent, []))
        replies = turns[-1][1]
        if step.kind != "tool_call":
            replies.append(step.content)
        elif replies and trace.steps[step.index - 1].kind == "tool_call" and isinstance(replies[-1], list):
            replies[-1].append(_read_call(step, answers.get(step.index)))
        else:
            replies.append([_read_call(step, answers.get(step.index))])
    return turns


def _is_answer(step: Step, trace: MessageActionTrace) -> bool:
    """Check whether a step answers a call; what an executor says is a turn of its own."""
    return step.kind == "tool_result" and bool(step.inputs) and trace.steps[step.inputs[0]].kind == "tool_call"


def _read_call(step: Step, answer: Step | None) -> _Call:
    tool, _, text = step.content.removesuffix(")").partition("(")
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        arguments = text
    if not isinstance(arguments, dict):
        arguments = {"input": arguments}
    content = answer.content if answer is not None else ""
    return _Call(f"call_{step.index}", tool, arguments, content, answer is not None and answer.error is not None)


async def _perform(run: RecordedRun, turns: Sequence[_Turn]) -> None:
    family = run.origin.family if run.origin is not None else ""
    needs_graph = any(isinstance(replies[-1], list) or not name.isidentifier() for name, replies in turns)
    if family.startswith("langgraph") or (needs_graph and not family.startswith("autogen")):
        await _perform_graph(run.trace, turns)
    else:
        await _perform_team(run.trace, turns, family)


class _Tools:
    """The tools that some calls name, each of which answers as the transcript does, one call after the other."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self.names = list(dict.fromkeys(call.tool for call in calls))
        self._answers = {name: deque(call for call in calls if call.tool == name) for name in self.names}
        self.arguments = {name: self._arguments(name) for name in self.names}

    def _arguments(self, name: str) -> type[BaseModel]:
        keys = dict.fromkeys(key for call in self._answers[name] for key in call.arguments)
        fields: dict[str, Any] = dict.fromkeys(keys, (Any, None))  # of any type, none required
        return create_model(f"{name}_arguments", **fields)

    def answer(self, name: str) -> str:
        call = self._answers[name].popleft()
        if call.is_error:
            raise RuntimeError(call.answer)
        return call.answer


async def _perform_team(trace: MessageActionTrace, turns: Sequence[_Turn], family: str) -> None:
    names = list(dict.fromkeys(name for name, _ in turns))
    last = turns[-1][1][-1]
    word = next((word for word in ("TERMINATE", "APPROVE") if isinstance(last, str) and word in last), None)
    options: dict[str, Any] = {"max_turns": len(turns)}
    options |= {"termination_condition": TextMentionTermination(word)} if word else {}
    members: list[Any] = [_make_member(name, trace, turns) for name in names]
    team: RoundRobinGroupChat | SelectorGroupChat | Swarm
    if family == "autogen swarm":
        team = Swarm(members, **options)
    elif family == "autogen round robin" or len(names) == 1:
        team = RoundRobinGroupChat(members, **options)
    else:
        selector = ReplayChatCompletionClient([name for name, _ in turns], model_info=_INFO)
        team = SelectorGroupChat(members, selector, allow_repeated_speaker=True, **options)
    await team.run(task=trace.task)


def _make_member(name: str, trace: MessageActionTrace, turns: Sequence[_Turn]) -> ChatAgent:
    replies = [reply for speaker, replies in turns if speaker == name for reply in replies]
    if any(agent.name == name and agent.role != "agent" for agent in trace.agents):
        return _AgentWithoutModel(name, replies)
    calls = [call for reply in replies if isinstance(reply, list) for call in reply]
    tools = _Tools([call for call in calls if not call.tool.startswith(_HANDOFF)])
    handoffs = dict.fromkeys(call.tool.removeprefix(_HANDOFF) for call in calls if call.tool.startswith(_HANDOFF))
    script = [reply if isinstance(reply, str) else _format_request(reply) for reply in replies]
    return AssistantAgent(
        name,
        ReplayChatCompletionClient(script, model_info=_INFO),
        tools=[_AutoGenTool(tools, tool) for tool in tools.names],
        handoffs=list(handoffs),
        description=name.replace("_", " "),
        system_message=f"You are {name.replace('_', ' ')}.",
        max_tool_iterations=max(len(replies) for _, replies in turns),
    )


def _format_request(calls: Sequence[_Call]) -> CreateResult:
    content = [FunctionCall(id=call.id, name=call.tool, arguments=json.dumps(call.arguments)) for call in calls]
    return CreateResult(finish_reason="function_calls", content=content, usage=RequestUsage(0, 0), cached=False)


class _AutoGenTool(BaseTool[Any, Any]):
    def __init__(self, tools: _Tools, name: str) -> None:
        super().__init__(tools.arguments[name], str, name, name.replace("_", " "))
        self._tools = tools

    async def run(self, args: Any, cancellation_token: CancellationToken) -> str:  # args: the model of its arguments
        return self._tools.answer(self.name)


class _AgentWithoutModel(BaseChatAgent):
    produced_message_types = (TextMessage,)

    def __init__(self, name: str, replies: Sequence[_Reply]) -> None:
        super().__init__(name, name.replace("_", " "))
        self._replies = iter(replies)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=TextMessage(content=str(next(self._replies)), source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Keep what is left to say."""


class _GraphState(MessagesState):
    notes: Annotated[list[str], add]


async def _perform_graph(trace: MessageActionTrace, turns: Sequence[_Turn]) -> None:
    script = [(name, reply) for name, replies in turns for reply in replies]
    names = list(dict.fromkeys(name for name, _ in turns))
    tools = _Tools([call for _, reply in script if isinstance(reply, list) for call in reply])
    position = 0

    async def route(state: _GraphState) -> str:
        nonlocal position
        position += 1
        return "tools" if isinstance(script[position - 1][1], list) else await route_on(state)

    async def route_on(state: _GraphState) -> str:
        return script[position][0] if position < len(script) else END

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(_GraphState)
    for name in names:
        replies = [reply for speaker, reply in script if speaker == name]
        has_model = not any(agent.name == name and agent.role != "agent" for agent in trace.agents)
        builder.add_node(name, _make_model_node(name, replies) if has_model else _make_plain_node(replies))
        builder.add_conditional_edges(name, route, [*names, END, *(["tools"] if tools.names else [])])
    if tools.names:
        builder.add_node("tools", ToolNode([_graph_tool(tools, name) for name in tools.names], handle_tool_errors=str))
        builder.add_conditional_edges("tools", route_on, [*names, END])
    builder.add_edge(START, names[0])
    state: Any = {"messages": [HumanMessage(trace.task)], "notes": []}
    await builder.compile(name="graph").ainvoke(state, {"recursion_limit": 10 + 4 * len(trace.steps)})


def _make_plain_node(replies: Sequence[_Reply]) -> Any:
    texts = iter(replies)

    async def note(state: _GraphState) -> dict[str, Any]:
        return {"notes": [next(texts)]}

    return note


def _make_model_node(name: str, replies: Sequence[_Reply]) -> Any:
    model = GenericFakeChatModel(messages=iter([_format_graph_reply(name, reply) for reply in replies]))

    async def speak(state: _GraphState) -> dict[str, Any]:
        prompt = "\n\n".join([f"You are {name.replace('_', ' ')}.", *state["notes"]])
        return {"messages": [await model.ainvoke([SystemMessage(prompt), *state["messages"]])]}

    return speak


def _format_graph_reply(name: str, reply: _Reply) -> AIMessage:
    if isinstance(reply, str):
        return AIMessage(reply, name=name)
    calls: list[Any] = [{"name": call.tool, "args": dict(call.arguments), "id": call.id} for call in reply]
    return AIMessage("", name=name, tool_calls=calls)


def _graph_tool(tools: _Tools, name: str) -> StructuredTool:
    async def run(**arguments: Any) -> str:
        return tools.answer(name)

    description = name.replace("_", " ")
    return StructuredTool(name=name, description=description, args_schema=tools.arguments[name], coroutine=run)


def _move_labels(run: RecordedRun, spans: Sequence[Span]) -> RecordedRun:
    """Rebuild the recorded run and move the transcript's labels to its steps."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    traces = [rebuild_run(part) for of_trace in by_trace.values() for part in split_runs(of_trace)]
    if not traces:
        raise ConfigError(f"{run.source}: expected a recorded run, got no spans. Play it in another framework")
    trace = replace(max(traces, key=lambda one: len(one.steps)), outcome=run.trace.outcome)
    places = _find_steps(run, trace)
    faults = run.faults and tuple(
        fault if fault.step is None else replace(fault, step=places[fault.step]) for fault in run.faults
    )
    return RecordedRun(run.source, trace, faults)


def _find_steps(run: RecordedRun, trace: MessageActionTrace) -> list[int]:
    """Find each step of the transcript in the recorded run, in order."""
    places: list[int] = []
    for step in run.trace.steps:
        rest = trace.steps[places[-1] + 1 :] if places else trace.steps
        is_answer = _is_answer(step, run.trace)
        place = next((other.index for other in rest if _is_same(step, other, is_answer=is_answer)), None)
        if place is None:
            raise ConfigError(
                f"{run.source}: expected step {step.index} by {step.agent!r} in the recorded run, got "
                f"{[f'{other.agent}: {other.kind}' for other in rest]}. Write it as its framework says it"
            )
        places.append(place)
    return places


def _is_same(step: Step, other: Step, *, is_answer: bool) -> bool:
    """Check whether a step of the transcript and one of the recorded run are the same, however a framework words it."""
    if step.kind == "tool_call":
        kinds = ("tool_call", "handoff")
        return other.kind in kinds and other.agent == step.agent and step.content.partition("(")[0] in other.content
    if is_answer:
        return other.kind in ("tool_result", "handoff") and _holds(other.content, step.content)
    return other.agent == step.agent and _holds(other.content, step.content)


def _holds(recorded_text: str, text: str) -> bool:
    """Check whether what was recorded holds *text*, which may be wrapped in JSON, or have its addresses masked."""
    whole, part = ("".join(re.sub(r"\\[nt]?", "", one).split()) for one in (recorded_text, text))
    unmasked = _MASK.split(whole)
    return part in whole or (len(unmasked) > 1 and bool(re.fullmatch(".*?".join(map(re.escape, unmasked)), part)))
