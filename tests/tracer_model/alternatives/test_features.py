"""What is read off runs: the same features whether they are asked for by agent or by word."""

from __future__ import annotations

import numpy as np

from blamespan_tracer.alternatives.features import agent_features, read_batch
from blamespan_tracer.tokens import token_hashes
from tests.tracer_model.runs import trace

RUNS = [
    trace(("one", "the sea is grey"), ("two", "I count, I count"), ("one", "the sea is loud"), task="is it grey"),
    trace(("x", ""), ("term", "grey"), ("x", "\U0001f600 done"), ("y", "done"), roles={"term": "executor"}),
]


def test_words_of_a_step_give_rise_to_exactly_its_features() -> None:
    """No feature of a step is without a word of its own, and none of its words' features is missing."""
    reading = read_batch(RUNS)
    steps = [
        (first + step, hashes)
        for first, agents in zip(reading.first_step, reading.agents, strict=True)
        for agent in agents
        for step, hashes in zip(agent.steps, agent.text, strict=True)
    ]

    found = reading.words_of(np.array([place for place, _ in steps]))

    for number, (_, hashes) in enumerate(steps):
        assert np.unique(found.hashes[found.step[found.of] == number]).tolist() == hashes.tolist()


def test_tokens_weigh_what_their_word_weighs() -> None:
    """A word said twice weighs both times; words of the task and what others said weigh nothing."""
    reading = read_batch(RUNS)
    place = np.array([1])
    words, tokens = reading.words_of(place), reading.tokens.of(place)
    weights = np.where(words.words == token_hashes("count")[0], 2.5, 1.0)

    assert words.spread(weights, tokens).tolist() == [1.0, 2.5, 1.0, 1.0, 2.5]
    assert words.spread(weights, reading.tokens.of(np.array([0]))).tolist() == [0.0] * 4


def test_company_cannot_change_features() -> None:
    """A run has the same features alone and beside others."""
    together = read_batch(RUNS).agents

    for run, agents in zip(RUNS, together, strict=True):
        alone = agent_features(run)
        assert [agent.agent for agent in agents] == [agent.agent for agent in alone]
        assert [[part.tolist() for part in (*agent.text, agent.opening, agent.seat)] for agent in agents] == [
            [part.tolist() for part in (*agent.text, agent.opening, agent.seat)] for agent in alone
        ]
