"""Transcripts played by real frameworks: scripted models say what the transcript says, and the spans are read back.

A run that is read from a text has the steps that its author wrote. A run on the wire has those that a framework makes
and an integration records: handoffs, nodes without a model, results of tools under the framework's own wording. `play`
runs a transcript as an AutoGen team or a LangGraph graph and moves its labels to the steps of the recorded run.

`team:` of a transcript names the framework: `autogen round robin`, `autogen selector`, `autogen swarm`, `langgraph`.
Another team is played as an AutoGen selector, or by LangGraph where a turn ends with the answer of a tool.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import Annotated, Any, TypeAlias

try:
    from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
    from autogen_agentchat.base import ChatAgent, Response, TerminationCondition
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
except ImportError as error:
    raise ImportError("playing transcripts needs AutoGen and LangGraph: pip install 'blamespan[demo]'") from error

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.feedback.retrying import recorded

__all__ = ["play"]

_HANDOFF = "transfer_to_"
_END_WORDS = ("TERMINATE", "APPROVE")
_INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=False)
_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a tool: its name, its arguments, what it answered, and whether that is an error."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    answer: str
    is_error: bool

    @property
    def key(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True)}"


_Reply: TypeAlias = str | list[_Call]
"""One answer of a model: words, or calls made at once."""


@dataclass(slots=True)
class _Turn:
    """What an agent does before another one speaks."""

    agent: str
    replies: list[_Reply] = field(default_factory=list)


def play(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Run each transcript in its framework and return what was recorded, with the labels of the transcript.

    Raises:
        ConfigError: if a framework does not go through a transcript step by step.
    """
    with recorded() as spans:
        played = []
        for run in runs:
            turns = list(_turns(run.trace))
            asyncio.run(_perform(run, turns))
            played.append(_labelled(run, spans.taken()))
    return played


def _turns(trace: MessageActionTrace) -> Iterator[_Turn]:
    answers = {step.inputs[0]: step for step in trace.steps if _is_answer(step, trace)}
    turn: _Turn | None = None
    previous: Step | None = None
    for step in trace.steps:
        if _is_answer(step, trace):
            previous = step
            continue
        if turn is None or turn.agent != step.agent or isinstance(turn.replies[-1], str):
            if turn is not None:
                yield turn
            turn = _Turn(step.agent)
            previous = None
        if step.kind != "tool_call":
            turn.replies.append(step.content)
        else:
            call = _read_call(step, answers.get(step.index))
            if previous is not None and previous.kind == "tool_call" and isinstance(turn.replies[-1], list):
                turn.replies[-1].append(call)
            else:
                turn.replies.append([call])
        previous = step
    if turn is not None:
        yield turn


def _is_answer(step: Step, trace: MessageActionTrace) -> bool:
    """Check whether a step answers a call; what an executor says is a turn of its own."""
    return step.kind == "tool_result" and bool(step.inputs) and trace.steps[step.inputs[0]].kind == "tool_call"


def _read_call(step: Step, answer: Step | None) -> _Call:
    tool, _, rest = step.content.partition("(")
    text = rest.removesuffix(")")
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
    ends_with_tool = any(isinstance(turn.replies[-1], list) for turn in turns)
    if family.startswith("langgraph") or (not family.startswith("autogen") and ends_with_tool):
        await _perform_graph(run.trace, turns)
    else:
        await _perform_team(run.trace, turns, family)


async def _perform_team(trace: MessageActionTrace, turns: Sequence[_Turn], family: str) -> None:
    names = list(dict.fromkeys(turn.agent for turn in turns))
    last = turns[-1].replies[-1]
    word = next((word for word in _END_WORDS if isinstance(last, str) and word in last), None)
    end: TerminationCondition | None = TextMentionTermination(word) if word else None
    members: list[Any] = [_member(name, trace, turns) for name in names]
    team: RoundRobinGroupChat | SelectorGroupChat | Swarm
    if family == "autogen swarm":
        team = Swarm(members, termination_condition=end, max_turns=len(turns))
    elif family == "autogen round robin" or len(names) == 1:
        team = RoundRobinGroupChat(members, termination_condition=end, max_turns=len(turns))
    else:
        selector = _client([turn.agent for turn in turns])
        team = SelectorGroupChat(
            members, selector, termination_condition=end, max_turns=len(turns), allow_repeated_speaker=True
        )
    await team.run(task=trace.task)


def _member(name: str, trace: MessageActionTrace, turns: Sequence[_Turn]) -> ChatAgent:
    replies = [reply for turn in turns if turn.agent == name for reply in turn.replies]
    role = {agent.name: agent.role for agent in trace.agents}.get(name, "agent")
    if role == "user":
        words = iter([reply for reply in replies if isinstance(reply, str)])
        return UserProxyAgent(name, input_func=lambda prompt: next(words))
    if role == "executor":
        return _ScriptedAgent(name, [reply for reply in replies if isinstance(reply, str)])
    calls = [call for reply in replies if isinstance(reply, list) for call in reply]
    script = _Script(calls)
    tools: list[BaseTool[Any, Any]] = [
        _AutoGenTool(tool, script)
        for tool in dict.fromkeys(call.tool for call in calls)
        if not tool.startswith(_HANDOFF)
    ]
    return AssistantAgent(
        name,
        _client([reply if isinstance(reply, str) else _request(reply) for reply in replies]),
        tools=tools,
        handoffs=list(
            dict.fromkeys(call.tool.removeprefix(_HANDOFF) for call in calls if call.tool.startswith(_HANDOFF))
        ),
        description=name.replace("_", " "),
        system_message=f"You are {name.replace('_', ' ')}.",
        max_tool_iterations=max(len(turn.replies) for turn in turns),
    )


def _client(replies: Sequence[str | CreateResult]) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(list(replies), model_info=_INFO)


def _request(calls: Sequence[_Call]) -> CreateResult:
    content = [FunctionCall(id=call.id, name=call.tool, arguments=json.dumps(call.arguments)) for call in calls]
    return CreateResult(finish_reason="function_calls", content=content, usage=_USAGE, cached=False)


class _Script:
    """Answers of tools, each to its own call, equal calls in their order."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._calls: dict[str, deque[_Call]] = defaultdict(deque)
        self._keys: dict[str, list[str]] = defaultdict(list)
        for call in calls:
            self._calls[call.key].append(call)
            self._keys[call.tool] += [key for key in call.arguments if key not in self._keys[call.tool]]

    def model(self, tool: str) -> type[BaseModel]:
        """Return the type of a tool's arguments: those of all its calls, none required."""
        fields: dict[str, Any] = dict.fromkeys(self._keys[tool], (Any, None))
        return create_model(f"{tool}_arguments", **fields)

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what the tool answered, or raise it if that was an error."""
        call = self._calls[f"{tool} {json.dumps(arguments, sort_keys=True)}"].popleft()
        if call.is_error:
            raise RuntimeError(call.answer)
        return call.answer


class _AutoGenTool(BaseTool[Any, Any]):
    def __init__(self, tool: str, script: _Script) -> None:
        super().__init__(script.model(tool), str, tool, tool.replace("_", " "))
        self._script = script

    async def run(self, args: Any, cancellation_token: CancellationToken) -> str:  # args: the model of its arguments
        """Answer as the transcript does."""
        return self._script.answer(self.name, args.model_dump(exclude_unset=True))


class _ScriptedAgent(BaseChatAgent):
    """A participant without a model."""

    def __init__(self, name: str, replies: Sequence[str]) -> None:
        super().__init__(name, name.replace("_", " "))
        self._replies = iter(replies)

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """Only texts."""
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        """Say what is next."""
        return Response(chat_message=TextMessage(content=next(self._replies), source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing is kept."""


class _GraphState(MessagesState):
    notes: Annotated[list[str], add]


async def _perform_graph(trace: MessageActionTrace, turns: Sequence[_Turn]) -> None:
    calls = [call for turn in turns for reply in turn.replies if isinstance(reply, list) for call in reply]
    script = _Script(calls)
    names = list(dict.fromkeys(turn.agent for turn in turns))
    executors = {agent.name for agent in trace.agents if agent.role == "executor"}
    replies = [(turn.agent, reply) for turn in turns for reply in turn.replies]
    position = 0

    async def route(state: _GraphState) -> str:
        nonlocal position
        position += 1
        if isinstance(replies[position - 1][1], list):
            return "tools"
        return replies[position][0] if position < len(replies) else END

    async def after_tools(state: _GraphState) -> str:
        return replies[position][0] if position < len(replies) else END

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(_GraphState)
    for name in names:
        own = [reply for agent, reply in replies if agent == name]
        builder.add_node(name, _note_node(own) if name in executors else _model_node(name, own))
        builder.add_conditional_edges(name, route, ["tools", *names, END] if calls else [*names, END])
    if calls:
        tools = [_graph_tool(tool, script) for tool in dict.fromkeys(call.tool for call in calls)]
        builder.add_node("tools", ToolNode(tools, handle_tool_errors=str))
        builder.add_conditional_edges("tools", after_tools, [*names, END])
    builder.add_edge(START, names[0])
    graph = builder.compile(name="graph")
    state: Any = {"messages": [HumanMessage(trace.task)], "notes": []}
    await graph.ainvoke(state, {"recursion_limit": 10 + 4 * len(trace.steps)})


def _note_node(replies: Sequence[_Reply]) -> Any:
    texts = iter(replies)

    async def note(state: _GraphState) -> dict[str, Any]:
        return {"notes": [next(texts)]}

    return note


def _model_node(name: str, replies: Sequence[_Reply]) -> Any:
    model = GenericFakeChatModel(messages=iter([_graph_reply(name, reply) for reply in replies]))

    async def speak(state: _GraphState) -> dict[str, Any]:
        prompt = [f"You are {name.replace('_', ' ')}.", *state["notes"]]
        return {"messages": [await model.ainvoke([SystemMessage("\n\n".join(prompt)), *state["messages"]])]}

    return speak


def _graph_reply(name: str, reply: _Reply) -> AIMessage:
    if isinstance(reply, str):
        return AIMessage(reply, name=name)
    calls: list[Any] = [{"name": call.tool, "args": dict(call.arguments), "id": call.id} for call in reply]
    return AIMessage("", name=name, tool_calls=calls)


def _graph_tool(tool: str, script: _Script) -> StructuredTool:
    async def run(**arguments: Any) -> str:
        return script.answer(tool, arguments)

    return StructuredTool(name=tool, description=tool.replace("_", " "), args_schema=script.model(tool), coroutine=run)


def _labelled(run: RecordedRun, spans: Sequence[Span]) -> RecordedRun:
    """Rebuild the recorded run and move the transcript's labels to its steps."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    traces = [rebuild_run(part) for of_trace in by_trace.values() for part in split_runs(of_trace)]
    if not traces:
        raise ConfigError(f"{run.source}: expected a recorded run, got no spans. Play it in another framework")
    trace = replace(max(traces, key=lambda one: len(one.steps)), outcome=run.trace.outcome)
    places = _places(run, trace)
    faults = run.faults and tuple(
        fault if fault.step is None else replace(fault, step=places[fault.step]) for fault in run.faults
    )
    origin = run.origin and replace(
        run.origin,
        twin="",
        decisive=None if run.origin.decisive is None else places[run.origin.decisive],
        carried_by=tuple(places[step] for step in run.origin.carried_by),
    )
    return RecordedRun(run.source, trace, faults, origin)


def _places(run: RecordedRun, trace: MessageActionTrace) -> list[int]:
    """Find each step of the transcript in the recorded run, in order."""
    places: list[int] = []
    start = 0
    for step in run.trace.steps:
        place = next(
            (
                other.index
                for other in trace.steps[start:]
                if _is_same(step, other, is_answer=_is_answer(step, run.trace))
            ),
            None,
        )
        if place is None:
            others = [f"{other.agent}: {other.kind}" for other in trace.steps[start:]]
            raise ConfigError(
                f"{run.source}: expected step {step.index} by {step.agent!r} in the recorded run, got {others} from step "
                f"{start} on. Write it as its framework says it"
            )
        places.append(place)
        start = place + 1
    return places


def _is_same(step: Step, other: Step, *, is_answer: bool) -> bool:
    """Check whether a step of the transcript and one of the recorded run are the same, however a framework words it."""
    if is_answer:
        return other.kind in ("tool_result", "handoff")
    if step.agent != other.agent:
        return False
    if step.kind == "tool_call":
        return other.kind in ("tool_call", "handoff") and step.content.partition("(")[0] in other.content
    return _letters(step.content) in _letters(other.content)


def _letters(text: str) -> str:
    """Leave out white space and JSON's escapes."""
    return "".join(text.replace("\\n", "").replace("\\", "").split())
