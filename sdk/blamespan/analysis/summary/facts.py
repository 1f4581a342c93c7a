"""What a summary needs of a row of results, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

from blamespan.analysis.showing.legible import printable
from blamespan.attribution import FAILURE_WORDS, Cause, VerificationOutcome, verdict_word
from blamespan.errors import UnreadableInput
from blamespan.guarding.decisions import ACTIONS
from blamespan.trace import Outcome

_KNOWN = ("failed", "succeeded")

Kind: TypeAlias = Literal["failed", "sound", "abstained"]
"""`failed`: known to have failed, or more likely than not; `sound`: the opposite; `abstained`: there is no verdict."""

Row: TypeAlias = Mapping[str, Any]
"""One row as `blamespan.analysis.results.read_rows` yields it; read from a file, so anything may be in its parts."""

_MAX_NAME_CHARS = 200
_MAX_REASON_CHARS = 120
_MAX_TEXT_CHARS = 2_000
_MAX_CONFLICTS = 1_000
_VERIFICATIONS = get_args(VerificationOutcome)
_CLOCK_YEARS = range(1990, 2100)
"""What else a row says is no clock's."""


@dataclass(frozen=True, slots=True, order=True)
class Judge:
    """Who spoke: verdicts of different ones are never counted together.

    Attributes:
        name: Of the tracer.
        version: Of the tracer.
        weights: Digest of its weights, or empty.
        revision: Which of its verdicts on a run: later ones have seen late spans.
    """

    name: str
    version: str
    weights: str = ""
    revision: int = 0

    def __str__(self) -> str:
        weights = f" ({self.weights})" if self.weights else ""
        return f"{self.name} {self.version}{weights}" + (f", revision {self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class Fact:
    """One verdict; texts are fit to print.

    Attributes:
        judge: Whose.
        kind: What it comes to.
        failure_score: 0..1.
        source: File and place it came from.
        trace_id: Of the run.
        span_id: Of the decisive step, or empty.
        agent: Who is to blame, or empty; *cause*, where that is to blame.
        step: Index of the decisive step.
        share: Of the blame, that the step has, 0..1.
        mode: As `taxonomy:code`, or empty.
        mode_name: In words.
        mode_score: 0..1.
        reason: Why there is no verdict, or empty.
        start: When the run began, UTC, or None where no clock says so.
        text: Evidence and beginning of the decisive step.
        guard: What a guard did on its steps while it went on, an action each.
        obeyed: For each conflict of instructions the agent, and whether it obeyed the higher one.
        verified: What came of each suspect that was put to the test.
        likeness: What it has in common with failures that are alike, as `blamespan.likeness` writes it; empty where
            there is no verdict.
        service: That made the run, or empty.
        version: Of the service, or empty.
        tokens: Read and written by the run's models; None where nobody counted.
        usd: What they cost in US dollars, as far as prices are known; None where none is.
        is_unpriced: Whether some of the tokens have no known price.
        cause: Who is to blame where that is no agent: `the tool search`, `the task`; or empty.
    """

    judge: Judge
    kind: Kind
    failure_score: float
    source: str
    trace_id: str
    span_id: str = ""
    agent: str = ""
    step: int | None = None
    share: float = 0.0
    mode: str = ""
    mode_name: str = ""
    mode_score: float = 0.0
    reason: str = ""
    start: datetime | None = None
    text: str = ""
    guard: tuple[str, ...] = ()
    obeyed: tuple[tuple[str, bool], ...] = ()
    verified: tuple[VerificationOutcome, ...] = ()
    likeness: str = ""
    service: str = ""
    version: str = ""

    @property
    def alike(self) -> str:
        """Its likeness within its service, which is where failures are alike."""
        return f"{self.service}: {self.likeness}" if self.service else self.likeness

    tokens: tuple[int, int] | None = None
    usd: float | None = None
    is_unpriced: bool = False
    cause: str = ""

    @property
    def place(self) -> str:
        """Where the text stands: `step 4`, or `the task`."""
        return "the task" if self.step is None else f"step {self.step}"


def fact_of(row: Row) -> Fact:
    """Read a row.

    Raises:
        UnreadableInput: if it is no row of results.
    """
    try:
        return _fact(row)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnreadableInput(
            f"expected a result of `blamespan analyze`, got {printable(repr(row))[:100]} ({type(error).__name__}: "
            f"{printable(str(error))[:80]})"
        ) from error


def _fact(row: Row) -> Fact:
    tracer, score = row["tracer"], _share(row["failure_score"])
    judge = Judge(
        _name(tracer["name"]),
        _name(tracer["version"]),
        _name(tracer["weights"]),
        _whole(row["revision"]),
    )
    reason, step = row["abstained"], row["step"]
    cause = row["cause"] if reason is None else None
    has_verdict = reason is None and (step is not None or cause is not None)
    mode = (row["mode"] or {}) if has_verdict else {}
    title = ""
    if cause is not None:
        title = Cause(cause["kind"], _name(cause["name"]), None, "", "").title
        mode, step = {**cause["mode"], "score": score}, cause["step"]
    index = _whole(step) if has_verdict and step is not None else None
    return Fact(
        judge=judge,
        kind=_kind(row["outcome"], score) if has_verdict else "abstained",
        failure_score=score,
        source=_name(row["source"]),
        trace_id=_name(row["trace_id"]),
        span_id=_name(row["span_id"] or ""),
        agent=_name(title or row["agent"]) if has_verdict else "",
        step=index,
        share=_share_of(row, index),
        mode=_name(f"{mode['taxonomy']}:{mode['code']}") if mode else "",
        mode_name=_name(mode.get("name") or "") if mode else "",
        mode_score=_share(mode.get("score") or 0.0) if mode else 0.0,
        reason="" if has_verdict else printable(str(reason or "no decisive step"))[:_MAX_REASON_CHARS],
        start=_start(row),
        likeness=_name(row["likeness"]) if has_verdict else "",
        service=_name(row["service"] or ""),
        version=_name(row["version"] or ""),
        text=_text(row, index) if cause is None else printable(str(cause["quote"])[:_MAX_TEXT_CHARS]),
        guard=tuple(str(mark["action"]) for mark in row.get("guard") or () if mark.get("action") in ACTIONS),
        obeyed=tuple(
            (_name(item["agent"]), item["obeyed"] == "higher") for item in row["instruction_conflicts"][:_MAX_CONFLICTS]
        ),
        verified=tuple(item["outcome"] for item in row["verified"] if item["outcome"] in _VERIFICATIONS),
        **_usage(row["usage"]),
        cause=_name(title),
    )


def _usage(usage: Any) -> dict[str, Any]:
    if usage is None:
        return {}
    usd = usage["usd"]
    if usd is not None and (isinstance(usd, bool) or not 0 <= usd < math.inf):
        raise ValueError(f"expected an amount of dollars, got {usd!r}")
    tokens = _whole(usage["input_tokens"]), _whole(usage["output_tokens"])
    return {"tokens": tokens, "usd": usd, "is_unpriced": bool(usage["unpriced"])}


def _kind(outcome: Any, score: float) -> Kind:
    known: Outcome = outcome if outcome in _KNOWN else "unknown"
    return "failed" if verdict_word(known, score, None) in FAILURE_WORDS else "sound"


def _share_of(row: Row, index: int | None) -> float:
    steps = row["steps"]
    return next((_share(step["score"]) for step in steps if step["index"] == index), 0.0) if index is not None else 0.0


def _text(row: Row, index: int | None) -> str:
    """Put together what was said at the decisive step: its quotes, and its beginning where the row has it."""
    text = printable(str(row["content"] or "")[:_MAX_TEXT_CHARS])
    quotes = [printable(str(item["quote"])[:_MAX_TEXT_CHARS]) for item in row["evidence"] if item["index"] == index]
    return " … ".join([*([text] if text else []), *(quote for quote in quotes[:3] if quote not in text)])


def _start(row: Row) -> datetime | None:
    started = row["started"]
    try:
        start = None if started is None else datetime.fromisoformat(started).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return start if start is not None and start.year in _CLOCK_YEARS else None


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return printable(value[: 2 * _MAX_NAME_CHARS])[:_MAX_NAME_CHARS]


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a whole number, got {value!r}")
    return value


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a share, got {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"expected a share of 0 to 1, got {value!r}")
    return float(value)
