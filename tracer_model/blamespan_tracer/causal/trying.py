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
from blamespan_tracer.causal.formats import MODE_OF
from blamespan_tracer.causal.loading import Model, Tokenizer, is_out_of_memory
from blamespan_tracer.causal.scoring import (
    Floats,
    Scorer,
    can_share_prefix,
    score_alone,
    score_one_by_one,
    score_tries,
)
from blamespan_tracer.causal.trie import TokenTrie

__all__ = ["check_pair", "check_template", "tried_scorer"]

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
        said = "" if _SHOWN in shown else "one that leaves out what a user says"
    except Exception as error:  # a template may raise what it likes
        said = f"{type(error).__name__}: {str(error)[:200]!r}"
    if said:
        raise TracerUnavailable(
            f"expected a chat template in {name!r} that lays out a question, got {said}. Mend chat_template.jinja, or "
            "remove it: then ours is used"
        )


def check_pair(model: Model, tokenizer: Tokenizer, name: str) -> None:
    """See that *tokenizer* can write answers apart, in words that *model* knows.

    Raises:
        TracerUnavailable: if it cannot, or belongs to another model.
    """
    known = int(model.get_input_embeddings().weight.shape[0])
    added = set(tokenizer.get_added_vocab())
    most = max((place for word, place in tokenizer.get_vocab().items() if word not in added), default=0)
    if most >= known:
        raise TracerUnavailable(
            f"expected the tokenizer of the model {name!r}, which knows {known:,} tokens, got one with {most + 1:,}. "
            "Take model and tokenizer from the same place"
        )
    try:
        TokenTrie([tokens_of(tokenizer, f" {code}") for code in MODE_OF])
        numbers = TokenTrie(
            [[*tokens_of(tokenizer, each), *tokens_of(tokenizer, "</answer>")[:1]] for each in _NUMBERS]
        )
    except ValueError as error:
        raise TracerUnavailable(
            f"expected a tokenizer in {name!r} that can write numbers and codes, got one in whose tokens they are "
            "alike. Take model and tokenizer from the same place"
        ) from error
    if max(numbers.tokens) >= known:
        raise TracerUnavailable(
            f"expected the tokenizer of the model {name!r}, which knows {known:,} tokens, got one that writes numbers "
            f"in others. Take model and tokenizer from the same place"
        )


@torch.inference_mode()
def tried_scorer(model: Model, tokenizer: Tokenizer, name: str) -> tuple[Scorer, bool]:
    """Find the fastest way of scoring that gives what reading every answer by itself gives.

    Returns:
        The way, and whether prompts of different lengths may share a batch.

    Raises:
        TracerUnavailable: if the model fails, gives no numbers, or looks ahead.
    """
    prompts = [tokens_of(tokenizer, each) or [0] for each in _PROMPTS]
    tries = [
        TokenTrie([tokens_of(tokenizer, each) for each in some]) for some in (("1|2", "2|1", "2|3"), ("0|0", "3|1"))
    ]
    try:
        expected = score_alone(model, prompts, tries, tokenizer.pad_token_id)
        ahead = _looks_ahead(model, prompts[0])
    except Exception as error:  # whatever a model raises that was built for something else
        raise _unfit(name, f"{type(error).__name__}: {str(error)[:200]!r}", error) from error
    if ahead or not all(np.isfinite(each).all() for each in expected):
        said = "one that looks ahead" if ahead else "probabilities that are no numbers: its weights may be damaged"
        raise _unfit(name, said)
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
    found: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return found


def _looks_ahead(model: Model, prompt: Sequence[int]) -> bool:
    """Tell whether what comes later changes what is said before it."""
    half = len(prompt) // 2
    both = [prompt[: 2 * half], [*prompt[:half], *prompt[:half]]]
    first, second = (
        model(input_ids=torch.tensor([each], device=model.device)).logits[0, :half].float() for each in both
    )
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
        found = scorer(model, prompts, tries, pad)
    except Exception as error:  # whatever a model raises that does not take this
        if is_out_of_memory(error):
            raise
        return math.inf
    apart = max(float(np.abs(one - other).max()) for one, other in zip(found, expected, strict=True))
    return apart if math.isfinite(apart) else math.inf


def _unfit(name: str, said: str, error: BaseException | None = None) -> TracerUnavailable:
    if error is not None and is_out_of_memory(error):
        return TracerUnavailable(
            f"expected {name!r} to have memory left for reading, got out of memory. Take a smaller model, or "
            "BLAMESPAN_CAUSAL_DEVICE=cpu"
        )
    return TracerUnavailable(
        f"expected {name!r} to be a causal model that can be read, got {said}. Fetch or train it again, or take another"
    )
