"""A model from nothing: a Qwen3 of any size, and a tokenizer learnt from the runs it is to read."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as bpe
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from blamespan_lab.language_model.recipe import Scratch
from blamespan_tracer.alternatives.rendering import ANSWER_TAGS
from blamespan_tracer.causal.loading import Model
from blamespan_tracer.causal.loading import Tokenizer as FastTokenizer

__all__ = ["CHAT_TEMPLATE", "build_model", "build_tokenizer"]

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, as Qwen3 speaks it."""

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def build_tokenizer(texts: Iterable[str], size: Scratch, context: int) -> FastTokenizer:
    """Learn a byte-level BPE from *texts*: digits one by one, as in Qwen3; the tags of an answer are tokens."""
    learnt = Tokenizer(bpe.BPE())
    learnt.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    learnt.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(
        vocab_size=size.vocabulary - len(ANSWER_TAGS),
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    learnt.train_from_iterator(texts, trainer)
    learnt.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in ANSWER_TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=learnt,
        pad_token="<|endoftext|>",  # noqa: S106
        eos_token="<|im_end|>",  # noqa: S106  # a token of a vocabulary, no secret
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def build_model(tokenizer: FastTokenizer, size: Scratch, context: int, seed: int) -> Model:
    """Build a Qwen3 with drawn weights, in float32."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=size.width,
            intermediate_size=size.inner_width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.kv_heads,
            head_dim=size.width // size.heads,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            attn_implementation="sdpa",
        )
    )
