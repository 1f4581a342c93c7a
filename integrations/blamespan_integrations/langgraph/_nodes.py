"""From the start of a node to its end: at most one step, whatever the node turns out to be.

When a node starts, callbacks do not say what it is. It gets a span at once, unless it was started to
execute tool calls or is a middleware's hook: those get one only when they do something else. A node in
which a graph starts is a team: its span goes on as that team's, and its members' messages are the steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand

from blamespan.messages import Message
from blamespan.trace import Agent, AgentRole
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._convert import (
    TOOL_ERROR,
    VALUE,
    Given,
    Update,
    answered_call,
    as_tool_message,
    given_of,
    handing_back,
    interrupt_text,
    open_calls,
    requested_calls,
    update_of,
    update_of_writes,
)
from blamespan_integrations.langgraph._messages import as_state, as_text, message_text, to_message
from blamespan_integrations.langgraph._names import agent_name, is_hook, prebuilt_owner
from blamespan_integrations.langgraph._order import predecessors
from blamespan_integrations.langgraph._places import Call, Ended, Graph, Node
from blamespan_integrations.langgraph._seen import is_short
from blamespan_integrations.recording import Recorder, StepRef

__all__ = ["Nodes"]


@dataclass(frozen=True, slots=True)
class Nodes:
    """Records nodes with *recorder*."""

    recorder: Recorder

    def begin(self, graph: Graph, name: str, superstep: int, inputs: Any, metadata: Mapping[str, Any]) -> Node:
        """Begin the execution of a node.

        Args:
            graph: Its graph.
            name: Its name there.
            superstep: Where it stands among the graph's nodes.
            inputs: What it is given.
            metadata: LangGraph's `langgraph_*` metadata of the execution.
        """
        agent, agent_id = agent_name(graph, name, metadata)
        memory_key = f"{agent}/{name}"
        given = graph.run.memory.given(memory_key, inputs)
        if not graph.run.has_state:
            _recall_history(graph, given)
        node = Node(
            run=graph.run,
            graph=graph,
            name=name,
            agent=agent,
            agent_id=agent_id,
            superstep=superstep,
            namespace=str(metadata.get("langgraph_checkpoint_ns") or ""),
            memory_key=memory_key,
            given=given,
            builds_on=predecessors(graph, name, superstep, metadata, inputs),
            attributes={},
            start_ns=time.time_ns(),
            calls=_calls(given, metadata),
            is_hook=is_hook(name),
        )
        node.attributes.update(_attributes(node, metadata))
        if not node.calls and not node.is_hook:
            self._start_span(node, start_ns=None)
        return node

    def give_span(self, node: Node) -> None:
        """Give *node* a span if it has none yet: it does what only an agent does."""
        if node.span is None:
            self._start_span(node, node.start_ns)

    def _start_span(self, node: Node, start_ns: int | None) -> None:
        run = node.run
        node.span = self.recorder.start_agent(
            node.agent,
            received=run.memory.news(node.memory_key, node.given, {ref.index for ref in node.builds_on}),
            builds_on=node.builds_on,
            agent_id=node.agent_id,
            conversation_id=run.thread_id,
            attributes=node.attributes,
            parent=node.graph.context,
            start_ns=start_ns,
        )

    def end(self, node: Node, output: Any) -> None:
        """End a node that has returned *output*."""
        update = _written(node, output)
        if node.team_span is not None:
            refs = self._end_team(node, _unsaid(node, update, output))
        elif node.span is None and _only_executed(node, update):
            refs = self._end_executor(node, update)
        elif node.span is None and node.is_hook and _says_nothing(update):
            refs = node.builds_on
        else:
            self.give_span(node)
            refs = [self._speak(node, update)]
        _leave(node, refs, update, output)

    def record_cached(
        self,
        graph: Graph,
        name: str,
        superstep: int,
        inputs: Any,
        metadata: Mapping[str, Any],
        writes: Sequence[tuple[str, Any]],
    ) -> None:
        """Record a node that did not run because a cache knew what it would write; arguments as for `begin`."""
        node = self.begin(graph, name, superstep, inputs, metadata)
        self.give_span(node)
        update = update_of_writes(writes)
        refs = [self._speak(node, update, {own_words.STEP_CACHED: True})]
        _leave(node, refs, update, update.state.get(VALUE))

    def fail(self, node: Node, error: BaseException) -> None:
        """End a node that has raised *error*; what LangGraph raises to steer a run is none."""
        if isinstance(error, ParentCommand) and error.args:
            self.end(node, error.args[0])
        elif isinstance(error, GraphBubbleUp):
            self._interrupt(node, error)
        elif isinstance(error, Exception):
            self._fail(node, error)
        else:
            self.cancel(node)

    def cancel(self, node: Node) -> None:
        """End a node that was stopped from outside."""
        if node.team_span is not None:
            node.team_span.end(is_complete=False)
        elif node.span is not None:
            _note_agent(node)
            node.span.end(attributes={own_words.STEP_CANCELLED: True})

    def _end_team(self, node: Node, update: Update) -> list[StepRef]:
        """End a node that was a team; what its members have not said is a message of its own."""
        assert node.team_span is not None
        refs = node.members[-1].tail() if node.members else []
        if update.messages or update.state:
            earlier, node.span = (
                node.span,
                self.recorder.start_agent(
                    node.agent,
                    builds_on=refs or node.builds_on,
                    agent_id=node.agent_id,
                    conversation_id=node.run.thread_id,
                    attributes=node.attributes,
                    parent=node.team_span.context,
                ),
            )
            node.span.usage = earlier.usage if earlier else None
            refs = [self._speak(node, update)]
        node.team_span.end()
        return refs or node.builds_on

    def _speak(
        self,
        node: Node,
        update: Update,
        attributes: Mapping[str, bool] | None = None,
        error: BaseException | None = None,
    ) -> StepRef:
        """End the node's span as a step that says *update*."""
        assert node.span is not None
        _note_agent(node)
        output = _spoken(update)
        ref = node.span.end(
            output=output,
            kind="handoff" if update.goto else "message",
            message_id=_message_id(update),
            recipients=_recipients(node, update),
            attributes=attributes,
            error=error,
        )
        node.run.memory.has_said(node.memory_key, update, ref.index)
        for message in update.messages:
            for call in requested_calls(message):
                if call.get("id"):
                    node.run.calls[call["id"]] = node.run.unanswered[call["id"]] = Call(node.agent, ref)
            if answer_to := answered_call(message):
                node.run.unanswered.pop(answer_to, None)
        if node.graph.is_inner:
            node.graph.said.update(map(message_text, update.messages))
            node.graph.said.update(map(as_text, update.state.values()))
        return ref

    def _end_executor(self, node: Node, update: Update) -> list[StepRef]:
        """End a node that only executed tools; a call it refused is a tool call too."""
        for message in update.messages:
            if message.tool_call_id not in node.answers:
                self._record_refused(node, message)
            node.run.unanswered.pop(message.tool_call_id, None)
            node.run.memory.is_said(message, node.answers[message.tool_call_id].index)
            node.graph.said.add(message_text(message))
        return list(node.answers.values()) or node.builds_on

    def _record_refused(self, node: Node, answer: ToolMessage) -> None:
        call, said_by = node.calls[answer.tool_call_id]
        agent, builds_on = requester(node, answer.tool_call_id, said_by)
        tool = self.recorder.start_tool(
            str(call.get("name") or answer.name or "unknown"),
            arguments=as_text(call.get("args")),
            call_id=answer.tool_call_id,
            agent=agent,
            builds_on=builds_on,
            parent=node.graph.context,
        )
        failed = TOOL_ERROR if answer.status == "error" else None
        text = as_text(answer.content)
        node.answers[answer.tool_call_id] = tool.end(result=text, error=failed)

    def _interrupt(self, node: Node, error: GraphBubbleUp) -> None:
        """End a node that waits for somebody; a team or an executor has asked through its members or tools."""
        node.run.is_interrupted = True
        is_breakpoint = isinstance(error, GraphInterrupt) and not (error.args and error.args[0])
        if is_breakpoint and node.team_span is None and node.span is not None:
            node.team_span = node.span.as_run(node.agent)  # a team that paused before its first member
        if node.team_span is not None:
            node.team_span.end(is_complete=False)
        elif node.span is not None or not node.answers:
            self.give_span(node)
            asked = interrupt_text(error) if isinstance(error, GraphInterrupt) else str(error)
            self._speak(node, Update(state={VALUE: asked}), {own_words.STEP_INTERRUPTED: True})

    def _fail(self, node: Node, error: Exception) -> None:
        """End a node that failed; where the failure is that of a member or tool, it is theirs."""
        known = node.run.has_seen(error)
        node.run.errors.append(error)
        if node.team_span is not None:
            node.team_span.end(error=error)
        elif node.span is not None or not (known and node.answers):
            self.give_span(node)
            node.graph.failed[node.name] = self._speak(node, Update(), error=error)


def _calls(given: Given, metadata: Mapping[str, Any]) -> Mapping[str, tuple[Mapping[str, Any], str | None]]:
    """Find the calls a node is to execute; a prebuilt agent's are asked for by that agent."""
    calls = open_calls(given)
    owner = prebuilt_owner(metadata) if calls else None
    return {call_id: (call, said_by or owner) for call_id, (call, said_by) in calls.items()} if owner else calls


def requester(node: Node, call_id: str | None, said_by: str | None) -> tuple[str, list[StepRef]]:
    """Find who asked for a tool call that *node* executes, and the step to build on.

    Where nobody of this run did (it was resumed, or given the request), the name on the message counts,
    else the node itself is listed as an executor.
    """
    call = node.run.calls.get(call_id or "")
    if call is not None:
        return call.agent, [call.step] if call.step is not None else node.builds_on
    name = said_by or node.agent
    node.run.agents.setdefault(name, Agent(name, "agent" if said_by else "executor"))
    return name, node.builds_on


def _attributes(node: Node, metadata: Mapping[str, Any]) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {}
    step = metadata.get("langgraph_step")
    path: Sequence[Any] = metadata.get("langgraph_path") or ()
    if isinstance(step, int):
        found[own_words.LANGGRAPH_STEP] = step
    if node.agent != node.name:
        found[own_words.LANGGRAPH_NODE] = node.name
    if len(path) > 1 and path[0] == "__pregel_push" and isinstance(path[1], int):
        found[own_words.LANGGRAPH_BRANCH] = path[1]
    if node.namespace:
        attempt = node.run.attempts[node.namespace] = node.run.attempts.get(node.namespace, 0) + 1
        if attempt > 1:
            found[own_words.STEP_ATTEMPT] = attempt
    return found


def _recall_history(graph: Graph, given: Given) -> None:
    """Tell what of the first state comes from earlier runs of the conversation: all but what the run was given."""
    run = graph.run
    if graph.is_inner:
        return
    run.has_state = True
    if run.thread_id is not None:
        run.memory.start_after(given.messages[: max(0, len(given.messages) - run.given)])


def _note_agent(node: Node) -> None:
    """List a node among the run's agents; a hook without a model executes what its author decided."""
    role: AgentRole = "executor" if node.is_hook and not node.uses_model else "agent"
    known = node.run.agents.get(node.agent)
    if known is None or known.role != role:
        node.run.agents[node.agent] = Agent(node.agent, role, node.agent_id)


def _written(node: Node, output: Any) -> Update:
    """Read what a node wrote, without what it only handed back of its own input."""
    if output is node.given.raw and as_state(output) is not None:
        return node.run.memory.mutations(node.memory_key, given_of(output))
    update = update_of(output)
    if node.calls:
        update.messages = [as_tool_message(message) for message in update.messages]
        if answers := handing_back(update.messages, node.calls):  # a handoff tool: the state goes along
            return replace(update, messages=answers, state={})
    update.messages = [message for message in update.messages if not _was_given(node, message)]
    if update.state:
        is_whole = (as_state(node.given.raw) or {}).keys() <= (as_state(output) or {}).keys()
        update.state = {
            key: value
            for key, value in update.state.items()
            if not _is_given(node.given.rest, key, value) or (is_short(value) and not is_whole)
        }
    return update


def _was_given(node: Node, message: Any) -> bool:
    if node.span is None and node.calls and answered_call(message) in node.calls:
        return False  # the answer to a call that was open
    return node.run.memory.was_given(None if node.span is None else node.memory_key, node.given, message)


def _is_given(state: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in state and state[key] is value and value is not None and not isinstance(value, (bool, int, float))


def _unsaid(node: Node, update: Update, output: Any) -> Update:
    """Leave what no member of a team has said yet."""
    if any(output is given for given in node.outputs):
        return Update(goto=update.goto, sends=update.sends)
    said = {text for member in node.members for text in member.said}
    given = [state for given in node.outputs if (state := as_state(given)) is not None]
    received = {message_text(message) for message in node.given.messages}
    return replace(
        update,
        messages=[m for m in update.messages if message_text(m) not in said and message_text(m) not in received],
        state={
            key: value
            for key, value in update.state.items()
            if as_text(value) not in said and not any(_equals(state.get(key), value) for state in given)
        },
    )


def _equals(one: Any, other: Any) -> bool:
    """Compare two values of a state by what they say: their own comparison may do anything."""
    return one is other or (one is not None and type(one) is type(other) and as_text(one) == as_text(other))


def _only_executed(node: Node, update: Update) -> bool:
    """Tell whether a node did nothing but answer the calls it was started for."""
    answers = [m for m in update.messages if isinstance(m, ToolMessage) and m.tool_call_id in node.calls]
    return len(answers) == len(update.messages) and bool(answers or node.answers)


def _says_nothing(update: Update) -> bool:
    """Tell whether an update says nothing to anybody: a hook's own bookkeeping, all of it empty."""
    empty = all(as_text(value) in ("", "null", "[]", "{}") for value in update.state.values())
    return empty and not update.messages and not update.goto


def _leave(node: Node, refs: Iterable[StepRef], update: Update, output: Any) -> None:
    made = output if node.graph.has_tasks else None
    node.graph.ended(node.superstep, Ended(node.task_id, list(refs), [*node.sends, *update.sends], made))


def _spoken(update: Update) -> list[Message]:
    found = [to_message(message) for message in update.messages]
    if update.state:
        found.append(Message.of_text("assistant", as_text(update.state.get(VALUE, update.state))))
    return found


def _message_id(update: Update) -> str | None:
    last = update.messages[-1] if update.messages else None
    found = getattr(last, "id", None)
    return found if isinstance(found, str) else None


def _recipients(node: Node, update: Update) -> list[str]:
    """Name those the message is sent to by name; a tool call sent to its executor has no recipient."""
    if not (update.goto or node.sends):
        return []
    sent = [send.node for send in node.sends if not open_calls(given_of(send.arg))]
    return list(dict.fromkeys([*update.goto, *sent]))
