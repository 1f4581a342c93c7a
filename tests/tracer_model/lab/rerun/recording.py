"""Runs of the test's own programs, recorded in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import blamespan
from blamespan.otlp.json import request_to_json
from blamespan.testing import SpanRecorder


def record(path: Path, run: Callable[[], Any], **settings: Any) -> Path:
    """Write the spans of what *run* does to a file, recorded by *settings* of `instrument()`."""
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider, **settings)
    try:
        run()
    finally:
        blamespan.uninstrument()
    path.write_text(request_to_json(encode_spans(recorder.finished())) + "\n")
    return path
