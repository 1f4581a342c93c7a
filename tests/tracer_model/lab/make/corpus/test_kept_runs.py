"""What a corpus keeps of the runs that were made for it."""

from __future__ import annotations

from random import Random

from blamespan_lab.make.corpus.balance import CandidateRun, choose_kept_runs
from blamespan_lab.make.corpus.recipe import CorpusRecipe, Shares
from blamespan_lab.make.run_labels import Decisive, Purpose, RunLabel

RECIPE = CorpusRecipe("some", runs=100)


def candidate(
    number: int, purpose: Purpose, *, imbalance: float = 0.0, length: float = 5.0, twin: str = ""
) -> CandidateRun:
    failed = purpose not in ("clean", "harmless")
    label = RunLabel(
        trace_id=f"{number:032x}",
        outcome="failure" if failed else "success",
        purpose=purpose,
        family="lookup" if number % 2 else "code",
        topology="chain",
        framework="langgraph",
        cast="roles",
        seed=number,
        decisive=Decisive("ann", 1, "1" * 16, ("aegis:FM-1.1",)) if failed else None,
        faults=(),
        carried_by=(),
        twin=twin,
        verified=True,
        recipe="some",
    )
    return CandidateRun(label, (imbalance,) if failed else (), (length,))


def pool(rng: Random) -> list[CandidateRun]:
    purposes: list[Purpose] = [*["faulty"] * 80, *["natural"] * 30, *["several"] * 15, *["harmless"] * 30]
    found = [
        candidate(number, purpose, imbalance=rng.choice([1.0, 1.0, -1.0]), length=rng.gauss(8, 2))
        for number, purpose in enumerate(purposes)
    ]
    return found + [candidate(500 + number, "clean", length=rng.gauss(6, 2)) for number in range(120)]


def counted(candidates: list[CandidateRun], kept: set[str]) -> dict[str, int]:
    purposes = [each.label.purpose for each in candidates if each.label.trace_id in kept]
    return {purpose: purposes.count(purpose) for purpose in sorted(set(purposes))}


def test_as_many_of_each_purpose_are_kept_as_wanted() -> None:
    """Failures may be fewer, where that balances better; the others fill up."""
    candidates = pool(Random(1))
    kept = choose_kept_runs(RECIPE, candidates)
    count = counted(candidates, kept)

    assert len(kept) == RECIPE.runs
    assert 49 <= count["faulty"] + count["natural"] + count["several"] <= 58
    assert abs(count["natural"] - 12) <= 3
    assert count["clean"] >= 30


def test_kept_failures_pull_to_no_side() -> None:
    """Two of three are unbalanced one way before the choice."""
    candidates = pool(Random(2))
    kept = choose_kept_runs(RECIPE, candidates)
    pulls = [each.imbalance[0] for each in candidates if each.label.trace_id in kept and each.imbalance]

    assert abs(sum(pulls)) / len(pulls) < 0.05


def test_kept_sound_runs_are_as_long_as_failures() -> None:
    """Before the choice they are a quarter shorter."""
    candidates = pool(Random(3))
    kept = choose_kept_runs(RECIPE, candidates)
    lengths = {
        outcome: [
            each.surface[0]
            for each in candidates
            if each.label.trace_id in kept and (each.label.outcome == "failure") == outcome
        ]
        for outcome in (True, False)
    }

    assert abs(sum(lengths[True]) / len(lengths[True]) - sum(lengths[False]) / len(lengths[False])) < 1


def test_twins_of_kept_failures_are_kept_first() -> None:
    """A failure beside the same run without its fault teaches most."""
    failures = [candidate(number, "faulty", twin=f"{500 + number:032x}") for number in range(20)]
    sound = [candidate(500 + number, "clean") for number in range(60)]
    recipe = CorpusRecipe("some", runs=20, shares=Shares(50, 50, 0, 0, 0))
    kept = choose_kept_runs(recipe, [*failures, *sound])
    twins = {each.label.twin for each in failures if each.label.trace_id in kept}

    assert len(kept - {each.label.trace_id for each in failures}) == 10
    assert twins >= {each.label.trace_id for each in sound if each.label.trace_id in kept}


def test_choice_does_not_depend_on_anything_but_the_runs() -> None:
    """The same candidates give the same corpus."""
    assert choose_kept_runs(RECIPE, pool(Random(4))) == choose_kept_runs(RECIPE, pool(Random(4)))
