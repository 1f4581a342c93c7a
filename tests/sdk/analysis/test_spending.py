"""What a run took: tokens as they are counted, money by a table that lies on this machine or as the source says."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan import conventions as words
from blamespan.analysis.showing.legible import dollars
from blamespan.analysis.spending import VARIABLE, Spending, prices_in_use, spending_of
from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.trace import Step, Usage

TABLE = '["gpt-4o"]\ninput = 2.5\noutput = 10\n["o3"]\ninput = 2\noutput = 8\n'
MILLION = Usage(1_000_000, 1_000_000)


@pytest.fixture(autouse=True)
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of this machine."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "litellm", None)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def step(usage: Usage | None = MILLION, model: str = "gpt-4o", **attributes: Any) -> Step:
    named = {words.REQUEST_MODEL: model} if model else {}
    return Step(0, "1" * 16, "solver", usage=usage, attributes={**named, **attributes})


def test_without_a_table_there_are_tokens_alone() -> None:
    """Nothing is guessed, and nothing is said to lack."""
    assert spending_of([step(), step()]) == Spending(2_000_000, 2_000_000)
    assert spending_of([step(usage=None)]) is None


def test_steps_cost_what_the_table_says_and_unknown_models_are_named(table: Path) -> None:
    """Known models add up; of the others only the tokens count, and the text says so."""
    del table

    spent = spending_of([step(), step(model="o3"), step(model="mine"), step(model="")])

    assert spent == Spending(4_000_000, 4_000_000, 22.5, ("mine", ""))
    assert spent.text() == "4,000,000 → 4,000,000 tokens, $22.50 (without mine, an unnamed model: no price)"


def test_of_unknown_models_alone_no_money_is_said(table: Path) -> None:
    """Zero dollars would be a lie."""
    del table

    spent = spending_of([step(model="mine")])

    assert spent == Spending(1_000_000, 1_000_000, None, ("mine",))
    assert spent.text() == "1,000,000 → 1,000,000 tokens (no price of mine)"


@pytest.mark.parametrize("model", ["gpt-4o", "openai/gpt-4o", "GPT-4o", "gpt-4o-2024-08-06", "azure/gpt-4o-20240806"])
def test_a_model_is_known_by_its_name_without_server_and_date(table: Path, model: str) -> None:
    """As providers spell it; a longer name of another model is another model."""
    del table

    assert spending_of([step(model=model)]) == Spending(1_000_000, 1_000_000, 12.5)
    assert spending_of([step(model="gpt-4o-mini")]) == Spending(1_000_000, 1_000_000, None, ("gpt-4o-mini",))


def test_what_the_source_says_counts_before_the_table(table: Path) -> None:
    """A cost on a step is what was paid: discounts and caches are in it."""
    del table

    assert spending_of([step(**{words.COST_USD: 0.25})]) == Spending(1_000_000, 1_000_000, 0.25)


@pytest.mark.parametrize("cost", ["1", True, float("nan"), float("inf"), -1.0])
def test_a_cost_that_is_none_is_no_cost(cost: object) -> None:
    """What other programs write there may be anything."""
    assert spending_of([step(**{words.COST_USD: cost})]) == Spending(1_000_000, 1_000_000)


def test_the_table_of_litellm_is_read_from_the_installed_package_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing litellm takes seconds and may fetch the table; its file is enough."""
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    prices = {"gpt-4o": {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05}, "x": {"mode": "image"}}
    (package / "model_prices_and_context_window_backup.json").write_text(json.dumps(prices))
    monkeypatch.delitem(sys.modules, "litellm")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert prices_in_use() == {"gpt-4o": (2.5e-06, 1e-05)}
    assert spending_of([step()]) == Spending(1_000_000, 1_000_000, 12.5)


@pytest.mark.parametrize("text", ["", "[1]", "{", "a = 1", '["m"]\ninput = "2"', '["m"]\ninput = -1', "\0", None])
def test_what_is_no_table_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """With the file, and how to write one."""
    path = tmp_path / "prices.toml"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))

    with pytest.raises(ConfigError, match=r"expected BLAMESPAN_PRICES to name a table of prices, got .*prices\.toml"):
        prices_in_use()


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0.0, "$0.00"), (12.344, "$12.34"), (1234.5, "$1,234.50"), (0.0031, "$0.0031"), (0.25, "$0.25"), (1e-12, "$0.00")],
)
def test_money_is_written_with_what_is_worth_reading(usd: float, text: str) -> None:
    """Two digits, wherever they stand; what is below a billionth of a dollar is nothing."""
    assert dollars(usd) == text


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_show_analyze_and_summary_say_tokens_and_money(tmp_path: Path, table: Path) -> None:
    """Of the run, of each agent, and of all runs with what the failed ones took."""
    del table
    agent = {"name": "planner", "version": "1", "model_name": "gpt-4o"}
    metrics = {"prompt_tokens": 1000, "completion_tokens": 100}
    steps = [
        {"step_id": 1, "source": "user", "message": "How many?"},
        {"step_id": 2, "source": "agent", "message": "Twelve.", "metrics": metrics},
    ]
    path, out = tmp_path / "t.json", tmp_path / "r.jsonl"
    path.write_text(json.dumps({"schema_version": "ATIF-v1.7", "agent": agent, "steps": steps}))

    assert run("analyze", path, "--out", out).exit_code == 0
    row = json.loads(out.read_bytes())
    row["outcome"] = "failed"
    out.write_text(json.dumps(row))
    shown, summed = run("show", path).output, " ".join(run("summary", out).output.split())

    spent = {"input_tokens": 1000, "output_tokens": 100, "usd": 0.0035, "unpriced": []}
    assert row["usage"] == {**spent, "agents": [{"agent": "planner", **spent}]}
    assert "1,000 → 100 tokens, $0.0035" in " ".join(shown.split())
    assert "1,000 read, 100 written in 1 run; $0.0035, $0.0035 of it in failed runs" in summed
    assert json.loads(run("summary", out, "--json").output)["tracers"][0]["usage"]["usd_of_failed"] == 0.0035


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_wrong_table_is_said_once_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    """Not by every worker process, and not after an hour."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.toml"))

    result = run("analyze", tmp_path, "--processes", processes)

    assert isinstance(result.exception, ConfigError)
    assert "none.toml" in str(result.exception)


def test_prices_do_not_change_the_step(table: Path) -> None:
    """A step without tokens has no cost."""
    del table

    assert spending_of([replace(step(), usage=Usage(0, 0))]) == Spending(0, 0)
