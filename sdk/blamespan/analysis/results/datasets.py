"""Runs as examples for a dataset of Langfuse, LangSmith or Phoenix: a line of JSON each, with the keys of their SDKs.

The input is the run's task. An answer is expected only where somebody knows that the run succeeded; what a failed run
answered stands in the metadata, with the verdict. Sources: langfuse 5.0 (`create_dataset_item`), langsmith 0.15
(`create_examples`), arize-phoenix-client 3.5 (`create_dataset`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from blamespan.attribution import FAILURE_WORDS
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace

_FORMATS: Final = ("langfuse", "langsmith", "phoenix")
_NAME = re.compile(rf".\.({'|'.join(_FORMATS)})\.jsonl(?:\.gz|\.zst)?$")
_KEPT: Final = ("trace_id", "outcome", "verdict", "failure_score", "agent", "step", "service", "framework", "started")
"""Keys of a row that the metadata has, too."""


def dataset_format(path: Path | None) -> str:
    """Return what a file's name says that it is for: `runs.langsmith.jsonl`; empty for a file of something else.

    Raises:
        ConfigError: if it names a platform and another form than JSON lines.
    """
    if path is None:
        return ""
    if found := _NAME.search(path.name):
        return found[1]
    named = next((name for name in _FORMATS if f".{name}." in path.name or path.name.endswith(f".{name}")), "")
    if named:
        raise ConfigError(
            f"expected a dataset as JSON lines, got {path.name!r}. Name it like runs.{named}.jsonl, also .gz or .zst"
        )
    return ""


def example_line(run: RecordedRun, row: Mapping[str, Any], platform: str, *, every: bool) -> str:
    """Lay a run out as one example; empty for one that is not called failed, unless every run is wanted.

    Args:
        run: The run.
        row: What is said of it; see `blamespan.analysis.results.rows`.
        platform: `langfuse`, `langsmith` or `phoenix`.
        every: Whether runs that are not called failed are wanted, too.
    """
    if row["verdict"] not in FAILURE_WORDS and not every:
        return ""
    given, answer = {"task": run.trace.task}, _answer_of(run.trace)
    expected = {"answer": answer} if run.trace.outcome == "succeeded" else None
    metadata = {key: row[key] for key in _KEPT if row[key] is not None}
    if mode := row["mode"]:
        metadata["error_mode"] = f"{mode['taxonomy']}:{mode['code']}"
    if finding := next((item for item in row["evidence"] if item["index"] == row["step"]), None):
        metadata["finding"] = finding["quote"]
        if finding["contradicts"] is not None:
            metadata["contradicts"] = finding["contradicts"]["quote"]
    metadata |= {"answer": answer, "tracer": row["tracer"]["name"]}
    example: dict[str, Any]
    if platform == "langfuse":
        trace_id = run.trace.trace_id
        example = {"input": given, "expectedOutput": expected, "metadata": metadata, "sourceTraceId": trace_id}
    elif platform == "langsmith":
        example = {"inputs": given, "outputs": expected, "metadata": metadata}
    else:
        example = {"input": given, "output": expected or {}, "metadata": metadata}
    return json.dumps(_storable(example))


def _answer_of(trace: MessageActionTrace) -> str:
    """Return what an agent said last."""
    said = [step.content for step in trace.steps if step.kind == "message" and trace.can_be_blamed(step)]
    return said[-1] if said else ""


def _storable(value: Any) -> Any:
    """Replace NUL, which the platforms' databases refuse, and half of a surrogate pair, which is no text."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return {key: _storable(item) for key, item in value.items()} if isinstance(value, dict) else value
