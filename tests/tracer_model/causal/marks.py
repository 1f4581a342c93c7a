"""What tests of language models share."""

from __future__ import annotations

import pytest

PACKAGES = ("torch", "transformers", "trl", "peft", "datasets")

OF_MODELS = [
    pytest.mark.llm,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("one_thread"),
]
"""Marks of modules that build language models; `needs_llm` goes with them."""


def needs_llm() -> None:
    """Leave a module out where the packages of blamespan[llm] are missing."""
    for package in PACKAGES:
        pytest.importorskip(package, reason="needs blamespan[llm]: scripts/llm")
