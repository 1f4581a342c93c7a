"""A supervisor sends work to agents (langgraph-supervisor).

task: How much is 3 crates of 372 lamps?
step: supervisor message transfer_to_math
step: supervisor tool_call transfer_to_math
step: supervisor tool_result Successfully transferred
step: math message multiply
step: math tool_call multiply
step: math tool_result 1116
step: math message 3 * 372 = 1161
step: math message
step: supervisor message There are 1161 lamps
"""

from langchain.agents import create_agent
from langgraph_supervisor import create_supervisor
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


math = create_agent(scripted(("multiply", {"a": 3, "b": 372}), "3 * 372 = 1161."), [multiply], name="math")
supervisor = scripted(("transfer_to_math", {}), "There are 1161 lamps.")
graph = create_supervisor([math], model=supervisor).compile()

graph.invoke({"messages": [("user", "How much is 3 crates of 372 lamps?")]})
print(blamespan.record_outcome("failed", reason="expected 1116"))
