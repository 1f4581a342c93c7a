"""How the judge is set: by `BLAMESPAN_JUDGE_*` variables alone, so that every driver can set it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from blamespan.errors import ConfigError
from blamespan.tracers import DEFAULT_TRACER
from blamespan_tracer.alternatives.cache_folder import cache_folder
from blamespan_tracer.alternatives.endpoint import JUDGE, Endpoint

MethodName: TypeAlias = Literal["all-at-once", "step-by-step", "binary-search", "hypotheses", "error-first"]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
"""Ways to ask; `cascade` or `cascade:METHOD` asks only where the embedded tracer is unsure."""

JudgeTaxonomy: TypeAlias = Literal["mast", "aegis"]
"""Which modes are offered beside the extension: MAST and AEGIS share codes with other meanings, so never both."""
_TAXONOMIES: tuple[JudgeTaxonomy, ...] = get_args(JudgeTaxonomy)

_CASCADE = "cascade"
_DEADLINE_OF_DRIVER = "BLAMESPAN_TRACER_DEADLINE_S"
"""Set by a driver that gives up on a tracer after some time, as the collector does."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Whom to ask, how, and how much of it.

    Attributes:
        endpoint: Whom.
        method: How.
        taxonomy: Which modes are offered.
        embedded: Name of the tracer that a cascade asks first; None where every run goes to the endpoint.
        sure_from: Share of the decisive step, 0..1, from which a cascade takes the embedded tracer's word.
        concurrency: Most questions under way at once.
        context_tokens: Most tokens of a question, by our own estimate.
        answer_tokens: Most tokens of an answer.
        budget_tokens: Most tokens of all questions and answers that the account holds; None without a bound.
        budget_money: Likewise in money, in whatever currency the prices are.
        price_in: Of a million tokens of questions.
        price_out: Of a million tokens of answers.
        cache: Folder of kept answers; None without any.
        account: File in which several processes count together; None for counts of one tracer alone.
        deadline_s: Seconds that one call of `attribute` may take, over which runs go without a verdict; None without.
    """

    endpoint: Endpoint
    method: MethodName = "all-at-once"
    taxonomy: JudgeTaxonomy = "mast"
    embedded: str | None = None
    sure_from: float = 0.6
    concurrency: int = 4
    context_tokens: int = 32_000
    answer_tokens: int = 4_096
    budget_tokens: int | None = None
    budget_money: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    cache: Path | None = None
    account: Path | None = None
    deadline_s: float | None = None

    @classmethod
    def from_environment(cls) -> Self:
        """Read the `BLAMESPAN_JUDGE_*` variables.

        Raises:
            ConfigError: if one is missing or wrong.
        """
        method, embedded = _read_method()
        settings = cls(
            endpoint=Endpoint.from_environment(JUDGE),
            method=method,
            taxonomy=_read_taxonomy(),
            embedded=embedded,
            sure_from=_read_number("SURE_FROM", 0.6, most=1.0) or 0.0,
            concurrency=_read_whole("CONCURRENCY", 4, least=1, most=256),
            context_tokens=_read_whole("CONTEXT_TOKENS", 32_000, least=4_000),
            answer_tokens=_read_whole("ANSWER_TOKENS", 4_096, least=64),
            budget_tokens=_read_whole("BUDGET_TOKENS", 0) or None,
            budget_money=_read_number("BUDGET_MONEY"),
            price_in=_read_number("PRICE_IN", 0.0) or 0.0,
            price_out=_read_number("PRICE_OUT", 0.0) or 0.0,
            cache=_read_cache(),
            account=Path(_read("ACCOUNT")).expanduser() if _read("ACCOUNT") else None,
            deadline_s=_read_number("DEADLINE_S") or _read_deadline_of_driver(),
        )
        if settings.budget_money is not None and not (settings.price_in or settings.price_out):
            raise ConfigError(
                f"{JUDGE}_BUDGET_MONEY needs prices to count by, got none. Set {JUDGE}_PRICE_IN and {JUDGE}_PRICE_OUT "
                "to what a million tokens cost, or set a bound on tokens by BLAMESPAN_JUDGE_BUDGET_TOKENS"
            )
        return settings


def _read(name: str) -> str:
    return os.environ.get(f"{JUDGE}_{name}", "").strip()


def _read_method() -> tuple[MethodName, str | None]:
    text = _read("METHOD") or METHODS[0]
    first, _, second = text.partition(":")
    name = (second or METHODS[0]) if first == _CASCADE else text
    for method in METHODS:
        if method == name:
            return method, _read_embedded() if first == _CASCADE else None
    choices = [*METHODS, _CASCADE, *(f"{_CASCADE}:{method}" for method in METHODS)]
    near = get_close_matches(text, choices, n=1, cutoff=0.0)[0]
    raise ConfigError(
        f"{JUDGE}_METHOD must be one of {', '.join(METHODS)}, {_CASCADE} or {_CASCADE}:METHOD, got {text!r}. "
        f"Did you mean {near!r}?"
    )


def _read_embedded() -> str:
    text = _read("EMBEDDED") or DEFAULT_TRACER
    if text == "judge":
        raise ConfigError(
            f"{JUDGE}_EMBEDDED must be a tracer to ask first, got 'judge' itself. Leave it out for {DEFAULT_TRACER}"
        )
    return text


def _read_taxonomy() -> JudgeTaxonomy:
    text = _read("TAXONOMY") or "mast"
    for taxonomy in _TAXONOMIES:
        if taxonomy == text:
            return taxonomy
    raise ConfigError(f"{JUDGE}_TAXONOMY must be mast or aegis, got {text!r}. Leave it out for mast")


def _read_number(name: str, default: float | None = None, *, most: float = float("inf")) -> float | None:
    text = _read(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most or value == float("inf"):
        bound = f"a number from 0 to {most:g}" if most < float("inf") else "a number of at least 0"
        raise ConfigError(f"{JUDGE}_{name} must be {bound}, got {text!r}. Leave it out for the default")
    return value


def _read_whole(name: str, default: int, *, least: int = 0, most: int = 10**12) -> int:
    text = _read(name)
    if not text:
        return default
    value = int(text) if text.isascii() and text.isdigit() else -1
    if not least <= value <= most:
        raise ConfigError(
            f"{JUDGE}_{name} must be a whole number from {least} to {most}, got {text!r}. Leave it out for {default}"
        )
    return value


def _read_deadline_of_driver() -> float | None:
    try:
        value = float(os.environ.get(_DEADLINE_OF_DRIVER, ""))
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _read_cache() -> Path | None:
    text = _read("CACHE")
    if text.casefold() in ("off", "none", "no", "false", "0"):
        return None
    if text:
        return Path(text).expanduser()
    return cache_folder("judge")
