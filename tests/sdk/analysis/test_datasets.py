"""`blamespan analyze --out runs.langsmith.jsonl`: failed runs as examples that other platforms take."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.analysis.results.datasets import dataset_format
from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.trace import Agent, MessageActionTrace, Outcome, Step
from tests.sdk.builders import otlp_lines

_TASK = "How many birds?"
_KEYS = {"langfuse": ("input", "expectedOutput"), "langsmith": ("inputs", "outputs"), "phoenix": ("input", "output")}


def _trace(number: int, said: str, outcome: Outcome = "unknown", task: str = _TASK) -> MessageActionTrace:
    steps = (
        Step(0, f"{number:015x}a", "adder", content=said),
        Step(1, f"{number:015x}b", "reporter", content=f"So it is {said.split()[-1]}", inputs=(0,)),
    )
    return MessageActionTrace(f"{number:032x}", task, steps, (Agent("adder"), Agent("reporter")), outcome)


_WRONG, _SOUND = _trace(1, "40 + 2 = 52"), _trace(2, "40 + 2 = 42", "succeeded")


def _analyze(folder: Path, name: str, *traces: MessageActionTrace, options: tuple[str, ...] = ()) -> Result:
    (folder / "runs.jsonl").write_text(otlp_lines(*traces))
    arguments = [str(folder / "runs.jsonl"), "--out", str(folder / name), "--tracer", "checks", *options]
    return CliRunner().invoke(cli, ["analyze", *arguments])


def _examples(folder: Path, name: str, *traces: MessageActionTrace, options: tuple[str, ...] = ()) -> list[Any]:
    result = _analyze(folder, name, *traces, options=options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("platform", list(_KEYS))
def test_failed_run_is_an_example_and_its_sound_twin_is_none(tmp_path: Path, platform: str) -> None:
    """The task is given, nothing is expected, and the metadata says who failed, by which finding."""
    [example] = _examples(tmp_path, f"runs.{platform}.jsonl", _WRONG, _SOUND)
    given, expected = _KEYS[platform]
    metadata = example.pop("metadata")

    assert example.pop(given) == {"task": _TASK}
    assert not example.pop(expected)
    assert example == ({"sourceTraceId": _WRONG.trace_id} if platform == "langfuse" else {})
    assert (metadata["trace_id"], metadata["agent"], metadata["step"]) == (_WRONG.trace_id, "adder", 0)
    assert (metadata["finding"], metadata["answer"]) == ("40 + 2 = 52", "So it is 52")


@pytest.mark.parametrize("platform", list(_KEYS))
def test_with_all_a_run_that_succeeded_says_what_is_expected(tmp_path: Path, platform: str) -> None:
    """Its answer is known to be right; that of a run of which nobody knows is not."""
    unknown = _trace(3, "40 + 3 = 43")
    sound, open_run = _examples(tmp_path, f"x.{platform}.jsonl", _SOUND, unknown, options=("--all",))
    expected = _KEYS[platform][1]

    assert sound[expected] == {"answer": "So it is 42"}
    assert open_run[expected] == ({} if platform == "phoenix" else None)


def test_langsmith_takes_every_line(tmp_path: Path) -> None:
    """By the model of its own SDK."""
    from langsmith.schemas import ExampleCreate

    [example] = _examples(tmp_path, "runs.langsmith.jsonl", _WRONG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer SDKs say reference_outputs; the wire says outputs
        made = ExampleCreate(**example)

    assert made.inputs == {"task": _TASK}
    assert made.metadata == example["metadata"]


def test_hostile_text_is_a_line_that_databases_take(tmp_path: Path) -> None:
    """No NUL, no half characters, one line; what else stands in the text stays."""
    hostile = 'a\x00b\ud800\n"}\u2028 \N{SNOWMAN}'
    [example] = _examples(tmp_path, "runs.phoenix.jsonl", _trace(1, "40 + 2 = 52", task=hostile))

    assert example["input"]["task"].startswith("a\N{REPLACEMENT CHARACTER}b")
    assert example["input"]["task"].endswith('\n"}\u2028 \N{SNOWMAN}')


def test_dataset_may_be_compressed(tmp_path: Path) -> None:
    """By its name, as other results."""
    assert _analyze(tmp_path, "runs.langfuse.jsonl.gz", _WRONG).exit_code == 0
    with gzip.open(tmp_path / "runs.langfuse.jsonl.gz") as file:
        assert json.loads(file.read())["sourceTraceId"] == _WRONG.trace_id


def test_other_forms_are_refused_with_the_name_to_take(tmp_path: Path) -> None:
    """Before anything is read; files that name no platform are results as before."""
    result = _analyze(tmp_path, "runs.phoenix.parquet", _WRONG)

    assert isinstance(result.exception, ConfigError)
    assert "Name it like runs.phoenix.jsonl" in str(result.exception)
    assert [dataset_format(Path(name)) for name in ("phoenix.jsonl", "runs.jsonl", "a.json")] == ["", "", ""]


def test_interrupted_dataset_is_not_gone_on_with_as_another(tmp_path: Path) -> None:
    """What is kept beside the output says for whom it is."""
    from blamespan.analysis.command import _plan
    from blamespan.tracers import load_tracer

    options: dict[str, Any] = dict.fromkeys(("format_name", "since", "until", "limit"))
    options |= {"filters": (), "annotated": tmp_path / "x.phoenix.jsonl", "every": True}

    assert _plan(load_tracer("checks"), options)["form"] == ["phoenix", True]
