"""Replies written token by token, thoughts freely and answers only as they are possible."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from blamespan_tracer.causal.loading import Model, Tokenizer
from blamespan_tracer.causal.scoring import pad_left
from blamespan_tracer.causal.token_trie import TokenTrie

__all__ = ["AnswerConstraint", "generate_replies"]

_LOOK_BACK = 12
"""The last tokens, in which the end of a thought is looked for: it is eight characters long."""


class AnswerConstraint(LogitsProcessor):  # type: ignore[misc]  # transformers' types say nothing
    """Lets a model think freely for a while, and then write one of the possible answers only.

    Args:
        tokenizer: Decodes, to see when the thought is closed.
        tries: (B,) what may follow the closed thought, of each row.
        closing: What ends a thought that has become too long.
        most_thought: Tokens that a thought may have.
        banned: Tokens that a thought may not hold.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        tries: Sequence[TokenTrie],
        closing: Sequence[int],
        *,
        most_thought: int,
        banned: Sequence[int],
    ) -> None:
        self._tokenizer = tokenizer
        self._tries = tries
        self._closing = list(closing)
        self._most = most_thought
        self._banned = list(banned)
        self._start: int | None = None
        self._closed: list[int | None] = [None] * len(tries)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Forbid every token that may not come next."""
        if self._start is None:
            self._start = input_ids.shape[1]
        for row, written in enumerate(input_ids[:, self._start :].tolist()):
            allowed = self._allowed_tokens(row, written)
            if allowed is None:
                scores[row, self._banned] = -torch.inf
            else:
                mask = torch.full_like(scores[row], -torch.inf)
                mask[allowed] = 0
                scores[row] = scores[row].masked_fill(mask.isinf(), -torch.inf)
        return scores

    def _allowed_tokens(self, row: int, written: list[int]) -> list[int] | None:
        closed = self._closed[row]
        if closed is None:
            if "</think>" in self._tokenizer.decode(written[-_LOOK_BACK:]):
                closed = self._closed[row] = len(written)
            elif self._most <= len(written) < self._most + len(self._closing):
                return [self._closing[len(written) - self._most]]
            else:
                return None
        return self._tries[row].walk(written[closed:])[0] or [self._tokenizer.eos_token_id]


def generate_replies(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    constraint: AnswerConstraint | None,
    max_new_tokens: int,
) -> list[list[int]]:
    """Continue every prompt by the likeliest token, again and again; ends and padding are left out.

    How a model likes to be sampled, as its generation_config.json says, does not matter.
    """
    pad = tokenizer.pad_token_id
    ids, is_real, _ = pad_left(prompts, pad, model.device)
    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        with torch.inference_mode():
            written = model.generate(
                input_ids=ids,
                attention_mask=is_real,
                logits_processor=LogitsProcessorList([constraint] if constraint is not None else []),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                num_beams=1,
                pad_token_id=pad,
                eos_token_id=tokenizer.eos_token_id,
                use_cache=True,
            )
    finally:
        model.generation_config = own
    ends = {pad, tokenizer.eos_token_id}
    return [[token for token in row if token not in ends] for row in written[:, ids.shape[1] :].tolist()]
