"""What stands out about a step counts by how rarely sound runs show it where the step stands."""

from __future__ import annotations

import numpy as np
import pytest
from blamespan_tracer.auto.observations import N_CIRCUMSTANCES, Observation, ObservedRun, SurpriseTable, observe

from blamespan.trace import Agent, MessageActionTrace, Step

COPIED, NEW = 3, 40
"""Two circumstances."""


def _observed(shown: dict[int, int], claims: dict[int, int]) -> ObservedRun:
    """Make a sound run that shows so many near values in each circumstance, of so many claims."""
    observations = tuple(
        Observation(0, "near, used", "date", 5.0, circumstance)
        for circumstance, count in shown.items()
        for _ in range(count)
    )
    n_claims = {("date", circumstance): count for circumstance, count in claims.items()}
    one = np.ones(1)
    none = observe(_run(""), []).claims
    return ObservedRun(observations, n_claims, one, one, np.ones(1, np.bool_), np.zeros(1, np.int64), none, np.zeros(0))


def test_what_is_usual_where_it_stands_surprises_less() -> None:
    """A near value among copied ones, which sound runs hardly show, surprises more than one among new values."""
    table = SurpriseTable.of([_observed({COPIED: 2, NEW: 400}, {COPIED: 1_000, NEW: 1_000})])

    among_copied = table.surprise(Observation(0, "near, used", "date", 5.0, COPIED))
    among_new = table.surprise(Observation(0, "near, used", "date", 5.0, NEW))

    assert among_copied > among_new + 2
    assert table.surprise(Observation(0, "near, used", "date", 5.1, COPIED)) > among_copied


def test_kinds_that_sound_runs_never_show_surprise_most_and_alike() -> None:
    """A kind without a row in the table is as surprising as the shares allow, wherever it stands."""
    table = SurpriseTable.of([_observed({COPIED: 2, NEW: 400}, {COPIED: 1_000, NEW: 1_000})])

    unseen = [table.surprise(Observation(0, "row, used", "date", 1.0, place)) for place in range(N_CIRCUMSTANCES)]

    assert min(unseen) > table.surprise(Observation(0, "near, used", "date", 5.0, NEW))


def test_a_table_is_read_back_as_it_was() -> None:
    """Arrays and names give the same surprises again; arrays that do not fit each other are refused."""
    table = SurpriseTable.of([_observed({COPIED: 2, NEW: 400}, {COPIED: 1_000, NEW: 1_000})])
    tensors, names = table.tensors(), table.names()
    again = SurpriseTable.from_tensors(tensors, names)

    for circumstance in (COPIED, NEW):
        observation = Observation(0, "near, used", "date", 4.0, circumstance)
        assert again.surprise(observation) == table.surprise(observation)
    with pytest.raises(ValueError, match="do not fit"):
        SurpriseTable.from_tensors({**tensors, "surprise_circumstances": np.zeros(1, np.uint8)}, names)


def _run(task: str, *messages: tuple[str, str]) -> MessageActionTrace:
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, "message", content) for index, (agent, content) in enumerate(messages)
    )
    return MessageActionTrace(
        "1" * 32, task, steps, tuple(Agent(name) for name in dict.fromkeys(a for a, _ in messages))
    )


def test_who_changes_their_own_word_is_told_from_who_changes_another_agents() -> None:
    """The same wrong copy is of another kind where the right value was the agent's own; a right copy shows neither."""
    right, wrong = "The deposit of 48,213 was paid.", "The deposit of 48,273 was paid."
    kinds = [
        {one.kind for one in observe(_run("Pay.", ("A", right), (agent, text)), ()).observations if one.step == 1}
        for agent, text in (("A", wrong), ("B", wrong), ("B", right))
    ]

    assert "near, used, own" in kinds[0]
    assert "near, used, own" not in kinds[1]
    assert "near, used" in kinds[1]
    assert not any(kind.startswith(("near", "context")) for kind in kinds[2])
