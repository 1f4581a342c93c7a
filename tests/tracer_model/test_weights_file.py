"""Weights that somebody gives: what is damaged or made to harm is told from weights, and is one error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TypeAlias

import pytest

from blamespan.errors import TracerUnavailable
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import FORMAT as LEXICAL
from blamespan_tracer.auto.weights import FORMAT as AUTO
from blamespan_tracer.auto.weights import AutoWeights

DEEP = "[" * 100_000
HEADERS = {
    "deep list": DEEP,
    "deep object": '{"a":' * 100_000,
    "long number": '{"__metadata__": ' + "9" * 5_000 + "}",
    "no number": '{"__metadata__": NaN}',
    "list": "[]",
    "zeros": "\0" * 100,
    "half a pair": '{"__metadata__": {"format": "\\ud83d"}}',
}
LOADERS = [LexicalTracer, AutoWeights]
Loader: TypeAlias = type[LexicalTracer | AutoWeights]


def _refuse(loader: Loader, path: Path, header: str) -> None:
    path.write_bytes(len(header.encode()).to_bytes(8, "little") + header.encode())

    with pytest.raises(TracerUnavailable, match=r"expected (weights of the tracer auto|lexical weights)"):
        loader.load(path)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("name", HEADERS)
def test_damaged_header_is_one_error(tmp_path: Path, loader: Loader, name: str) -> None:
    """A header that is none, or is nested without end, is told like any other damage."""
    _refuse(loader, tmp_path / "weights", HEADERS[name])


@pytest.mark.parametrize(("loader", "format_name"), [(LexicalTracer, LEXICAL), (AutoWeights, AUTO)])
@pytest.mark.parametrize("field", ["shape", "calibration", "thresholds", "codes", "notes", "members"])
@pytest.mark.parametrize("value", [DEEP, "9" * 5_000, "NaN", "null", "{}"])
def test_damaged_field_is_one_error(tmp_path: Path, loader: Loader, format_name: str, field: str, value: str) -> None:
    """What is said of weights is JSON that somebody wrote, like the rest."""
    about = {"format": format_name, "shape": "{}", "members": "1", "calibration": "[]", "thresholds": "[0, 0]"}
    _refuse(loader, tmp_path / "weights", json.dumps({"__metadata__": {**about, field: value}}))


@pytest.mark.parametrize("loader", LOADERS)
def test_weights_that_are_no_file_are_refused(tmp_path: Path, loader: Loader) -> None:
    """A device or a pipe, which never ends, is named for what it is."""
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device"), (tmp_path, "a folder")):
        with pytest.raises(TracerUnavailable, match=f"which is {kind}"):
            loader.load(path)
