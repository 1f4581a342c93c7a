"""Tests of the tracer are collected where its extra is installed; what several of them share."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import blamespan
from blamespan.testing import SpanRecorder

collect_ignore_glob = ["test_*"] if any(find_spec(name) is None for name in ("numpy", "safetensors", "torch")) else []


@pytest.fixture
def recorder() -> Iterator[SpanRecorder]:
    """Keep the spans of every run of a test."""
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider)
    yield recorder
    blamespan.uninstrument()


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Let PyTorch use one thread: tiny language models are fastest so, and others want the cores too."""
    torch = pytest.importorskip("torch", reason="needs blamespan[llm]: scripts/llm")
    torch.set_num_threads(1)
