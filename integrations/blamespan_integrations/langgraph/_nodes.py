"""From the start of a node to its end: at most one step, whatever the node turns out to be.

When a node starts, callbacks do not say what it is. It gets a span at once, unless it was started to
execute tool calls or is a middleware's hook: those get one only when they do something else. A node in
which a graph starts is a team: its span goes on as that team's, and its members' messages are the steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand

from blamespan import conventions as words
from blamespan.trace import Agent, AgentRole
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._convert import (
    TOOL_ERROR,
    VALUE,
    Given,
    Update,
    answered_call,
    given_of,
    interrupt_value,
    open_calls,
    requested_calls,
    update_of_writes,
)
from blamespan_integrations.langgraph._messages import (
    as_text,
    message_id,
    message_text,
    state_message,
    to_message,
    value_message,
)
from blamespan_integrations.langgraph._names import part_of, prebuilt_owner
from blamespan_integrations.langgraph._order import predecessors, tails
from blamespan_integrations.langgraph._own_words import unsaid_by, written_by
from blamespan_integrations.langgraph._places import Call, Ended, Graph, Node
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
        part = part_of(graph, name, metadata)
        given = given_of(inputs, part.seen.are_messages)
        if not graph.run.has_state:
            _recall_history(graph, given)
        node = Node(
            run=graph.run,
            graph=graph,
            name=name,
            agent=part.agent,
            agent_id=part.agent_id,
            superstep=superstep,
            namespace=str(metadata.get("langgraph_checkpoint_ns") or ""),
            seen=part.seen,
            given=given,
            builds_on=predecessors(graph, name, superstep, metadata, inputs),
            attributes={},
            start_ns=time.time_ns(),
            calls=_calls(given, metadata),
            is_hook=part.is_hook,
        )
        if graph.has_tasks:
            graph.build_on(node.builds_on)
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
        lost: list[str] = []
        known = {ref.index for ref in node.builds_on}
        node.span = self.recorder.start_agent(
            node.agent,
            received=run.memory.news(node.seen, node.given, known, lost.append),
            builds_on=node.builds_on,
            agent_id=node.agent_id,
            conversation_id=run.thread_id,
            attributes=node.attributes,
            parent=node.graph.context,
            start_ns=start_ns,
        )
        for what in lost:
            node.span.losing(words.INPUT_MESSAGES)(what)

    def end(self, node: Node, output: Any) -> None:
        """End a node that has returned *output*."""
        update = written_by(node, output)
        if node.team_span is not None:
            refs = self._end_team(node, unsaid_by(node, update, output), output)
        elif node.span is None and _only_executed(node, update):
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

    def _end_team(self, node: Node, update: Update, output: Any) -> list[StepRef]:
        """End a node that was a team; what its members have not said is a message of its own."""
        assert node.team_span is not None
        refs = tails(node.members, update, output)
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
        output = [to_message(message) for message in update.messages]
        if update.state:
            lost = node.span.losing(words.OUTPUT_MESSAGES)
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
        node.run.memory.has_said(node.seen, update, ref.index)
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
        failed = TOOL_ERROR if answer.status == "error" and not node.is_hook else None  # a hook's: a person's refusal
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
            asked = interrupt_value(error) if isinstance(error, GraphInterrupt) else str(error)
            self._speak(node, Update(state={VALUE: asked}), {own_words.STEP_INTERRUPTED: True})

    def _fail(self, node: Node, error: Exception) -> None:
        """End a node that failed; where the failure is that of a member or tool, it is theirs."""
        known = node.run.has_seen(error)
        if node.graph.is_inner or isinstance(error, TimeoutError):
            node.run.remember(error)
        else:
            node.run.forget(error)
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


def _only_executed(node: Node, update: Update) -> bool:
    """Return whether a node did nothing but answer the calls it was started for."""
    answers = [m for m in update.messages if isinstance(m, ToolMessage) and m.tool_call_id in node.calls]
    return len(answers) == len(update.messages) and bool(answers or node.answers)


def _says_nothing(update: Update) -> bool:
    """Return whether an update says nothing to anybody: a hook's own bookkeeping, all of it empty."""
    empty = all(as_text(value) in ("", "null", "[]", "{}") for value in update.state.values())
    return empty and not update.messages and not update.goto


def _leave(node: Node, refs: Iterable[StepRef], update: Update, output: Any) -> None:
    made = output if node.graph.has_tasks else None
    node.graph.ended(node.superstep, Ended(node.task_id, list(refs), [*node.sends, *update.sends], made))


def _recipients(node: Node, update: Update) -> list[str]:
    """Name those the message is sent to by name; a tool call sent to its executor has no recipient."""
    sent = [send.node for send in node.sends if not open_calls(given_of(send.arg))]
    return list(dict.fromkeys([*update.goto, *sent]))
