"""What has changed from one set of verdicts to another, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from blamespan.analysis.summary.facts import Fact
from blamespan.analysis.summary.statistics import Share, compare_shares, difference_interval, holm
from blamespan.analysis.summary.tally import Count, Names, Tally

Side: TypeAlias = Literal["before", "after"]
Part: TypeAlias = Literal["failed", "abstained", "agent", "mode", "alike"]

Pair: TypeAlias = tuple[Part, str, str, Share, Share]
"""What is compared: `ShareChange.part`, `name`, `title`, `before` and `after`."""

SIGNIFICANT: Final = 0.05
METHODS: Final = "Fisher's exact test, of large counts a two-proportion z test"
CORRECTION: Final = "Holm's method for all comparisons of one tracer"
LEAST_FAILURES: Final = 5
"""Of both sides together, for an agent or a mode to be compared: fewer could not differ significantly among many."""
_MOST_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class Periods:
    """Two stretches of time that are compared: what was before *since*, and from then on until *until*.

    Attributes:
        since: Where the second begins and the first ends.
        until: Where the second ends, or None.
    """

    since: datetime
    until: datetime | None = None

    def side(self, fact: Fact) -> Side | None:
        """Return to which period a run belongs; None to neither, or where no clock says when it began."""
        if fact.start is None or (self.until is not None and fact.start >= self.until):
            return None
        return "before" if fact.start < self.since else "after"


@dataclass(frozen=True, slots=True)
class Versions:
    """Two versions of a program that are compared, by `service.version`.

    Attributes:
        before: The one, and
        after: the other; both empty for the last two of the service with most runs, by when they were first seen.
    """

    before: str = ""
    after: str = ""

    def choose(self, sides: Mapping[tuple[str, str], Tally]) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """Return the service and the version of what is before and after; None where there are no two.

        Args:
            sides: What is counted of each service and version.
        """
        of_service: dict[str, list[str]] = {}
        for service, version in sides:
            of_service.setdefault(service, []).append(version)
        wanted = {self.before, self.after} - {""}
        able = [service for service, names in of_service.items() if len(names) > 1 and wanted <= set(names)]
        if not able:
            return None
        service = max(able, key=lambda name: (sum(sides[name, one].runs for one in of_service[name]), name))
        seen = sorted(
            of_service[service], key=lambda one: ((tally := sides[service, one]).first is None, tally.first, one)
        )
        before, after = (self.before, self.after) if wanted else seen[-2:]
        return (service, before), (service, after)


@dataclass(frozen=True, slots=True)
class ShareChange:
    """One share, before and after.

    Attributes:
        part: `failed`, `agent`, `mode` and `alike` are shares of the runs with a verdict, `abstained` of all runs.
        name: Of the agent or the mode, or what alike failures have in common; empty otherwise.
        title: The mode in words.
        before: Then.
        after: Now.
        p: Chance of a difference so large if nothing had changed.
        corrected: The same, corrected for how many shares are compared.
        method: Of the test.
    """

    part: Part
    name: str
    title: str
    before: Share
    after: Share
    p: float
    corrected: float
    method: str

    @property
    def difference(self) -> float:
        """Now minus then, -1..1."""
        return self.after.value - self.before.value

    @property
    def interval(self) -> tuple[float, float]:
        """Newcombe's 95 % interval of the difference; not corrected."""
        return difference_interval(self.before, self.after)

    @property
    def is_significant(self) -> bool:
        """Whether chance alone is an unlikely reason, corrected."""
        return self.corrected < SIGNIFICANT


def changes(before: Tally, after: Tally) -> list[ShareChange]:
    """Compare two tallies of one judge: the surest changes first. None where a side has no run."""
    if not before.runs or not after.runs:
        return []
    return compare_pairs(list(_pairs(before, after)))


def compare_pairs(pairs: Sequence[Pair]) -> list[ShareChange]:
    """Compare shares, corrected for how many there are: the surest changes first."""
    tests = [compare_shares(then, now) for _, _, _, then, now in pairs]
    corrected = holm([test.p for test in tests])
    compared = [
        ShareChange(part, name, title, then, now, test.p, right, test.method)
        for (part, name, title, then, now), test, right in zip(pairs, tests, corrected, strict=True)
    ]
    return sorted(compared, key=lambda change: (change.p, -abs(change.difference), change.part, change.name))


def _pairs(before: Tally, after: Tally) -> Iterator[Pair]:
    yield "failed", "", "", Share(before.failed, before.judged), Share(after.failed, after.judged)
    yield "abstained", "", "", Share(before.abstained, before.runs), Share(after.abstained, after.runs)
    parts: Sequence[tuple[Part, Names, Names]] = (
        ("agent", before.agents, after.agents),
        ("mode", before.modes, after.modes),
        ("alike", _alike_names(before), _alike_names(after)),
    )
    for part, then, now in parts:
        for name, title, counts in _pair_counts(then, now):
            yield part, name, title, Share(counts[0], before.judged), Share(counts[1], after.judged)


def _alike_names(tally: Tally) -> Names:
    return Names({name: Count(group.runs, title=group.example.mode_name) for name, group in tally.alike.items()})


def _pair_counts(before: Names, after: Names) -> list[tuple[str, str, tuple[int, int]]]:
    differences = []
    for name in {**before.counts, **after.counts}:
        then, now = before.counts.get(name), after.counts.get(name)
        counts = (then.failed if then else 0, now.failed if now else 0)
        if sum(counts) >= LEAST_FAILURES:
            differences.append((name, (then or now or next(iter(after.counts.values()))).title, counts))
    return sorted(differences, key=lambda item: (-sum(item[2]), item[0]))[:_MOST_NAMES]
