"""Counts over any number of verdicts in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from blamespan.analysis.summary.facts import Fact
from blamespan.analysis.summary.statistics import Share

MOST_NAMES: Final = 20_000
"""Names that are counted each for itself: an archive may name its agents anew in every run."""
_MOST_SPANS: Final = 2_000
_MOST_IDS: Final = 10_000
_HOUR_S: Final = 3_600


@dataclass(slots=True)
class Count:
    """How often something was blamed, and how surely.

    Attributes:
        failed: Failed runs it was blamed for.
        score: Sum of what the tracer says how sure it is, 0..1 each.
        title: In words, where it has a name beside its key.
    """

    failed: int = 0
    score: float = 0.0
    title: str = ""

    @property
    def confidence(self) -> float:
        """Mean of how sure the tracer is, 0..1."""
        return self.score / self.failed if self.failed else 0.0


@dataclass(slots=True)
class Names:
    """Counts by name.

    Attributes:
        counts: Of the first `MOST_NAMES` names.
        others: Of all names that came after these.
    """

    counts: dict[str, Count] = field(default_factory=dict)
    others: int = 0

    def add(self, name: str, score: float = 0.0, title: str = "") -> None:
        """Count one more."""
        count = self.counts.get(name)
        if count is None:
            if len(self.counts) >= MOST_NAMES:
                self.others += 1
                return
            count = self.counts[name] = Count(title=title)
        count.failed += 1
        count.score += score

    def ranked(self) -> list[tuple[str, Count]]:
        """List the most frequent first, equals by name."""
        return sorted(self.counts.items(), key=lambda item: (-item[1].failed, item[0]))


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of time.

    Attributes:
        start: When it begins, UTC.
        runs: Runs with a verdict that began in it.
        failed: Those of them that failed.
    """

    start: datetime
    runs: int
    failed: int

    @property
    def share(self) -> Share:
        """Failed of all."""
        return Share(self.failed, self.runs)


class Timeline:
    """Runs by when they began, in stretches that widen as time goes on; what comes first does not matter."""

    def __init__(self) -> None:
        self._width_s = _HOUR_S
        self._spans: dict[int, list[int]] = {}

    def add(self, start: datetime, *, has_failed: bool) -> None:
        """Count one run."""
        counts = self._spans.setdefault(int(start.timestamp()) // self._width_s, [0, 0])
        counts[0] += 1
        counts[1] += has_failed
        if len(self._spans) > _MOST_SPANS:
            self._widen()

    def moments(self, most: int) -> list[Moment]:
        """List what happened in at most *most* stretches of equal length, also where nothing did; widens them."""
        while self._spans and max(self._spans) - min(self._spans) >= most:
            self._widen()
        if not self._spans:
            return []
        return [
            Moment(datetime.fromtimestamp(slot * self._width_s, UTC), *self._spans.get(slot, (0, 0)))
            for slot in range(min(self._spans), max(self._spans) + 1)
        ]

    @property
    def width_s(self) -> int:
        """How long a stretch is, in seconds."""
        return self._width_s

    def _widen(self) -> None:
        by = 24 if self._width_s == _HOUR_S else 7 if self._width_s == 24 * _HOUR_S else 2
        self._width_s *= by
        narrow, self._spans = self._spans, {}
        for slot, (runs, failed) in narrow.items():
            counts = self._spans.setdefault(slot // by, [0, 0])
            counts[0] += runs
            counts[1] += failed


@dataclass(slots=True)
class AlikeFailures:
    """Failures that are alike.

    Attributes:
        example: One of them: the first by the clock where there is one.
        runs: How many there are.
        days: How many began on each day.
    """

    example: Fact
    runs: int = 0
    days: dict[date, int] = field(default_factory=dict)

    def add(self, fact: Fact) -> None:
        """Count one more."""
        self.runs += 1
        self.example = min(self.example, fact, key=_when)
        if fact.start is not None and (fact.start.date() in self.days or len(self.days) < _MOST_SPANS):
            self.days[fact.start.date()] = self.days.get(fact.start.date(), 0) + 1

    def count_of_week(self, last: datetime | None) -> int:
        """Count the runs of the seven days up to *last*."""
        if last is None:
            return 0
        return sum(count for day, count in self.days.items() if 0 <= (last.date() - day).days < 7)


def _when(fact: Fact) -> tuple[bool, float, str, str]:
    return fact.start is None, 0.0 if fact.start is None else fact.start.timestamp(), fact.trace_id, fact.span_id


@dataclass(slots=True)
class Adherence:
    """How often an agent obeyed the higher of two instructions that disagree.

    Attributes:
        conflicts: How many there were.
        kept: In how many it obeyed the higher one.
    """

    conflicts: int = 0
    kept: int = 0

    @property
    def share(self) -> Share:
        """Kept of all: its score of adherence to roles and rules."""
        return Share(self.kept, self.conflicts)


@dataclass(slots=True)
class Tally:
    """What the verdicts of one judge come to.

    Attributes:
        failed: Runs that failed, with a verdict.
        sound: Runs that probably did not.
        abstained: Runs without a verdict.
        agents: Who is blamed for failed runs; the score is the decisive step's share of the blame.
        modes: For what; the score is the mode's.
        pairs: Both, as `agent` and `mode` with a line end between them.
        reasons: Why there is no verdict.
        timeline: When runs began.
        untimed: Runs with a verdict of which no clock says when.
        alike: Failures that are alike, by `Fact.alike`, and
        others: those beyond the bound on how many kinds are told apart.
        repeated: Failures that came more than once among the first ones: one run counted several times.
        adherence: How agents obey where instructions disagree, by name.
        verified: How many suspects were put to the test, by what came of it.
        scores: Runs with a verdict by failure score: below 0.1, below 0.2, and so on.
        first: When the first run began, and
        last: the last.
        guarded: Runs on which a guard decided anything, and
        guard: how often it did what, by action.
        causes: What failed runs failed by where no agent is to blame.
        counted: Runs whose tokens are counted, and
        input_tokens: read by their models,
        output_tokens: written by them,
        usd: US dollars that they cost as far as prices are known, and
        usd_of_failed: those of runs that failed.
        priced: Runs of which a cost is known.
        unpriced: Runs with tokens of which no price is known.
    """

    failed: int = 0
    sound: int = 0
    abstained: int = 0
    agents: Names = field(default_factory=Names)
    modes: Names = field(default_factory=Names)
    pairs: Names = field(default_factory=Names)
    reasons: Names = field(default_factory=Names)
    timeline: Timeline = field(default_factory=Timeline)
    untimed: int = 0
    alike: dict[str, AlikeFailures] = field(default_factory=dict)
    others: int = 0
    repeated: int = 0
    adherence: dict[str, Adherence] = field(default_factory=dict)
    verified: Counter[str] = field(default_factory=Counter)
    scores: list[int] = field(default_factory=lambda: [0] * 10)
    first: datetime | None = None
    last: datetime | None = None
    guarded: int = 0
    guard: Counter[str] = field(default_factory=Counter)
    _ids: set[str] = field(default_factory=set)

    def ranked_alike(self) -> list[AlikeFailures]:
        """List failures that are alike, the most frequent first."""
        return sorted(self.alike.values(), key=lambda group: (-group.runs, group.example.alike))

    causes: Names = field(default_factory=Names)
    counted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    usd_of_failed: float = 0.0
    priced: int = 0
    unpriced: int = 0

    def ranked_adherence(self) -> list[tuple[str, Adherence]]:
        """List the agents that obeyed lower instructions most often first, equals by how many conflicts they had."""
        return sorted(
            self.adherence.items(), key=lambda item: (item[1].kept - item[1].conflicts, -item[1].conflicts, item[0])
        )

    @property
    def runs(self) -> int:
        """All of them."""
        return self.failed + self.sound + self.abstained

    @property
    def judged(self) -> int:
        """Those with a verdict."""
        return self.failed + self.sound

    def _add_adherence(self, fact: Fact) -> None:
        for agent, has_kept in fact.obeyed:
            if agent in self.adherence or len(self.adherence) < MOST_NAMES:
                adherence = self.adherence.setdefault(agent, Adherence())
                adherence.conflicts += 1
                adherence.kept += has_kept

    def _add_usage(self, fact: Fact, tokens: tuple[int, int]) -> None:
        self.counted += 1
        self.input_tokens += tokens[0]
        self.output_tokens += tokens[1]
        self.priced += fact.usd is not None
        self.unpriced += fact.is_unpriced
        self.usd += fact.usd or 0.0
        self.usd_of_failed += fact.usd or 0.0 if fact.kind == "failed" else 0.0

    def add(self, fact: Fact) -> None:
        """Count one verdict."""
        self.guarded += bool(fact.guard)
        self.guard.update(fact.guard)
        if fact.tokens is not None:
            self._add_usage(fact, fact.tokens)
        if fact.start is not None:
            self.first = fact.start if self.first is None else min(self.first, fact.start)
            self.last = fact.start if self.last is None else max(self.last, fact.start)
        self._add_adherence(fact)
        self.verified.update(fact.verified)
        if fact.kind == "abstained":
            self.abstained += 1
            self.reasons.add(fact.reason)
            return
        self.scores[min(int(fact.failure_score * 10), 9)] += 1
        has_failed = fact.kind == "failed"
        if fact.start is None:
            self.untimed += 1
        else:
            self.timeline.add(fact.start, has_failed=has_failed)
        if not has_failed:
            self.sound += 1
            return
        self.failed += 1
        if fact.cause:
            self.causes.add(fact.cause, fact.failure_score)
        else:
            self.agents.add(fact.agent, fact.share)
        if fact.mode:
            self.modes.add(fact.mode, fact.mode_score, fact.mode_name)
        self.pairs.add(f"{fact.agent}\n{fact.mode}", fact.share)
        self._add_alike(fact)

    def _add_alike(self, fact: Fact) -> None:
        if fact.alike in self.alike or len(self.alike) < MOST_NAMES:
            self.alike.setdefault(fact.alike, AlikeFailures(fact)).add(fact)
        else:
            self.others += 1
        name = f"{fact.trace_id} {fact.span_id}"
        self.repeated += name in self._ids
        if len(self._ids) < _MOST_IDS:
            self._ids.add(name)
