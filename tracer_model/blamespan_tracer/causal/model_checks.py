"""A model and its tokenizer tried out on a few made-up words: what no file of theirs says shows at once.

That is whether the two belong together, whether the model gives numbers and reads forward, and which way of scoring
answers gives what reading each of them by itself gives: some attend in ways that they do not tell.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
import torch

from blamespan.errors import TracerUnavailable
from blamespan_tracer.causal.loading import Model, Tokenizer, is_out_of_memory
from blamespan_tracer.causal.prompts import MODE_OF
from blamespan_tracer.causal.scoring import (
    Floats,
    Scorer,
    can_share_prefix,
    score_alone,
    score_one_by_one,
    score_tries,
)
from blamespan_tracer.causal.token_trie import TokenTrie

__all__ = ["check_pair", "check_template", "choose_scorer"]

_log = logging.getLogger(__name__)

_SHOWN = "blamespan-shows-this"
_NUMBERS = ("0|0", "1|2", "2|1", "3|7", "3|70", "12|345")
_PROMPTS = ("Steps:\n[0] agent 1\n  The answer is 12.\n[1] agent 2\n  It agrees.\n", "Steps:\n")
"""Of two lengths, so that one is padded beside the other."""
_NEAR = {torch.float32: 1e-3, torch.float64: 1e-3}
_NEAR_ROUNDED = 0.5
"""How far log-probabilities may lie apart: in half precision sums are rounded as their order goes."""


def check_template(tokenizer: Tokenizer, name: str) -> None:
    """See that the chat template shows what a user says.

    Raises:
        TracerUnavailable: if it fails, or leaves that out.
    """
    try:
        asked = [{"role": "user", "content": _SHOWN}]
        shown = str(tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))
        problem = "" if _SHOWN in shown else "one that leaves out what a user says"
    except Exception as error:  # a template may raise what it likes
        problem = f"{type(error).__name__}: {str(error)[:200]!r}"
    if problem:
        raise TracerUnavailable(
            f"expected a chat template in {name!r} that lays out a question, got {problem}. "
            "Mend chat_template.jinja, or remove it: then ours is used"
        )


def check_pair(model: Model, tokenizer: Tokenizer, name: str) -> None:
    """See that *tokenizer* can write answers apart, in words that *model* knows.

    Raises:
        TracerUnavailable: if it cannot, or belongs to another model.
    """
    n_known = int(model.get_input_embeddings().weight.shape[0])
    added = set(tokenizer.get_added_vocab())
    most = max((token for word, token in tokenizer.get_vocab().items() if word not in added), default=0)
    if most >= n_known:
        raise TracerUnavailable(
            f"expected the tokenizer of the model {name!r}, which knows {n_known:,} tokens, got one with {most + 1:,}. "
            "Take model and tokenizer from the same place"
        )
    try:
        TokenTrie([tokens_of(tokenizer, f" {code}") for code in MODE_OF])
        numbers = TokenTrie(
            [[*tokens_of(tokenizer, text), *tokens_of(tokenizer, "</answer>")[:1]] for text in _NUMBERS]
        )
    except ValueError as error:
        raise TracerUnavailable(
            f"expected a tokenizer in {name!r} that can write numbers and codes, got one in whose tokens they are "
            "alike. Take model and tokenizer from the same place"
        ) from error
    if max(numbers.tokens) >= n_known:
        raise TracerUnavailable(
            f"expected the tokenizer of the model {name!r}, which knows {n_known:,} tokens, got one that writes "
            f"numbers in others. Take model and tokenizer from the same place"
        )


@torch.inference_mode()
def choose_scorer(model: Model, tokenizer: Tokenizer, name: str) -> tuple[Scorer, bool]:
    """Find the fastest way of scoring that gives what reading every answer by itself gives.

    Returns:
        The way, and whether prompts of different lengths may share a batch.

    Raises:
        TracerUnavailable: if the model fails, gives no numbers, or looks ahead.
    """
    prompts = [tokens_of(tokenizer, text) or [0] for text in _PROMPTS]
    tries = [
        TokenTrie([tokens_of(tokenizer, text) for text in texts]) for texts in (("1|2", "2|1", "2|3"), ("0|0", "3|1"))
    ]
    try:
        expected = score_alone(model, prompts, tries, tokenizer.pad_token_id)
        ahead = _looks_ahead(model, prompts[0])
    except Exception as error:  # whatever a model raises that was built for something else
        raise _unfit(name, f"{type(error).__name__}: {str(error)[:200]!r}", error) from error
    if ahead or not all(np.isfinite(logprobs).all() for logprobs in expected):
        problem = "one that looks ahead" if ahead else "probabilities that are no numbers: its weights may be damaged"
        raise _unfit(name, problem)
    near = _NEAR.get(model.dtype, _NEAR_ROUNDED)
    for scorer in (score_tries, score_one_by_one) if can_share_prefix(model) else (score_one_by_one,):
        if _distance(scorer, model, prompts, tries, tokenizer.pad_token_id, expected) <= near:
            return scorer, True
    _log.warning(
        "%s is read slowly, every answer by itself: it does not take padding, or prompts that are shared", name
    )
    return score_alone, False


def tokens_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Cut a text into tokens, none added."""
    tokens: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return tokens


def _looks_ahead(model: Model, prompt: Sequence[int]) -> bool:
    """Return whether later tokens change earlier logits."""
    half = len(prompt) // 2
    both = [prompt[: 2 * half], [*prompt[:half], *prompt[:half]]]
    first, second = (model(input_ids=torch.tensor([row], device=model.device)).logits[0, :half].float() for row in both)
    rounding = 1e-3 if model.dtype in _NEAR else 0.05
    return half > 0 and float((first - second).abs().max()) > rounding * float(first.abs().max())


def _distance(
    scorer: Scorer,
    model: Model,
    prompts: Sequence[Sequence[int]],
    tries: Sequence[TokenTrie],
    pad: int,
    expected: Sequence[Floats],
) -> float:
    try:
        scores = scorer(model, prompts, tries, pad)
    except Exception as error:  # whatever a model raises that does not take this
        if is_out_of_memory(error):
            raise
        return math.inf
    apart = max(float(np.abs(row - other).max()) for row, other in zip(scores, expected, strict=True))
    return apart if math.isfinite(apart) else math.inf


def _unfit(name: str, problem: str, error: BaseException | None = None) -> TracerUnavailable:
    if error is not None and is_out_of_memory(error):
        return TracerUnavailable(
            f"expected {name!r} to have memory left for reading, got out of memory. Take a smaller model, or "
            "BLAMESPAN_CAUSAL_DEVICE=cpu"
        )
    return TracerUnavailable(
        f"expected {name!r} to be a causal model that can be read, got {problem}. "
        "Fetch or train it again, or take another"
    )
