"""From the start of a node to its end: at most one step, whatever the node turns out to be.

When a node starts, callbacks do not say what it is. It gets a span at once, unless it was started to
execute tool calls or is a middleware's hook: those get one only when they do something else. A node in
which a graph starts is a team: its span goes on as that team's, and its members' messages are the steps.

What a node says is its own update: neither what it was given, nor what the members of a team have said.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command

from blamespan import conventions as words
from blamespan.trace import Agent, AgentRole
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._convert import (
    TOOL_ERROR,
    VALUE,
    NodeInput,
    Update,
    answered_call,
    as_tool_message,
    find_handed_back,
    interrupt_value,
    open_calls,
    read_input,
    read_update,
    read_writes,
    requested_calls,
)
from blamespan_integrations.langgraph._frames import GraphFrame, NodeEnd, NodeFrame, OpenToolCall
from blamespan_integrations.langgraph._memory import is_short
from blamespan_integrations.langgraph._messages import (
    as_state,
    as_text,
    message_id,
    message_text,
    state_message,
    to_message,
    value_message,
)
from blamespan_integrations.langgraph._names import identify, prebuilt_owner
from blamespan_integrations.langgraph._order import last_steps, predecessors
from blamespan_integrations.recording import Recorder, StepRef


@dataclass(frozen=True, slots=True)
class NodeRecorder:
    """Records nodes with *recorder*."""

    recorder: Recorder

    def begin(
        self, graph: GraphFrame, name: str, superstep: int, inputs: Any, metadata: Mapping[str, Any]
    ) -> NodeFrame:
        """Begin the execution of a node.

        Args:
            graph: Its graph.
            name: Its name there.
            superstep: Where it stands among the graph's nodes.
            inputs: What it is given.
            metadata: LangGraph's `langgraph_*` metadata of the execution.
        """
        identity = identify(graph, name, metadata)
        node_input = read_input(inputs, identity.memory.are_messages)
        if not graph.run.has_state:
            _recall_history(graph, node_input)
        node = NodeFrame(
            run=graph.run,
            graph=graph,
            name=name,
            agent=identity.agent,
            agent_id=identity.agent_id,
            superstep=superstep,
            namespace=str(metadata.get("langgraph_checkpoint_ns") or ""),
            memory=identity.memory,
            input=node_input,
            builds_on=predecessors(graph, name, superstep, metadata, inputs),
            attributes={},
            start_ns=time.time_ns(),
            calls=_calls(node_input, metadata),
            is_hook=identity.is_hook,
        )
        if graph.has_tasks:
            graph.build_on(node.builds_on)
        node.attributes.update(_attributes(node, metadata))
        if not node.calls and not node.is_hook:
            self._start_span(node, start_ns=None)
        return node

    def give_span(self, node: NodeFrame) -> None:
        """Start a span for *node* if it has none yet: it does what only an agent does."""
        if node.span is None:
            self._start_span(node, node.start_ns)

    def _start_span(self, node: NodeFrame, start_ns: int | None) -> None:
        run = node.run
        lost: list[str] = []
        predecessor_indices = {ref.index for ref in node.builds_on}
        node.span = self.recorder.start_agent(
            node.agent,
            received=run.memory.select_new(node.memory, node.input, predecessor_indices, lost.append),
            builds_on=node.builds_on,
            agent_id=node.agent_id,
            conversation_id=run.thread_id,
            attributes=node.attributes,
            parent=node.graph.context,
            start_ns=start_ns,
        )
        for what in lost:
            node.span.loss_recorder(words.INPUT_MESSAGES)(what)

    def end(self, node: NodeFrame, output: Any) -> None:
        """End a node that has returned *output*."""
        update = read_own_update(node, output)
        if node.team_span is not None:
            refs = self._end_team(node, without_said(node, update, output), output)
        elif node.span is None and _is_executor(node, update):
            refs = self._end_executor(node, update)
        elif node.span is None and node.is_hook and _says_nothing(update):
            refs = node.builds_on
        else:
            if node.span is None:
                self.give_span(node)
            refs = [self._speak(node, update)]
        _leave(node, refs, update, output)

    def record_cached(
        self,
        graph: GraphFrame,
        name: str,
        superstep: int,
        inputs: Any,
        metadata: Mapping[str, Any],
        writes: Sequence[tuple[str, Any]],
    ) -> None:
        """Record a node that did not run because a cache knew what it would write; arguments as for `begin`."""
        node = self.begin(graph, name, superstep, inputs, metadata)
        self.give_span(node)
        update = read_writes(writes)
        refs = [self._speak(node, update, {own_words.STEP_CACHED: True})]
        _leave(node, refs, update, update.state.get(VALUE))

    def fail(self, node: NodeFrame, error: BaseException) -> None:
        """End a node that has raised *error*; what LangGraph raises to steer a run is none."""
        if isinstance(error, ParentCommand) and error.args:
            self.end(node, error.args[0])
        elif isinstance(error, GraphBubbleUp):
            self._interrupt(node, error)
        elif isinstance(error, Exception):
            self._fail(node, error)
        else:
            self.cancel(node)

    def cancel(self, node: NodeFrame) -> None:
        """End a node that was stopped from outside."""
        if node.team_span is not None:
            node.team_span.end(is_complete=False)
        elif node.span is not None:
            _note_agent(node)
            node.span.end(attributes={own_words.STEP_CANCELLED: True})

    def _end_team(self, node: NodeFrame, update: Update, output: Any) -> list[StepRef]:
        """End a node that was a team; what its members have not said is a message of its own."""
        assert node.team_span is not None
        refs = last_steps(node.members, update, output)
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
        node: NodeFrame,
        update: Update,
        attributes: Mapping[str, bool] | None = None,
        error: BaseException | None = None,
    ) -> StepRef:
        """End the node's span as a step that says *update*."""
        assert node.span is not None
        _note_agent(node)
        output = [to_message(message) for message in update.messages]
        if update.state:
            lost = node.span.loss_recorder(words.OUTPUT_MESSAGES)
            if VALUE in update.state:
                output.append(value_message("assistant", update.state[VALUE], lost))
            else:
                output.append(state_message("assistant", update.state, lost))
        ref = node.span.end(
            output=output,
            kind="handoff" if update.goto else "message",
            message_id=message_id(update.messages[-1]) if update.messages else None,
            recipients=_recipients(node, update) if update.goto or node.sends else (),
            attributes=attributes,
            error=error,
        )
        node.run.memory.note_update(node.memory, update, ref.index)
        for message in update.messages:
            for call in requested_calls(message):
                if call.get("id"):
                    node.run.calls[call["id"]] = node.run.unanswered[call["id"]] = OpenToolCall(node.agent, ref)
            if answer_to := answered_call(message):
                node.run.unanswered.pop(answer_to, None)
        if node.graph.is_inner:
            node.graph.member_texts.update(map(message_text, update.messages))
            node.graph.member_texts.update(map(as_text, update.state.values()))
        return ref

    def _end_executor(self, node: NodeFrame, update: Update) -> list[StepRef]:
        """End a node that only executed tools; a call it refused is a tool call too."""
        for message in update.messages:
            if message.tool_call_id not in node.answers:
                self._record_refusal(node, message)
            node.run.unanswered.pop(message.tool_call_id, None)
            node.run.memory.note_message(message, node.answers[message.tool_call_id].index)
            node.graph.member_texts.add(message_text(message))
        return list(node.answers.values()) or node.builds_on

    def _record_refusal(self, node: NodeFrame, answer: ToolMessage) -> None:
        call, requested_by = node.calls[answer.tool_call_id]
        agent, builds_on = requester(node, answer.tool_call_id, requested_by)
        tool = self.recorder.start_tool(
            str(call.get("name") or answer.name or "unknown"),
            arguments=as_text(call.get("args")),
            call_id=answer.tool_call_id,
            agent=agent,
            builds_on=builds_on,
            parent=node.graph.context,
        )
        failed = TOOL_ERROR if answer.status == "error" and not node.is_hook else None  # a hook's: a person's refusal
        text = as_text(answer.content)
        node.answers[answer.tool_call_id] = tool.end(result=text, error=failed)

    def _interrupt(self, node: NodeFrame, error: GraphBubbleUp) -> None:
        """End a node that waits for somebody; a team or an executor has asked through its members or tools."""
        node.run.is_interrupted = True
        is_breakpoint = isinstance(error, GraphInterrupt) and not (error.args and error.args[0])
        if is_breakpoint and node.team_span is None and node.span is not None:
            node.team_span = node.span.as_run(node.agent)  # a team that paused before its first member
        if node.team_span is not None:
            node.team_span.end(is_complete=False)
        elif node.span is not None or not node.answers:
            self.give_span(node)
            asked = interrupt_value(error) if isinstance(error, GraphInterrupt) else str(error)
            self._speak(node, Update(state={VALUE: asked}), {own_words.STEP_INTERRUPTED: True})

    def _fail(self, node: NodeFrame, error: Exception) -> None:
        """End a node that failed; where the failure is that of a member or tool, it is theirs."""
        is_recorded = node.run.has_seen(error)
        if node.graph.is_inner or isinstance(error, TimeoutError):
            node.run.remember(error)
        else:
            node.run.forget(error)
        if node.team_span is not None:
            node.team_span.end(error=error)
        elif node.span is not None or not (is_recorded and node.answers):
            self.give_span(node)
            node.graph.failed[node.name] = self._speak(node, Update(), error=error)


def _calls(node_input: NodeInput, metadata: Mapping[str, Any]) -> Mapping[str, tuple[Mapping[str, Any], str | None]]:
    """Find the calls a node is to execute; a prebuilt agent's are asked for by that agent."""
    calls = open_calls(node_input)
    owner = prebuilt_owner(metadata) if calls else None
    return (
        {call_id: (call, requested_by or owner) for call_id, (call, requested_by) in calls.items()} if owner else calls
    )


def requester(node: NodeFrame, call_id: str | None, requested_by: str | None) -> tuple[str, list[StepRef]]:
    """Find who asked for a tool call that *node* executes, and the step to build on.

    Where nobody of this run did (it was resumed, or given the request), the name on the message counts,
    else the node itself is listed as an executor.
    """
    call = node.run.calls.get(call_id or "")
    if call is not None:
        return call.agent, [call.step] if call.step is not None else node.builds_on
    name = requested_by or node.agent
    node.run.agents.setdefault(name, Agent(name, "agent" if requested_by else "executor"))
    return name, node.builds_on


def _attributes(node: NodeFrame, metadata: Mapping[str, Any]) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {}
    step = metadata.get("langgraph_step")
    path: Sequence[Any] = metadata.get("langgraph_path") or ()
    if isinstance(step, int):
        attributes[own_words.LANGGRAPH_STEP] = step
    if node.agent != node.name:
        attributes[own_words.LANGGRAPH_NODE] = node.name
    if len(path) > 1 and path[0] == "__pregel_push" and isinstance(path[1], int):
        attributes[own_words.LANGGRAPH_BRANCH] = path[1]
    if node.namespace:
        attempt = node.run.attempts[node.namespace] = node.run.attempts.get(node.namespace, 0) + 1
        if attempt > 1:
            attributes[own_words.STEP_ATTEMPT] = attempt
    return attributes


def _recall_history(graph: GraphFrame, node_input: NodeInput) -> None:
    """Note what of the first state comes from earlier runs of the conversation: all but what the run was given."""
    run = graph.run
    if graph.is_inner:
        return
    run.has_state = True
    if run.thread_id is not None:
        run.memory.start_after(node_input.messages[: max(0, len(node_input.messages) - run.n_given_messages)])


def _note_agent(node: NodeFrame) -> None:
    """List a node among the run's agents; a hook without a model executes what its author decided."""
    if node.uses_model:
        node.run.uses_model.add(node.agent)
    role: AgentRole = "executor" if node.is_hook and not node.uses_model else "agent"
    listed = node.run.agents.get(node.agent)
    if listed is None or listed.role != role:
        node.run.agents[node.agent] = Agent(node.agent, role, node.agent_id)


def _is_executor(node: NodeFrame, update: Update) -> bool:
    """Return whether a node did nothing but answer the calls it was started for."""
    answers = [m for m in update.messages if isinstance(m, ToolMessage) and m.tool_call_id in node.calls]
    return len(answers) == len(update.messages) and bool(answers or node.answers)


def _says_nothing(update: Update) -> bool:
    """Return whether an update says nothing to anybody: a hook's own bookkeeping, all of it empty."""
    empty = all(as_text(value) in ("", "null", "[]", "{}") for value in update.state.values())
    return empty and not update.messages and not update.goto


def _leave(node: NodeFrame, refs: Iterable[StepRef], update: Update, output: Any) -> None:
    result = output if node.graph.has_tasks else None
    node.graph.note_end(node.superstep, NodeEnd(node.task_id, list(refs), [*node.sends, *update.sends], result))


def _recipients(node: NodeFrame, update: Update) -> list[str]:
    """Name those the message is sent to by name; a tool call sent to its executor has no recipient."""
    sent = [send.node for send in node.sends if not open_calls(read_input(send.arg))]
    return list(dict.fromkeys([*update.goto, *sent]))


_STRUCTURED = "structured_response"


def read_own_update(node: NodeFrame, output: Any) -> Update:
    """Read what a node wrote, without what it only handed back of its own input."""
    if output is node.input.raw and as_state(output) is not None:
        return node.run.memory.mutations(node.memory, read_input(output))
    update = read_update(output)
    if node.calls:
        update.messages = [as_tool_message(message) for message in update.messages]
        if answers := find_handed_back(update.messages, node.calls):  # a handoff tool: the state goes along
            return replace(update, messages=answers, state={})
    if any(id(message) in node.memory.ids for message in update.messages) or node.span is None:
        update.messages = [message for message in update.messages if not _is_from_input(node, message)]
    if update.messages and node.graph.definition.is_prebuilt:
        update.state.pop(_STRUCTURED, None)  # what one of the messages says, read
    if update.state:
        is_whole = (as_state(node.input.raw) or {}).keys() <= (as_state(output) or {}).keys()
        update.state = {
            key: value
            for key, value in update.state.items()
            if not _is_unchanged(node.input.rest, key, value) or (is_short(value) and not is_whole)
        }
    return update


def _is_from_input(node: NodeFrame, message: Any) -> bool:
    if node.span is None and node.calls and answered_call(message) in node.calls:
        return False  # the answer to a call that was open
    return (node.span is None or id(message) in node.memory.ids) and node.input.holds(message)


def _is_unchanged(state: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in state and state[key] is value and value is not None and not isinstance(value, (bool, int, float))


def without_said(node: NodeFrame, update: Update, output: Any) -> Update:
    """Leave what no member of a team has said yet."""
    outputs = [member.output for member in node.members if member.output is not None]
    if any(output is returned for returned in outputs):
        return Update(goto=update.goto, sends=update.sends)
    texts = {text for member in node.members for text in member.member_texts}
    states = [state for returned in outputs if (state := as_state(returned)) is not None]
    received = {message_id(message) or message_text(message) for message in node.input.messages}
    named = update.goto if isinstance(output, Command) else ()  # a member's tool has said who is next
    return replace(
        update,
        messages=[
            message
            for message in update.messages
            if message_text(message) not in texts
            and message_id(message) not in received
            and message_text(message) not in received
        ],
        state={
            key: value
            for key, value in update.state.items()
            if as_text(value) not in texts
            and not (isinstance(value, str) and value in named)
            and not any(_equals(state.get(key), value) for state in states)
        },
    )


def _equals(value: Any, other: Any) -> bool:
    """Compare two values of a state by what they say: their own comparison may do anything."""
    return value is other or (value is not None and type(value) is type(other) and as_text(value) == as_text(other))
