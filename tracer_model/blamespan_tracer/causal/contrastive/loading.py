"""Read a contrastive model back from the folder that its training left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from blamespan.errors import TracerUnavailable
from blamespan_tracer.causal.contrastive.model import ContrastiveModel
from blamespan_tracer.causal.contrastive.turns import CODES
from blamespan_tracer.causal.loading import Tokenizer, load_tokenizer

__all__ = ["ABOUT_FILE", "FORMAT", "WEIGHTS_FILE", "load_contrastive"]

WEIGHTS_FILE = "contrastive.safetensors"
ABOUT_FILE = "contrastive.json"
FORMAT = "blamespan-contrastive-1"


def load_contrastive(folder: Path) -> tuple[ContrastiveModel, Tokenizer, dict[str, Any]]:
    """Read what training left in *folder*: the model, its tokenizer, and what is to be known of it.

    Raises:
        TracerUnavailable: if it is missing, damaged or of another version.
    """
    try:
        about = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
        if about["format"] != FORMAT or tuple(about["codes"]) != CODES:
            raise ValueError(f"format {about['format']!r}")
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = ContrastiveModel(AutoModel.from_config(config), len(CODES))
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
        return model.eval(), load_tokenizer(str(folder), is_chat=False), about
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise TracerUnavailable(
            f"expected a contrastive model (format {FORMAT}) in {str(folder)!r}, got: {str(error)[:300]}. Name the "
            "folder `model` that `blamespan train` left, or train it again"
        ) from error
