"""What the agents of a graph are called.

A node is an agent under its node's name. Prebuilt agents all call their node `model` or `agent`: those go by
the name the agent was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from blamespan_integrations.langgraph._frames import GraphFrame, NodeIdentity
from blamespan_integrations.langgraph._order import ERROR_HANDLER

DEFAULT_GRAPH_NAME = "LangGraph"
"""What LangGraph calls a graph without a name."""
_MODEL_NODES = ("model", "agent")
_MAX_NAMESAKES = 1_000
_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


def identify(graph: GraphFrame, node: str, metadata: Mapping[str, Any]) -> NodeIdentity:
    """Return which agent *node* of *graph* is, by a name that is its own in the run."""
    owner = prebuilt_owner(metadata) if node in _MODEL_NODES else None
    identity = graph.parts.get((node, owner))
    if identity is None:
        agent, agent_id = _unique_name(graph, node, owner)
        identity = graph.parts[node, owner] = NodeIdentity(
            agent, agent_id, graph.run.memory.of(f"{agent}/{node}"), is_hook(node)
        )
    return identity


def _unique_name(graph: GraphFrame, node: str, owner: str | None) -> tuple[str, str | None]:
    """Name an agent; one that stands elsewhere, in a graph of its own, but has a name already taken gets another.

    Returns:
        Its name, and its id where that says more: the path from its graph.
    """
    team = _team_name(graph)
    prebuilt = _prebuilt_name(graph, team, node, owner)
    if node.startswith(ERROR_HANDLER):
        prebuilt = f"{node.removeprefix(ERROR_HANDLER)}.error_handler"
    path = prebuilt or (f"{team}/{node}" if team else node)
    node_name = graph.node.name if prebuilt and graph.node is not None else None
    where = f"{node_name}/{prebuilt}" if node_name not in (None, prebuilt) else path
    numbered = (f"{where}#{number}" for number in range(2, _MAX_NAMESAKES))
    for name in chain((prebuilt or node, path, where), numbered):
        owner_place, definition = graph.run.owners.setdefault(name, (where, graph.definition.id))
        if owner_place == where or (definition is not None and definition == graph.definition.id):
            return name, where if where != name else None
    return where, None


def is_hook(node: str) -> bool:
    """Return whether a node is a hook of an agent's middleware, e.g. `SummarizationMiddleware.before_model`."""
    return "." in node and node.rpartition(".")[2] in _HOOKS


def prebuilt_owner(metadata: Mapping[str, Any]) -> str | None:
    """Name the agent made by `create_agent(name=...)` that a node belongs to, if it belongs to one."""
    name = metadata.get("lc_agent_name")
    is_prebuilt = metadata.get("ls_integration") == "langchain_create_agent"
    return name if is_prebuilt and isinstance(name, str) and name else None


def _team_name(graph: GraphFrame) -> str:
    """Name a graph within the run; the outermost has none."""
    if not graph.is_inner:
        return ""
    if graph.name != DEFAULT_GRAPH_NAME or graph.node is None:
        return graph.name
    return graph.node.agent


def _prebuilt_name(graph: GraphFrame, team: str, node: str, owner: str | None) -> str | None:
    if node not in _MODEL_NODES:
        return None
    if owner is not None or not graph.definition.is_prebuilt:
        return owner
    return team or (graph.name if graph.name != DEFAULT_GRAPH_NAME else None)
