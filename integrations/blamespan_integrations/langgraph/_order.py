"""Which steps a node, or a graph within one, builds on.

LangGraph says which channel triggered a node, and what each node before it wrote: an edge is a channel that
its source writes and its target is triggered by. A packet (`Send`) is the object its sender made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from blamespan_integrations.langgraph._convert import Update, read_input
from blamespan_integrations.langgraph._frames import GraphFrame, NodeEnd, NodeFrame, list_parts
from blamespan_integrations.langgraph._memory import is_short
from blamespan_integrations.langgraph._messages import is_message, message_text
from blamespan_integrations.recording import StepRef

_PUSH = "__pregel_push"
ERROR_HANDLER = "__error_handler__"
"""How LangGraph names the node that handles another node's errors."""


def predecessors(
    graph: GraphFrame, node: str, superstep: int, metadata: Mapping[str, Any], inputs: Any
) -> list[StepRef]:
    """Find the steps that the execution of *node* builds on.

    Args:
        graph: The graph it belongs to.
        node: Its name there.
        superstep: Its superstep.
        metadata: LangGraph's `langgraph_*` metadata of the execution.
        inputs: What it is given; a `Send` packet is recognised by being the same object.
    """
    if graph.failed and node.startswith(ERROR_HANDLER) and node.removeprefix(ERROR_HANDLER) in graph.failed:
        return [graph.failed[node.removeprefix(ERROR_HANDLER)]]
    path = metadata.get("langgraph_path")
    chosen: Sequence[NodeEnd]
    if graph.has_tasks:
        chosen = _makers(graph, inputs)
    elif path and path[0] == _PUSH:
        chosen = _senders(graph.supersteps.get(superstep - 1, []), node, inputs)
    elif graph.edges is not None:
        triggers = metadata.get("langgraph_triggers") or ()
        chosen = [ended for trigger in triggers for ended in graph.edges.get(trigger, ())]
    else:
        chosen = graph.supersteps.get(superstep - 1, [])
    if len(chosen) == 1:
        return chosen[0].refs or list(graph.origin)
    refs = {ref.index: ref for ended in chosen for ref in ended.refs}
    return list(refs.values()) or list(graph.origin)


def _senders(before: Sequence[NodeEnd], node: str, inputs: Any) -> list[NodeEnd]:
    exact = [ended for ended in before if any(send.arg is inputs for send in ended.sends)]
    named = [ended for ended in before if any(send.node == node for send in ended.sends)]
    return exact or named or list(before)


def _makers(graph: GraphFrame, inputs: Any) -> Sequence[NodeEnd]:
    """Find the tasks whose results a task is given, by identity.

    Where it is given nothing that a task or the entrypoint's caller made, those that ended last before it began.
    """
    part_ids = {id(part) for part in list_parts(inputs)}
    makers = [maker for part in part_ids if (maker := graph.makers.get(part)) is not None]
    if makers or (graph.node is not None and any(id(part) in part_ids for part in list_parts(graph.node.input.raw))):
        return sorted(makers, key=lambda ended: ended.refs[0].index if ended.refs else 0)
    return graph.supersteps[max(graph.supersteps)] if graph.supersteps else []


def subgraph_predecessors(node: NodeFrame, inputs: Any) -> list[StepRef]:
    """Find the steps that a graph builds on which *node* calls with *inputs*.

    Those of the graphs it has called before whose answers the inputs hold, as they are or within a text. When these
    ended does not count: graphs that were asked at once know nothing of each other, whichever is the first.
    """
    parts = list_parts(inputs)
    part_ids = {id(part) for part in parts}
    text = "\n".join(_texts_of(parts))
    refs: dict[int, StepRef] = {}
    for member in list(node.members):
        if member.output is not None and _is_in(member.output, part_ids, text):
            refs.update((ref.index, ref) for ref in member.tail())
    return [refs[index] for index in sorted(refs)] or list(node.builds_on)


def last_steps(members: Sequence[GraphFrame], update: Update, output: Any) -> list[StepRef]:
    """List the steps that the graphs within a node ended with, for what the node says of its own to build on.

    Where it only hands on what one of them gave back, those of that one.
    """
    if not (update.messages or update.state):
        members = [member for member in members if member.output is not None and member.output is output] or members
    refs = {ref.index: ref for member in members for ref in member.tail()}
    return [refs[index] for index in sorted(refs)]


def _is_in(output: Any, part_ids: Collection[int], text: str) -> bool:
    answer = read_input(output)
    answers = answer.messages[-1:] or [value for value in answer.rest.values() if not is_short(value)]
    if any(id(part) in part_ids for value in answers for part in list_parts(value)):
        return True
    return any(len(answer_text) >= _TELLING and answer_text in text for answer_text in _texts_of(answers))


def _texts_of(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if is_message(value):
            yield message_text(value)
        elif isinstance(value, str):
            yield value


_TELLING = 4
"""Characters; a shorter answer stands in any text by chance."""
