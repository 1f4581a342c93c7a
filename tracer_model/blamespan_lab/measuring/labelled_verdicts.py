"""Verdicts and people's labels, brought together run by run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from blamespan.analysis.results.rows import row_of
from blamespan.analysis.summary.facts import Fact, Judge, Row, fact_of
from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.people import PersonLabel, step_of
from blamespan.taxonomy import canonical, mode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.measuring.labels import LabelledVerdict, Opinion

__all__ = ["Joined", "joined_results", "joined_runs"]

Labels: TypeAlias = Mapping[str, Sequence[PersonLabel]]

_BATCH_RUNS = 50
_FAILED = {"agrees": True, "corrects": True, "no_failure": False, "no_agent": False, "unsure": None}
"""Whether an agent's fault made the run fail, by a label's answer."""


@dataclass(slots=True)
class Joined:
    """What belongs together, and what found no partner.

    Attributes:
        found: Runs with a verdict and labels.
        misfits: Labels whose step the run does not have.
        ambiguous: Labels of traces that hold several runs, which results cannot tell apart.
        met: Ids of the traces that were there.
    """

    found: list[LabelledVerdict] = field(default_factory=list)
    misfits: int = 0
    ambiguous: int = 0
    met: set[str] = field(default_factory=set)

    def add(self, fact: Fact, row: Row, labels: Iterable[tuple[PersonLabel, int | None]]) -> None:
        """Take a verdict and the labels on the same run.

        Args:
            fact: The verdict.
            row: It, as a row.
            labels: Those on the run, each with the index of the step it names, if the run has it.
        """
        self.met.add(fact.trace_id)
        people: dict[str, Opinion] = {}
        blind: set[str] = set()
        for label, place in labels:
            if label.decisive is not None and place is None:
                self.misfits += 1
                continue
            people[label.by] = _opinion(label, place)
            if label.shown is None:
                blind.add(label.by)
        if people:
            self.found.append(
                LabelledVerdict(_said(fact), fact.failure_score, fact.share, _choices(row), people, frozenset(blind))
            )

    def count_unmatched(self, labels: Labels) -> dict[str, int]:
        """Count those of *labels* that say nothing of these runs, by reason."""
        strangers = sum(len(of_trace) for trace_id, of_trace in labels.items() if trace_id not in self.met)
        return {"of_other_runs": strangers, "misfits": self.misfits, "ambiguous": self.ambiguous}


def joined_runs(runs: Iterable[RecordedRun], tracer: Tracer, labels: Labels) -> Joined:
    """Let *tracer* judge those of *runs* that are labelled.

    Args:
        runs: Any.
        tracer: Who judges.
        labels: By trace id.
    """
    joined = Joined()
    wanted = (run for run in runs if any(label.concerns(run.trace) for label in labels.get(run.trace.trace_id, ())))
    while batch := list(islice(wanted, _BATCH_RUNS)):
        for run, verdict in zip(batch, tracer.attribute([one.trace for one in batch]), strict=True):
            row = row_of(run, verdict)
            about = [label for label in labels[run.trace.trace_id] if label.concerns(run.trace)]
            joined.add(fact_of(row), row, [(label, _index_in(label, run.trace)) for label in about])
    return joined


def joined_results(rows: Iterable[Row], labels: Labels) -> dict[str, Joined]:
    """Find the verdicts on labelled runs among results, those of each tracer and revision by themselves.

    A result does not say which run of its trace it is: labels of traces with several runs are left out and counted.

    Args:
        rows: Results.
        labels: By trace id.

    Raises:
        UnreadableInput: if a row is none of results.
    """
    kept: dict[tuple[Judge, str], list[Row]] = {}
    for row in rows:
        if row["trace_id"] in labels:
            kept.setdefault((fact_of(row).judge, row["trace_id"]), []).append(row)
    found: dict[str, Joined] = {}
    for (judge, trace_id), some in sorted(kept.items()):
        joined = found.setdefault(str(judge), Joined())
        if len(some) > 1:
            joined.ambiguous += len(labels[trace_id])
            joined.met.add(trace_id)
            continue
        joined.add(fact_of(some[0]), some[0], [(label, _place_in(label, some[0])) for label in labels[trace_id]])
    return found


def _opinion(label: PersonLabel, step: int | None) -> Opinion:
    named = label.decisive
    if named is None:
        return Opinion(_FAILED[label.answer])
    return Opinion(True, named.agent, step, _canonical(named.modes))


def _said(fact: Fact) -> Opinion:
    """Say what the tracer says by itself, whatever is known of the run's outcome; to abstain is to raise no alarm."""
    if fact.kind == "abstained":
        return Opinion(False)
    return Opinion(
        fact.failure_score > NOBODY_KNOWS, fact.agent, fact.step, _canonical([fact.mode] if fact.mode else [])
    )


def _canonical(names: Sequence[str]) -> frozenset[str]:
    """Put error modes into canonical words, so that labels and verdicts of two taxonomies can agree."""
    found = set()
    for name in names:
        try:
            found.add(str(canonical(mode(name))[0] or name))
        except ConfigError:  # results of a tracer with words of its own
            found.add(name)
    return frozenset(found)


def _choices(row: Row) -> int:
    return sum(step["kind"] != "tool_result" for step in row["steps"])


def _index_in(label: PersonLabel, trace: MessageActionTrace) -> int | None:
    found = step_of(label, trace)
    return None if found is None else found.index


def _place_in(label: PersonLabel, row: Row) -> int | None:
    """Find a label's step among a result's steps, which have no spans but the decisive one's."""
    named = label.decisive
    if named is None:
        return None
    if named.span_id and named.span_id == row["span_id"]:
        return int(row["step"])
    return next((named.step for one in row["steps"] if (one["index"], one["agent"]) == (named.step, named.agent)), None)
