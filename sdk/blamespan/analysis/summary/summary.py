"""A summary of verdicts: one part for each judge, since only like is counted with like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from blamespan.analysis.summary.change import Periods, ShareChange, Side, changes
from blamespan.analysis.summary.clusters import Cluster, clusters_of
from blamespan.analysis.summary.facts import Fact, Judge, Row, fact_of
from blamespan.analysis.summary.sampling import Sample
from blamespan.analysis.summary.tally import Tally

MOST_SAMPLED: Final = 10_000
"""Failures that are looked at for likeness; more are sampled evenly."""
_MOST_JUDGES: Final = 50


@dataclass(frozen=True, slots=True)
class JudgeSummary:
    """What the verdicts of one judge come to.

    Attributes:
        judge: Whose they are.
        tally: All of them.
        clusters: Failures that are alike, the largest group first, of `sampled` failures.
        sampled: Failures looked at for likeness; all of them if they are `tally.failed`.
        repeated: How many of these came more than once: one run counted several times.
        before: Of the earlier period or the older results; None where nothing is compared.
        after: Of the later ones.
        changes: Between both, the surest first.
    """

    judge: Judge
    tally: Tally
    clusters: tuple[Cluster, ...]
    sampled: int
    repeated: int
    before: Tally | None = None
    after: Tally | None = None
    changes: tuple[ShareChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What results say together.

    Attributes:
        judges: A part for each, the one with most runs first.
        only_before: Judges that speak in the older results alone; they are compared with nobody.
        outside: Runs that belong to neither period, as no clock says when they began or it was after both.
        left_out: Runs of further judges, beyond the fifty that are told apart.
    """

    judges: tuple[JudgeSummary, ...]
    only_before: tuple[Judge, ...] = ()
    outside: int = 0
    left_out: int = 0

    @property
    def runs(self) -> int:
        """How many rows it is of."""
        return sum(judge.tally.runs for judge in self.judges)


@dataclass(slots=True)
class _JudgeCounts:
    """What is counted of one judge."""

    whole: Tally = field(default_factory=Tally)
    sample: Sample = field(default_factory=lambda: Sample(MOST_SAMPLED))
    sides: dict[Side, Tally] = field(default_factory=dict)

    def add(self, fact: Fact, side: Side | None) -> None:
        self.whole.add(fact)
        if fact.kind == "failed":
            self.sample.add(fact)
        self.add_to(side, fact)

    def add_to(self, side: Side | None, fact: Fact) -> None:
        if side is not None:
            self.sides.setdefault(side, Tally()).add(fact)

    def summary(self, judge: Judge) -> JudgeSummary:
        facts = self.sample.facts
        before, after = self.sides.get("before"), self.sides.get("after")
        return JudgeSummary(
            judge,
            self.whole,
            tuple(clusters_of(facts)),
            len(facts),
            self.sample.repeated,
            before,
            after,
            tuple(changes(before, after)) if before and after else (),
        )


def summarize(rows: Iterable[Row], *, against: Iterable[Row] | None = None, periods: Periods | None = None) -> Summary:
    """Sum up results; memory does not grow with how many there are.

    Args:
        rows: As `blamespan.analysis.results.rows.read_rows` yields them.
        against: Older results, for what has changed since.
        periods: Or two periods among *rows*, likewise.

    Raises:
        UnreadableInput: if a row is none of results.
    """
    return sum_up(map(fact_of, rows), against=None if against is None else map(fact_of, against), periods=periods)


def sum_up(facts: Iterable[Fact], *, against: Iterable[Fact] | None = None, periods: Periods | None = None) -> Summary:
    """Sum up what was read of results already; as `summarize`."""
    parts: dict[Judge, _JudgeCounts] = {}
    outside = left_out = 0
    for fact in facts:
        part = _part(parts, fact.judge)
        if part is None:
            left_out += 1
            continue
        side: Side | None = None if against is None else "after"
        if periods is not None:
            side = periods.side(fact)
            outside += side is None
        part.add(fact, side)
    for fact in against or ():
        part = _part(parts, fact.judge)
        if part is None:
            left_out += 1
        else:
            part.add_to("before", fact)
    spoken = sorted(
        (item for item in parts.items() if item[1].whole.runs), key=lambda item: (-item[1].whole.runs, item[0])
    )
    return Summary(
        tuple(part.summary(judge) for judge, part in spoken),
        tuple(sorted(judge for judge, part in parts.items() if not part.whole.runs)),
        outside,
        left_out,
    )


def _part(parts: dict[Judge, _JudgeCounts], judge: Judge) -> _JudgeCounts | None:
    """Find what is counted of *judge*, newly if there is room for one more."""
    if judge not in parts and len(parts) < _MOST_JUDGES:
        parts[judge] = _JudgeCounts()
    return parts.get(judge)
