"""Seeded teams of simulated agents inside real frameworks: what faults are injected into, recorded and replayed.

- `program`: one seeded run, from a task and a team to an outcome; `simulated_run`: the same while a framework runs it.
- `tasks`: questions with checkable answers, and tools that work. `statements`: their facts, written and read as prose.
- `agents`: the policies that answer for the agents. `topologies`: teams of them, as AutoGen and LangGraph build them.
- `model_clients`: a policy behind each framework's own model client. `sandbox`: where code that agents wrote is tried.
"""
