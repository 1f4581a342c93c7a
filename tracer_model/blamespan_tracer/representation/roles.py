"""What agents do in a team, told by how they behave; their names are only weak words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import Agent
from blamespan_tracer.representation.reading import Ints

__all__ = ["ROLES", "find_roles"]

ROLES = ("user", "executor", "orchestrator", "planner", "solver", "researcher", "coder", "checker", "reporter")
"""What an agent can be, by number."""

_NAME_WEIGHT = 0.5
"""What a word of a name counts beside behaviour, which comes to about 1 where it is clear."""

_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "orchestrator": ("orchestr", "manager", "supervis", "coordinat", "lead", "triage", "selector", "moderator"),
        "planner": ("plan", "architect", "strateg"),
        "solver": ("solv", "math", "expert", "calculat", "debater", "worker"),
        "researcher": ("research", "search", "surf", "retriev", "look", "brows", "reader", "file"),
        "coder": ("cod", "engineer", "program", "develop"),
        "checker": ("check", "verif", "critic", "review", "valid", "test", "audit", "proof", "inspect"),
        "reporter": ("report", "writer", "summar", "judge", "aggregat", "answer", "final", "present"),
    }
)

Floats = NDArray[np.float64]


def find_roles(agents: Sequence[Agent], behaviour: Mapping[str, Floats], speaks: Ints) -> Ints:
    """Return each agent its likeliest role.

    Args:
        agents: The A who speak, in order of first speaking.
        behaviour: For each role an agent can be told by, (A,) how much it behaves like that, about 0..1.
        speaks: (A,) how many steps each takes.

    Returns:
        (A,) numbers of `ROLES`.
    """
    scores = np.zeros((len(agents), len(ROLES)))
    for role, shown in behaviour.items():
        scores[:, ROLES.index(role)] = shown
    for row, agent in enumerate(agents):
        name = agent.name.lower()
        for role, words in _WORDS.items():
            if any(word in name for word in words):
                scores[row, ROLES.index(role)] += _NAME_WEIGHT
        if agent.role != "agent":
            scores[row] = np.arange(len(ROLES)) == ROLES.index(agent.role)
    found: Ints = scores.argmax(axis=1) if len(agents) else speaks
    return found
