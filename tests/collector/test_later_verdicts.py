"""Verdicts on spans that went on before them: late, owed, given again as an outcome is said, never two under one id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.settings import Limits
from tests.collector.fakes import FirstStepTracer, SlowTracer, run
from tests.collector.paging import annotated, stored
from tests.collector.working import MemorySink, Working, ids, until, verdicts, working
from tests.sdk.talks import talk

ONE_RUN = {("unknown", "looks failed", "first-step"): 1}


def told_runs(one: Working) -> dict[tuple[str, ...], int]:
    """Give the runs that the worker tells Prometheus of, by outcome, verdict and tracer."""
    return {tuple(labels): number for *labels, number in one.worker._message()["runs"] if number}


def test_late_span_goes_on_at_once_and_its_run_is_judged_again(tmp_path: Path) -> None:
    """A late span is forwarded as it came; then a new span below the blamed one, linked to it, tells the verdict."""
    sink = MemorySink()
    late = replace(run(1)[1], span_id="0" * 15 + "1", name="late", start_ns=0, end_ns=0)
    with working(tmp_path, sink) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take([late])
        until(lambda: len(sink.traces) == 3)
        runs, counts = told_runs(one), one.counts

    assert (runs, counts["runs_attributed"], counts["revisions"]) == (ONE_RUN, 2, 1)
    assert sink.traces[1] == [late]
    (told,) = sink.traces[2]
    first_root = sink.traces[0][0]
    assert (told.attributes[words.REVISION], first_root.attributes[words.REVISION]) == (1, 0)
    assert told.parent_id == told.attributes[words.BLAME_SPAN_ID] == told.links[0].span_id
    assert told.trace_id == late.trace_id
    assert set(told.attributes) > {words.BLAME_SCORE, words.BLAME_DECISIVE, words.FAILURE_SCORE, words.ERROR_MODE}


def test_late_span_that_changes_no_verdict_makes_no_revision(tmp_path: Path) -> None:
    """A model call that comes late says nothing new: no second verdict of the same words."""
    sink = MemorySink()
    late = replace(run(1)[1], span_id="f" * 16, name="chat", attributes={words.OPERATION: words.OPERATION_CHAT})
    with working(tmp_path, sink) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take([late])
        until(lambda: one.counts.get("traces_revised"))

    assert [len(trace) for trace in sink.traces] == [4, 1]


def test_waiting_run_goes_on_at_its_age_and_is_judged_at_its_end(tmp_path: Path) -> None:
    """Human in the loop: past the maximum age without a verdict, with one as a new span when it ends."""
    sink = MemorySink()
    root, *steps = run(1)
    with working(tmp_path, sink, limits=Limits(quiet_s=0.05, idle_s=30, max_age_s=0.5)) as one:
        one.take(steps)
        until(lambda: sink.traces)
        one.take([root])
        until(lambda: verdicts(sink))

    assert sink.traces[:2] == [steps, [root]]
    assert [span.attributes[words.BLAME_AGENT] for span in verdicts(sink)] == ["agent0"]
    assert words.PARTIAL not in verdicts(sink)[0].attributes


def test_slow_tracer_costs_the_verdicts_place_not_the_spans_time(tmp_path: Path) -> None:
    """Past its deadline a trace goes on as it came, and so do those behind it; the verdicts follow as new spans."""
    sink, tracer = MemorySink(), SlowTracer()
    with working(tmp_path, sink, tracer=tracer, deadline_s=0.3) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take(run(2))
        until(lambda: len(sink.traces) == 2)
        assert sink.traces == [run(1), run(2)]
        before = told_runs(one)
        tracer.go.set()
        until(lambda: len(verdicts(sink)) == 2)
        after = told_runs(one)

    assert (before, after) == ({}, dict.fromkeys(ONE_RUN, 2))
    assert [span.attributes[words.REVISION] for span in verdicts(sink)] == [1, 1]
    assert Counter(ids(sink.spans)).most_common(1)[0][1] == 1


def test_verdicts_that_differ_never_share_a_span_id(tmp_path: Path) -> None:
    """Late pieces scored one after the other, also while others wait: each verdict is a span of its own."""
    sink, tracer = MemorySink(), SlowTracer()
    tracer.go.set()
    pieces = [
        replace(step, span_id=f"{n:016x}", attributes={**step.attributes, words.STEP_INDEX: -n})
        for n, step in enumerate(run(1)[1:], 1)
    ]
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        tracer.go.clear()
        for number, late in enumerate(pieces, 1):
            one.take([late])
            until(lambda number=number: one.counts.get("traces_revised", 0) >= number)  # type: ignore[misc]
        tracer.go.set()
        until(lambda: verdicts(sink) and verdicts(sink)[-1].attributes[words.BLAME_STEP] == -3)

    told = {span.span_id: span for span in verdicts(sink)}
    assert len(told) == len(verdicts(sink)) >= 2
    assert len({span.attributes[words.REVISION] for span in told.values()}) == len(told)


def test_verdicts_beyond_memory_are_owed_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many traces went on without their verdicts: each gets it, a few of them in memory at a time."""
    monkeypatch.setattr("blamespan_collector.worker.verdict_queue._MAX_OWED", 2)
    sink, tracer = MemorySink(), SlowTracer()
    with working(tmp_path, sink, tracer=tracer, deadline_s=0.1) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take(*(run(number) for number in range(2, 9)))
        until(lambda: len(sink.traces) == 8)
        until(lambda: one.counts.get("verdicts_postponed"))
        tracer.go.set()
        until(lambda: len(verdicts(sink)) == 8)

    assert {span.trace_id for span in verdicts(sink)} == {run(number)[0].trace_id for number in range(1, 9)}


def test_run_cut_by_a_stop_goes_on_after_it(tmp_path: Path) -> None:
    """What came before a stop goes on judged in part, what comes after as it is: no span lost, none told twice."""
    before, after = MemorySink(), MemorySink()
    root, *steps = run(1, steps=6)
    with working(tmp_path, before, limits=Limits()) as one:
        one.take(steps[:3])
    with working(tmp_path, after) as one:
        one.take(steps[:3])
        one.take([*steps[3:], root])
        until(lambda: verdicts(after))

    sent = [span for span in (*before.spans, *after.spans) if span.scope.name != words.VERDICT_SCOPE]
    assert ids(sent) == ids([*steps, root])
    assert before.spans[0].attributes[words.PARTIAL] is True
    assert [span.attributes.get(words.STEP_INDEX) for span in sent] == [0, 1, 2, 3, 4, 5, None]
    assert words.PARTIAL not in verdicts(after)[-1].attributes


def test_verdicts_owed_are_given_after_a_restart(tmp_path: Path) -> None:
    """A process that ends while a verdict is owed leaves it to the next one."""
    first, second, tracer = MemorySink(), MemorySink(), SlowTracer()
    with working(tmp_path, first, tracer=tracer, deadline_s=0.1, stop_s=0) as one:
        one.take(run(1))
        until(lambda: first.traces)
    tracer.go.set()
    with working(tmp_path, second):
        until(lambda: second.traces)

    assert first.traces == [run(1)]
    assert [span.attributes[words.BLAME_AGENT] for span in second.spans] == ["agent0"]


class AlarmedTracer(FirstStepTracer):
    """Blames somebody where it is known that the run failed; else it takes the run for sound."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [
            self._one(one) if one.outcome == "failed" else Attribution.abstain(one, "probably sound", self.identity)
            for one in traces
        ]


def said(root: Span, outcome: str, number: int = 1) -> Span:
    """Make the span of an outcome that is said after the run of *root* has ended."""
    at_ns = root.end_ns + number * 10**9
    return Span(
        root.trace_id,
        f"{'e' * 8}{number:08x}",
        root.span_id,
        words.RUN_OUTCOME_SPAN,
        start_ns=at_ns,
        end_ns=at_ns,
        attributes={words.RUN_OUTCOME: outcome},
    )


def test_thumbs_down_makes_another_verdict(tmp_path: Path) -> None:
    """A run that was taken for sound is judged again when it is said to have failed."""
    sink, spans = MemorySink(), run(1)
    with working(tmp_path, sink, tracer=AlarmedTracer()) as one:
        one.take(spans)
        until(lambda: sink.traces)
        one.take([said(spans[0], "failed")])
        until(lambda: verdicts(sink))
    first = [span.attributes.get(words.ABSTAINED) for span in sink.traces[0] if span.span_id == spans[0].span_id]
    told = [span.attributes for span in verdicts(sink) if words.BLAME_AGENT in span.attributes]

    assert first == ["probably sound"]
    assert [(each[words.REVISION], each[words.FAILURE_SCORE]) for each in told][:1] == [(1, 1.0)]


def test_store_keeps_what_was_said_last(tmp_path: Path) -> None:
    """In one piece or in several, in whichever order the run's own span comes: what was said later counts."""
    [spans] = annotated(talk(1, outcome="failed"))
    first, second = said(spans[0], "failed", 1), said(spans[0], "succeeded", 2)
    pieces: dict[str, list[Sequence[Span]]] = {
        "whole": [[*spans, second, first]],
        "later": [spans, [first], [second]],
        "root last": [spans[1:], [first, second], spans[:1]],
        "unsaid": [spans[1:], [replace(second, attributes={words.RUN_OUTCOME: "perhaps"})], spans[:1]],
    }
    found = {name: stored(tmp_path / f"{name}.db", *each).search()[0].outcome for name, each in pieces.items()}

    assert found == {"whole": "succeeded", "later": "succeeded", "root last": "succeeded", "unsaid": "failed"}
