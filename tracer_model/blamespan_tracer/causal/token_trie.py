"""Token sequences as a prefix tree: what may come next, and what shares a prefix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenTrie"]


class TokenTrie:
    """A prefix tree over token sequences, none of which may begin another.

    Dims: T nodes, S sequences. Node t holds one token; a node's parent comes before it; -1 is the root.

    Attributes:
        tokens: (T,) the token of each node.
        parents: (T,) the node before it, or -1.
        depths: (T,) 0 for first tokens.
        ends: (S,) the node that each sequence ends at.

    Raises:
        ValueError: if there is no sequence, one is empty, or one begins another or is given twice.
    """

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.ends: list[int] = []
        self._next: list[dict[int, int]] = [{}]  # of node n at n + 1, the root first
        for sequence in sequences:
            self._add(sequence)
        leaves = {node for node in self.ends if not self._next[node + 1]}
        if not self.ends or len(leaves) != len(self.ends):
            raise ValueError(f"expected distinct sequences, none beginning another, got {len(self.ends)} of them")

    def __len__(self) -> int:
        return len(self.tokens)

    def walk(self, tokens: Sequence[int]) -> tuple[list[int], int]:
        """Follow *tokens* from the root until a sequence ends.

        Returns:
            The tokens that may come next, none if a sequence has ended, and how many tokens were followed.

        Raises:
            ValueError: if the tree does not lead there.
        """
        node = -1
        for position, token in enumerate(tokens):
            if not self._next[node + 1]:
                return [], position
            if token not in self._next[node + 1]:
                raise ValueError(
                    f"expected one of {len(self._next[node + 1])} tokens at place {position}, got {token!r}"
                )
            node = self._next[node + 1][token]
        return list(self._next[node + 1]), len(tokens)

    def children(self, node: int) -> list[int]:
        """List the nodes that follow *node*; -1 is the root."""
        return list(self._next[node + 1].values())

    def sequences(self) -> list[list[int]]:
        """Return the sequences, in order."""
        sequences = []
        for node in self.ends:
            sequence = []
            while node >= 0:
                sequence.append(self.tokens[node])
                node = self.parents[node]
            sequences.append(sequence[::-1])
        return sequences

    def visibility(self) -> NDArray[np.bool_]:
        """Return (T, T): whether node t has node s on its way from the root, itself included."""
        is_visible = np.eye(len(self), dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                is_visible[node] |= is_visible[parent]
        return is_visible

    def _add(self, sequence: Sequence[int]) -> None:
        if not len(sequence):
            raise ValueError("expected a sequence of at least one token, got none")
        node = -1
        for token in sequence:
            if token not in self._next[node + 1]:
                self._next[node + 1][token] = len(self.tokens)
                self.tokens.append(int(token))
                self.depths.append(self.depths[node] + 1 if node >= 0 else 0)
                self.parents.append(node)
                self._next.append({})
            node = self._next[node + 1][token]
        self.ends.append(node)
