"""Tokens and money of a run: what its model calls took, by a table of prices that lies on this machine.

The table is the file that `BLAMESPAN_PRICES` names: TOML or JSON of models with `input` and `output` in US dollars a
million tokens, or LiteLLM's `model_prices_and_context_window.json`. Without it, that of an installed `litellm` is read.
Nothing is fetched. What a source says that a step cost counts before any table.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from blamespan import conventions as words
from blamespan.analysis.showing.legible import dollars, printable
from blamespan.errors import ConfigError
from blamespan.trace import Step

VARIABLE: Final = "BLAMESPAN_PRICES"
"""Names the file of prices."""
_LITELLM = "model_prices_and_context_window_backup.json"
_MOST_BYTES = 64 * 1024 * 1024
_MOST_NAMED = 20
_PER_MILLION = 1_000_000
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")

Prices: TypeAlias = Mapping[str, tuple[float, float]]
"""US dollars for a token read and a token written, by model."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What steps took.

    Attributes:
        input_tokens: Read by models.
        output_tokens: Written by them.
        usd: What they cost in US dollars, as far as that is known; None where it is known of none of them, or no table
            of prices is there.
        unpriced: Models of tokens that no price is known for, in order; empty text for tokens of which no model is
            named. Empty where there is no table at all.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    unpriced: tuple[str, ...] = ()

    @property
    def lacking(self) -> str:
        """Say what the money leaves out; empty where it is whole, or there is none to tell."""
        if not self.unpriced:
            return ""
        named = ", ".join(name or "an unnamed model" for name in self.unpriced)
        return f"without {named}: no price" if self.usd is not None else f"no price of {named}"

    def text(self, to: str = "→") -> str:
        """Write it in a line, *to* between what was read and written."""
        money = "" if self.usd is None else f", {dollars(self.usd)}"
        lacking = f" ({printable(self.lacking)})" if self.lacking else ""
        return f"{self.input_tokens:,} {to} {self.output_tokens:,} tokens{money}{lacking}"

    def as_json(self) -> dict[str, Any]:
        """Lay it out as plain values; dollars with eight decimals."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "usd": None if self.usd is None else round(self.usd, 8),
            "unpriced": list(self.unpriced),
        }


def spending_of(steps: Iterable[Step]) -> Spending | None:
    """Add up what steps took; None where none of them counts tokens or says a cost.

    Raises:
        ConfigError: if `BLAMESPAN_PRICES` names no table of prices.
    """
    read = written = 0
    prices_once = cache(prices_in_use)  # looked up where a step needs them, and once
    costs: list[float] = []
    unpriced: dict[str, None] = {}
    has_any = False
    for step in steps:
        told = step.attributes.get(words.COST_USD)
        is_told = isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told) and told >= 0
        if step.usage is None and not is_told:
            continue
        has_any = True
        if step.usage is not None:
            read += step.usage.input_tokens
            written += step.usage.output_tokens
        if is_told and isinstance(told, int | float):
            costs.append(float(told))
        elif step.usage is not None and (step.usage.input_tokens or step.usage.output_tokens):
            models = [step.attributes.get(key) for key in (words.RESPONSE_MODEL, words.REQUEST_MODEL)]
            names = [model for model in models if isinstance(model, str) and model]
            prices = prices_once()
            price = None if prices is None else price_of(names, prices)
            if price is not None:
                costs.append(step.usage.input_tokens * price[0] + step.usage.output_tokens * price[1])
            elif prices is not None and len(unpriced) < _MOST_NAMED:
                unpriced.setdefault(names[0] if names else "")
    if not has_any:
        return None
    return Spending(read, written, math.fsum(costs) if costs else None, tuple(unpriced))


def prices_in_use() -> Prices | None:
    """Return the table of prices; None where there is none.

    Raises:
        ConfigError: if `BLAMESPAN_PRICES` names a file that is none.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named).expanduser() if named else _installed()
    if path is None:
        return None
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise _wrong(path, error.strerror or str(error)) from error
    return _read(path, changed_ns)


def price_of(models: Iterable[str], prices: Prices) -> tuple[float, float] | None:
    """Return the price of the first model that has one, found by its name, without who serves it, or without its date.

    Args:
        models: What one model is called, the best name first.
        prices: Of all models.

    Returns:
        US dollars for a token read and a token written; None where no price is known.
    """
    for model in models:
        name = model.casefold()
        for spelled in (name, name.rpartition("/")[2]):
            for written in (spelled, _DATED.sub("", spelled)):
                if written in prices:
                    return prices[written]
    return None


def _installed() -> Path | None:
    """Find the table of an installed `litellm` without importing it."""
    try:
        spec = find_spec("litellm")
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    found = [Path(folder) / _LITELLM for folder in folders or () if (Path(folder) / _LITELLM).is_file()]
    return found[0] if found else None


@lru_cache(maxsize=2)
def _read(path: Path, changed_ns: int) -> Prices:
    del changed_ns
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise _wrong(path, "more than 64 MiB")
        table = json.loads(text) if text.lstrip()[:1] == b"{" else tomllib.loads(text.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(path, str(error)[:200]) from error
    if not isinstance(table, dict):
        raise _wrong(path, type(table).__name__)
    prices = {model.casefold(): price for model, fields in table.items() if (price := _parse(fields)) is not None}
    if not prices:
        raise _wrong(path, "none")
    return prices


def _parse(fields: object) -> tuple[float, float] | None:
    """Read the price of a model, for a million tokens as people write it or for one as LiteLLM does."""
    if not isinstance(fields, dict):
        return None
    if "input" in fields or "output" in fields:
        given = [_number(fields.get(key, 0)) for key in ("input", "output")]
        return None if None in given else (given[0] / _PER_MILLION, given[1] / _PER_MILLION)  # type: ignore[operator]
    own = [_number(fields.get(key)) for key in ("input_cost_per_token", "output_cost_per_token")]
    return None if None in own else (own[0], own[1])  # type: ignore[return-value]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _wrong(path: Path, got: str) -> ConfigError:
    return ConfigError(
        f"expected {VARIABLE} to name a table of prices, got {str(path)!r} ({got}). Write TOML with a table a model, "
        '["gpt-4o"], and input and output in US dollars for a million tokens, or name LiteLLM\'s '
        "model_prices_and_context_window.json"
    )
