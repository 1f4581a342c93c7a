"""Kinds of models, each tried out: the way of scoring that is found gives what reading answer by answer gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tracer_model.causal.marks import OF_MODELS, needs_llm

needs_llm()
pytestmark = OF_MODELS

import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from blamespan.errors import TracerUnavailable  # noqa: E402
from blamespan_lab.language_model.recipe import Scratch  # noqa: E402
from blamespan_lab.language_model.scratch import build_tokenizer  # noqa: E402
from blamespan_tracer.alternatives.rendering import render_run  # noqa: E402
from blamespan_tracer.causal import loading, scoring  # noqa: E402
from blamespan_tracer.causal.model_checks import choose_scorer  # noqa: E402
from blamespan_tracer.causal.settings import CausalSettings, Learnt  # noqa: E402
from blamespan_tracer.causal.tracer import CausalTracer  # noqa: E402
from tests.tracer_model.causal.planted import planted  # noqa: E402

TRACES = [run.trace for n_steps, seed in ((3, 1), (7, 2), (12, 3)) for run in planted(1, seed=seed, n_steps=n_steps)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> loading.Tokenizer:
    """One that all of them share."""
    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer(
        (render_run(run.trace).text() for run in planted(60)), Scratch(vocabulary=420), 1_024
    ).save_pretrained(folder)
    return loading.load_tokenizer(str(folder))


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 16},
    "gemma2": {"head_dim": 24, "sliding_window": 16},
    "gpt2": {"n_positions": 1_024, "n_embd": 48, "n_layer": 2, "n_head": 2},
    "gptj": {"n_positions": 1_024, "n_embd": 48, "n_layer": 2, "n_head": 2, "rotary_dim": 8},
    "gpt_neo": {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]], "window_size": 16},
    "bloom": {"n_layer": 2, "n_head": 2},
    "mpt": {"d_model": 48, "n_heads": 2, "n_layers": 2, "max_seq_len": 1_024},
    "mamba": {"state_size": 8},
    "rwkv": {"attention_hidden_size": 48, "context_length": 1_024},
}


def built(kind: str, tokenizer: Any) -> Any:
    sizes = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 1_024}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    more = ARCHITECTURES.get(kind, {})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, vocab_size=len(tokenizer), **{**sizes, **heads, **ends, **more})
    )
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(3.0 if each.dim() > 1 else 1.0)  # so that its answers differ visibly
    return model.eval()


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_kind_of_model_is_scored_as_answer_by_answer(tokenizer: Any, kind: str) -> None:
    """Some take no padding, no shared prompt, no positions: the way that is found gives what the plain one gives."""
    model, learnt = built(kind, tokenizer), Learnt(is_brief=True, context=512)
    scorer, can_pad = choose_scorer(model, tokenizer, kind)
    settings = CausalSettings(model="x", batch=3 if can_pad else 1)

    found = CausalTracer(model, tokenizer, settings, learnt, scorer=scorer).attribute(TRACES)

    plain = CausalTracer(model, tokenizer, CausalSettings(model="x", batch=1), learnt, scorer=scoring.score_alone)
    for one, other in zip(found, plain.attribute(TRACES), strict=True):
        assert [step.score for step in one.steps] == pytest.approx([step.score for step in other.steps], abs=1e-4)


def test_model_that_looks_ahead_is_refused(tokenizer: Any) -> None:
    """An encoder loads as a causal model, and sees what it is asked to guess."""
    with pytest.raises(TracerUnavailable, match="got one that looks ahead"):
        choose_scorer(built("bert", tokenizer), tokenizer, "bert")
