"""Which steps a node builds on.

LangGraph says which channel triggered a node, and what each node before it wrote: an edge is a channel that
its source writes and its target is triggered by. A packet (`Send`) is the object its sender made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blamespan_integrations.langgraph._places import Ended, Graph, parts_of
from blamespan_integrations.recording import StepRef

__all__ = ["ERROR_HANDLER", "predecessors"]

_PUSH = "__pregel_push"
ERROR_HANDLER = "__error_handler__"
"""How LangGraph names the node that handles another node's errors."""


def predecessors(graph: Graph, node: str, superstep: int, metadata: Mapping[str, Any], inputs: Any) -> list[StepRef]:
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
    chosen: Sequence[Ended]
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


def _senders(before: Sequence[Ended], node: str, inputs: Any) -> list[Ended]:
    exact = [ended for ended in before if any(send.arg is inputs for send in ended.sends)]
    named = [ended for ended in before if any(send.node == node for send in ended.sends)]
    return exact or named or list(before)


def _makers(graph: Graph, inputs: Any) -> Sequence[Ended]:
    """Find the tasks whose results a task is given, by identity.

    Where it is given nothing that a task or the entrypoint's caller made, those that ended last before it began.
    """
    given = {id(part) for part in parts_of(inputs)}
    makers = [maker for part in given if (maker := graph.makers.get(part)) is not None]
    if makers or (graph.node is not None and any(id(part) in given for part in parts_of(graph.node.given.raw))):
        return sorted(makers, key=lambda ended: ended.refs[0].index if ended.refs else 0)
    return graph.supersteps[max(graph.supersteps)] if graph.supersteps else []
