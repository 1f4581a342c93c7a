"""The example notebook runs as it stands, and what it shows is what comes out."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[3] / "examples" / "analyze.ipynb"


def test_example_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs after the other in one namespace; each prints what is saved below it."""
    pytest.importorskip("pandas")
    pytest.importorskip("numpy")
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "notebook"}
    printed = []
    for cell in cells:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)  # our own example
        printed.append(out.getvalue())

    shown = ["".join(t for o in cell["outputs"] if o.get("name") == "stdout" for t in _lines(o)) for cell in cells]
    assert printed == shown
    assert list(names["failed"].agent) == ["analyst", "researcher"]
    assert names["blame"].score.sum() == pytest.approx(1, abs=1e-5)


def _lines(output: dict[str, Any]) -> list[str]:
    text = output["text"]
    return [text] if isinstance(text, str) else text
