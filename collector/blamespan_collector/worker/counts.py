"""What the worker counts and tells."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from blamespan.attribution import Attribution, verdict_word
from blamespan.conventions import GUARD_ACTION, GUARD_EVENT, GUARD_KIND
from blamespan.guarding.decisions import ACTIONS, RULE_KINDS
from blamespan.pipeline import AttributedRun
from blamespan.spans import Span
from blamespan.trace import Outcome

_UPPER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_UPPER_DELAY_S = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""From the end of a run: `quiet-s` is in it, and what waited in a program's exporter, a queue or a file."""
_LONGEST_DELAY_S = 86_400.0
"""Counted at most: clocks may be wrong, and one run of 1970 would be the whole sum."""
_UPPER_SCORE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_MOST_AGENTS = 100
"""Agents told apart, and pairs of agent and mode twice as many; the others are `other`, each with its mode:
names in traces must not fill a metrics store."""
_MOST_MODES = 50
_MOST_RUN_LABELS = 50
"""Ten tracers by outcome and verdict; others, as where an installed one names itself anew each time, are `other`."""
_FROM_THE_START = (
    "entries_damaged",
    "revisions",
    "runs_abstained",
    "runs_attributed",
    "segments_damaged",
    "spans_lost",
    "traces_complete",
    "traces_late",
    "traces_overflow",
    "traces_past_deadline",
    "verdicts_missed",
)
"""Counts told before there is anything to count: a rule on their rise would miss the first one otherwise."""


class Histogram:
    """Numbers sorted into ranges, of which each includes its upper end.

    Args:
        uppers: Of the ranges, ascending; what is larger goes into one more.
    """

    def __init__(self, uppers: Sequence[float]) -> None:
        self._uppers = uppers
        self._numbers = [0] * (len(uppers) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Sort one in; what is no number is left out, as it would be the sum for ever."""
        if not math.isfinite(value):
            return
        self._numbers[bisect_left(self._uppers, value)] += 1
        self._sum += value

    def to_message(self, *labels: str) -> list[Any]:
        """Return labels, cumulative numbers by upper end, and the sum."""
        running, buckets = 0, []
        for upper, number in zip((*self._uppers, float("inf")), self._numbers, strict=True):
            running += number
            buckets.append([upper, running])
        return [list(labels), buckets, self._sum]


@dataclass
class WorkerCounts:
    """Numbers since the start.

    Attributes:
        counts: By name.
        blame: How often which agent was blamed for which mode.
        guard: How often guards decided what, by action and kind of rule, in runs that got their first verdict.
        runs: How many runs got their first verdict, by what somebody knew of them, by the verdict's word and by tracer.
    """

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_FROM_THE_START, 0)))
    blame: Counter[tuple[str, str]] = field(default_factory=Counter)
    guard: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _latency: Histogram = field(default_factory=lambda: Histogram(_UPPER_S))
    _delay: Histogram = field(default_factory=lambda: Histogram(_UPPER_DELAY_S))
    _share: Histogram = field(default_factory=lambda: Histogram(_UPPER_SCORE))
    _scores: dict[str, Histogram] = field(default_factory=dict)
    _unaided: dict[str, Histogram] = field(default_factory=dict)

    def add(self, name: str, number: int = 1) -> None:
        """Count."""
        self.counts[name] += number

    def took(self, seconds: float) -> None:
        """Count one trace that was attributed in so many seconds."""
        self._latency.add(seconds)

    def expect(self, tracer: str) -> None:
        """Report runs judged by this tracer before there is any."""
        for outcome in get_args(Outcome):
            self._scores.setdefault(outcome, Histogram(_UPPER_SCORE))
            self._unaided.setdefault(outcome, Histogram(_UPPER_SCORE))
            for score, reason in ((0.0, None), (1.0, None), (0.0, "no verdict")):
                self.runs[outcome, verdict_word(outcome, score, reason), tracer] += 0

    def verdicts(self, runs: Sequence[AttributedRun], *, is_first: bool = True) -> None:
        """Count what the runs' verdicts say; of one that replaces another, only that it came."""
        now_ns = time.time_ns()
        for item in runs:
            verdict = item.attribution
            self.add("runs_abstained" if verdict.abstained is not None else "runs_attributed")
            if is_first:
                ended_ns = max((span.end_ns for span in item.run.spans), default=now_ns)
                self._delay.add(min(max(0.0, (now_ns - ended_ns) / 1e9), _LONGEST_DELAY_S))
                self._count(verdict, item.trace.outcome)
                self.guard.update(_guard_decisions(item.run.spans))

    def _count(self, verdict: Attribution, outcome: str) -> None:
        """Count whom a verdict blames, for what, and how surely."""
        key = (outcome, verdict.word, verdict.tracer.name[:100])
        self.runs[key if key in self.runs or len(self.runs) < _MOST_RUN_LABELS else (*key[:2], "other")] += 1
        if verdict.abstained is not None:
            return
        self._scores.setdefault(outcome, Histogram(_UPPER_SCORE)).add(verdict.failure_score)
        if verdict.unaided_score is not None:
            self._unaided.setdefault(outcome, Histogram(_UPPER_SCORE)).add(verdict.unaided_score)
        if verdict.names_suspects and verdict.agents:
            self._share.add(verdict.agents[0].score)
            self.blame[self._pair(verdict)] += 1

    def _pair(self, verdict: Attribution) -> tuple[str, str]:
        """Name whom a verdict blames for what, or `other` where too many are told apart already."""
        agent = verdict.agents[0].agent
        blamed = verdict.mode_of(agent)
        mode = str(blamed.mode)[:100] if blamed else "unknown"
        pair = (agent[:100], mode)
        if pair in self.blame:
            return pair
        agents, modes = {known for known, _ in self.blame}, {known for _, known in self.blame}
        is_new = pair[0] not in agents and len(agents) >= _MOST_AGENTS
        if is_new or len(self.blame) >= 2 * _MOST_AGENTS:
            pair = ("other", mode)
        return pair if mode in modes or len(modes) < _MOST_MODES else ("other", "other")

    def message(self) -> dict[str, Any]:
        """Return all that is counted here."""
        return {
            "counts": dict(self.counts),
            "blame": [[agent, mode, number] for (agent, mode), number in self.blame.items()],
            "guard": [[action, kind, number] for (action, kind), number in self.guard.items()],
            "runs": [[*labels, number] for labels, number in self.runs.items()],
            "histograms": {
                "attribution_s": [self._latency.to_message()],
                "verdict_delay_s": [self._delay.to_message()],
                "blame_share": [self._share.to_message()],
                "failure_score": [histogram.to_message(outcome) for outcome, histogram in self._scores.items()],
                "unaided_score": [histogram.to_message(outcome) for outcome, histogram in self._unaided.items()],
            },
        }


def _guard_decisions(spans: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """Yield the action and the kind of each decision of a guard; what is none of ours is left out: it is sent to us."""
    for span in spans:
        for event in span.events:
            if event.name == GUARD_EVENT:
                action, kind = event.attributes.get(GUARD_ACTION), event.attributes.get(GUARD_KIND)
                if action in ACTIONS and kind in RULE_KINDS:
                    yield str(action), str(kind)
