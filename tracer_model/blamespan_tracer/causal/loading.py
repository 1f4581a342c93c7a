"""Models, tokenizers and adapters of Hugging Face: loaded, or refused with what to do."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from blamespan.errors import TracerUnavailable
from blamespan.plugins import require
from blamespan_tracer.torch_devices import device_named

__all__ = [
    "Model",
    "Tokenizer",
    "device_of",
    "digest_of",
    "fingerprint",
    "load_model",
    "load_tokenizer",
    "with_adapter",
]

Model: TypeAlias = Any
"""A `PreTrainedModel` or `PeftModel`: transformers makes its methods at run time, so its types say nothing."""

Tokenizer: TypeAlias = Any
"""A `PreTrainedTokenizerFast`; the same holds."""

_TEMPLATE = Path(__file__).with_name("default_template.jinja")
_SAMPLED_BYTES = 1 << 20

_log = logging.getLogger(__name__)


def device_of(name: str) -> torch.device:
    """Find the device that *name* means: `auto` is the first GPU where there is one.

    Raises:
        TracerUnavailable: if there is no such device.
    """
    asked_by = "BLAMESPAN_CAUSAL_DEVICE as auto, cpu, cuda or cuda:N of this machine"
    return device_named(name, asked_by=asked_by, otherwise="Leave it out for auto")


def load_model(name: str, device: torch.device | None = None, *, dtype: torch.dtype | None = None) -> Model:
    """Load a causal model for reading: bfloat16 on a GPU, float32 on a CPU, unless *dtype* says otherwise.

    A folder is read without a network; an id is fetched as `HF_HUB_OFFLINE` and the cache allow. Code that comes with a
    model is not run.

    Args:
        name: Folder or Hugging Face id.
        device: Where to; None leaves it on the CPU in its place for training.
        dtype: Of the weights.

    Raises:
        TracerUnavailable: if there is no such model, it has no weights, or they do not fit into memory.
    """
    place = device or torch.device("cpu")
    kind = dtype or (torch.bfloat16 if place.type == "cuda" else torch.float32)
    _check_place(name, "a causal model")
    try:
        with _without_bars():
            model = AutoModelForCausalLM.from_pretrained(
                name, dtype=kind, attn_implementation="sdpa", local_files_only=Path(name).is_dir()
            )
        return model.to(place).eval()
    except torch.OutOfMemoryError as error:
        raise TracerUnavailable(
            f"expected {name!r} to fit on {place}, got out of memory ({_first_line(error)}). Take a smaller model, or "
            "BLAMESPAN_CAUSAL_DEVICE=cpu"
        ) from error
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
        raise TracerUnavailable(
            f"expected a causal model of Hugging Face with its weights in {name!r}, got: {_first_line(error)}. "
            f"Check the name{_offline()}; a folder must hold config.json and *.safetensors"
        ) from error


def load_tokenizer(name: str, *, is_chat: bool = True) -> Tokenizer:
    """Load the tokenizer that belongs to a model.

    Args:
        name: Folder or id of the model.
        is_chat: Whether it continues texts: then it pads on the left, and gets our chat template if it has none.

    Raises:
        TracerUnavailable: if there is none.
    """
    _check_place(name, "a tokenizer")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=Path(name).is_dir())
    except Exception as error:  # transformers raises whatever its readers do
        raise TracerUnavailable(
            f"expected a tokenizer of Hugging Face in {name!r}, got: {_first_line(error)}. Check the name{_offline()}; "
            "a folder must hold tokenizer.json"
        ) from error
    tokenizer.padding_side = "left" if is_chat else "right"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if is_chat and not tokenizer.chat_template:
        _log.warning("%s has no chat template: ours is used, as docs/llm.md shows it", name)
        tokenizer.chat_template = _TEMPLATE.read_text(encoding="utf-8")
    return tokenizer


def with_adapter(model: Model, name: str, *, base: str = "", is_trained: bool = False) -> Model:
    """Put a PEFT adapter on *model*.

    Args:
        model: The base.
        name: Folder or id of the adapter.
        base: Fingerprint of the model that it was trained on; empty where nobody knows.
        is_trained: Whether training goes on; otherwise it is merged into the weights.

    Raises:
        TracerUnavailable: if it is none, or belongs to another model.
    """
    require("peft", "llm")
    from peft import PeftModel

    if base and fingerprint(model) != base:
        raise TracerUnavailable(
            f"expected the model that the adapter {name!r} was trained on (fingerprint {base}), got "
            f"{_name_of(model)!r} ({fingerprint(model)}). Set BLAMESPAN_CAUSAL_MODEL to the right one"
        )
    try:
        found = PeftModel.from_pretrained(model, name, is_trainable=is_trained)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        raise TracerUnavailable(
            f"expected a PEFT adapter for {_name_of(model)!r} in {name!r}, got: {_first_line(error)}. Check both: "
            "an adapter fits only the model it was trained on"
        ) from error
    return found if is_trained else found.merge_and_unload()


def base_of(adapter: str) -> str:
    """Name the model that an adapter says it belongs to.

    Raises:
        TracerUnavailable: if it cannot be read, or says nothing.
    """
    require("peft", "llm")
    from peft import PeftConfig

    _check_place(adapter, "a PEFT adapter")
    try:
        name = PeftConfig.from_pretrained(adapter).base_model_name_or_path
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TracerUnavailable(
            f"expected a PEFT adapter in {adapter!r}, got: {_first_line(error)}. A folder must hold "
            f"adapter_config.json and adapter_model.safetensors{_offline()}"
        ) from error
    if not name:
        raise TracerUnavailable(
            f"expected the adapter {adapter!r} to name its model, got nothing. Set BLAMESPAN_CAUSAL_MODEL"
        )
    return str(name)


def fingerprint(model: Model) -> str:
    """Tell a model by its shape and a few of its weights: 12 hex digits, the same for float32 and bfloat16."""
    name, weights = min(
        ((name, each) for name, each in model.named_parameters() if each.dim() == 2 and "lora" not in name),
        key=lambda item: item[0],
    )
    sample = weights.detach()[:4, :64].to(torch.bfloat16).float().cpu().numpy().tobytes()
    shape = f"{name.rpartition('base_layer')[0] or name}{tuple(weights.shape)}{model.config.model_type}"
    return sha256(shape.encode() + sample).hexdigest()[:12]


def digest_of(*names: str) -> str:
    """Identify weights: names, sizes and both ends of every weight file; 12 hex digits. Of an id, the name."""
    found = sha256()
    for name in names:
        folder = Path(name)
        if not folder.is_dir():
            found.update(name.encode())
            continue
        for path in sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin")):
            size = path.stat().st_size
            with path.open("rb") as file:
                found.update(f"{path.name} {size}".encode() + file.read(_SAMPLED_BYTES))
                file.seek(max(size - _SAMPLED_BYTES, 0))
                found.update(file.read())
    return found.hexdigest()[:12]


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep transformers' progress bars off the terminal of whoever asks for a verdict."""
    was_on = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            hf_logging.enable_progress_bar()


def _check_place(name: str, what: str) -> None:
    """Refuse what looks like a path and is none, before anybody asks a network for it."""
    is_path = name.startswith((".", "/", "~", os.sep)) or name.count("/") > 1 or "\\" in name
    if is_path and not Path(name).is_dir():
        raise TracerUnavailable(f"expected {what} in the folder {name!r}, got no such folder. Check the path")


def _name_of(model: Model) -> str:
    return str(getattr(model.config, "name_or_path", "") or model.config.model_type)


def _offline() -> str:
    is_off = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    return " (HF_HUB_OFFLINE is set: nothing is fetched)" if is_off else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
