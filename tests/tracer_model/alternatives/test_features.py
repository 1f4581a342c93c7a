"""What is read off runs: the same features alone and in company."""

from __future__ import annotations

from blamespan_tracer.alternatives.features import agent_features, read_batch
from tests.tracer_model.runs import trace

RUNS = [
    trace(("one", "the sea is grey"), ("two", "I count, I count"), ("one", "the sea is loud"), task="is it grey"),
    trace(("x", ""), ("term", "grey"), ("x", "\U0001f600 done"), ("y", "done"), roles={"term": "executor"}),
]


def test_company_cannot_change_features() -> None:
    """A run has the same features alone and beside others."""
    together = read_batch(RUNS)

    for run, agents in zip(RUNS, together, strict=True):
        alone = agent_features(run)
        assert [agent.agent for agent in agents] == [agent.agent for agent in alone]
        assert [[part.tolist() for part in (*agent.text, agent.opening, agent.seat)] for agent in agents] == [
            [part.tolist() for part in (*agent.text, agent.opening, agent.seat)] for agent in alone
        ]
