"""Tests of the tracer are collected where its extra is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = ["test_*"] if any(find_spec(name) is None for name in ("numpy", "safetensors", "torch")) else []
