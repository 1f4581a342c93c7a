"""What tests of language models share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Let PyTorch use one thread: tiny models are fastest so, and others want the cores too."""
    torch = pytest.importorskip("torch", reason="needs blamespan[llm]: scripts/llm")
    torch.set_num_threads(1)
