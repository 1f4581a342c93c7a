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
