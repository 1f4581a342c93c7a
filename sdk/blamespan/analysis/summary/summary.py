"""A summary of verdicts: one part for each judge, since only like is counted with like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from blamespan.analysis.summary.change import Periods, ShareChange, Side, Versions, changes
from blamespan.analysis.summary.facts import Fact, Judge, Row, fact_of
from blamespan.analysis.summary.tally import Tally

_MOST_JUDGES: Final = 50
_MOST_VERSIONS: Final = 100

_Key: TypeAlias = Side | tuple[str, str]
"""A side that is compared, or a service and its version."""


@dataclass(frozen=True, slots=True)
class JudgeSummary:
    """What the verdicts of one judge come to.

    Attributes:
        judge: Whose they are.
        tally: All of them.
        before: Of the earlier period or the older results; None where nothing is compared.
        after: Of the later ones.
        changes: Between both, the surest first.
        sides: What both are called: `before` and `after`, or a service with its versions.
    """

    judge: Judge
    tally: Tally
    before: Tally | None = None
    after: Tally | None = None
    changes: tuple[ShareChange, ...] = ()
    sides: tuple[str, str] = ("before", "after")


@dataclass(frozen=True, slots=True)
class Summary:
    """What results say together.

    Attributes:
        judges: A part for each, the one with most runs first.
        only_before: Judges that speak in the older results alone; they are compared with nobody.
        outside: Runs that belong to neither period, as no clock says when they began or it was after both; or to no
            version, as they do not say theirs.
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
    sides: dict[_Key, Tally] = field(default_factory=dict)

    def add(self, fact: Fact, side: _Key | None) -> None:
        self.whole.add(fact)
        self.add_to(side, fact)

    def add_to(self, side: _Key | None, fact: Fact) -> None:
        if side is not None and (side in self.sides or len(self.sides) < _MOST_VERSIONS):
            self.sides.setdefault(side, Tally()).add(fact)

    def summary(self, judge: Judge, versions: Versions | None) -> JudgeSummary:
        keys: tuple[_Key, ...] = ("before", "after")
        names = ("before", "after")
        if versions is not None:
            chosen = versions.choose({key: tally for key, tally in self.sides.items() if isinstance(key, tuple)})
            if chosen is not None:
                keys, names = chosen, (" ".join(chosen[0]).strip(), " ".join(chosen[1]).strip())
        before, after = (self.sides.get(key) for key in keys)
        compared = tuple(changes(before, after)) if before and after else ()
        return JudgeSummary(judge, self.whole, before, after, compared, names)


def summarize(
    rows: Iterable[Row],
    *,
    against: Iterable[Row] | None = None,
    periods: Periods | None = None,
    versions: Versions | None = None,
) -> Summary:
    """Sum up results; memory does not grow with how many there are.

    Args:
        rows: As `blamespan.analysis.results.rows.read_rows` yields them.
        against: Older results, for what has changed since.
        periods: Or two periods among *rows*, likewise.
        versions: Or two versions of a program.

    Raises:
        UnreadableInput: if a row is none of results.
    """
    older = None if against is None else map(fact_of, against)
    return sum_up(map(fact_of, rows), against=older, periods=periods, versions=versions)


def sum_up(
    facts: Iterable[Fact],
    *,
    against: Iterable[Fact] | None = None,
    periods: Periods | None = None,
    versions: Versions | None = None,
) -> Summary:
    """Sum up what was read of results already; as `summarize`."""
    parts: dict[Judge, _JudgeCounts] = {}
    outside = left_out = 0
    for fact in facts:
        part = _part(parts, fact.judge)
        if part is None:
            left_out += 1
            continue
        side: _Key | None = None if against is None else "after"
        if periods is not None or versions is not None:
            version = (fact.service, fact.version) if fact.version else None
            side = version if periods is None else periods.side(fact)
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
        tuple(part.summary(judge, versions) for judge, part in spoken),
        tuple(sorted(judge for judge, part in parts.items() if not part.whole.runs)),
        outside,
        left_out,
    )


def _part(parts: dict[Judge, _JudgeCounts], judge: Judge) -> _JudgeCounts | None:
    """Find what is counted of *judge*, newly if there is room for one more."""
    if judge not in parts and len(parts) < _MOST_JUDGES:
        parts[judge] = _JudgeCounts()
    return parts.get(judge)
