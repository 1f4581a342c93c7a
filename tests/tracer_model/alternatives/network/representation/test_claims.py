from __future__ import annotations

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.representation.claims import MAX_SOURCES
from tests.tracer_model.teams import team


def claims(run: MessageActionTrace) -> list[tuple[str, int, int]]:
    """Each claim with the original step it is in and the one that had it first, -1 for the task."""
    found = analyse(run)
    names = [found.reading.tokens[token] for token in found.claims.token[found.claims.claim].tolist()]
    return sorted(zip(names, (found.claims.segment - 1).tolist(), (found.claims.source - 1).tolist(), strict=True))


def test_claims_are_traced_to_who_had_them_first() -> None:
    """Numbers, names, identifiers and quoted words belong to the task, step or result that had them first."""
    run = team(
        ("a", 'f({"id": "RK_77"})', "tool_call"),
        ("a", "It is made in Gdansk.", "tool_result"),
        ("b", 'So 1,200 of RK_77 from Gdansk, "burnt" ones left out, and 1200 again.'),
        task="Order 1200.00 of them.",
    )

    assert claims(run) == [
        ("1200", -1, -1),
        ("1200", 2, -1),
        ("burnt", 2, 2),
        ("gdansk", 1, 1),
        ("gdansk", 2, 1),
        ("rk_77", 0, 0),
        ("rk_77", 2, 0),
    ]


def test_names_of_agents_claim_nothing() -> None:
    """An agent's name is a label of the run."""
    run = team(("Anna_1", "I ask Bob_2 now."), ("Bob_2", "Well, Anna_1, I am here."), task="")

    assert claims(run) == []


def test_dependency_weighs_rare_claims_and_few_sources() -> None:
    """A step owes more to who brought in a rare name than to who said 2, and at most so many sources are named."""
    said = [(f"agent{place}", f"I found Item{place}x and 2.") for place in range(MAX_SOURCES + 3)]
    everything = " ".join(f"Item{place}x" for place in range(len(said)))
    depends = analyse(team(*said, ("last", f"All: {everything} and 2."), task="")).depends
    last = depends.target == len(said)

    assert last.sum() == MAX_SOURCES
    assert depends.weight[last].min() > depends.weight[~last].max()
