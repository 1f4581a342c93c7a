"""Shapley shares: they add up, credit who brings something, and are the same exactly and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from blamespan_lab.rerun.causes.shapley import Coalition, NoShares, OutOfBudget, list_coalitions, shapley

Worth = Callable[[Sequence[Coalition]], list[float]]


def _worth(of: Callable[[Coalition], float]) -> Worth:
    return lambda coalitions: [of(coalition) for coalition in coalitions]


def test_one_culprit_has_the_whole_share() -> None:
    """Who alone mends the run has all of it, and who does nothing has none."""
    shares = shapley(["a", "b", "c"], _worth(lambda coalition: float("b" in coalition)))

    assert shares.shares == {"a": 0.0, "b": 1.0, "c": 0.0}
    assert (shares.is_exact, shares.coalitions, shares.nobody, shares.everybody) == (True, 8, 0.0, 1.0)


def test_two_that_are_needed_together_share_alike_and_so_do_two_that_replace_each_other() -> None:
    """Symmetry: neither of two with the same part has more."""
    both = shapley(["a", "b", "c"], _worth(lambda coalition: float({"a", "b"} <= coalition)))
    either = shapley(["a", "b", "c"], _worth(lambda coalition: float(bool({"a", "b"} & coalition))))

    assert both.shares == either.shares == {"a": pytest.approx(0.5), "b": pytest.approx(0.5), "c": 0.0}


def test_published_glove_game_comes_out() -> None:
    """One left glove and two right ones: 2/3, 1/6, 1/6 (Shapley's textbook example)."""
    shares = shapley(["left", "r1", "r2"], _worth(lambda coalition: float("left" in coalition and len(coalition) > 1)))

    assert shares.shares == {"left": pytest.approx(2 / 3), "r1": pytest.approx(1 / 6), "r2": pytest.approx(1 / 6)}


def test_who_makes_it_worse_has_less_than_nothing() -> None:
    """A correction that does harm is no relief for others."""
    shares = shapley(["a", "b"], _worth(lambda coalition: 1.0 * ("a" in coalition) - 0.25 * ("b" in coalition)))

    assert shares.shares["b"] < 0
    assert sum(shares.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_shares_add_up_and_lie_within_two_standard_errors_of_the_exact_ones(seed: int) -> None:
    """Drawn orders estimate what all coalitions say, and say how well."""
    rng = Random(seed)
    members = [f"agent{number}" for number in range(6)]
    table = {coalition: rng.random() + len(coalition) for coalition in list_coalitions(members)}
    exact = shapley(members, _worth(table.__getitem__))
    drawn = shapley(members, _worth(table.__getitem__), is_exact=False, pairs=60, seed=seed)
    within = [abs(drawn.shares[name] - exact.shares[name]) <= 2 * drawn.errors[name] for name in members]

    assert sum(drawn.shares.values()) == pytest.approx(1)
    assert sum(exact.shares.values()) == pytest.approx(1)
    assert sum(within) >= 5  # of six, one in twenty may lie beyond
    assert not drawn.is_exact
    assert all(error > 0 for error in drawn.errors.values())


def test_more_than_six_members_are_drawn() -> None:
    """Nobody tries 128 coalitions unasked."""
    members = list("abcdefg")
    shares = shapley(members, _worth(lambda coalition: len(coalition) / 7), pairs=4)

    assert (shares.is_exact, shares.pairs) == (False, 4)
    assert shares.shares == {member: pytest.approx(1 / 7) for member in members}


def test_budget_ends_the_drawing_with_whole_pairs() -> None:
    """What was drawn before the budget ended counts, pair by pair; with less than two pairs nothing is said."""

    def limited(most: int) -> Worth:
        tried: list[Coalition] = []

        def worth(coalitions: Sequence[Coalition]) -> list[float]:
            if len(tried) + len(coalitions) > most:
                raise OutOfBudget("no more calls")
            tried.extend(coalitions)
            return [float("b" in coalition) for coalition in coalitions]

        return worth

    shares = shapley(list("abcdefgh"), limited(50), pairs=100)

    assert 2 <= shares.pairs < 100
    assert sum(shares.shares.values()) == pytest.approx(1)
    with pytest.raises(NoShares, match="pairs of orders that a standard error needs: no more calls"):
        shapley(list("abcdefgh"), limited(16), pairs=100)


def test_failure_that_no_coalition_mends_is_not_shared_out() -> None:
    """Where everybody put right changes nothing, nobody has a share."""
    with pytest.raises(NoShares, match="no difference to share out"):
        shapley(["a", "b"], _worth(lambda _: 0.0))
