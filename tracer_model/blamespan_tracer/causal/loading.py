"""Models, tokenizers and adapters of Hugging Face: loaded, or refused with what to do."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from blamespan.analysis.showing.legible import printable
from blamespan.errors import TracerUnavailable
from blamespan.plugins import require
from blamespan_tracer.alternatives.torch_devices import device_named

__all__ = [
    "Model",
    "Tokenizer",
    "base_of",
    "check_config",
    "device_of",
    "digest_of",
    "fingerprint",
    "is_out_of_memory",
    "load_model",
    "load_tokenizer",
    "with_adapter",
    "without_progress_bars",
]

Model: TypeAlias = Any
"""A `PreTrainedModel` or `PeftModel`: transformers makes its methods at run time, so its types say nothing."""

Tokenizer: TypeAlias = Any
"""A `PreTrainedTokenizerFast`; the same holds."""

_TEMPLATE = Path(__file__).with_name("default_template.jinja")
_SAMPLED_BYTES = 1 << 20
_MOST_NAMED = 3
"""Tensors that are missing, as a message names them."""
_WRITES_ON = ("ForCausalLM", "ForConditionalGeneration")
"""How architectures end that are for something and for writing on."""
_NO_ROOM = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
"""What PyTorch says where memory ends without raising its class for it, as on a CPU."""

_log = logging.getLogger(__name__)


def device_of(name: str) -> torch.device:
    """Find the device that *name* means: `auto` is the first GPU where there is one.

    Raises:
        TracerUnavailable: if there is no such device.
    """
    asked_by = "BLAMESPAN_CAUSAL_DEVICE as auto, cpu, cuda or cuda:N of this machine"
    return device_named(name, asked_by=asked_by, otherwise="Leave it out for auto")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ended, of a GPU or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_ROOM)


def check_config(name: str) -> None:
    """See that *name* is a causal model, before its tokenizer and its weights are read.

    Raises:
        TracerUnavailable: if there is none, or it is a model of another kind.
    """
    _check_place(name, "a causal model")
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=_is_folder(name))
    except Exception as error:  # transformers raises whatever its readers do
        raise _no_model(name, error) from error
    kinds = [str(each) for each in getattr(config, "architectures", None) or ()]
    if kinds and all("For" in each and not each.endswith(_WRITES_ON) for each in kinds):
        raise TracerUnavailable(
            f"expected a causal model in {name!r}, one that writes on, got {', '.join(kinds)[:300]!r}. "
            "Take a model ...ForCausalLM"
        )


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
        with without_progress_bars():
            model, told = AutoModelForCausalLM.from_pretrained(
                name,
                dtype=kind,
                attn_implementation="sdpa",
                local_files_only=_is_folder(name),
                output_loading_info=True,
            )
        missing = sorted(told["missing_keys"])
        if missing:
            raise _no_model(name, f"weights without {_listed(missing)}, which would be drawn at random")
        return model.to(place).eval()
    except TracerUnavailable:
        raise
    except Exception as error:  # transformers raises whatever its readers do
        if is_out_of_memory(error):
            raise TracerUnavailable(
                f"expected {name!r} to fit on {place}, got out of memory ({_first_line(error)}). Take a smaller model, "
                "or BLAMESPAN_CAUSAL_DEVICE=cpu"
            ) from error
        raise _no_model(name, error) from error


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
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=_is_folder(name))
    except Exception as error:  # transformers raises whatever its readers do
        raise TracerUnavailable(
            f"expected a tokenizer of Hugging Face in {name!r}, got: {_first_line(error)}. Check the name{_offline()}; "
            "a folder must hold tokenizer.json"
        ) from error
    tokenizer.padding_side = "left" if is_chat else "right"
    if is_chat and tokenizer.eos_token_id is None:
        raise TracerUnavailable(
            f"expected a tokenizer with a token that ends a reply in {name!r}, got none. "
            "Name it as eos_token in tokenizer_config.json"
        )
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

    _check_adapter(name)
    if base and fingerprint(model) != base:
        raise TracerUnavailable(
            f"expected the model that the adapter {name!r} was trained on (fingerprint {base}), got "
            f"{_name_of(model)!r} ({fingerprint(model)}). Set BLAMESPAN_CAUSAL_MODEL to the right one"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is missing we say ourselves
            found = PeftModel.from_pretrained(model, name, is_trainable=is_trained)
        amiss = _not_matching(found, name)
        if amiss:
            raise ValueError(amiss)
        return found if is_trained else found.merge_and_unload()
    except Exception as error:  # PEFT raises whatever its readers do
        if is_out_of_memory(error):
            raise TracerUnavailable(
                f"expected the adapter {name!r} to fit into memory beside its model, got out of memory. Take a smaller "
                "model, or BLAMESPAN_CAUSAL_DEVICE=cpu"
            ) from error
        raise TracerUnavailable(
            f"expected a PEFT adapter for {_name_of(model)!r} in {name!r}, got: {_first_line(error)}. Check both: "
            "an adapter fits only the model it was trained on"
        ) from error


def base_of(adapter: str) -> str:
    """Name the model that an adapter says it belongs to.

    Raises:
        TracerUnavailable: if it cannot be read, or says nothing.
    """
    require("peft", "llm")
    from peft import PeftConfig

    _check_adapter(adapter)
    try:
        name = PeftConfig.from_pretrained(adapter).base_model_name_or_path
    except Exception as error:  # PEFT raises whatever its readers do
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
        if not _is_folder(name):
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
def without_progress_bars() -> Iterator[None]:
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
    if is_path and not _is_folder(name):
        raise TracerUnavailable(f"expected {what} in the folder {name!r}, got no such folder. Check the path")


def _check_adapter(name: str) -> None:
    """Refuse a folder that is none of an adapter, before PEFT takes it for the name of one elsewhere."""
    _check_place(name, "a PEFT adapter")
    if not _is_folder(name):
        return
    folder = Path(name)
    lacking = [] if (folder / "adapter_config.json").is_file() else ["adapter_config.json"]
    if not any((folder / f"adapter_model.{kind}").is_file() for kind in ("safetensors", "bin")):
        lacking.append("adapter_model.safetensors")
    if lacking:
        raise TracerUnavailable(
            f"expected a PEFT adapter in {name!r}, got a folder without {' and '.join(lacking)}. Name the folder that "
            "training left: it holds both"
        )


def _not_matching(model: Model, name: str) -> str:
    """Say which weights the adapter lacks, or has for layers that the model has not: PEFT goes on without."""
    from peft import get_peft_model_state_dict
    from peft.utils import load_peft_weights

    wanted = set(get_peft_model_state_dict(model, save_embedding_layers=False))
    given = set(load_peft_weights(name, device="cpu"))
    if missing := sorted(wanted - given):
        return f"weights without {_listed(missing)}"
    beyond = sorted(each for each in given - wanted if "lora_" in each)
    return f"weights of layers that the model has not: {_listed(beyond)}" if beyond else ""


def _no_model(name: str, error: BaseException | str) -> TracerUnavailable:
    said = error if isinstance(error, str) else _first_line(error)
    return TracerUnavailable(
        f"expected a causal model of Hugging Face with its weights in {name!r}, got: {said}. "
        f"Check the name{_offline()}; a folder must hold config.json and all of *.safetensors"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return f"{', '.join(names[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # no system takes such a name for a path
        return False


def _name_of(model: Model) -> str:
    return str(getattr(model.config, "name_or_path", "") or model.config.model_type)


def _offline() -> str:
    is_off = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    return " (HF_HUB_OFFLINE is set: nothing is fetched)" if is_off else ""


def _first_line(error: BaseException) -> str:
    """Give what an error says first, and what it announces with a colon: on one line that a terminal can show."""
    lines = [line for line in map(printable, str(error).splitlines()) if line]
    said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return (said or type(error).__name__).rstrip(".")[:300]
