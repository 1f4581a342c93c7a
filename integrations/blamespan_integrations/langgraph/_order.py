"""Which steps a node builds on, as far as callbacks tell.

LangGraph says which channel triggered a node, not who wrote it. Conditional edges, `Command` and `Send`
name their targets; fixed edges do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blamespan_integrations.langgraph._places import Ended, Graph
from blamespan_integrations.recording import StepRef

__all__ = ["predecessors"]

_JOIN = "join:"
_PUSH = "__pregel_push"


def predecessors(graph: Graph, node: str, superstep: int, metadata: Mapping[str, Any], inputs: Any) -> list[StepRef]:
    """Find the steps that the execution of *node* builds on.

    Args:
        graph: The graph it belongs to.
        node: Its name there.
        superstep: Its superstep.
        metadata: LangGraph's `langgraph_*` metadata of the execution.
        inputs: What it is given; a `Send` packet is recognised by being the same object.
    """
    before = graph.supersteps.get(superstep - 1, [])
    path, triggers = metadata.get("langgraph_path") or (), metadata.get("langgraph_triggers") or ()
    if path and path[0] == _PUSH:
        chosen = _senders(before, node, inputs)
    else:
        chosen = _joined(graph, triggers) or _leading_to(before, node)
    refs = {ref.index: ref for ended in chosen for ref in ended.refs}
    return list(refs.values()) or list(graph.origin)


def _senders(before: Sequence[Ended], node: str, inputs: Any) -> list[Ended]:
    exact = [ended for ended in before if any(send.arg is inputs for send in ended.sends)]
    named = [ended for ended in before if any(send.node == node for send in ended.sends)]
    return exact or named or list(before)


def _joined(graph: Graph, triggers: Sequence[str]) -> list[Ended]:
    """Read `join:a+b:c`, the channel of an edge from several nodes."""
    for trigger in triggers:
        sources, _, _ = trigger.removeprefix(_JOIN).rpartition(":")
        if trigger.startswith(_JOIN) and sources:
            return [graph.last_of[name] for name in sources.split("+") if name in graph.last_of]
    return []


def _leading_to(before: Sequence[Ended], node: str) -> list[Ended]:
    """Leave out those known to lead elsewhere, if anyone is known to lead here.

    A conditional edge with a path map answers keys, not nodes, so nobody is left out for those alone.
    """
    is_named = any(node in ended.routes for ended in before)
    return [ended for ended in before if not (is_named and ended.routes) or node in ended.routes]
