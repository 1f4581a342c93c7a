"""A judge before `transformers serve`: a real server whose model is too small to be right; its answers do not count."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from blamespan_tracer.alternatives.endpoint import Endpoint
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer
from tests.tracer_model.alternatives.llm_judge.serving import SUM
from tests.tracer_model.alternatives.planted import of_models

_START_S = 180.0
_CONTEXT = 8192
_TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def _build(folder: Path) -> str:
    """Build a model with drawn weights that reads and writes bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    letters = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bpe = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<end>", pad_token="<end>")
    tokenizer.chat_template = _TEMPLATE
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = Qwen3Config(vocab_size=len(letters), num_key_value_heads=1, head_dim=32, eos_token_id=0, **sizes)
    config.max_position_embeddings = _CONTEXT
    tokenizer.save_pretrained(folder)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return str(folder)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://localhost:{port}/health", timeout=2).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError(f"the server did not come up: exit code {process.poll()}")


@of_models
@pytest.mark.skipif(find_spec("fastapi") is None, reason="needs fastapi: scripts/llm")
def test_a_real_server_is_asked_and_its_nonsense_does_not_count(tmp_path: Path) -> None:
    """The question arrives, its tokens are counted by the server, and what is no answer blames nobody."""
    model = _build(tmp_path / "model")
    with closing(socket.socket()) as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", model, "--port", str(port)]
    server = subprocess.Popen([*command, "--device", "cpu"], env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        _wait(server, port)
        endpoint = Endpoint(f"http://localhost:{port}/v1", model, "", 300.0)
        tracer = JudgeTracer(JudgeSettings(endpoint, answer_tokens=64), None, (), pause_s=0.01)
        [found] = tracer.attribute([SUM])
    finally:
        server.terminate()
        server.wait(30)

    assert found.abstained is not None
    assert "answer does not count" in found.abstained
    assert "could not be read" in tracer.account
