"""What is asked of the store, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blamespan.attribution import VerdictWord, verdict_word
from blamespan.spans import Span
from blamespan.trace import Outcome


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which traces are wanted; what is None or empty does not matter.

    Attributes:
        text: Words that must all occur: in the id, name, service, task, agents, error mode or evidence.
        outcome: As the program said it.
        agent: Who is blamed.
        mode: For what, as `taxonomy:code`.
        service: `service.name` of one of the spans.
        since_ns: Unix time that it started at, or later.
        until_ns: Unix time that it started at, or before.
        ended_since_ns: Unix time that it ended at, or later: with *until_ns*, what was under way in between.
        min_duration_ns: From the first start to the last end.
        max_duration_ns: Likewise.
        limit: Most that are given.
        after: `RunSummary.place` of the last one that is known already.
        is_run: Whether only traces with a run of agents count, rather than every trace.
        incident: Id of the incident that they are counted to.
    """

    text: str = ""
    outcome: Outcome | None = None
    agent: str | None = None
    mode: str | None = None
    service: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    ended_since_ns: int | None = None
    min_duration_ns: int | None = None
    max_duration_ns: int | None = None
    limit: int = 50
    after: str | None = None
    is_run: bool = True
    incident: str | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A trace in a line. Of a trace that holds several runs the verdict is the one most sure of a failure.

    Attributes:
        trace_id: 32 hex digits.
        start_ns: Unix time of the first start.
        end_ns: Unix time of the last end.
        name: Of the root span, or of the first one there is.
        service: That made it, or empty.
        task: What the run was asked, cut.
        agents: Who spoke, in order of first word; 100 at most.
        outcome: As the program said it.
        steps: How many steps the spans of a run stand for.
        spans: How many there are.
        errors: How many have status ERROR.
        is_run: Whether agents took part, and it is no part that paused and was judged with the one that went on.
        has_root: Whether the span that all others lie below came.
        is_partial: Whether the run had not ended when it was judged.
        failure_score: 0..1; None without a verdict.
        blamed_agent: Who is to blame, or empty; `the task` or `the tool NAME` where no agent is.
        blamed_step: Index of the decisive step.
        mode: Error mode as `taxonomy:code`, or empty.
        mode_name: In words.
        mode_score: 0..1.
        abstained: Why there is no verdict, or empty.
        tracer: Name and version of who says so, or empty.
        revision: Of the verdict.
        version: Of the service, or empty.
        likeness: What it has in common with runs that fail alike, or empty.
        quote: Words of the decisive step, cut.
        words: What `RunQuery.text` is looked for in, in lower case.
        place: For `RunQuery.after`; empty for what is not stored.
    """

    trace_id: str
    start_ns: int
    end_ns: int
    name: str = ""
    service: str = ""
    task: str = ""
    agents: tuple[str, ...] = ()
    outcome: Outcome = "unknown"
    steps: int = 0
    spans: int = 0
    errors: int = 0
    is_run: bool = False
    has_root: bool = False
    is_partial: bool = False
    failure_score: float | None = None
    blamed_agent: str = ""
    blamed_step: int | None = None
    mode: str = ""
    mode_name: str = ""
    mode_score: float | None = None
    abstained: str = ""
    tracer: str = ""
    revision: int = 0
    version: str = ""
    likeness: str = ""
    quote: str = ""
    words: str = ""
    place: str = ""

    @property
    def verdict(self) -> VerdictWord | None:
        """What the verdict comes to in a word; None where there is none, not even an abstention."""
        if self.failure_score is None and not self.abstained:
            return None
        return verdict_word(self.outcome, self.failure_score or 0.0, self.abstained or None)

    @property
    def duration_ns(self) -> int:
        """Nanoseconds from the first start to the last end."""
        return max(0, self.end_ns - self.start_ns)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A trace with all its spans.

    Attributes:
        summary: It in a line.
        payloads: Serialised `ExportTraceServiceRequest`s as they went out, in order; end to end they are one.
        spans: What they hold, each span once.
    """

    summary: RunSummary
    payloads: tuple[bytes, ...]
    spans: Sequence[Span]
