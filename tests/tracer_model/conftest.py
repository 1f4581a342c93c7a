"""Tests of the tracer are collected where its extra is installed; what several of them share."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import blamespan
from blamespan.cli import cli
from blamespan.testing import SpanRecorder

if TYPE_CHECKING:
    from blamespan_tracer.auto.tracer import AutoTracer

collect_ignore_glob = ["test_*"] if any(find_spec(name) is None for name in ("numpy", "safetensors", "torch")) else []


@pytest.fixture
def recorder() -> Iterator[SpanRecorder]:
    """Keep the spans of every run of a test."""
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider)
    yield recorder
    blamespan.uninstrument()


@pytest.fixture(scope="session")
def tracer() -> AutoTracer:
    """The tracer `auto` with its bundled weights."""
    from blamespan_tracer.auto.tracer import AutoTracer

    return AutoTracer.bundled()


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train by the bundled recipe that proves the path; give its run directory, with what the command printed."""
    import torch

    from blamespan_lab.train import RECIPES
    from tests.tracer_model.alternatives.planted import write_corpus

    torch.set_num_threads(1)  # tiny language models are fastest so, and others want the cores too
    folder = tmp_path_factory.mktemp("tuned")
    write_corpus(folder / "small", 480)
    recipe = RECIPES / "language-model-tiny.toml"
    done = CliRunner().invoke(cli, ["lab", "train", str(recipe), "--data", str(folder), "--out", str(folder / "run")])
    assert done.exit_code == 0, done.output
    (folder / "run" / "printed.txt").write_text(done.stdout)
    return folder / "run"
