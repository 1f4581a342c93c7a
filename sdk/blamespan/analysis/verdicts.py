"""A verdict for people and programs: as rows of text, and as one JSON object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blamespan.attribution import Attribution, ModeBlame
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace

__all__ = ["StepRow", "as_json", "mode_text", "printable", "step_rows"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control and direction characters: text of a trace is untrusted, and a terminal obeys them."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One line of a run's table: what a step did and what it is blamed for."""

    index: int
    agent: str
    kind: str
    score: float
    is_decisive: bool
    mode: str
    evidence: str
    content: str


def step_rows(trace: MessageActionTrace, verdict: Attribution) -> list[StepRow]:
    """Lay out a run, a row per step; error mode and evidence stand on the suspects."""
    suspects = {*verdict.step_set, verdict.decisive_step}
    quotes = {item.index: item.quote for item in reversed(verdict.evidence)}  # the strongest wins
    return [
        StepRow(
            index=step.index,
            agent=printable(step.agent),
            kind=step.kind,
            score=blame.score,
            is_decisive=step.index == verdict.decisive_step,
            mode=mode_text(verdict, step.agent) if step.index in suspects else "",
            evidence=printable(quotes.get(step.index, "")) if step.index in suspects else "",
            content=printable(step.content),
        )
        for step, blame in zip(trace.steps, verdict.steps, strict=True)
    ]


def mode_text(verdict: Attribution, agent: str | None) -> str:
    """Name the agent's most likely error mode, with its code and taxonomy."""
    blame = _mode_of(verdict, agent)
    return f"{blame.mode.name} ({blame.mode})" if blame else ""


def as_json(source: str, trace: MessageActionTrace, verdict: Attribution) -> dict[str, Any]:
    """Lay out a verdict as one JSON object; scores with six decimals."""
    decisive = None if verdict.decisive_step is None else verdict.steps[verdict.decisive_step]
    blame = _mode_of(verdict, decisive.agent) if decisive else None
    return {
        "source": source,
        "trace_id": trace.trace_id,
        "outcome": trace.outcome,
        "failure_score": round(verdict.failure_score, 6),
        "agent": decisive.agent if decisive else None,
        "step": decisive.index if decisive else None,
        "span_id": decisive.span_id if decisive else None,
        "mode": _mode_json(blame.mode, blame.score) if blame else None,
        "agents": [{"agent": item.agent, "score": round(item.score, 6)} for item in verdict.agents],
        "steps": [
            {"index": item.index, "agent": item.agent, "kind": step.kind, "score": round(item.score, 6)}
            for step, item in zip(trace.steps, verdict.steps, strict=True)
        ],
        "modes": [{"agent": item.agent, **_mode_json(item.mode, item.score)} for item in verdict.modes],
        "step_set": list(verdict.step_set),
        "coverage": verdict.coverage,
        "evidence": [
            {"index": item.index, "quote": item.quote, "score": round(item.score, 6)} for item in verdict.evidence
        ],
        "tracer": {
            "name": verdict.tracer.name,
            "version": verdict.tracer.version,
            "weights": verdict.tracer.weights,
        },
        "revision": verdict.revision,
        "abstained": verdict.abstained,
    }


def printable(text: str) -> str:
    """Make untrusted text fit for one line of a terminal: no control characters, no line ends, no half characters."""
    return " ".join(_CONTROL.sub("", text.encode("utf-8", "replace").decode()).split())


def _mode_of(verdict: Attribution, agent: str | None) -> ModeBlame | None:
    return next((blame for blame in verdict.modes if blame.agent == agent), None)


def _mode_json(mode: ErrorMode, score: float) -> Mapping[str, Any]:
    return {"taxonomy": mode.taxonomy, "code": mode.code, "name": mode.name, "score": round(score, 6)}
