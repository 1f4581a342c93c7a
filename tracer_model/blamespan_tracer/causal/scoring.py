"""Log-probabilities of every possible answer after a prompt.

Dims: B prompts of a batch, L tokens of the longest, T nodes of the largest trie, S sequences of a trie.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blamespan_tracer.causal.loading import Model
from blamespan_tracer.causal.token_trie import TokenTrie

__all__ = [
    "Floats",
    "Scorer",
    "can_share_prefix",
    "pad_left",
    "score_alone",
    "score_one_by_one",
    "score_tries",
]

_MOST_NODES = 256
"""Nodes of a trie that are read in one pass: their logits cost 4 bytes for each word of the vocabulary."""

Floats: TypeAlias = NDArray[np.float64]

Scorer: TypeAlias = Callable[[Model, Sequence[Sequence[int]], Sequence[TokenTrie], int], list[Floats]]
"""As `score_tries`: model, prompts, the possible answers of each, and the padding token."""


def can_share_prefix(model: Model) -> bool:
    """Return whether every layer attends to everything before: only then may answers share one prompt."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    kinds = kinds or [f"{kind}_attention" for kind in getattr(config, "attention_layers", None) or ()]
    is_full = all(kind in ("full_attention", "global_attention") for kind in kinds) if kinds else window is None
    return is_full and not getattr(model, "_is_stateful", False) and config._attn_implementation in ("sdpa", "eager")


@torch.inference_mode()
def score_tries(model: Model, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie], pad: int) -> list[Floats]:
    """Find the log-probability of every sequence of each prompt's trie, given the prompt.

    A prompt is read once; then the nodes of its trie, each seeing the prompt and what leads to it.

    Args:
        model: With attention that sees everything before; see `can_share_prefix`.
        prompts: (B,) tokens.
        tries: (B,) the possible answers.
        pad: The padding token; prompts are padded on the left.

    Returns:
        (B,) each (S,), natural logarithms.
    """
    ids, is_real, positions = pad_left(prompts, pad, model.device)
    read = model(input_ids=ids, attention_mask=is_real, position_ids=positions, use_cache=True, logits_to_keep=1)
    cache = read.past_key_values
    added = [np.zeros(len(trie)) for trie in tries]
    for row, trie in enumerate(tries):
        _add_logprobs(added[row], trie, [-1], read.logits[row, -1:])
    tokens, depths, sees = _lay_out_tries(tries, pad, model.device)
    for start in range(0, tokens.shape[1], _MOST_NODES):
        end = min(start + _MOST_NODES, tokens.shape[1])
        mask = torch.cat([is_real[:, None, :].bool().expand(-1, end - start, -1), sees[:, start:end, :end]], dim=2)
        read = model(
            input_ids=tokens[:, start:end],
            attention_mask=mask[:, None],
            position_ids=positions[:, -1:] + 1 + depths[:, start:end],
            past_key_values=cache,
            use_cache=True,
        )
        for row, trie in enumerate(tries):
            nodes = list(range(start, min(end, len(trie))))
            _add_logprobs(added[row], trie, nodes, read.logits[row, : len(nodes)])
    return [_sum_along_paths(trie, logprobs) for trie, logprobs in zip(tries, added, strict=True)]


@torch.inference_mode()
def score_one_by_one(
    model: Model, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie], pad: int
) -> list[Floats]:
    """Do what `score_tries` does, for any model: each answer is read with its prompt anew, some at a time."""
    return _score_rows(model, prompts, tries, pad, at_once=len(prompts))


@torch.inference_mode()
def score_alone(model: Model, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie], pad: int) -> list[Floats]:
    """Do the same with nothing beside an answer and no padding: what every other way must agree with."""
    return _score_rows(model, prompts, tries, pad, at_once=1)


def _score_rows(
    model: Model, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie], pad: int, *, at_once: int
) -> list[Floats]:
    rows = [
        (number, [*prompt, *sequence], len(sequence))
        for number, (prompt, trie) in enumerate(zip(prompts, tries, strict=True))
        for sequence in trie.sequences()
    ]
    by_prompt: list[list[float]] = [[] for _ in prompts]
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        ids, is_real, positions = pad_left([row for _, row, _ in some], pad, model.device)
        most = max(length for _, _, length in some)
        optional = _keep_supported(model, position_ids=positions, logits_to_keep=most + 1, use_cache=False)
        logits = model(input_ids=ids, attention_mask=is_real, **optional).logits[:, -most - 1 :].float()
        chances = logits[:, :-1].log_softmax(dim=-1).gather(2, ids[:, -most:, None])[..., 0]  # (B, most)
        for (number, _, length), row in zip(some, chances, strict=True):
            by_prompt[number].append(float(row[most - length :].double().sum()))
    return [np.array(logprobs) for logprobs in by_prompt]


def _keep_supported(model: Model, **optional: Any) -> dict[str, Any]:
    """Return what the model takes of *optional*: older ones know less."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    parameters = inspect.signature(inner.forward).parameters
    return {name: value for name, value in optional.items() if name in parameters}


def pad_left(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows on the right of (B, L): tokens, 1 where they are real, and their positions from 0."""
    length = max(map(len, rows))
    ids = torch.tensor([[pad] * (length - len(row)) + list(row) for row in rows], device=device)
    is_real = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, is_real, (is_real.cumsum(dim=1) - 1).clamp(min=0)


def _lay_out_tries(tries: Sequence[TokenTrie], pad: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Lay the nodes of all tries out: (B, T) tokens, (B, T) depths, (B, T, T) what each sees; padding sees itself."""
    n_nodes = max(map(len, tries))
    tokens = torch.full((len(tries), n_nodes), pad)
    depths = torch.zeros((len(tries), n_nodes), dtype=torch.long)
    sees = torch.eye(n_nodes, dtype=torch.bool).repeat(len(tries), 1, 1)
    for row, trie in enumerate(tries):
        tokens[row, : len(trie)] = torch.tensor(trie.tokens)
        depths[row, : len(trie)] = torch.tensor(trie.depths)
        sees[row, : len(trie), : len(trie)] = torch.from_numpy(trie.visibility())
    return tokens.to(device), depths.to(device), sees.to(device)


def _add_logprobs(added: Floats, trie: TokenTrie, nodes: Sequence[int], logits: Tensor) -> None:
    """Write the log-probability of all that follows *nodes*, whose (N, V) logits are given."""
    following = [(row, child) for row, node in enumerate(nodes) for child in trie.children(node)]
    if not following:
        return
    rows = torch.tensor([row for row, _ in following], device=logits.device)
    tokens = torch.tensor([trie.tokens[child] for _, child in following], device=logits.device)
    totals = torch.stack([row.float().logsumexp(dim=-1) for row in logits])  # row by row: a float copy of all is large
    chances = logits[rows, tokens].float() - totals[rows]
    added[[child for _, child in following]] = chances.double().cpu().numpy()


def _sum_along_paths(trie: TokenTrie, added: Floats) -> Floats:
    total = added.copy()
    for node, parent in enumerate(trie.parents):
        if parent >= 0:
            total[node] += total[parent]
    by_sequence: Floats = total[trie.ends]
    return by_sequence
