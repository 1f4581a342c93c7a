"""Attribute keys that only this integration writes."""

from typing import Final

LANGGRAPH_STEP: Final = "langgraph.step"
"""int: LangGraph's superstep within the node's own graph. Nodes of one superstep run in parallel."""
LANGGRAPH_NODE: Final = "langgraph.node"
"""str: the node's name in its graph, where the agent goes by another."""
LANGGRAPH_BRANCH: Final = "langgraph.branch"
"""int: which of the packets sent in the superstep before (`Send`) the node works on, from 0."""
STEP_ATTEMPT: Final = "blamespan.step.attempt"
"""int, from 2: the how-manieth attempt of the same task this step is. Absent on the first."""
STEP_INTERRUPTED: Final = "blamespan.step.interrupted"
"""bool, true: the step stopped to ask somebody outside; its content is the question."""
STEP_CANCELLED: Final = "blamespan.step.cancelled"
"""bool, true: the step was stopped from outside, e.g. because another one failed or nobody waited for it."""
RUN_INTERRUPTED: Final = "blamespan.run.interrupted"
"""bool, true: the run waits for somebody outside. The run that goes on from there links to this one."""
