"""A trie of answers: what may follow, what shares a prefix, and what cannot be one."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_tracer.causal.token_trie import TokenTrie


def test_only_what_leads_to_an_answer_may_follow() -> None:
    """At every token exactly the continuations of the sequences are allowed, and none at an end."""
    trie = TokenTrie([[1, 2, 3], [1, 2, 4], [5]])

    found = [trie.walk(tokens) for tokens in ([], [1], [1, 2], [1, 2, 4], [5], [5, 9, 9])]

    assert found == [([1, 5], 0), ([2], 1), ([3, 4], 2), ([], 3), ([], 1), ([], 1)]


def test_leaving_the_tree_is_an_error() -> None:
    """A token that was not allowed cannot be followed."""
    with pytest.raises(ValueError, match="expected one of 1 tokens at place 1, got 7"):
        TokenTrie([[1, 2]]).walk([1, 7])


def test_shared_prefixes_are_one_node() -> None:
    """Nodes come after their parents, see what leads to them, and the sequences come back in order."""
    given = [[7, 1], [7, 2, 2], [8]]
    trie = TokenTrie(given)

    assert (trie.tokens, trie.parents, trie.depths) == ([7, 1, 2, 2, 8], [-1, 0, 0, 2, -1], [0, 1, 1, 2, 0])
    assert trie.sequences() == given
    expected = np.eye(5, dtype=bool)
    expected[[1, 2, 3, 3], [0, 0, 0, 2]] = True
    assert (trie.visibility() == expected).all()


@pytest.mark.parametrize("sequences", [[], [[]], [[1], [1]], [[1, 2], [1]], [[1], [1, 2]]])
def test_ambiguous_answers_are_refused(sequences: list[list[int]]) -> None:
    """No answer may begin another: then it would not be known where it ends."""
    with pytest.raises(ValueError, match="expected"):
        TokenTrie(sequences)
