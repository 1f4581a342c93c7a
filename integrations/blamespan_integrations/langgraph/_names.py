"""What the agents of a graph are called.

A node is an agent under its node's name. Prebuilt agents all call their node `model` or `agent`: those go by
the name the agent was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan_integrations.langgraph._messages import as_state
from blamespan_integrations.langgraph._places import Graph

__all__ = ["DEFAULT_GRAPH_NAME", "agent_name", "is_hook", "prebuilt_owner"]

DEFAULT_GRAPH_NAME = "LangGraph"
"""What LangGraph calls a graph without a name."""
_MODEL_NODES = ("model", "agent")
_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


def agent_name(graph: Graph, node: str, metadata: Mapping[str, Any], inputs: Any) -> tuple[str, str | None]:
    """Name the agent that *node* of *graph* is, uniquely in the run.

    Returns:
        Its name, and its id where that says more: the path from its graph.
    """
    team = _team_name(graph)
    prebuilt = _prebuilt_name(graph, team, node, metadata, inputs)
    name, path = prebuilt or node, prebuilt or (f"{team}/{node}" if team else node)
    if graph.run.owners.setdefault(name, path) != path:
        name = path if path != name else f"{name}/{node}"
    return name, path if path != name else None


def is_hook(node: str) -> bool:
    """Tell whether a node is a hook of an agent's middleware, e.g. `SummarizationMiddleware.before_model`."""
    return node.rpartition(".")[2] in _HOOKS and "." in node


def prebuilt_owner(metadata: Mapping[str, Any]) -> str | None:
    """Name the agent made by `create_agent(name=...)` that a node belongs to, if it belongs to one."""
    given = metadata.get("lc_agent_name")
    is_prebuilt = metadata.get("ls_integration") == "langchain_create_agent"
    return given if is_prebuilt and isinstance(given, str) and given else None


def _team_name(graph: Graph) -> str:
    """Name a graph within the run; the outermost has none."""
    if not graph.is_inner:
        return ""
    if graph.name != DEFAULT_GRAPH_NAME or graph.node is None:
        return graph.name
    return graph.node.agent


def _prebuilt_name(graph: Graph, team: str, node: str, metadata: Mapping[str, Any], inputs: Any) -> str | None:
    if node not in _MODEL_NODES:
        return None
    owner = prebuilt_owner(metadata)
    if owner is not None:
        return owner
    if team:
        return team
    is_react = node == "agent" and "remaining_steps" in (as_state(inputs) or {})  # create_react_agent's state
    return graph.name if is_react and graph.name != DEFAULT_GRAPH_NAME else None
