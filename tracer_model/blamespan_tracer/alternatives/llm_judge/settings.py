"""How the judge is set: by `BLAMESPAN_JUDGE_*` variables alone, so that every driver can set it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, get_args

from blamespan.analysis.spending import VARIABLE, price_of, prices_in_use
from blamespan.errors import ConfigError
from blamespan.tracers import DEFAULT_TRACER
from blamespan_tracer.alternatives.cache_folder import cache_folder
from blamespan_tracer.alternatives.endpoint import JUDGE, Endpoint

JudgeTaxonomy: TypeAlias = Literal["mast", "aegis"]
"""Which modes are offered beside the extension: MAST and AEGIS share codes with other meanings, so never both."""
_TAXONOMIES: tuple[JudgeTaxonomy, ...] = get_args(JudgeTaxonomy)

_ALONE = "none"
_DEADLINE_OF_DRIVER = "BLAMESPAN_TRACER_DEADLINE_S"
"""Set by a driver that gives up on a tracer after some time, as the collector does."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Most that may be spent.

    Attributes:
        tokens: Of questions and answers; None without a bound.
        money: In US dollars; likewise.
    """

    tokens: int | None = None
    money: float | None = None


UNBOUNDED: Final = Bound()
"""No bound at all."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Whom to ask, when, and how much of it.

    Attributes:
        endpoint: Whom.
        taxonomy: Which modes are offered.
        embedded: Name of the tracer whose verdict comes first; None where every run is judged by the endpoint alone.
        least_gain: How much likelier, 0..1, the right step must become by asking; at 0 every run is asked about that
            failed or looks so.
        concurrency: Most questions under way at once.
        context_tokens: Most tokens of a question, by our own estimate: runs that fit are sent whole.
        answer_tokens: Most tokens of an answer.
        total: Most that the account may hold.
        hourly: Most that it may hold of one hour.
        per_run: Most that may be spent on one run.
        price: US dollars for a token of a question and a token of an answer; None where no price is known.
        cache: Folder of kept answers; None without any.
        account: File in which several processes count together; None for counts of one tracer alone.
        deadline_s: Seconds that one call of `attribute` may take, over which runs go without an answer; None without.
    """

    endpoint: Endpoint
    taxonomy: JudgeTaxonomy = "mast"
    embedded: str | None = None
    least_gain: float = 0.1
    concurrency: int = 4
    context_tokens: int = 32_000
    answer_tokens: int = 4_096
    total: Bound = UNBOUNDED
    hourly: Bound = UNBOUNDED
    per_run: Bound = UNBOUNDED
    price: tuple[float, float] | None = None
    cache: Path | None = None
    account: Path | None = None
    deadline_s: float | None = None

    @classmethod
    def from_environment(cls, *, needs_endpoint: bool = True) -> Self:
        """Read the `BLAMESPAN_JUDGE_*` variables.

        Args:
            needs_endpoint: Whether somebody will be asked; else the endpoint need not be set.

        Raises:
            ConfigError: if one is missing or wrong.
        """
        endpoint = Endpoint.from_environment(JUDGE) if needs_endpoint or _read("URL") else Endpoint("", _read("MODEL"))
        settings = cls(
            endpoint=endpoint,
            taxonomy=_read_taxonomy(),
            embedded=_read_embedded(),
            least_gain=_read_number("LEAST_GAIN", 0.1, most=1.0) or 0.0,
            concurrency=_read_whole("CONCURRENCY", 4, least=1, most=256),
            context_tokens=_read_whole("CONTEXT_TOKENS", 32_000, least=4_000),
            answer_tokens=_read_whole("ANSWER_TOKENS", 4_096, least=64),
            total=_read_bound(""),
            hourly=_read_bound("_HOUR"),
            per_run=_read_bound("_RUN"),
            price=price_of([endpoint.model], prices_in_use() or {}),
            cache=_read_cache(),
            account=Path(_read("ACCOUNT")).expanduser() if _read("ACCOUNT") else None,
            deadline_s=_read_number("DEADLINE_S"),
        )
        if settings.embedded is None and settings.deadline_s is None:  # else nobody waits for the answer
            settings = replace(settings, deadline_s=_read_deadline_of_driver())
        bounds = {"": settings.total, "_HOUR": settings.hourly, "_RUN": settings.per_run}
        in_money = [suffix for suffix, bound in bounds.items() if bound.money is not None]
        if in_money and settings.price is None:
            raise ConfigError(
                f"{JUDGE}_BUDGET_MONEY{in_money[0]} needs the price of {endpoint.model!r}, got none. Set {VARIABLE} to "
                f"a table of prices that has it, or set a bound on tokens by {JUDGE}_BUDGET_TOKENS{in_money[0]}"
            )
        return settings


def _read(name: str) -> str:
    return os.environ.get(f"{JUDGE}_{name}", "").strip()


def _read_bound(suffix: str) -> Bound:
    tokens = _read_whole(f"BUDGET_TOKENS{suffix}", 0) or None
    return Bound(tokens, _read_number(f"BUDGET_MONEY{suffix}"))


def _read_embedded() -> str | None:
    text = _read("EMBEDDED") or DEFAULT_TRACER
    if text == "judge":
        raise ConfigError(
            f"{JUDGE}_EMBEDDED must be a tracer to ask first, or {_ALONE}, got 'judge' itself. Leave it out for "
            f"{DEFAULT_TRACER}"
        )
    return None if text == _ALONE else text


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
